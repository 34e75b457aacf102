// The push of a topic: its state, settings and last failures as this server knows them, with its actions.

import { button, topicPath } from "./actions.js";
import { get } from "./api.js";
import { confirmChange } from "./dialog.js";
import { folded, h, keyed, setText, table } from "./dom.js";
import { count, counted, jobLink, rate, relativeTime, seconds, time, visible } from "./format.js";
import { backoff } from "./policy.js";
import { changePush } from "./push_settings.js";

const FACTS = [
  ["URL", (p) => p.url],
  ["Requests", (p) => `${rate(p.rates.delivered)}/s delivered, ${rate(p.rates.failed)}/s failed, ${count(p.in_flight)} in flight`],
  ["Concurrency", (p) => count(p.concurrency)],
  ["Rate", (p) => p.rate ?? "no limit"],
  ["Timeout", (p) => seconds(p.timeout)],
  ["Batch", (p) => (p.batch ? `up to ${counted(p.batch.max, "job")}, the first waits up to ${seconds(p.batch.linger)}` : "none: one job in each request")],
  ["Backoff", (p) => (p.backoff ? backoff(p.backoff) : "5 s, 5 m, 30 m, then hours, up to 1 d")],
  ["Secrets", (p) => (p.secret_count ? count(p.secret_count) : "none: requests are not signed")],
  ["Headers", (p) => Object.keys(p.headers ?? {}).join(", ") || "none"],
  ["Set by", (p) => (p.set_by ? `the token ${p.set_by}` : "a caller without a token")],
];

/** Reasons of a pause. */
const REASONS = {
  requested: "A client paused it.",
  imported: "It was imported without its secrets: set them, then resume it.",
  failing: "Its requests have failed for five days: repair the target, then resume it.",
  revoked: "The token that set it was revoked: check it, then resume it.",
};

/** Describes why a push sends no requests; empty if it does. */
const why = ({ reason }) => REASONS[reason] ?? (reason ? `${reason[0].toUpperCase()}${visible(reason.slice(1))}.` : "");

const COLUMNS = ["Job", "Failed", "Status", "Error"];

const createFailure = ({ at, id, status, error }) =>
  h("tr", {},
    h("th", { scope: "row" }, h("a", { href: jobLink(id) }, id)),
    h("td", { "data-label": "Failed", title: time(at) }),
    h("td", { "data-label": "Status" }, status ?? "none"),
    h("td", { "data-label": "Error", class: "text" }, error ? folded(error) : "–"));

const written = ({ method, url, headers, body }) => visible([`${method} ${url}`, ...Object.entries(headers).map((pair) => pair.join(": ")), "", body].join("\n"));

function answered({ status, seconds: taken, warning, error }) {
  if (error) return `No answer: ${visible(error)}`;
  return `Answered ${status} in ${seconds(taken)}.${warning ? ` Warning: ${visible(warning)}.` : ""}`;
}

/** Creates the panel, and the button that sets up a push; `tick` takes whether the topic has a push. */
export function push(topic) {
  let current = null;
  let latestRequest = 0;
  const path = topicPath(topic, "push");
  const of = { topic };
  const state = h("span", { class: "badge" });
  const note = h("p", { class: "muted" });
  const facts = FACTS.map(() => h("dd"));
  const { node: list, body: failures } = table(COLUMNS, { class: "failures" });
  const failed = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Last failures of the push" }, list);
  const none = h("p", { class: "muted" }, "No request of this server has failed.");
  const [result, request, answer] = [h("p", { role: "status" }), h("pre", { class: "body" }), h("pre", { class: "body" })];
  const test = h("div", { hidden: true }, h("h3", {}, "Last test"), result, answer, h("details", {}, h("summary", {}, "Request"), request));
  const pause = button("Pause push", "push", () => setPaused(current.state !== "paused"), of);
  const setUp = h("span", { hidden: true }, button("Set up a push", "push", () => changePush(topic, null), of));
  const node = h("section", { class: "panel", hidden: true, "aria-labelledby": "push" },
    h("div", { class: "row" },
      h("div", { class: "actions" }, h("h2", { id: "push" }, "Push"), state),
      h("div", { class: "actions" },
        button("Change push", "push", () => changePush(topic, current), of), button("Test push", "push", send, of), pause,
        button("Delete push", "push", remove, { ...of, class: "danger" }))),
    note,
    h("div", { class: "columns" },
      h("div", {}, h("dl", { class: "facts" }, FACTS.map(([label], n) => [h("dt", {}, label), facts[n]]).flat()), test),
      h("div", {}, h("h3", {}, "Last failures"), failed, none)));

  function send() {
    confirmChange({
      title: `Test the push of ${topic}`,
      text: `Sends a request with a made-up job to ${visible(current.url)}. No job changes.`,
      button: "Test",
      request: () => ({ method: "POST", path: `${path}/test` }),
      done(tested) {
        test.hidden = false;
        setText(result, answered(tested.response));
        setText(request, written(tested.request));
        answer.hidden = !tested.response.body;
        setText(answer, visible(tested.response.body ?? ""));
        return `Tested the push of ${topic}.`;
      },
    });
  }

  function setPaused(paused) {
    const [verb, past] = paused ? ["Pause", "Paused"] : ["Resume", "Resumed"];
    confirmChange({
      title: `${verb} the push of ${topic}`,
      text: paused ? "The servers send no requests until the push is resumed. Jobs wait, unless a consumer pops them." : "The servers send due jobs again at once.",
      button: verb,
      request: () => ({ method: "POST", path: `${path}/${verb.toLowerCase()}` }),
      done: () => `${past} the push of ${topic}.`,
    });
  }

  function remove() {
    confirmChange({
      title: `Delete the push of ${topic}`,
      text: "Removes the push with its secrets for good. The jobs stay, and wait for consumers.",
      button: "Delete",
      danger: true,
      confirmation: topic,
      request: () => ({ method: "DELETE", path }),
      done: () => `Deleted the push of ${topic}.`,
    });
  }

  function show(next) {
    current = next;
    node.hidden = !next;
    setUp.hidden = Boolean(next);
    if (!next) return;
    state.className = `badge ${next.state}`;
    setText(state, next.state);
    setText(note, why(next));
    setText(pause, next.state === "paused" ? "Resume push" : "Pause push");
    FACTS.forEach(([, fact], n) => setText(facts[n], visible(fact(next))));
    const now = Date.now();
    keyed(failures, next.last_failures, ({ at, id }) => `${at} ${id}`, createFailure, (row, { at }) => setText(row.children[1], relativeTime(at, now)));
    failed.hidden = !(none.hidden = next.last_failures.length > 0);
  }

  async function tick(exists) {
    const thisRequest = (latestRequest += 1);
    if (!exists) return show(null);
    try {
      const next = await get(path);
      if (thisRequest === latestRequest) show(next);
    } catch (error) {
      if (thisRequest !== latestRequest) return;
      if (error.code === "push_not_found") show(null);
      else setText(note, `Failed to load: ${error.message}`);
    }
  }

  return { node, setUp, tick };
}
