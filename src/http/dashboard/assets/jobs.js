// The jobs of a topic in one state, page by page, optionally between two due times.

import * as actions from "./actions.js";
import { part, query, read } from "./api.js";
import { choice, field, folded, h, setText, table } from "./dom.js";
import { away, clock, count, jobLink, time, topicLink, visible, zone } from "./format.js";
import { members, pretty } from "./json.js";

const STATES = ["ready", "delayed", "reserved", "dead", "finished"];
const COLUMNS = ["Attempts", "Body", "Last error"];
/** A finished job has neither body nor error. */
const COLUMNS_OF_FINISHED = ["Attempts", "Result", "Outcome"];

/** The time by which jobs of a state are ordered, and its label. */
const TIMES = {
  ready: ["due_at", "Due"],
  delayed: ["due_at", "Due"],
  reserved: ["reserved_until", "Reserved until"],
  dead: ["died_at", "Died"],
  finished: ["finished_at", "Finished"],
};

const outcome = (job) => h("span", {}, job.result_dropped ? `${job.outcome}, result dropped` : job.outcome);

/** Creates the panel of the chosen state, or else of the first state with jobs. */
export function jobs(topic, chosen) {
  let state = STATES.includes(chosen) ? chosen : null;
  /** Cursor of each page up to this one, and the number of jobs before it. */
  let pages = [[null, 0]];
  let next = null;
  let shown = null;
  let readAt = "";
  let total = {};
  let turn = 0;
  const picker = choice("State", STATES.map((name) => [name, name]), state, (value) => {
    state = value;
    history.replaceState(null, "", topicLink(topic, state));
    first();
  });
  const after = h("input", { type: "datetime-local", step: "1", onchange: first });
  const until = h("input", { type: "datetime-local", step: "1", onchange: first });
  const size = h("select", { onchange: first }, [50, 200, 1000].map((n) => h("option", { value: String(n) }, n)));
  const range = h("div", { class: "fields" }, field(`Due from (${zone})`, after), field(`Due before (${zone})`, until));
  const at = h("span");
  const note = h("p", { class: "muted", role: "status" });
  const back = h("button", { type: "button", onclick: () => { pages.pop(); show(); } }, "Previous");
  const on = h("button", { type: "button", onclick: () => { pages.push([next, pages.at(-1)[1] + shown]); show(); } }, "Next");
  const marks = () => [...body.querySelectorAll("input")];
  const marked = () => marks().filter((box) => box.checked).map((box) => box.value);
  const every = h("input", { type: "checkbox", "aria-label": "Mark all jobs of the page", onchange: () => { for (const box of marks()) box.checked = every.checked; mark(); } });
  const kick = actions.button("Kick marked", actions.BY_ID, () => actions.kickMarked(marked()), { topic });
  const remove = actions.button("Delete marked", actions.BY_ID, () => actions.removeMarked(marked()), { topic, class: "danger" });
  const heads = COLUMNS.map((name) => h("span", {}, name));
  const { node: list, body } = table([every, "Job", at, ...heads], { class: "jobs", onchange: mark });
  const node = h("section", { class: "panel", "aria-labelledby": "jobs" },
    h("div", { class: "row" }, h("h2", { id: "jobs" }, "Jobs"), picker),
    h("div", { class: "fields" }, range, field("A page has", size),
      h("button", { type: "button", onclick: show }, "Read again"), kick, remove),
    note,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of jobs" }, list),
    h("div", { class: "row end" }, back, on));

  function first() {
    pages = [[null, 0]];
    show();
  }

  /** Enables the actions that apply to the marked jobs. */
  function mark() {
    const none = marked().length === 0;
    kick.disabled = none || (state !== "dead" && state !== "delayed");
    remove.disabled = none;
    if (none) every.checked = false;
  }

  function tell() {
    if (shown === null) return;
    const before = pages.at(-1)[1];
    const all = total[state] === undefined || (!range.hidden && (after.value || until.value)) ? "" : ` of ${count(total[state])}`;
    setText(note, shown > 0 ? `${count(before + 1)}–${count(before + shown)}${all} ${state} jobs, read at ${readAt}; in the order of their time within each bucket.` : `No ${state} jobs at ${readAt}.`);
  }

  const columns = () => (state === "finished" ? COLUMNS_OF_FINISHED : COLUMNS);

  const moment = (input) => (input.value ? new Date(input.value).toISOString() : null);

  async function show() {
    if (!state) return;
    const mine = (turn += 1);
    const timed = state === "delayed" || state === "ready";
    range.hidden = !timed;
    setText(at, TIMES[state][1]);
    columns().forEach((name, n) => setText(heads[n], name));
    const bounds = timed ? { due_after: moment(after), due_before: moment(until) } : {};
    let text;
    try {
      text = await read(`/topics/${part(topic)}/jobs${query({ state, ...bounds, limit: size.value, cursor: pages.at(-1)[0] })}`);
    } catch (error) {
      setText(note, error.message);
      return;
    }
    if (mine !== turn) return;
    const page = JSON.parse(text);
    const name = state === "finished" ? "result" : "body";
    // Not every finished job has a result.
    const written = members(text, name, 3);
    body.replaceChildren(...page.jobs.map((job) => row(job, name in job ? written.shift() : null)), ...(page.damaged ?? []).map(damaged));
    next = page.cursor;
    readAt = clock(Date.now());
    shown = page.jobs.length + (page.damaged ?? []).length;
    on.disabled = next === null;
    back.disabled = pages.length === 1;
    mark();
    tell();
  }

  function row(job, written) {
    const when = job[TIMES[state][0]];
    const content = written === null ? "–" : folded(written, indented);
    const ended = job.state === "finished" ? outcome(job) : job.error ? folded(job.error) : "–";
    return h("tr", {},
      h("td", {}, h("input", { type: "checkbox", value: job.id, "aria-label": `Mark ${job.id}` })),
      h("th", { scope: "row" }, h("a", { href: jobLink(job.id) }, job.id)),
      h("td", { title: when, "data-label": TIMES[state][1] }, when ? [h("span", {}, time(when)), " ", h("span", { class: "muted" }, away(when, Date.now()))] : "–"),
      [`${job.attempt} of ${job.max_attempts || "∞"}`, content, ended].map((value, n) =>
        h("td", { class: n ? "text" : "", "data-label": columns()[n] }, value)));
  }

  const indented = (text) => visible(pretty(text, text.length * 2).lines.join("\n"));

  const damaged = ({ id, reason }) =>
    h("tr", {}, h("td"), h("th", { scope: "row" }, h("a", { href: jobLink(id) }, visible(id))), h("td", { colspan: "4", class: "late" }, `damaged: ${reason}`));

  show();
  return {
    node,
    refresh: show,
    /** Shows the number of jobs per state. */
    count(counts) {
      total = counts;
      if (!state) {
        state = STATES.find((name) => counts[name] > 0) ?? STATES[0];
        picker.set(state);
        show();
      }
      tell();
      for (const button of picker.children) setText(button, `${button.dataset.value} ${count(counts[button.dataset.value])}`);
    },
  };
}
