// The dialog of a topic's settings. An empty field removes the setting.

import { text } from "./actions.js";
import { part } from "./api.js";
import { confirmChange } from "./dialog.js";
import { field, h } from "./dom.js";
import { duration } from "./format.js";

const isNumber = (written) => /^-?\d+(\.\d+)?$/.test(written);

/** Reads a number, a duration or a name as JSON takes it. */
export const scalar = (written) => (isNumber(written) ? Number(written) : written);

/** Reads a list of durations or a rule in JSON. */
export function waits(written) {
  if (!/^[[{]/.test(written)) return written.split(",").map((wait) => scalar(wait.trim()));
  try {
    return JSON.parse(written);
  } catch (error) {
    throw Object.assign(new Error(`The backoff is not JSON: ${error.message}`), { field: "backoff" });
  }
}

/** Writes what `waits` reads. */
export function writtenWaits(rule) {
  if (Array.isArray(rule)) return rule.map(duration).join(", ");
  return JSON.stringify({ ...rule, initial: duration(rule.initial), max: duration(rule.max) });
}

/** Name, label and hint of each setting. */
const FIELDS = [
  ["ttr", "TTR", "How long a consumer holds a job. Empty: 1m."],
  ["max_attempts", "Attempts", "0: no limit. Empty: 20."],
  ["priority", "Priority", "0 to 9, larger first. Empty: 4."],
  ["expires_after", "Expires after", "From the due time. Empty: never."],
  ["dead_retention", "Dead jobs are kept for", "Empty: 14d."],
  ["finished_retention", "Finished jobs are kept for", "Empty: not at all."],
  ["backoff", "Backoff", 'Waits between attempts: 1m, 10m, 1h; or {"initial": "1s", "factor": 2, "max": "1h", "jitter": 0.1}. Empty: none.'],
  ["dead_to", "Dead jobs move to", "A topic, in which they are ready again. Empty: they stay here."],
];

const DURATIONS = ["ttr", "expires_after", "dead_retention", "finished_retention"];

function writtenSetting(name, value) {
  if (value === null || value === undefined) return "";
  if (name === "backoff") return writtenWaits(value);
  return DURATIONS.includes(name) ? duration(value) : String(value);
}

const readSetting = (name, written) => (written === "" ? null : name === "backoff" ? waits(written) : scalar(written));

/** Creates the inputs of settings, which are now `settings`. `names` selects some, without the hints for a topic. */
export function settingInputs(settings, names = null) {
  const shown = FIELDS.filter(([name]) => names?.includes(name) ?? true);
  const inputs = shown.map(([name]) => text({ name, value: writtenSetting(name, settings[name]) }));
  return {
    node: h("div", { class: "settings" }, shown.map(([, label, hint], n) => field(label, inputs[n], names ? null : hint))),
    /** Returns the value of each setting, null for an empty input. */
    read: () => Object.fromEntries(inputs.map(({ name, value }) => [name, readSetting(name, value.trim())])),
  };
}

/** Changes the settings of a topic, which are now `settings`. */
export function changeSettings(topic, settings) {
  const inputs = settingInputs(settings);
  confirmChange({
    title: `Settings of ${topic}`,
    text: "Defaults for jobs that are put from now on. Durations are written as 30s, 5m, 1h30m or 14d.",
    fields: [inputs.node],
    button: "Save",
    // A setting that this page does not know stays as it is.
    request: () => ({ method: "PUT", path: `/topics/${part(topic)}`, body: JSON.stringify({ ...settings, ...inputs.read() }) }),
    done: () => `Saved the settings of ${topic}.`,
  });
}
