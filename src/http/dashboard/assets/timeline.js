// The timeline of a job: its put, its last attempts, its due time and its end, in order of time, and the
// consequence of the next failure.

import { folded, h, keyed, setText } from "./dom.js";
import { counted, relativeTime, seconds, span, time } from "./format.js";

/** Describes the consequence of a failure of this attempt. */
function afterFailure({ backoff, max_attempts: maxAttempts, expires_at: expiry }, attempt) {
  const failed = `If attempt ${attempt} fails`;
  const unless = expiry ? ", unless it expires before" : "";
  if (maxAttempts && attempt >= maxAttempts) return `${failed}: dead`;
  if (!backoff) return `${failed}: ready again at once${unless}`;
  const wait = Array.isArray(backoff) ? backoff[Math.min(attempt, backoff.length) - 1] : Math.min(backoff.initial * backoff.factor ** (attempt - 1), backoff.max);
  return `${failed}: again after ${Array.isArray(backoff) ? "" : "about "}${seconds(wait)}${unless}`;
}

/** Returns the event of an attempt. The history has the beginning of each error, the job the whole last one. */
function attemptEvent({ attempt, started_at: at, ended_at: end, outcome, counted: counts, error, consumer }, last) {
  const label = `Attempt ${attempt}: ${outcome?.replace("_", " ") ?? "running"}${counts === false ? ", not counted" : ""}`;
  const details = [end && `took ${span(new Date(end) - new Date(at))}`, consumer && `by ${consumer}`];
  return { at, label, details: details.filter(Boolean).join(" "), error: error && last?.startsWith(error) ? last : error };
}

/** Returns the events without those of attempts. */
function milestones(job) {
  const spent = `attempt ${job.attempt} of ${job.max_attempts || "∞"}`;
  const due = { delayed: job.attempt ? "Due for its next attempt" : "Due", ready: "Due, and waits for a consumer" }[job.state] ?? "Was due";
  const list = [{ at: job.created_at, label: "Put" }, { at: job.due_at, label: due }];
  if (job.state === "reserved") list.push({ at: job.reserved_until, label: `Reserved, ${spent}: its TTR ends` });
  if (job.died_at) list.push({ at: job.died_at, label: `${job.expires_at && job.error === "expired" ? "Expired" : "Died"}, ${job.attempt ? `after ${spent}` : "before its first attempt"}` });
  const expiry = { delayed: "Expires, unless popped before", ready: "Expires, unless popped before", reserved: "No attempt begins from here on" }[job.state];
  if (job.expires_at && expiry) list.push({ at: job.expires_at, label: expiry });
  if (job.finished_at) list.push({ at: job.finished_at, label: job.outcome === "deleted" ? "Deleted, its id is remembered" : `Finished, ${spent}` });
  return list;
}

/** Returns past and future events in order of time. An event without a known time has no `at`. */
function events(job) {
  const history = job.history ?? [];
  const list = [...milestones(job), ...history.map((attempt) => attemptEvent(attempt, job.error))];
  // The times have the same form, so that their texts are in order of time. The sort is stable.
  list.sort((a, b) => (a.at < b.at ? -1 : Number(a.at > b.at)));
  // Only the last attempts are in the history.
  const earlier = job.attempt - history.filter(({ counted: counts }) => counts !== false).length;
  if (earlier > 0) list.splice(1, 0, { label: `${counted(earlier, "earlier attempt")} of ${job.max_attempts || "∞"}` });
  const next = job.state === "reserved" ? job.attempt : job.attempt + 1;
  if (job.state !== "dead" && job.state !== "finished") list.push({ label: afterFailure(job, next), ahead: true });
  return list;
}

/** Creates an event's label, time, distance from now, details, and error. */
const create = () => h("li", {}, h("span", { class: "label" }), h("time"), h("span", { class: "muted" }), h("span", { class: "muted" }), h("span"));

function update(item, { at, label, ahead, details = "", error = "" }) {
  const [name, when, distance, more, text] = item.children;
  item.className = ahead || new Date(at) > Date.now() ? "ahead" : "past";
  setText(name, label);
  for (const part of [when, distance]) part.hidden = !at;
  if (at) {
    when.dateTime = when.title = at;
    setText(when, time(at));
    setText(distance, relativeTime(at, Date.now()));
  }
  setText(more, details);
  more.hidden = !details;
  text.hidden = !error;
  // An unfolded error is not replaced, since the user is reading it.
  if (item.error === error || text.open) return;
  item.error = error;
  text.replaceWith(error ? folded(error) : h("span", { hidden: true }));
}

/** Creates the list; `set` takes the job. */
export function timeline() {
  const node = h("ol", { class: "timeline" });
  return { node, set: (job) => keyed(node, events(job), ({ at, label }) => `${at} ${label.split(":")[0]}`, create, update) };
}
