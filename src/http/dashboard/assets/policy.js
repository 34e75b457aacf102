// The rules of jobs, and the defaults of topics for them.

import { seconds } from "./format.js";

/** Describes the waits between attempts. */
export function backoff(rule) {
  if (rule === null) return "none: ready again at once";
  if (Array.isArray(rule)) return rule.map(seconds).join(", ");
  return `from ${seconds(rule.initial)}, × ${rule.factor}, at most ${seconds(rule.max)}, ± ${rule.jitter * 100} %`;
}

/** Describes the rules for jobs that are given; empty if there are none. */
export function givenRules(rules) {
  const given = [
    ["ttr", (ttr) => `TTR ${seconds(ttr)}`],
    ["max_attempts", (most) => (most ? `${most} attempts` : "attempts without limit")],
    ["backoff", (waits) => `backoff ${backoff(waits)}`],
    ["priority", (priority) => `priority ${priority}`],
    ["expires_after", (expiry) => `expires ${seconds(expiry)} after its due time`],
    ["dead_retention", (kept) => `kept for ${seconds(kept)} when dead`],
    ["finished_retention", (kept) => `kept for ${seconds(kept)} when finished`],
    ["dead_to", (topic) => `moves to ${topic} when it dies`],
  ].filter(([name]) => (rules[name] ?? null) !== null).map(([name, describe]) => describe(rules[name]));
  return given.join("; ");
}

/** Describes the defaults that a topic has for new jobs; empty if it has none. */
export function defaults(rules) {
  const given = givenRules(rules);
  return given && `Defaults of a new job: ${given}.`;
}
