// All topics, by name.

import { get, query } from "./api.js";
import { h, keyed, setText, table } from "./dom.js";
import { count, counted, pausedFor, topicLink } from "./format.js";
import { pace } from "./live.js";
import { pages } from "./pages.js";

const LIMIT = 100;
const STATES = [["ready", "Ready"], ["delayed", "Delayed"], ["reserved", "Reserved"], ["dead", "Dead"], ["finished", "Finished"]];
const COLUMNS = ["Topic", ...STATES.map(([, name]) => name)];

/** Milliseconds between two refreshes, at least. */
const PERIOD = 1500;

/** Creates the page; the address holds its parameters. */
export function topics(parameters) {
  let view = {};
  let latestRequest = 0;
  const pacer = pace(10);
  const prefix = h("input", { id: "prefix", type: "search", autocomplete: "off", spellcheck: "false", oninput: type });
  const { node: list, body } = table(COLUMNS);
  const note = h("p", { class: "muted", role: "status" });
  const turner = pages((page) => { location.hash = address({ ...view, ...page }); });
  const node = h("div", { class: "page" },
    h("h1", {}, "Topics"),
    h("section", { class: "panel", "aria-label": "All topics" },
      h("div", { class: "row" }, h("div", { class: "actions" }, h("label", { for: "prefix" }, "Begins with"), prefix), note),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of topics" },
        list),
      turner.node));

  /** Returns the address of a view; the list is also part of the overview. */
  const address = ({ before, ...others }) => `${location.hash.split("?")[0] || "#/"}${query({ ...others, before: before || "" })}`;

  /** Lists the topics with the prefix that the user is typing. Back leads to the page before, not to each letter. */
  function type() {
    const next = { prefix: prefix.value.trim() };
    history.replaceState(history.state, "", address(next));
    go(next);
  }

  /** Shows the list with these parameters. */
  function go({ prefix: beginning = "", cursor = "", before = "0" }) {
    view = { prefix: beginning, cursor, before: Number(before) || 0 };
    if (prefix.value.trim() !== beginning) prefix.value = beginning;
    turner.go(beginning, view);
    show(true);
  }

  async function show(isAsked) {
    const thisRequest = (latestRequest += 1);
    pacer.begin();
    // Screen readers announce the page that the user asked for, and no refresh.
    note.ariaLive = isAsked ? "polite" : "off";
    try {
      const page = await get(`/topics${query({ prefix: view.prefix, limit: LIMIT, cursor: view.cursor })}`);
      if (thisRequest !== latestRequest) return;
      keyed(body, page.topics, ({ topic }) => topic, create, update);
      turner.show(page.topics.length, page.cursor);
      setText(note, describe(page.topics.length, page.cursor));
    } catch (error) {
      if (thisRequest === latestRequest) setText(note, error.message);
    }
    pacer.end();
  }

  function describe(n, cursor) {
    if (n === 0) return "No topic has jobs, defaults or a push, or is paused.";
    return view.before || cursor !== null ? `Topics ${count(view.before + 1)}–${count(view.before + n)}` : counted(n, "topic");
  }

  const create = ({ topic }) =>
    h("tr", {},
      h("th", { scope: "row" }, h("a", { href: topicLink(topic) }, topic), " ", h("span", { class: "badge paused" })),
      STATES.map(([state, name]) => h("td", { "data-label": name }, h("a", { href: topicLink(topic, state) }), h("span"))));

  function update(row, topic) {
    const [head, ...cells] = row.children;
    head.lastChild.hidden = !topic.paused;
    setText(head.lastChild, pausedFor(topic));
    cells.forEach((cell, n) => {
      const [link, none] = cell.children;
      const jobs = topic[STATES[n][0]];
      link.hidden = !(none.hidden = jobs > 0);
      setText(link, count(jobs));
      setText(none, "0");
    });
  }

  go(parameters);
  return { title: "Topics", node, go: (_state, next) => go(next), tick: () => { if (pacer.isDue(PERIOD)) show(); }, changed: () => show() };
}
