// The dialog that creates or changes a schedule. An empty field means the default.

import { text } from "./actions.js";
import { get, part, query } from "./api.js";
import { confirmChange } from "./dialog.js";
import { field, h, setText } from "./dom.js";
import { duration, localInput, scheduleLink, zone } from "./format.js";
import { members } from "./json.js";
import { area, lines, readHeaders, writtenHeaders } from "./push_settings.js";
import { preview } from "./schedule_preview.js";
import { scalar, settingInputs } from "./settings.js";

const NAME = /^(?!\.{1,2}$|preview$)[A-Za-z0-9._-]{1,107}$/;
const NAMES = "1 to 107 of A–Z a–z 0–9 . _ -";
/** Fields that only an answer has. */
const READ_ONLY = ["name", "description", "next", "last", "paused"];
const POLICY = ["ttr", "max_attempts", "priority", "expires_after", "finished_retention", "backoff"];
/** Values of each choice, the default first. */
export const OVERLAP = { put: "put another job", skip: "skip the instant" };
export const MISSED = { once: "put the latest", none: "put none", all: "put the last 1,000" };

const wrong = (name, message) => Object.assign(new Error(message), { field: name });
const isGiven = ([, value]) => value !== null && value !== undefined && value !== "";

/** Creates an input of an instant. Unless the user changes it, it keeps the milliseconds, which it does not show. */
function moment(name, at) {
  const input = h("input", { name, type: "datetime-local", step: "1", value: localInput(at) });
  const shown = input.value;
  return { input, read: () => (input.value === shown ? at : input.value && new Date(input.value).toISOString()) };
}

/** Creates a menu of values; `read` returns nothing for the first, the default. */
function menu(name, labels, value) {
  const select = h("select", { name }, Object.entries(labels).map(([one, label]) => h("option", { value: one }, label)));
  select.value = value ?? Object.keys(labels)[0];
  return { select, read: () => (select.selectedIndex > 0 ? select.value : "") };
}

/** Creates the fields that decide the instants; `read` returns the given ones. */
function timingFields(schedule) {
  const zones = h("datalist", { id: "zones" }, [...new Set([zone, ...Intl.supportedValuesOf("timeZone")])].map((name) => h("option", { value: name })));
  const inputs = {
    cron: text({ name: "cron", value: schedule.cron ?? "" }),
    timezone: text({ name: "timezone", list: zones.id, value: schedule.timezone ?? "" }),
    every: text({ name: "every", value: schedule.every ? duration(schedule.every) : "" }),
  };
  const [anchor, start, end] = ["anchor", "start", "end"].map((name) => moment(name, schedule[name]));
  const value = (name) => inputs[name].value.trim();
  const node = h("div", { class: "settings" },
    field("Cron line", inputs.cron, "0 9 * * MON-FRI or @daily; six fields begin with seconds."),
    field("Time zone", inputs.timezone, "Of the cron line: Europe/Berlin. Empty: UTC."),
    field("Or every", inputs.every, "Instead of a cron line: 90s, 2h, 7d."),
    field("Counted from", anchor.input, "One of the times of an interval. Empty: 1970-01-01 in UTC."),
    field("Start", start.input, `In your time zone, ${zone}. Empty: now.`),
    field("End", end.input, "Exclusive. Empty: never."), zones);
  const read = () => Object.fromEntries(Object.entries({
    cron: value("cron"), timezone: value("timezone"), every: scalar(value("every")), anchor: anchor.read(), start: start.read(), end: end.read(),
  }).filter(isGiven));
  return { node, read };
}

/** Creates the input of the name of a new schedule, which warns if there is one with this name. */
function nameInput() {
  const warning = h("p", { class: "problem", role: "status" });
  async function check() {
    const name = input.value.trim();
    if (!NAME.test(name)) return setText(warning, "");
    const { schedules: [first] } = await get(`/schedules${query({ prefix: name, limit: 1 })}`).catch(() => ({ schedules: [] }));
    if (input.value.trim() === name) setText(warning, first?.name === name ? `${name} exists: saving replaces it.` : "");
  }
  const input = text({ name: "name", required: true, onchange: check });
  const node = field("Name", input, `${NAMES}. The id of each job is the name, ":" and its time.`);
  node.append(warning);
  return { input, node };
}

/** Returns the JSON of a schedule with this body, which is sent unchanged. */
function definition(fields, body) {
  try {
    JSON.parse(body);
  } catch (error) {
    throw wrong("body", `The body is not JSON: ${error.message}`);
  }
  return `${JSON.stringify(Object.fromEntries(Object.entries(fields).filter(isGiven))).slice(0, -1)},"body":${body}}`;
}

/** Changes a schedule, of which `written` is the JSON, or creates one for this topic if there is none. */
export function changeSchedule(written, topicOfNew = "") {
  const { body: _, ...schedule } = written ? JSON.parse(written) : { topic: topicOfNew };
  const created = written ? null : nameInput();
  const topic = text({ name: "topic", value: schedule.topic, required: true });
  const timing = timingFields(schedule);
  const shown = preview(timing.read);
  const jitter = text({ name: "jitter", value: schedule.jitter ? duration(schedule.jitter) : "" });
  const [overlap, missed] = [menu("overlap", OVERLAP, schedule.overlap), menu("missed", MISSED, schedule.missed)];
  const body = area("body", (written && members(written, "body", 1)[0]) || "null");
  const policy = settingInputs(schedule, POLICY);
  const headers = area("headers", writtenHeaders(schedule.headers));
  // A field that this page does not know stays as it is.
  const kept = { ...schedule };
  for (const name of [...READ_ONLY, ...POLICY, "topic", "cron", "timezone", "every", "anchor", "start", "end", "jitter", "overlap", "missed", "headers"]) delete kept[name];
  const nameOf = () => (created ? created.input.value.trim() : schedule.name);
  confirmChange({
    title: written ? `Schedule ${schedule.name}` : "New schedule",
    text: "The server puts a job into the topic at each of these times.",
    fields: [
      created?.node, field("Topic", topic), timing.node, shown.node,
      h("div", { class: "settings" },
        field("If the last job has not ended", overlap.select),
        field("Times missed by over a minute", missed.select),
        field("Jitter", jitter, "Each job is due up to this much later: 5m. Empty: none.")),
      field("Body", body, "Any JSON; sent unchanged."),
      h("details", { class: "rules" }, h("summary", {}, "Rules and headers of its jobs"),
        h("p", { class: "muted" }, "Empty: the default of the topic."), policy.node,
        field("Headers", headers, "One per line, Name: value.")),
    ],
    button: "Save",
    typed: shown.typed,
    request() {
      const name = nameOf();
      if (!NAME.test(name)) throw wrong("name", `A name is ${NAMES}, and not "preview": ${name || "it is empty"}`);
      const fields = { topic: topic.value.trim(), ...timing.read(), jitter: scalar(jitter.value.trim()), overlap: overlap.read(), missed: missed.read(), ...policy.read(), ...kept };
      if (headers.value.trim()) fields.headers = readHeaders(lines(headers));
      return { method: "PUT", path: `/schedules/${part(name)}`, body: definition(fields, body.value.trim() || "null") };
    },
    done() {
      if (created) location.hash = scheduleLink(nameOf());
      return `Saved the schedule ${nameOf()}.`;
    },
  });
}
