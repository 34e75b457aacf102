// The verdict: a sentence above all figures that says whether jobs are being consumed, or what is wrong.

import { h, setText } from "./dom.js";
import { counted, rate, seconds } from "./format.js";
import { LATE, popsOf } from "./trouble.js";

/** If nothing is popped while a due job is older than this, in seconds, the queue counts as not moving. */
const STUCK = 60;

/** Returns the topics with late jobs and no pops, longest wait first; none if other servers may pop their jobs. */
const stuck = ({ oldest_ready: topics, servers }) => (servers > 1 ? [] : topics).filter((topic) => !topic.paused && topic.oldest_ready_age > LATE && popsOf(topic.topic) === 0);

/** Returns `{ level, text }` for an overview; `popped` is the number of pops per second on this server. */
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

/** Returns `{ level, text }` for the movement of jobs; `oldest` says whether to mention the oldest job. */
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

/** Creates the line of the verdict. Screen readers announce it only when its level changes. */
export function verdict(popped) {
  const badge = h("strong");
  const text = h("span");
  const node = h("p", { class: "verdict" }, badge, " ", text);
  let announced = null;

  function display(level, words) {
    node.dataset.level = level;
    setText(badge, WORDS[level]);
    setText(text, words);
    if (announced !== level) setText(document.getElementById("announce"), words);
    announced = level;
  }

  return {
    node,
    tick(overview) {
      const { level, text: words } = judge(overview, popped());
      display(level, words);
    },
    /** Shows that there is no answer; the banner has the reason. */
    lost: () => display("unknown", announced === null ? "No figures yet." : "Everything below is from the last answer."),
  };
}
