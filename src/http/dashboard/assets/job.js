// The page of a job: state, timeline, body and actions.

import * as actions from "./actions.js";
import { part, read } from "./api.js";
import { body } from "./body.js";
import { h, setText } from "./dom.js";
import { seconds, time, topicLink, visible } from "./format.js";
import { members } from "./json.js";
import { backoff } from "./policy.js";
import { timeline } from "./timeline.js";

/** Number of characters above which an answer is polled less often. */
const LARGE_ANSWER = 32_768;
/** Milliseconds between two polls of such an answer. */
const PERIOD_OF_LARGE = 15_000;

const ID = /^[A-Za-z0-9._:-]{1,128}$/;

function rows(job) {
  return [
    ["Topic", h("a", { href: topicLink(job.topic) }, job.topic)],
    ...(job.dead_from ? [["Died in", h("a", { href: topicLink(job.dead_from) }, job.dead_from)]] : []),
    ["Attempts", `${job.attempt} of ${job.max_attempts || "no limit"}`],
    ["TTR", seconds(job.ttr)],
    ["Backoff", backoff(job.backoff)],
    ["Priority", String(job.priority)],
    ...(job.expires_at ? [["Expires at", time(job.expires_at)], ["Expires after", seconds(job.expires_after)]] : []),
    ...(job.consumer ? [["Consumer", job.consumer]] : []),
    ...(job.outcome ? [["Outcome", job.outcome]] : []),
    ...(job.result_dropped ? [["Result", "dropped: the store was full"]] : []),
    ...(job.traceparent ? [["Trace", job.traceparent]] : []),
    ...Object.entries(job.headers ?? {}).map(([name, value]) => [`Header ${name}`, value]),
  ].flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
}

/** Actions that each state allows. */
const ALLOWED = {
  delayed: ["kick", "reschedule", "bury", "delete", "copy"],
  ready: ["reschedule", "bury", "delete", "copy"],
  reserved: ["bury", "delete", "copy"],
  dead: ["kick", "delete", "copy"],
  // A finished job has no body to copy.
  finished: ["delete"],
};

/** Creates the page of a job. */
export function job(id) {
  const badge = h("span", { class: "badge" });
  const note = h("p", { class: "problem", role: "alert" });
  const buttons = {
    kick: actions.button("Kick", actions.SCOPES_BY_ID, () => actions.kick(id)),
    reschedule: actions.button("Reschedule", actions.SCOPES_BY_ID, () => actions.reschedule(id)),
    bury: actions.button("Bury", "pop", () => actions.bury(id), { class: "danger" }),
    delete: actions.button("Delete", actions.SCOPES_BY_ID, () => actions.remove(id), { class: "danger" }),
    copy: actions.button("Put a copy", "put", () => actions.put(shownTopic, written)),
  };
  const facts = h("dl", { class: "facts" });
  const line = timeline();
  const error = h("pre", { class: "error", tabindex: "0", role: "region", "aria-label": "Last error" });
  const failed = h("div", { hidden: true }, h("h3", {}, "Last error"), error);
  const content = body();
  const details = h("div", { hidden: true, class: "columns" },
    h("section", { class: "panel", "aria-labelledby": "times" }, h("h2", { id: "times" }, "Timeline"), line.node, facts, failed),
    content.node);
  const actionBar = h("div", { class: "actions", hidden: true }, Object.values(buttons));
  const node = h("div", { class: "page" }, h("div", { class: "row" }, h("h1", {}, h("span", { class: "muted" }, "Job "), visible(id), " ", badge), actionBar), note, details);
  let shown = null;
  let shownTopic = "";
  let written = "";
  let requestedAt = 0;

  async function tick() {
    // Reads a large job less often.
    if (shown?.length > LARGE_ANSWER && Date.now() - requestedAt < PERIOD_OF_LARGE) return;
    await load();
  }

  async function load() {
    requestedAt = Date.now();
    if (!ID.test(id)) return setText(note, "This is not a job id: 1 to 128 of A–Z a–z 0–9 . _ : -");
    let text;
    try {
      text = await read(`/jobs/${part(id)}`);
    } catch (problem) {
      setText(note, problem.code === "job_not_found" ? `No job has the id ${id}: it was never put, or is finished, deleted or past its retention.` : problem.message);
      badge.hidden = problem.status === 404;
      actionBar.hidden = problem.code !== "job_damaged";
      return;
    }
    setText(note, "");
    show(text);
  }

  function show(text) {
    const now = JSON.parse(text);
    details.hidden = actionBar.hidden = badge.hidden = false;
    badge.className = `badge ${now.state}`;
    setText(badge, now.state);
    shownTopic = now.topic;
    for (const [name, button] of Object.entries(buttons)) {
      button.disabled = !ALLOWED[now.state].includes(name);
      button.dataset.topic = now.topic;
      actions.showIfAllowed(button);
    }
    line.set(now);
    // If the job is unchanged, leaves the rest alone: the user may be selecting text in it.
    if (text === shown) return;
    shown = text;
    facts.replaceChildren(...rows(now));
    failed.hidden = !now.error;
    setText(error, visible(now.error ?? ""));
    const kind = now.state === "finished" ? "result" : "body";
    written = members(text, kind, 1)[0];
    content.set(written, kind);
  }

  return { title: visible(id), node, tick, changed: load };
}
