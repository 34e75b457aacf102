// The dialog that sets the push of a topic. An empty field means the default.

import { text, topicPath } from "./actions.js";
import { confirmChange } from "./dialog.js";
import { field, h } from "./dom.js";
import { count, duration } from "./format.js";
import { scalar, waits, writtenWaits } from "./settings.js";

/** Name, label, hint and text of each line of the form. */
const FIELDS = [
  ["concurrency", "Concurrency", "Requests at once, of all servers together. Empty: 16.", (p) => String(p.concurrency)],
  ["rate", "Rate", "100/s, 30/m or 500/h, of all servers together. Empty: no limit.", (p) => p.rate ?? ""],
  ["timeout", "Timeout", "For one request. Empty: 15s.", (p) => duration(p.timeout)],
  ["backoff", "Backoff", "Waits after failures, for jobs without their own: 5s, 5m, 1h. Empty: from 5s to 1d.", (p) => (p.backoff ? writtenWaits(p.backoff) : "")],
  ["batch.max", "Jobs in a batch", "Empty, and no linger: one job in each request.", (p) => (p.batch ? String(p.batch.max) : "")],
  ["batch.linger", "Linger of a batch", "How long its first job waits for more: 200ms.", (p) => (p.batch ? duration(p.batch.linger) : "")],
];

/** Creates an input of several lines. */
export const area = (name, value = "") => h("textarea", { name, rows: "3", spellcheck: "false", autocomplete: "off", value });
/** Returns the lines of an input that are not empty. */
export const lines = (control) => control.value.split("\n").map((line) => line.trim()).filter(Boolean);

/** Writes headers, each as a line "Name: value". */
export const writtenHeaders = (headers) => Object.entries(headers ?? {}).map((pair) => pair.join(": ")).join("\n");

/** Reads headers, each a line "Name: value". */
export function readHeaders(written) {
  const pairs = written.map((line) => line.match(/^([^:]+):(.*)$/)?.slice(1).map((part) => part.trim()));
  const wrong = pairs.findIndex((pair, n) => !pair || pairs.findIndex((other) => other?.[0] === pair[0]) < n);
  if (wrong < 0) return Object.fromEntries(pairs);
  throw Object.assign(new Error(`${pairs[wrong] ? "This header is there twice" : 'This header is not written as "Name: value"'}: ${written[wrong]}`), { field: "headers" });
}

/** Sets the push of a topic, which is now `push`, or null if there is none. */
export function changePush(topic, push) {
  const url = text({ name: "url", type: "url", value: push?.url ?? "", required: true });
  const inputs = FIELDS.map(([name, , , written]) => text({ name, value: push ? written(push) : "" }));
  const secrets = area("secrets");
  const headers = area("headers", writtenHeaders(push?.headers));
  const stored = push?.secret_count ?? 0;
  const kept = h("select", {}, h("option", { value: "kept" }, `Keep the stored ones: ${count(stored)}`), h("option", { value: "removed" }, "Remove the stored ones"));
  confirmChange({
    title: `Push of ${topic}`,
    text: "The server sends the due jobs of the topic to this URL, and finishes, releases or buries them by the answers.",
    fields: [
      field("URL", url, "http or https, without a user or password."),
      h("div", { class: "settings" }, FIELDS.map(([, label, hint], n) => field(label, inputs[n], hint))),
      field("Secrets", secrets, "One per line, the newest first: whsec_ and the base64 of 24 to 64 bytes. They sign the requests."),
      stored > 0 && field("If no secret is given", kept),
      field("Headers", headers, "One per line, Name: value. A value of *** stays as it is stored."),
    ],
    button: "Save",
    request() {
      const body = { url: url.value.trim() };
      for (const { name, value } of inputs) {
        const written = value.trim();
        if (written === "") continue;
        const [parent, child] = name.split(".");
        if (child) body[parent] = { ...body[parent], [child]: scalar(written) };
        else body[name] = name === "backoff" ? waits(written) : scalar(written);
      }
      const given = lines(secrets);
      if (given.length > 0 || kept.value === "removed") body.secrets = given;
      if (headers.value.trim()) body.headers = readHeaders(lines(headers));
      return { method: "PUT", path: topicPath(topic, "push"), body: JSON.stringify(body) };
    },
    done: () => `Saved the push of ${topic}.`,
  });
}
