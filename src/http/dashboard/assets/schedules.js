// The schedules by name, page by page.

import { button } from "./actions.js";
import { query, read } from "./api.js";
import { field, h, keyed, setText, table } from "./dom.js";
import { count, counted, jobLink, relativeTime, scheduleLink, time, topicLink } from "./format.js";
import { pace } from "./live.js";
import { pages } from "./pages.js";
import { SCOPES, scheduleButtons } from "./schedule_actions.js";
import { changeSchedule } from "./schedule_settings.js";

const LIMIT = 50;
const COLUMNS = ["Schedule", "Topic", "Timing", "Next", "Last job", "Actions"];

/** Milliseconds between two refreshes, at least, and of a list with more than so many characters. */
const PERIOD = 1500;
const LARGE_LIST = 200_000;
const PERIOD_OF_LARGE = 15_000;
/** Maximum number of pages without a match that are skipped at once. */
const MAX_SKIPPED = 10;

/** Creates the parts that show the last job of a schedule. */
export function lastJob() {
  const none = h("span", { class: "muted" });
  const link = h("a");
  const badge = h("span", { class: "badge" });
  return {
    parts: [link, " ", none, " ", badge],
    show(last) {
      link.hidden = !last?.state;
      badge.hidden = !last;
      setText(none, last ? (last.state ? relativeTime(last.due_at, Date.now()) : time(last.due_at)) : "none yet");
      if (!last) return;
      setText(link, time(last.due_at));
      link.href = jobLink(last.id);
      link.title = none.title = last.id;
      badge.className = `badge ${last.state ?? ""}`;
      setText(badge, last.state ?? "gone");
    },
  };
}

/** Creates the page; the address holds its parameters. */
export function schedules(parameters) {
  let view = {};
  let latestRequest = 0;
  let size = 0;
  const pacer = pace(10);
  const search = (properties) => h("input", { type: "search", autocomplete: "off", spellcheck: "false", ...properties });
  const prefix = search({ oninput: () => type({ prefix: prefix.value.trim() }) });
  // The names of schedules are searched with each letter; the name of a topic must be whole.
  const choose = () => type({ topic: topic.value.trim() });
  const topic = search({ onchange: choose, onsearch: choose });
  const { node: list, body } = table(COLUMNS, { class: "schedules" });
  const note = h("p", { class: "muted", role: "status" });
  const turner = pages((page) => { location.hash = address({ ...view, ...page }); });
  const node = h("div", { class: "page" },
    h("div", { class: "row" }, h("h1", {}, "Schedules"),
      h("div", { class: "actions" }, button("New schedule", SCOPES, () => changeSchedule(null, view.topic)))),
    h("section", { class: "panel", "aria-label": "All schedules" },
      h("div", { class: "row" }, h("div", { class: "fields" }, field("Begins with", prefix), field("Topic", topic)), note),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of schedules" }, list),
      turner.node));

  const address = ({ before, ...others }) => `#/schedules${query({ ...others, before: before || "" })}`;

  /** Lists the schedules that match a changed filter. Back leads to the page before, not to each letter. */
  function type(filter) {
    const next = { prefix: view.prefix, topic: view.topic, ...filter };
    if (next.prefix === view.prefix && next.topic === view.topic) return;
    history.replaceState(history.state, "", address(next));
    go(next);
  }

  /** Shows the list with these parameters. */
  function go({ prefix: beginning = "", topic: name = "", cursor = "", before = "0" }) {
    view = { prefix: beginning, topic: name, cursor, before: Number(before) || 0 };
    if (prefix.value.trim() !== beginning) prefix.value = beginning;
    if (topic.value.trim() !== name) topic.value = name;
    turner.go(`${name} ${beginning}`, view);
    show(true);
  }

  /** Reads the page of the view. Skips pages without a match, in which the server found none among many schedules. */
  async function fetchPage() {
    let { cursor } = view;
    for (let skipped = 0; ; skipped += 1) {
      const text = await read(`/schedules${query({ prefix: view.prefix, topic: view.topic, limit: LIMIT, cursor })}`);
      const page = JSON.parse(text);
      if (page.schedules.length || page.cursor === null || skipped === MAX_SKIPPED) return [page, text.length];
      ({ cursor } = page);
    }
  }

  async function show(isAsked) {
    const thisRequest = (latestRequest += 1);
    pacer.begin();
    // Screen readers announce the page that the user asked for, and no refresh.
    note.ariaLive = isAsked ? "polite" : "off";
    try {
      const [page, length] = await fetchPage();
      if (thisRequest !== latestRequest) return;
      size = length;
      keyed(body, page.schedules, ({ name }) => name, create, update);
      turner.show(page.schedules.length, page.cursor);
      setText(note, describe(page.schedules.length, page.cursor));
    } catch (error) {
      if (thisRequest === latestRequest) setText(note, error.message);
    }
    pacer.end();
  }

  function describe(n, cursor) {
    if (n === 0 && cursor !== null) return "No schedule in this part of the list matches. Next continues the search.";
    if (n === 0) return view.prefix || view.topic ? "No schedule matches." : "There is no schedule.";
    return view.before || cursor !== null ? `Schedules ${count(view.before + 1)}–${count(view.before + n)}` : counted(n, "schedule");
  }

  function create() {
    const [acts, last] = [scheduleButtons("small"), lastJob()];
    const row = h("tr", {},
      h("th", { scope: "row" }, h("a"), " ", h("span", { class: "badge paused" }, "paused")),
      h("td", { "data-label": "Topic", class: "name" }, h("a")),
      h("td", { "data-label": "Timing", class: "words" }),
      h("td", { "data-label": "Next" }, h("span"), " ", h("span", { class: "muted" })),
      h("td", { "data-label": "Last job" }, last.parts),
      h("td", {}, h("div", { class: "actions" }, acts.buttons)));
    return Object.assign(row, { acts, last });
  }

  function update(row, schedule) {
    const { name, topic: target, description, paused, next: [next], last } = schedule;
    const [head, home, words, when] = row.children;
    head.firstChild.href = scheduleLink(name);
    setText(head.firstChild, name);
    head.lastChild.hidden = !paused;
    home.firstChild.href = topicLink(target);
    setText(home.firstChild, target);
    setText(words, description);
    const isDue = next && !paused;
    setText(when.firstChild, isDue ? time(next) : paused ? "–" : "none left");
    setText(when.lastChild, isDue ? relativeTime(next, Date.now()) : "");
    row.last.show(last);
    row.acts.show(schedule);
  }

  go(parameters);
  return {
    title: "Schedules",
    node,
    go: (_state, next) => go(next),
    tick: () => { if (pacer.isDue(size > LARGE_LIST ? PERIOD_OF_LARGE : PERIOD)) show(); },
    changed: () => show(),
  };
}
