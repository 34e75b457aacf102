// The jobs of a topic in one state, page by page, and the filters of the list. It refreshes itself.

import * as bulk from "./bulk.js";
import { SCOPES_BY_ID, button } from "./actions.js";
import { part, query, read } from "./api.js";
import { choice, h, setText, table } from "./dom.js";
import { STATES, addressed, filters, isFiltered, requested, viewOf } from "./filters.js";
import { clock, count, topicLink } from "./format.js";
import { members } from "./json.js";
import { pace } from "./live.js";
import { pages } from "./pages.js";
import { TIMES, columnsOf, showRows } from "./rows.js";

/** Milliseconds between two refreshes, at least, and of a list with more than so many characters. */
const PERIOD = 1500;
const LARGE_LIST = 200_000;
const PERIOD_OF_LARGE = 15_000;
/** Maximum number of pages without a match that are skipped at once. */
const MAX_SKIPPED = 10;
/** The priority of a job whose put and topic name none. */
const STANDARD_PRIORITY = 4;

/** Creates the panel. `moved` is called with the view when it changes. */
export function jobs(topic, moved) {
  let view = viewOf(null, {});
  let page = { jobs: [], damaged: [], cursor: null };
  let text = null;
  let readAt = "";
  let total = {};
  let latestRequest = 0;
  const pacer = pace(10);

  const picker = choice("State", STATES.map((name) => [name, name]), null, (state) => navigate({ state, from: "", until: "" }));
  const fields = filters(navigate);
  const timeHeading = h("span", {}, TIMES.ready[1]);
  const priority = h("span", {}, "Priority");
  const heads = columnsOf("ready").map((name) => h("span", {}, name));
  const note = h("p", { class: "muted", role: "status" });
  const turner = pages(navigate);
  const checkboxes = () => [...body.querySelectorAll("input")];
  const selected = () => checkboxes().filter((box) => box.checked).map((box) => box.value);
  const selectAll = h("input", { type: "checkbox", "aria-label": "Select all jobs of the page", onchange: () => { for (const box of checkboxes()) box.checked = selectAll.checked; updateSelection(); } });
  const kick = button("Kick selected", SCOPES_BY_ID, () => bulk.kickJobs(selected()), { topic });
  const remove = button("Delete selected", SCOPES_BY_ID, () => bulk.deleteJobs(selected(), view.state), { topic, class: "danger" });
  const kickAll = button("Kick all that match", "manage", () => bulk.kickMatching(topic, requested(view)), { topic });
  const removeAll = button("Delete all that match", "manage", () => bulk.deleteMatching(topic, requested(view)), { topic, class: "danger" });
  const matching = h("span", { class: "actions" }, kickAll, removeAll);
  const { node: list, body } = table([selectAll, "Job", timeHeading, priority, ...heads], { class: "jobs", onchange: updateSelection });
  priority.parentElement.hidden = true;
  const node = h("section", { class: "panel", "aria-labelledby": "jobs" },
    h("div", { class: "row" }, h("h2", { id: "jobs" }, "Jobs"), picker),
    fields.node,
    h("div", { class: "actions list" }, h("button", { type: "button", onclick: () => load(true) }, "Reload"), kick, remove, matching),
    note,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of jobs" }, list),
    turner.node);

  const shown = () => page.jobs.length + page.damaged.length;

  /** Changes the view by its address. A change of anything but the page begins with the first page. */
  function navigate(changes) {
    const next = { ...view, cursor: "", before: 0, ...changes };
    location.hash = topicLink(topic, next.state, addressed(next));
  }

  /** Shows the view of an address. */
  function go(state, parameters) {
    view = viewOf(state, parameters);
    view.state ??= STATES.find((name) => total[name] > 0) ?? null;
    turner.go(JSON.stringify({ ...view, cursor: "", before: 0 }), view);
    for (const box of checkboxes()) box.checked = false;
    picker.set(view.state);
    matching.hidden = !isFiltered(view);
    fields.show(view);
    updateSelection();
    moved(view);
    load(true);
  }

  /** Enables the actions that apply to the selected jobs. */
  function updateSelection() {
    const none = selected().length === 0;
    const canKick = view.state === "dead" || view.state === "delayed";
    kick.disabled = none || !canKick;
    kickAll.disabled = !canKick;
    remove.disabled = none;
    if (none) selectAll.checked = false;
  }

  function describePage() {
    if (text === null) return;
    const { state, before } = view;
    const matching = isFiltered(view) ? "matching " : "";
    const all = matching || total[state] === undefined ? "" : ` of ${count(total[state])}`;
    const prioritised = priority.parentElement.hidden ? "" : "priority and ";
    if (shown() > 0) return setText(note, `${count(before + 1)}–${count(before + shown())}${all} ${state} jobs at ${readAt}, in order of ${prioritised}time within each bucket.`);
    const more = page.cursor === null ? "" : " in this part of the list. Next continues the search";
    setText(note, `No ${matching}${state} jobs${before && !more ? " on this page" : ""}${more || ` at ${readAt}`}.`);
  }

  /** Returns the text of the page of the view. Skips pages without a match, in which the server found none among many jobs. */
  async function fetchPage() {
    let cursor = view.cursor;
    for (let skipped = 0; ; skipped += 1) {
      const written = await read(`/topics/${part(topic)}/jobs${query({ ...requested(view), limit: view.limit, cursor })}`);
      const found = JSON.parse(written);
      if (found.jobs.length || found.damaged?.length || found.cursor === null || skipped === MAX_SKIPPED) return [written, found];
      cursor = found.cursor;
    }
  }

  async function load(isAsked) {
    if (!view.state) return;
    const thisRequest = (latestRequest += 1);
    pacer.begin();
    // Screen readers announce the page that the user asked for, and no refresh.
    note.ariaLive = isAsked ? "polite" : "off";
    try {
      const [written, found] = await fetchPage();
      if (thisRequest !== latestRequest) return;
      show(written, found);
    } catch (error) {
      if (thisRequest === latestRequest) setText(note, error.message);
    }
    pacer.end();
  }

  function show(written, found) {
    text = written;
    page = { damaged: [], ...found };
    const { state } = view;
    const name = state === "finished" ? "result" : "body";
    const prioritised = state === "ready" && page.jobs.some((job) => job.priority !== STANDARD_PRIORITY);
    setText(timeHeading, TIMES[state][1]);
    priority.parentElement.hidden = !prioritised;
    columnsOf(state).forEach((column, n) => setText(heads[n], column));
    // Not every finished job has a result.
    const texts = members(text, name, 3);
    const rows = page.jobs.map((job) => ({ job, written: name in job ? texts.shift() : null, state, prioritised }));
    showRows(body, [...rows, ...page.damaged.map((damaged) => ({ damaged, state, prioritised }))]);
    readAt = clock(Date.now());
    turner.show(shown(), page.cursor);
    updateSelection();
    describePage();
  }

  return {
    node,
    go,
    refresh: () => load(),
    tick: () => { if (pacer.isDue(text?.length > LARGE_LIST ? PERIOD_OF_LARGE : PERIOD)) load(); },
    /** Shows the number of jobs per state. */
    count(counts) {
      total = counts;
      note.ariaLive = "off";
      if (!view.state) go(STATES.find((name) => counts[name] > 0) ?? STATES[0], addressed(view));
      describePage();
      for (const one of picker.children) setText(one, `${one.dataset.value} ${count(counts[one.dataset.value])}`);
    },
  };
}
