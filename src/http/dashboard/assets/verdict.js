// Is it moving? One sentence that says so, or what is wrong, before any figure.

import { h, setText } from "./dom.js";
import { count, rate, span } from "./format.js";

/** A due job that waits longer than this is a sign that consumers do not keep up. */
const LATE = 10_000;
/** Waiting longer than this while nothing is popped is standing still. */
const STUCK = 60_000;

/** `{ level, text }` of an overview, at so many pops a second of the server that was asked. */
export function judge({ jobs, oldest_ready_age_ms: oldest, store, servers }, popped) {
  const here = servers > 1 ? " through this server" : "";
  if (store.status !== "ok") return { level: "bad", text: `The store is not fit: ${store.status}` };
  if (jobs.ready === 0) return { level: "ok", text: "All quiet: no due job waits." };
  if (oldest === null) return { level: "ok", text: `${count(jobs.ready)} due jobs wait, all in paused topics.` };
  if (oldest > STUCK && popped === 0) {
    return { level: "bad", text: `Not moving: ${count(jobs.ready)} jobs are due, the oldest for ${span(oldest)}, and none is popped${here}.` };
  }
  const speed = popped === null ? "" : `, ${rate(popped)} a second are popped${here}`;
  if (oldest > LATE) return { level: "warn", text: `Behind: ${count(jobs.ready)} jobs are due, the oldest for ${span(oldest)}${speed}.` };
  return { level: "ok", text: `Moving: ${count(jobs.ready)} jobs are due, the oldest for ${span(oldest)}${speed}.` };
}

const WORDS = { ok: "OK", warn: "Look", bad: "Act" };

/** The line at the top. Screen readers hear it when the level changes, not at every poll. */
export function verdict(popped) {
  const badge = h("strong");
  const text = h("span");
  const node = h("p", { class: "verdict" }, badge, " ", text);
  let told = null;
  return {
    node,
    tick(overview) {
      const { level, text: words } = judge(overview, popped());
      node.dataset.level = level;
      setText(badge, WORDS[level]);
      setText(text, words);
      if (told !== level) setText(document.getElementById("announce"), words);
      told = level;
    },
  };
}
