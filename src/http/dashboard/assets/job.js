// The page of a job: state, history, body and actions.

import * as actions from "./actions.js";
import { part, read } from "./api.js";
import { attempts } from "./attempts.js";
import { body } from "./body.js";
import { h, setText } from "./dom.js";
import { away, seconds, time, topicLink, visible } from "./format.js";
import { members } from "./json.js";

/** Maximum number of characters of an answer that is polled at the usual rate. */
const LARGE = 32_768;
/** Milliseconds between two polls of a larger answer. */
const PERIOD_OF_LARGE = 15_000;

const ID = /^[A-Za-z0-9._:-]{1,128}$/;

/** Returns past and future events in order of time. Those whose time the store does not keep have no `at`. */
function events(job) {
  const of = job.max_attempts || "∞";
  const spent = `attempt ${job.attempt} of ${of}`;
  const due = { delayed: job.attempt ? "Due for its next attempt" : "Due", ready: "Due, and waits for a consumer" }[job.state] ?? "Was due";
  const list = [{ at: job.created_at, what: "Put" }, { at: job.due_at, what: due }];
  if (job.state === "reserved") list.push({ at: job.reserved_until, what: `Reserved, ${spent}: its TTR ends` });
  if (job.died_at) list.push({ at: job.died_at, what: `Died, after ${spent}` });
  if (job.finished_at) list.push({ at: job.finished_at, what: job.outcome === "deleted" ? "Deleted, its id is remembered" : `Finished, ${spent}` });
  list.sort((a, b) => new Date(a.at) - new Date(b.at));
  // The store does not keep the times of earlier attempts.
  const failed = ["reserved", "dead", "finished"].includes(job.state) ? job.attempt - 1 : job.attempt;
  // Nor does it keep whether a consumer held a job that was deleted.
  if (failed > 0 && job.outcome !== "deleted") list.splice(1, 0, { what: `${failed} of ${of} attempts failed` });
  if (job.state !== "dead" && job.state !== "finished") list.push({ what: next(job, failed + 1), ahead: true });
  return list;
}

/** Describes the consequence of a failure of this attempt. */
function next({ backoff, max_attempts: most }, attempt) {
  const failed = `If attempt ${attempt} fails`;
  if (most && attempt >= most) return `${failed}: dead`;
  if (!backoff) return `${failed}: ready again at once`;
  const wait = Array.isArray(backoff) ? backoff[Math.min(attempt, backoff.length) - 1] : Math.min(backoff.initial * backoff.factor ** (attempt - 1), backoff.max);
  return `${failed}: again after ${Array.isArray(backoff) ? "" : "about "}${seconds(wait)}`;
}

function timeline(job) {
  const now = Date.now();
  const items = events(job).map(({ at, what, ahead }) =>
    h("li", { class: ahead || new Date(at) > now ? "ahead" : "past" }, h("span", {}, what),
      at && [h("time", { datetime: at, title: at }, time(at)), h("span", { class: "muted" }, away(at, now))]));
  return h("ol", { class: "timeline" }, items);
}

function rows(job) {
  return [
    ["Topic", h("a", { href: topicLink(job.topic) }, job.topic)],
    ["Attempts", `${job.attempt} of ${job.max_attempts || "no limit"}`],
    ["TTR", seconds(job.ttr)],
    ["Backoff", backoff(job.backoff)],
    ...(job.consumer ? [["Consumer", job.consumer]] : []),
    ...(job.outcome ? [["Outcome", job.outcome]] : []),
    ...(job.result_dropped ? [["Result", "dropped: the store was full"]] : []),
    ...(job.traceparent ? [["Trace", job.traceparent]] : []),
    ...Object.entries(job.headers ?? {}).map(([name, value]) => [`Header ${name}`, value]),
  ].flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
}

