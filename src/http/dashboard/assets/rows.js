// The rows of a list of jobs. A row that a refresh finds again keeps its element, and with it its
// selection and its unfolded texts.

import { folded, h, keyed, setText } from "./dom.js";
import { jobLink, relativeTime, time, visible } from "./format.js";
import { pretty } from "./json.js";

const COLUMNS = ["Attempts", "Body", "Last error"];
/** A finished job has neither body nor error. */
const COLUMNS_OF_FINISHED = ["Attempts", "Result", "Outcome"];

/** Returns the names of the last columns. */
export const columnsOf = (state) => (state === "finished" ? COLUMNS_OF_FINISHED : COLUMNS);

/** The field by which the jobs of each state are ordered, and its label. */
export const TIMES = {
  ready: ["due_at", "Due"],
  delayed: ["due_at", "Due"],
  reserved: ["reserved_until", "Reserved until"],
  dead: ["died_at", "Died"],
  finished: ["finished_at", "Finished"],
};

const indented = (text) => visible(pretty(text, text.length * 2).lines.join("\n"));

/** Shows a folded text in a cell, unless the user is reading the one that is there. */
function fill(cell, text, format) {
  if (cell.text === text || cell.querySelector("details[open]")) return;
  cell.text = text;
  cell.replaceChildren(text ? folded(text, format) : "–");
}

function create({ job, damaged, state }) {
  if (damaged) {
    return h("tr", {}, h("td"), h("th", { scope: "row" }, h("a", { href: jobLink(damaged.id) }, visible(damaged.id))), h("td", { class: "late" }));
  }
  const last = columnsOf(state).map((name, n) => h("td", { class: n ? "text" : "", "data-label": name }));
  return h("tr", {},
    h("td", {}, h("input", { type: "checkbox", value: job.id, "aria-label": `Select ${job.id}` })),
    h("th", { scope: "row" }, h("a", { href: jobLink(job.id) }, job.id)),
    h("td", { "data-label": TIMES[state][1] }, h("span"), " ", h("span", { class: "muted" })),
    h("td", { "data-label": "Priority" }),
    last);
}

function update(row, { job, written, damaged, state, prioritised }) {
  if (damaged) {
    row.lastChild.colSpan = prioritised ? 5 : 4;
    return setText(row.lastChild, `damaged: ${damaged.reason}`);
  }
  const [, , when, priority, attempts, content, ended] = row.children;
  const at = job[TIMES[state][0]];
  const [moment, , distance] = when.childNodes;
  when.title = at ?? "";
  setText(moment, at ? time(at) : "–");
  setText(distance, at ? relativeTime(at, Date.now()) : "");
  priority.hidden = !prioritised;
  setText(priority, String(job.priority));
  setText(attempts, `${job.attempt} of ${job.max_attempts || "∞"}`);
  fill(content, written, indented);
  if (state === "finished") setText(ended, job.result_dropped ? `${job.outcome}, result dropped` : job.outcome);
  else fill(ended, job.error);
}

/** Shows these jobs in the body of a table. */
export const showRows = (body, items) => keyed(body, items, ({ state, job, damaged }) => `${state} ${damaged ? `damaged ${damaged.id}` : job.id}`, create, update);
