// What an operator can do, each as a call of the API behind a dialog. A button stands on the page
// only while the token may have the scope that its call needs.

import { may, part } from "./api.js";
import { ask } from "./dialog.js";
import { field, h } from "./dom.js";
import { count, jobLink } from "./format.js";

/** A button for an action; it hides when a refusal told that the token lacks the scope. */
export function button(label, scope, act, properties = {}) {
  const element = h("button", { type: "button", "data-scope": scope, onclick: act, ...properties }, label);
  element.hidden = !may(scope);
  return element;
}

addEventListener("scopes", () => {
  for (const element of document.querySelectorAll("[data-scope]")) element.hidden = !may(element.dataset.scope);
});

const text = (properties) => h("input", { autocomplete: "off", spellcheck: "false", ...properties });
const given = (input) => input.value.trim();

/** Puts a test job. */
export function put(topic = "") {
  const inputs = {
    topic: text({ value: topic, required: true }),
    id: text({}),
    delay: text({ value: "10s" }),
  };
  const body = h("textarea", { rows: "4", spellcheck: "false", value: '{"test": true}' });
  ask({
    title: "Put a job",
    text: "Consumers of the topic get it when it is due, like any other job.",
    fields: [
      field("Topic", inputs.topic),
      field("Id", inputs.id, "Empty: the server makes one."),
      field("Delay", inputs.delay, "30s, 5m, 1h30m; empty is at once."),
      field("Body", body, "Any JSON, sent as it stands."),
    ],
    button: "Put",
    request() {
      const written = body.value.trim() || "null";
      try {
        JSON.parse(written);
      } catch (error) {
        throw new Error(`The body is no JSON: ${error.message}`);
      }
      const members = Object.entries(inputs).filter(([, input]) => given(input));
      const texts = members.map(([name, input]) => `${JSON.stringify(name)}: ${JSON.stringify(given(input))}`);
      return { method: "POST", path: "/jobs", scope: "put", body: `{${[...texts, `"body": ${written}`].join(", ")}}` };
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
    request: () => ({ method: "POST", path: job(id, "/kick"), scope: "manage" }),
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
    request: () => ({ method: "POST", path: job(id, "/bury"), body: JSON.stringify({ error: error.value }), scope: "pop" }),
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
    request: () => ({ method: "DELETE", path: job(id), scope: "manage" }),
    done: ({ state }) => `Deleted ${id}: it was ${state}.`,
  });

/** Makes a job due at another time. */
export function reschedule(id) {
  const delay = text({ value: "10m" });
  const at = h("input", { type: "datetime-local", step: "1" });
  ask({
    title: `Reschedule ${id}`,
    text: "The job becomes due at another time. Only delayed and ready jobs can be rescheduled.",
    fields: [field("Delay from now", delay, "30s, 10m, 1d12h; 0s is at once."), field("Or at", at, "In your time zone; it comes before the delay.")],
    button: "Reschedule",
    request: () => {
      const body = at.value ? { due_at: new Date(at.value).toISOString() } : { delay: given(delay) };
      return { method: "PATCH", path: job(id), body: JSON.stringify(body), scope: "manage" };
    },
    done: ({ due_at: due }) => `Rescheduled ${id}: it is due at ${due}.`,
  });
}

const topicPath = (topic, verb) => `/topics/${part(topic)}/${verb}`;

/** Stops delivery. */
export const pause = (topic) =>
  ask({
    title: `Pause ${topic}`,
    text: "The topic accepts jobs and delivers none, on every server, until it is resumed. Consumers that hold its jobs may finish them.",
    button: "Pause",
    request: () => ({ method: "POST", path: topicPath(topic, "pause"), scope: "manage" }),
    done: () => `Paused ${topic}.`,
  });

/** Goes on with delivery. */
export const resume = (topic) =>
  ask({
    title: `Resume ${topic}`,
    text: "Its due jobs are delivered again, at once.",
    button: "Resume",
    request: () => ({ method: "POST", path: topicPath(topic, "resume"), scope: "manage" }),
    done: () => `Resumed ${topic}.`,
  });

/** Makes the dead jobs of a topic ready. */
export const kickDead = (topic) =>
  ask({
    title: `Kick all dead jobs of ${topic}`,
    text: "They become ready now, with attempts from zero; at most a million in one call.",
    button: "Kick all",
    request: () => ({ method: "POST", path: `${topicPath(topic, "kick")}?limit=1000000`, scope: "manage" }),
    done: ({ kicked }) => `Kicked ${count(kicked)} dead jobs of ${topic}.`,
  });

/** Deletes the jobs of a topic. */
export function purge(topic) {
  const states = ["all", "delayed", "ready", "reserved", "dead"];
  const state = h("select", {}, states.map((name) => h("option", { value: name }, name)));
  ask({
    title: `Purge ${topic}`,
    text: "Deletes the topic's jobs for good, in small steps. This cannot be undone.",
    fields: [field("Jobs in the state", state)],
    button: "Purge",
    danger: true,
    typed: topic,
    request: () => {
      const which = state.value === "all" ? "" : `?state=${state.value}`;
      return { method: "DELETE", path: `${topicPath(topic, "jobs")}${which}`, scope: "manage" };
    },
    done: ({ purged }) => `Purged ${count(purged)} jobs of ${topic}.`,
  });
}
