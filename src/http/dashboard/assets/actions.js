// Actions of an operator, each an API call behind a dialog. A button is shown only while the token
// has the scope that the call needs.

import { get, may, part } from "./api.js";
import { ask } from "./dialog.js";
import { field, h } from "./dom.js";
import { count, jobLink, time } from "./format.js";

/** Scopes that suffice to change a job by its id. */
export const BY_ID = "manage cancel";

/** Creates a button for an action on a topic, shown if the token has one of the scopes, separated by spaces. */
export function button(label, scopes, act, { topic, ...properties } = {}) {
  const element = h("button", { type: "button", "data-scopes": scopes, "data-topic": topic, onclick: act, ...properties }, label);
  offer(element);
  return element;
}

/** Shows a button if the token has one of its scopes, else hides it. */
export function offer(element) {
  const { scopes, topic } = element.dataset;
  element.hidden = !scopes.split(" ").some((scope) => may(scope, topic));
}

addEventListener("scopes", () => document.querySelectorAll("[data-scopes]").forEach(offer));

const text = (properties) => h("input", { autocomplete: "off", spellcheck: "false", ...properties });
const given = (input) => input.value.trim();

/** Puts a test job, or a copy of a job. */
export function put(topic = "", copied = '{"test": true}') {
  const inputs = {
    topic: text({ value: topic, required: true }),
    id: text({}),
    delay: text({ value: "10s" }),
  };
  const body = h("textarea", { rows: "4", spellcheck: "false", value: copied });
  ask({
    title: "Put a job",
    text: "Consumers of the topic get it when it is due, like any other job.",
    fields: [
      field("Topic", inputs.topic),
      field("Id", inputs.id, "Empty: the server makes one."),
      field("Delay", inputs.delay, "30s, 5m, 1h30m; empty means now."),
      field("Body", body, "Any JSON, sent as it stands."),
    ],
    button: "Put",
    request() {
      const written = body.value.trim() || "null";
      try {
        JSON.parse(written);
      } catch (error) {
        throw new Error(`The body is not JSON: ${error.message}`);
      }
      const members = Object.entries(inputs).filter(([, input]) => given(input));
      const texts = members.map(([name, input]) => `${JSON.stringify(name)}: ${JSON.stringify(given(input))}`);
      return { method: "POST", path: "/jobs", body: `{${[...texts, `"body": ${written}`].join(", ")}}` };
    },
    done: ({ id, state }) => {
      location.hash = jobLink(id);
      return `Put ${id}: it is ${state}.`;
    },
  });
}

const job = (id, verb = "") => `/jobs/${part(id)}${verb}`;

/** Makes a delayed or dead job ready. */
export const kick = (id) =>
  ask({
    title: `Kick ${id}`,
    text: "The job becomes ready now. The attempts of a dead job start from zero.",
    button: "Kick",
    request: () => ({ method: "POST", path: job(id, "/kick") }),
    done: () => `Kicked ${id}: it is ready.`,
  });

/** Makes a job dead. */
export function bury(id) {
  const error = text({ value: "buried by an operator" });
  ask({
    title: `Bury ${id}`,
    text: "The job becomes dead without further attempts, whichever consumer holds it. Only a job that was popped at least once can be buried.",
    fields: [field("Error", error, "Why; shown with the job.")],
    button: "Bury",
    danger: true,
    request: () => ({ method: "POST", path: job(id, "/bury"), body: JSON.stringify({ error: error.value }) }),
    done: () => `Buried ${id}: it is dead.`,
  });
}

/** Deletes a job. */
export const remove = (id) =>
  ask({
    title: `Delete ${id}`,
    text: "The job is gone for good, in whatever state it is.",
    button: "Delete",
    danger: true,
    request: () => ({ method: "DELETE", path: job(id) }),
    done: ({ state }) => `Deleted ${id}: it was ${state}.`,
  });

