// Actions of an operator on a job or a topic, each a dialog that makes an API call. A button is shown
// only while the token has the scope that the call needs.

import { may, part } from "./api.js";
import { confirmChange } from "./dialog.js";
import { field, h } from "./dom.js";
import { jobLink, time } from "./format.js";

/** Scopes that suffice to change a job by its id. */
export const SCOPES_BY_ID = "manage cancel";

/**
 * Creates a button for an action on a topic. `scopes`, separated by spaces, are the scopes that suffice for it; those
 * joined by + suffice together.
 */
export function button(label, scopes, onclick, { topic, ...properties } = {}) {
  const element = h("button", { type: "button", "data-scopes": scopes, "data-topic": topic, onclick, ...properties }, label);
  showIfAllowed(element);
  return element;
}

/** Shows a button if the scopes of the token suffice for it, else hides it. */
export function showIfAllowed(element) {
  const { scopes, topic } = element.dataset;
  element.hidden = !scopes.split(" ").some((all) => all.split("+").every((scope) => may(scope, topic)));
}

addEventListener("scopes", () => document.querySelectorAll("[data-scopes]").forEach(showIfAllowed));

/** Creates an input of a line of text. */
export const text = (properties) => h("input", { autocomplete: "off", spellcheck: "false", ...properties });
const trimmed = (input) => input.value.trim();

/** Puts a test job, or a copy of a job. */
export function put(topic = "", template = '{"test": true}') {
  const inputs = {
    topic: text({ name: "topic", value: topic, required: true }),
    id: text({ name: "id" }),
    delay: text({ name: "delay", value: "10s" }),
  };
  const body = h("textarea", { name: "body", rows: "4", spellcheck: "false", value: template });
  confirmChange({
    title: "Put a job",
    text: "Consumers of the topic get this job when it is due, like any other job.",
    fields: [
      field("Topic", inputs.topic),
      field("Id", inputs.id, "Empty: the server generates one."),
      field("Delay", inputs.delay, "30s, 5m, 1h30m; empty means now."),
      field("Body", body, "Any JSON; sent unchanged."),
    ],
    button: "Put",
    request() {
      const written = body.value.trim() || "null";
      try {
        JSON.parse(written);
      } catch (error) {
        throw Object.assign(new Error(`The body is not JSON: ${error.message}`), { field: "body" });
      }
      const members = Object.entries(inputs).filter(([, input]) => trimmed(input));
      const texts = members.map(([name, input]) => `${JSON.stringify(name)}: ${JSON.stringify(trimmed(input))}`);
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
  confirmChange({
    title: `Kick ${id}`,
    text: "The job becomes ready now. The attempts of a dead job start from zero.",
    button: "Kick",
    request: () => ({ method: "POST", path: job(id, "/kick") }),
    done: () => `Kicked ${id}: it is ready.`,
  });

/** Makes a job dead. */
export function bury(id) {
  const error = text({ name: "error", value: "buried by an operator" });
  confirmChange({
    title: `Bury ${id}`,
    text: "The job becomes dead, or moves to where dead jobs of its topic go, without further attempts, even if a consumer holds it. Only a job that was popped at least once can be buried.",
    fields: [field("Error", error, "The reason, shown with the job.")],
    button: "Bury",
    danger: true,
    request: () => ({ method: "POST", path: job(id, "/bury"), body: JSON.stringify({ error: error.value }) }),
    done: ({ state, topic }) => `Buried ${id}: it is ${state}${topic ? ` in ${topic}` : ""}.`,
  });
}

/** Deletes a job. */
export const remove = (id) =>
  confirmChange({
    title: `Delete ${id}`,
    text: "Deletes the job for good, whatever its state.",
    button: "Delete",
    danger: true,
    request: () => ({ method: "DELETE", path: job(id) }),
    done: ({ state }) => `Deleted ${id}: it was ${state}.`,
  });

/** Makes a job due at another time. */
export function reschedule(id) {
  const delay = text({ name: "delay", value: "10m" });
  const at = h("input", { name: "due_at", type: "datetime-local", step: "1" });
  confirmChange({
    title: `Reschedule ${id}`,
    text: "The job becomes due at another time. Only delayed and ready jobs can be rescheduled.",
    fields: [field("Delay from now", delay, "30s, 10m, 1d12h; 0s means now."), field("Or at", at, "In your time zone; overrides the delay.")],
    button: "Reschedule",
    request: () => {
      const body = at.value ? { due_at: new Date(at.value).toISOString() } : { delay: trimmed(delay) };
      return { method: "PATCH", path: job(id), body: JSON.stringify(body) };
    },
    done: ({ due_at: due }) => `Rescheduled ${id}: it is due at ${time(due)}.`,
  });
}

export const topicPath = (topic, verb) => `/topics/${part(topic)}/${verb}`;

/** Pauses a topic. */
export function pause(topic) {
  const span = text({ name: "for", value: "10m" });
  confirmChange({
    title: `Pause ${topic}`,
    text: "The topic accepts jobs but delivers none, on every server. Consumers can still finish the jobs that they hold. The pause ends on time even if this page is closed.",
    fields: [field("For", span, "30s, 10m, 1h30m; empty: until it is resumed.")],
    button: "Pause",
    request: () => {
      const body = trimmed(span) ? JSON.stringify({ for: trimmed(span) }) : undefined;
      return { method: "POST", path: topicPath(topic, "pause"), body };
    },
    done: ({ paused_until: until }) => `Paused ${topic}${until ? ` until ${time(until)}` : ""}.`,
  });
}

/** Resumes a topic. */
export const resume = (topic) =>
  confirmChange({
    title: `Resume ${topic}`,
    text: "The topic delivers its due jobs again at once.",
    button: "Resume",
    request: () => ({ method: "POST", path: topicPath(topic, "resume") }),
    done: () => `Resumed ${topic}.`,
  });
