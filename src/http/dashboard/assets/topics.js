// All topics, by name.

import { get, query } from "./api.js";
import { h, table } from "./dom.js";
import { count, counted, pausedFor, topicLink } from "./format.js";

const LIMIT = 100;
const COLUMNS = ["Topic", "Ready", "Delayed", "Reserved", "Dead", "Finished"];

/** Returns the number of jobs in a state, as a link to them. */
export const jobsOf = (row, state) => (row[state] ? h("a", { href: topicLink(row.topic, state) }, count(row[state])) : "0");

export function topics() {
  let cursors = [null];
  let turn = 0;
  const prefix = h("input", { id: "prefix", type: "search", autocomplete: "off", spellcheck: "false", oninput: first });
  const { node: list, body } = table(COLUMNS);
  const note = h("p", { class: "muted", role: "status" });
  const back = h("button", { type: "button", disabled: true, onclick: () => { cursors.pop(); show(); } }, "Previous");
  const on = h("button", { type: "button", disabled: true, onclick: () => { cursors.push(on.cursor); show(); } }, "Next");
  const node = h("div", { class: "page" },
    h("h1", {}, "Topics"),
    h("section", { class: "panel", "aria-label": "All topics" },
      h("div", { class: "row" }, h("div", { class: "actions" }, h("label", { for: "prefix" }, "Begins with"), prefix), note),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of topics" },
        list),
      h("div", { class: "row end" }, back, on)));

  function first() {
    cursors = [null];
    show();
  }

  async function show() {
    const mine = (turn += 1);
    let page;
    try {
      page = await get(`/topics${query({ prefix: prefix.value.trim(), limit: LIMIT, cursor: cursors.at(-1) })}`);
    } catch (error) {
      note.textContent = error.message;
      return;
    }
    if (mine !== turn) return;
    body.replaceChildren(...page.topics.map(line));
    note.textContent = page.topics.length ? `Page ${cursors.length}, ${counted(page.topics.length, "topic")}` : "No topic has jobs, is paused or has defaults.";
    on.cursor = page.cursor;
    on.disabled = page.cursor === null;
    back.disabled = cursors.length === 1;
  }

  const line = (row) =>
    h("tr", {},
      h("th", { scope: "row" }, h("a", { href: topicLink(row.topic) }, row.topic), row.paused ? [" ", h("span", { class: "badge paused" }, pausedFor(row))] : null),
      ["ready", "delayed", "reserved", "dead", "finished"].map((state, n) => h("td", { "data-label": COLUMNS[n + 1] }, jobsOf(row, state))));

  show();
  return { title: "Topics", node, changed: show };
}