function backoff(rule) {
  if (rule === null) return "none: ready again at once";
  if (Array.isArray(rule)) return rule.map(seconds).join(", ");
  return `from ${seconds(rule.initial)}, × ${rule.factor}, at most ${seconds(rule.max)}, ± ${rule.jitter * 100} %`;
}

/** Actions that each state allows. */
const ALLOWED = {
  delayed: ["kick", "reschedule", "bury", "delete", "copy"],
  ready: ["reschedule", "bury", "delete", "copy"],
  reserved: ["bury", "delete", "copy"],
  dead: ["kick", "delete", "copy"],
  // It has no body to copy.
  finished: ["delete"],
};

/** Creates the page of a job. */
export function job(id) {
  const badge = h("span", { class: "badge" });
  const note = h("p", { class: "problem", role: "alert" });
  const buttons = {
    kick: actions.button("Kick", actions.BY_ID, () => actions.kick(id)),
    reschedule: actions.button("Reschedule", actions.BY_ID, () => actions.reschedule(id)),
    bury: actions.button("Bury", "pop", () => actions.bury(id), { class: "danger" }),
    delete: actions.button("Delete", actions.BY_ID, () => actions.remove(id), { class: "danger" }),
    copy: actions.button("Put a copy", "put", () => actions.put(shownTopic, written)),
  };
  const facts = h("dl", { class: "facts" });
  const line = h("div");
  const error = h("pre", { class: "error", tabindex: "0", role: "region", "aria-label": "Last error" });
  const failed = h("div", { hidden: true }, h("h3", {}, "Last error"), error);
  const past = h("div", { class: "attempts" });
  const history = h("div", { hidden: true }, h("h3", {}, "Attempts"), past);
  const content = body();
  const found = h("div", { hidden: true, class: "columns" },
    h("section", { class: "panel", "aria-labelledby": "times" }, h("h2", { id: "times" }, "Times"), line, facts, failed, history),
    content.node);
  const acts = h("div", { class: "actions", hidden: true }, Object.values(buttons));
  const node = h("div", { class: "page" }, h("div", { class: "row" }, h("h1", {}, h("span", { class: "muted" }, "Job "), visible(id), " ", badge), acts), note, found);
  let shown = null;
  let shownTopic = "";
  let written = "";
  let asked = 0;

  async function tick() {
    // A large body is not read at every poll.
    if (shown?.length > LARGE && Date.now() - asked < PERIOD_OF_LARGE) return;
    await look();
  }

  async function look() {
    asked = Date.now();
    if (!ID.test(id)) return setText(note, "This is not a job id: 1 to 128 of A–Z a–z 0–9 . _ : -");
    let text;
    try {
      text = await read(`/jobs/${part(id)}`);
    } catch (problem) {
      setText(note, problem.code === "job_not_found" ? `No job has the id ${id}: it was never put, or is finished, deleted or past its retention.` : problem.message);
      badge.hidden = problem.status === 404;
      acts.hidden = problem.code !== "job_damaged";
      return;
    }
    setText(note, "");
    show(text);
  }

  function show(text) {
    const now = JSON.parse(text);
    found.hidden = acts.hidden = badge.hidden = false;
    badge.className = `badge ${now.state}`;
    setText(badge, now.state);
    shownTopic = now.topic;
    for (const [name, button] of Object.entries(buttons)) {
      button.disabled = !ALLOWED[now.state].includes(name);
      button.dataset.topic = now.topic;
      actions.offer(button);
    }
    line.replaceChildren(timeline(now));
    // Unless the job changed, keep the rest: the user may be selecting or reading it.
    if (text === shown) return;
    shown = text;
    facts.replaceChildren(...rows(now));
    history.hidden = !now.history?.length;
    past.replaceChildren(attempts(now.history ?? []));
    failed.hidden = now.error === null;
    setText(error, visible(now.error ?? ""));
    const kind = now.state === "finished" ? "result" : "body";
    written = members(text, kind, 1)[0];
    content.set(written, kind);
  }

  return { title: visible(id), node, tick, changed: look };
}
