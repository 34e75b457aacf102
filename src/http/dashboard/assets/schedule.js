// The page of a schedule: its timing, next times, last job, rules and body, with its actions.

import { read } from "./api.js";
import { body } from "./body.js";
import { h, setText } from "./dom.js";
import { seconds, time, topicLink, visible } from "./format.js";
import { members } from "./json.js";
import { givenRules } from "./policy.js";
import { scheduleButtons, schedulePath } from "./schedule_actions.js";
import { timeList } from "./schedule_preview.js";
import { MISSED, OVERLAP } from "./schedule_settings.js";
import { lastJob } from "./schedules.js";

/** Number of characters above which an answer is polled less often. */
const LARGE_ANSWER = 32_768;
/** Milliseconds between two polls of such an answer. */
const PERIOD_OF_LARGE = 15_000;

const rows = (s) => [
  ["Topic", h("a", { href: topicLink(s.topic) }, s.topic)],
  ["Timing", s.description],
  ["Cron line", s.cron],
  ["Time zone", s.timezone],
  ["Every", s.every && seconds(s.every)],
  ["Counted from", s.anchor && time(s.anchor)],
  ["Start", s.start && time(s.start)],
  ["End", s.end && time(s.end)],
  ["Jitter", s.jitter > 0 && `up to ${seconds(s.jitter)}`],
  ["If the last job has not ended", OVERLAP[s.overlap] ?? s.overlap],
  ["Times missed by over a minute", MISSED[s.missed] ?? s.missed],
  ["Rules of its jobs", givenRules(s) || "the defaults of the topic"],
  ["Trace", s.traceparent],
  ...Object.entries(s.headers ?? {}).map(([name, value]) => [`Header ${name}`, visible(value)]),
].filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);

/** Creates the page of a schedule. */
export function schedule(name) {
  const badge = h("span", { class: "badge paused", hidden: true }, "paused");
  const note = h("p", { class: "problem", role: "alert" });
  const acts = scheduleButtons();
  const last = lastJob();
  const facts = h("dl", { class: "facts" });
  const next = timeList("Next times");
  const ahead = h("p", { class: "muted" });
  const content = body();
  const actionBar = h("div", { class: "actions", hidden: true }, acts.buttons);
  const details = h("div", { hidden: true, class: "columns" },
    h("section", { class: "panel", "aria-labelledby": "next" },
      h("h2", { id: "next" }, "Next times"), ahead, next.node, h("h3", {}, "Last job"), h("p", {}, last.parts), h("h3", {}, "Settings"), facts),
    content.node);
  const node = h("div", { class: "page" },
    h("div", { class: "row" }, h("h1", {}, h("span", { class: "muted" }, "Schedule "), visible(name), " ", badge), actionBar), note, details);
  let shown = null;
  let requestedAt = 0;
  let latestRequest = 0;

  async function tick() {
    // Reads a large schedule less often.
    if (shown?.length > LARGE_ANSWER && Date.now() - requestedAt < PERIOD_OF_LARGE) return;
    await load();
  }

  async function load() {
    requestedAt = Date.now();
    const thisRequest = (latestRequest += 1);
    let text = null;
    let problem = null;
    try {
      text = await read(schedulePath(name));
    } catch (error) {
      problem = error;
    }
    if (thisRequest !== latestRequest) return;
    setText(note, problem?.code === "schedule_not_found" ? `No schedule has the name ${visible(name)}.` : problem?.message ?? "");
    if (problem?.status === 404) details.hidden = actionBar.hidden = badge.hidden = true;
    if (text !== null) show(text);
  }

  function show(text) {
    const now = JSON.parse(text);
    details.hidden = actionBar.hidden = false;
    badge.hidden = !now.paused;
    acts.show(now);
    last.show(now.last);
    next.show(now.next);
    setText(ahead, now.paused ? "It is paused. If it were resumed now, these would be the next:" : now.next.length ? "" : "None is left.");
    ahead.hidden = ahead.textContent === "";
    // If the schedule is unchanged, leaves the rest alone: the user may be selecting text in it.
    if (text === shown) return;
    shown = text;
    facts.replaceChildren(...rows(now));
    content.set(members(text, "body", 1)[0] ?? '"(hidden)"', "scheduled");
  }

  return { title: visible(name), node, tick, changed: load };
}
