// Topics with trouble, each with a sparkline of its due jobs. First come topics whose jobs are late,
// then topics with dead jobs, unless the user chooses another order.

import { query } from "./api.js";
import { spark } from "./chart.js";
import { choice, h, keyed, setText, table } from "./dom.js";
import { relativeTime, count, pausedFor, rate, seconds, topicLink } from "./format.js";

/** Number of polls in a sparkline: two minutes. */
const MAX_POLLS = 60;
/** Number of polls over which rates are computed. */
const RATE_POLLS = 6;

/** The last polls of each topic, kept even while another page is shown. */
const history = new Map();

/** The lists of topics in an overview. */
const LISTS = ["oldest_ready", "most_dead", "most_delayed"];
/** Maximum number of topics in the table. */
const MAX_SHOWN = 20;
/** Number of topics up to which topics without trouble fill the table. */
const MIN_SHOWN = 10;

/** Age of a due job, in seconds, above which consumers do not keep up. */
export const LATE = 10;

const isLate = (topic) => !topic.paused && topic.oldest_ready_age > LATE;

/** Returns the topics of all lists, each once. */
const all = (overview) => [...new Map(LISTS.flatMap((list) => overview[list]).map((topic) => [topic.topic, topic])).values()];

/**
 * Returns late topics, latest first; then topics with dead jobs, most first; then paused topics with
 * due jobs; then the others by name, so that they keep their places.
 */
function worst(overview) {
  const keys = (topic) => [isLate(topic) ? topic.oldest_ready_age : 0, topic.dead, topic.paused ? topic.ready : 0];
  return all(overview).map((topic) => [keys(topic), topic]).sort(([a, one], [b, other]) => {
    const n = a.findIndex((key, n) => key !== b[n]);
    return n < 0 ? (one.topic < other.topic ? -1 : 1) : b[n] - a[n];
  }).slice(0, MAX_SHOWN).filter(([keys], n) => n < MIN_SHOWN || keys.some((key) => key > 0)).map(([, topic]) => topic);
}

/** Adds a poll to the history, and forgets topics that are in no list any more. */
export function recordPoll(overview) {
  const seen = all(overview);
  for (const { topic, ready, since_start: counted } of seen) {
    const polls = history.get(topic) ?? [];
    polls.push({ at: Date.now(), ready, counted });
    if (polls.length > MAX_POLLS) polls.shift();
    history.set(topic, polls);
  }
  const names = new Set(seen.map(({ topic }) => topic));
  for (const name of history.keys()) if (!names.has(name)) history.delete(name);
}

/** Returns the rate of an event of a topic on this server per second; null with fewer than two polls. */
function perSecond(polls, name) {
  const recent = polls.slice(-RATE_POLLS);
  if (recent.length < 2) return null;
  const [first, last] = [recent[0], recent.at(-1)];
  return Math.max(0, ((last.counted[name] - first.counted[name]) * 1000) / (last.at - first.at));
}

/** Returns the pops per second of a topic on this server; null while unknown. */
export const popsOf = (topic) => perSecond(history.get(topic) ?? [], "popped");

const COLUMNS = ["Topic", "Oldest due", "Ready", "Last 2 min", "Put/s", "Popped/s", "Delayed", "Reserved", "Dead", "Next due"];

const ORDERS = [["worst", "Worst first"], ["oldest_ready", "Oldest due"], ["most_dead", "Most dead"], ["most_delayed", "Most delayed"]];

/** Creates the panel. The address holds the order. */
export function trouble() {
  let by = "worst";
  let last = null;
  const { node: list, body } = table(COLUMNS);
  const empty = h("p", { class: "muted", hidden: true }, "No topic to show.");
  const order = choice("Order", ORDERS, by, (value) => { location.hash = `#/${query({ order: value === "worst" ? "" : value })}`; });
  const node = h("section", { class: "panel", "aria-labelledby": "trouble" },
    h("div", { class: "row" }, h("h2", { id: "trouble" }, "Where is the trouble"), order),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Topics with trouble" },
      list),
    empty);

  function create({ topic }) {
    const line = spark();
    const cells = COLUMNS.slice(1).map((name) => h("td", { "data-label": name }));
    cells[2].append(line.node);
    for (const [n, state] of [[1, "ready"], [5, "delayed"], [6, "reserved"], [7, "dead"]]) cells[n].append(h("a", { href: topicLink(topic, state) }));
    const paused = h("span", { class: "badge paused", hidden: true });
    const row = h("tr", {}, h("th", { scope: "row" }, h("a", { href: topicLink(topic) }, topic), " ", paused), cells);
    return Object.assign(row, { line, paused });
  }

  function update(row, topic) {
    const polls = history.get(topic.topic) ?? [];
    const [, oldest, due, , put, popped, delayed, reserved, dead, next] = row.children;
    row.paused.hidden = !topic.paused;
    setText(row.paused, pausedFor(topic));
    setText(oldest, seconds(topic.oldest_ready_age));
    oldest.classList.toggle("late", isLate(topic));
    for (const [cell, n] of [[due, topic.ready], [delayed, topic.delayed], [reserved, topic.reserved], [dead, topic.dead]]) {
      setText(cell.firstChild, count(n));
      cell.firstChild.className = n ? "" : "muted";
    }
    setText(put, rate(perSecond(polls, "put")));
    setText(popped, rate(perSecond(polls, "popped")));
    dead.firstChild.classList.toggle("late", topic.dead > 0);
    setText(next, topic.next_due_at ? relativeTime(topic.next_due_at, new Date(last.as_of)) : "–");
    row.line.set(polls.map((poll) => poll.ready), `Due jobs: from ${count(polls[0]?.ready ?? 0)} to ${count(topic.ready)}`);
  }

  function show(overview) {
    last = overview;
    const shown = by === "worst" ? worst(overview) : overview[by];
    keyed(body, shown, (topic) => topic.topic, create, update);
    empty.hidden = shown.length > 0;
  }

  function go(wanted) {
    by = ORDERS.some(([name]) => name === wanted) ? wanted : "worst";
    order.set(by);
    if (last) show(last);
  }

  return { node, tick: show, go };
}
