// Is it moving? One sentence that says so, or what is wrong, before any figure.

import { h, setText } from "./dom.js";
import { counted, rate, seconds } from "./format.js";
import { LATE, popsOf } from "./trouble.js";

/** Waiting longer than this while nothing is popped is standing still. */
const STUCK = 60;

/** Topics whose due jobs wait while none is popped, the one that waits longest first; other servers may pop unseen. */
const stuck = ({ oldest_ready: topics, servers }) => (servers > 1 ? [] : topics).filter((topic) => !topic.paused && topic.oldest_ready_age > LATE && popsOf(topic.topic) === 0);

/** `{ level, text }` of an overview, at so many pops a second of the server that was asked. */
function judge(overview, popped) {
  const { status, reasons } = overview.store;
  if (status === "unavailable") return { level: "bad", text: `The store is not available: ${reasons.join(", ")}.` };
  const [first, ...others] = popped === 0 ? [] : stuck(overview);
  let { level, text } = movement(overview, popped, !first);
  if (first) {
    if (level === "ok") level = "warn";
    if (first.oldest_ready_age > STUCK) level = "bad";
    text += ` ${first.topic}${others.length ? ` and ${counted(others.length, "other topic")} are` : " is"} not being consumed; the oldest job has waited for ${seconds(first.oldest_ready_age)}.`;
  }
  if (status === "ok") return { level, text };
  return { level: level === "bad" ? level : "warn", text: `The store is ${status}: ${reasons.join(", ")}. ${text}` };
}

const jobsAreDue = (n) => `${counted(n, "job")} ${n === 1 ? "is" : "are"} due`;

/** `oldest` tells whether the oldest job is told of. */
function movement({ jobs, due_not_delivered: due, oldest_ready_age: age, oldest_ready: topics, servers }, popped, oldest) {
  const here = servers > 1 ? " through this server" : "";
  const worst = topics.find((topic) => !topic.paused)?.topic;
  const waits = oldest ? `, the oldest for ${seconds(age)}${worst ? ` (in ${worst})` : ""}` : "";
  if (due === 0) {
    const paused = jobs.ready ? ` Paused topics hold ${counted(jobs.ready, "due job")}.` : "";
    return { level: "ok", text: `All quiet: no due job waits for a consumer.${paused}` };
  }
  if (age > STUCK && popped === 0) return { level: "bad", text: `Not moving: ${jobsAreDue(due)}${waits}, and none is being popped${here}.` };
  const speed = popped === null ? "" : `; consumers pop ${rate(popped)} a second${here}`;
  const [level, word] = age > LATE ? ["warn", "Behind"] : ["ok", "Moving"];
  return { level, text: `${word}: ${jobsAreDue(due)}${waits}${speed}.` };
}

const WORDS = { ok: "OK", warn: "Warning", bad: "Critical", unknown: "Unknown" };

/** The line at the top. Screen readers hear it when the level changes, not at every poll. */
export function verdict(popped) {
  const badge = h("strong");
  const text = h("span");
  const node = h("p", { class: "verdict" }, badge, " ", text);
  let told = null;

  function tell(level, words) {
    node.dataset.level = level;
    setText(badge, WORDS[level]);
    setText(text, words);
    if (told !== level) setText(document.getElementById("announce"), words);
    told = level;
  }

  return {
    node,
    tick(overview) {
      const { level, text: words } = judge(overview, popped());
      tell(level, words);
    },
    /** The banner tells why. */
    lost: () => tell("unknown", told === null ? "No figures yet." : "Everything below is from the last answer."),
  };
}
