// Is it moving? One sentence that says so, or what is wrong, before any figure.

import { h, setText } from "./dom.js";
import { count, rate, seconds } from "./format.js";
import { popsOf } from "./trouble.js";

/** A due job that waits longer than this, in seconds, is a sign that consumers do not keep up. */
const LATE = 10;
/** Waiting longer than this while nothing is popped is standing still. */
const STUCK = 60;

/** Topics whose due jobs wait while none is popped, the one that waits longest first; other servers may pop unseen. */
const stuck = ({ oldest_ready: topics, servers }) => (servers > 1 ? [] : topics).filter((topic) => !topic.paused && topic.oldest_ready_age > LATE && popsOf(topic.topic) === 0);

/** `{ level, text }` of an overview, at so many pops a second of the server that was asked. */
function judge(overview, popped) {
  const { status, reasons } = overview.store;
  if (status === "unavailable") return { level: "bad", text: `The store is not available: ${reasons.join(", ")}.` };
  let { level, text } = movement(overview, popped);
  const [first, ...others] = popped === 0 ? [] : stuck(overview);
  if (first) {
    if (level === "ok") level = "warn";
    if (first.oldest_ready_age > STUCK) level = "bad";
    text += ` No job of ${first.topic}${others.length ? ` and ${count(others.length)} more topics` : ""} is popped; the oldest waits for ${seconds(first.oldest_ready_age)}.`;
  }
  if (status === "ok") return { level, text };
  return { level: level === "bad" ? level : "warn", text: `The store is ${status}: ${reasons.join(", ")}. ${text}` };
}

const jobsAreDue = (n) => `${count(n)} ${n === 1 ? "job is" : "jobs are"} due`;

function movement({ jobs, due_not_delivered: due, oldest_ready_age: oldest, oldest_ready: topics, servers }, popped) {
  const here = servers > 1 ? " through this server" : "";
  const worst = topics.find((topic) => !topic.paused)?.topic;
  const where = worst ? ` (in ${worst})` : "";
  if (due === 0) {
    const paused = jobs.ready ? ` ${count(jobs.ready)} wait in paused topics.` : "";
    return { level: "ok", text: `All quiet: no due job waits for a consumer.${paused}` };
  }
  if (oldest > STUCK && popped === 0) {
    return { level: "bad", text: `Not moving: ${jobsAreDue(due)}, the oldest for ${seconds(oldest)}${where}, and none is popped${here}.` };
  }
  const speed = popped === null ? "" : `, ${rate(popped)} a second are popped${here}`;
  if (oldest > LATE) return { level: "warn", text: `Behind: ${jobsAreDue(due)}, the oldest for ${seconds(oldest)}${where}${speed}.` };
  return { level: "ok", text: `Moving: ${jobsAreDue(due)}, the oldest for ${seconds(oldest)}${where}${speed}.` };
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