/** Makes a job due at another time. */
export function reschedule(id) {
  const delay = text({ value: "10m" });
  const at = h("input", { type: "datetime-local", step: "1" });
  ask({
    title: `Reschedule ${id}`,
    text: "The job becomes due at another time. Only delayed and ready jobs can be rescheduled.",
    fields: [field("Delay from now", delay, "30s, 10m, 1d12h; 0s means now."), field("Or at", at, "In your time zone; it comes before the delay.")],
    button: "Reschedule",
    request: () => {
      const body = at.value ? { due_at: new Date(at.value).toISOString() } : { delay: given(delay) };
      return { method: "PATCH", path: job(id), body: JSON.stringify(body) };
    },
    done: ({ due_at: due }) => `Rescheduled ${id}: it is due at ${time(due)}.`,
  });
}

const topicPath = (topic, verb) => `/topics/${part(topic)}/${verb}`;

/** Stops delivery. */
export function pause(topic) {
  const span = text({ value: "10m" });
  ask({
    title: `Pause ${topic}`,
    text: "The topic accepts jobs and delivers none, on every server. Consumers that hold its jobs may finish them. The servers end the pause, also if this page is closed.",
    fields: [field("For", span, "30s, 10m, 1h30m; empty: until it is resumed.")],
    button: "Pause",
    request: () => {
      const body = given(span) ? JSON.stringify({ for: given(span) }) : undefined;
      return { method: "POST", path: topicPath(topic, "pause"), body };
    },
    done: ({ paused_until: until }) => `Paused ${topic}${until ? ` until ${time(until)}` : ""}.`,
  });
}

/** Resumes delivery. */
export const resume = (topic) =>
  ask({
    title: `Resume ${topic}`,
    text: "Its due jobs are delivered again, at once.",
    button: "Resume",
    request: () => ({ method: "POST", path: topicPath(topic, "resume") }),
    done: () => `Resumed ${topic}.`,
  });

/** Makes the dead jobs of a topic ready. */
export const kickDead = (topic) =>
  ask({
    title: `Kick all dead jobs of ${topic}`,
    text: "They become ready now, with attempts from zero; at most a million in one call.",
    button: "Kick all",
    request: () => ({ method: "POST", path: `${topicPath(topic, "kick")}?limit=1000000` }),
    left: () => left(topic, ["dead"]),
    done: ({ kicked }) => `Kicked ${count(kicked)} dead jobs of ${topic}.`,
  });

/** Returns the number of jobs in these states. */
async function left(topic, states) {
  const counts = await get(`/topics/${part(topic)}`);
  return states.reduce((sum, state) => sum + counts[state], 0);
}

/** Kicks jobs that are marked in a list. */
export const kickMarked = (ids) =>
  ask({
    title: `Kick ${count(ids.length)} jobs`,
    text: "They become ready now. The attempts of dead jobs start from zero.",
    button: "Kick",
    request: () => ids.map((id) => ({ method: "POST", path: job(id, "/kick") })),
    done: (answers) => {
      const kicked = answers.filter(Boolean).length;
      return `Kicked ${count(kicked)} jobs.${kicked < ids.length ? ` ${count(ids.length - kicked)} are gone, held or left out.` : ""}`;
    },
  });

export const removeMarked = (ids) =>
  ask({
    title: `Delete ${count(ids.length)} jobs`,
    text: "They are gone for good, in whatever state they are.",
    button: "Delete",
    danger: true,
    request: () => ({ method: "POST", path: "/batch/delete", body: JSON.stringify({ jobs: ids.map((id) => ({ id })) }) }),
    done: ({ results }) => {
      const gone = results.filter(({ status }) => status === 200).length;
      return `Deleted ${count(gone)} jobs.${gone < ids.length ? ` ${count(ids.length - gone)} were gone already.` : ""}`;
    },
  });

/** Deletes the jobs of a topic. */
export function purge(topic) {
  const states = ["delayed", "ready", "reserved", "dead", "finished"];
  const state = h("select", {}, ["all", ...states].map((name) => h("option", { value: name }, name)));
  ask({
    title: `Purge ${topic}`,
    text: "Deletes the topic's jobs for good, in small steps. This cannot be undone.",
    fields: [field("Jobs in the state", state)],
    button: "Purge",
    danger: true,
    typed: topic,
    request: () => {
      const which = state.value === "all" ? "" : `?state=${state.value}`;
      return { method: "DELETE", path: `${topicPath(topic, "jobs")}${which}` };
    },
    left: () => left(topic, state.value === "all" ? states : [state.value]),
    done: ({ purged }) => `Purged ${count(purged)} jobs of ${topic}.`,
  });
}
