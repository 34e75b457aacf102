// Where is the trouble: topics by the age of their oldest due job or by their dead, each with how
// its due jobs developed over the last polls.

import { spark } from "./chart.js";
import { choice, h, keyed, setText } from "./dom.js";
import { away, count, seconds, topicLink } from "./format.js";

/** Polls of a sparkline: two minutes. */
const POLLS = 60;

/** Due jobs of each topic at the last polls; it outlives the page that shows it. */
const history = new Map();

/** Notes a poll. Topics that are in no list any more are forgotten. */
export function remember({ oldest_ready: oldest, most_dead: dead }) {
  const seen = new Map([...oldest, ...dead].map((topic) => [topic.topic, topic.ready]));
  for (const [topic, ready] of seen) {
    const polls = history.get(topic) ?? [];
    polls.push(ready);
    if (polls.length > POLLS) polls.shift();
    history.set(topic, polls);
  }
  for (const topic of history.keys()) if (!seen.has(topic)) history.delete(topic);
}

const COLUMNS = ["Topic", "Oldest due", "Due", "Last 2 min", "Delayed", "Reserved", "Dead", "Next due"];

/** The panel. */
export function trouble() {
  let by = "oldest_ready";
  let last = null;
  const body = h("tbody");
  const empty = h("p", { class: "muted", hidden: true }, "No topic to show.");
  const order = choice("Order", [["oldest_ready", "Oldest due"], ["most_dead", "Most dead"]], by, (value) => {
    by = value;
    if (last) show(last);
  });
  const node = h("section", { class: "panel", "aria-labelledby": "trouble" },
    h("div", { class: "row" }, h("h2", { id: "trouble" }, "Where is the trouble"), order),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Topics with trouble" },
      h("table", {}, h("thead", {}, h("tr", {}, COLUMNS.map((name) => h("th", { scope: "col" }, name)))), body)),
    empty);

  function create({ topic }) {
    const line = spark();
    const cells = COLUMNS.slice(1).map((_, n) => h("td", { class: n === 2 ? "" : "number" }));
    cells[2].append(line.node);
    const paused = h("span", { class: "badge paused", hidden: true }, "paused");
    const row = h("tr", {}, h("th", { scope: "row" }, h("a", { href: topicLink(topic) }, topic), " ", paused), cells);
    return Object.assign(row, { line, paused });
  }

  function update(row, topic) {
    const [, oldest, due, , delayed, reserved, dead, next] = row.children;
    row.paused.hidden = !topic.paused;
    setText(oldest, seconds(topic.oldest_ready_age));
    oldest.classList.toggle("late", !topic.paused && topic.oldest_ready_age > 10);
    setText(due, count(topic.ready));
    setText(delayed, count(topic.delayed));
    setText(reserved, count(topic.reserved));
    setText(dead, count(topic.dead));
    dead.classList.toggle("late", topic.dead > 0);
    setText(next, topic.next_due_at ? away(topic.next_due_at, new Date(last.as_of)) : "–");
    const polls = history.get(topic.topic) ?? [];
    row.line.set(polls, `Due jobs: from ${count(polls[0] ?? 0)} to ${count(topic.ready)}`);
  }

  function show(overview) {
    last = overview;
    keyed(body, overview[by], (topic) => topic.topic, create, update);
    empty.hidden = overview[by].length > 0;
  }

  return { node, tick: show };
}
