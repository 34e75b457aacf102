// The last attempts of a job.

import { h, table } from "./dom.js";
import { span, time, visible } from "./format.js";

/** Creates a row of the table; a data label names its column on a phone. */
function row({ attempt, started_at: start, ended_at: end, outcome, error, consumer }) {
  const cell = (name, ...content) => h("td", { "data-label": name }, ...content);
  return h("tr", {},
    cell("Attempt", String(attempt)),
    cell("Started", h("time", { datetime: start, title: start }, time(start))),
    cell("Took", end ? span(new Date(end) - new Date(start)) : "–"),
    cell("Outcome", outcome ?? "running"),
    cell("Consumer", consumer ?? "–"),
    cell("Error", visible(error ?? "")));
}

/** Creates the table of attempts, the newest first. */
export function attempts(history) {
  const { node, body } = table(["Attempt", "Started", "Took", "Outcome", "Consumer", "Error"]);
  body.append(...history.toReversed().map(row));
  return node;
}
