// The last errors that consumers reported, and the errors of the dead jobs in the topics that have most of them.

import { get, part } from "./api.js";
import { folded, h, keyed, setText } from "./dom.js";
import { relativeTime, count, counted, jobLink, pattern, topicLink } from "./format.js";
import { NO_ERROR } from "./groups.js";
import { pace } from "./live.js";

const MAX_TOPICS = 5;
const MAX_ERRORS = 8;
/** Milliseconds between two requests, at least, while the number of dead jobs stays the same or changes. */
const PERIOD = 30_000;
const PERIOD_DURING_CHANGES = 4000;

/** Creates a row: first cell, error, note, and links to the topic and a job with the error. */
const create = () => h("li", {}, h("span", { class: "first" }), h("span"), h("span", { class: "muted" }), h("span", { class: "where muted" }, h("a"), ": ", h("a")));

function update(row, first, error, note, { topic, id }, state) {
  const [start, text, more, where] = row.children;
  const [home, link] = where.children;
  setText(start, first);
  // An unfolded error is not replaced, since the user is reading it.
  if (row.error !== error && !text.open) {
    row.error = error;
    text.replaceWith(folded(error));
  }
  setText(more, note);
  setText(home, topic);
  home.href = topicLink(topic, state);
  setText(link, id);
  link.href = jobLink(id);
}

/** Creates the panel of the last errors that this server received. */
export function lastErrors() {
  const list = h("ul", { class: "errors" });
  const note = h("p", { class: "muted" });
  const node = h("section", { class: "panel", "aria-labelledby": "last-errors" }, h("h2", { id: "last-errors" }, "Last errors"), note, list);

  function tick({ last_errors: all, as_of: now }) {
    setText(note, all.length ? "Reported to this server with a release or bury." : "No consumer has reported an error to this server since it started.");
    keyed(list, all.slice(0, 6), ({ topic, error }) => `${topic} ${pattern(error)}`, create, (row, error) => {
      const { at, state, times } = error;
      update(row, relativeTime(at, Math.max(new Date(now), new Date(at))), error.error, `${times > 1 ? `${count(times)} ×, ` : ""}${state}`, error);
    });
  }

  return { node, tick };
}

/** Returns the key of the row of an error. The shown texts of long errors may be alike; then the order of `all` counts. */
function keyOf(topic, error, all) {
  const shown = (text) => pattern(text ?? NO_ERROR);
  const alike = all.filter((other) => shown(other.error) === shown(error));
  return `${topic} ${shown(error)} ${alike.findIndex((other) => other.error === error)}`;
}

/** Creates the panel of the errors of dead jobs. */
export function errors() {
  let knownDead = null;
  const pacer = pace(20);
  const list = h("ul", { class: "errors" });
  const note = h("p", { class: "muted" }, "Loading …");
  const node = h("section", { class: "panel", "aria-labelledby": "errors" }, h("h2", { id: "errors" }, "Errors of dead jobs"), note, list);

  async function load(topics) {
    pacer.begin();
    try {
      let [found, examined, isPart] = [[], 0, topics.length > MAX_TOPICS];
      for (const { topic } of topics.slice(0, MAX_TOPICS)) {
        const answer = await get(`/topics/${part(topic)}/errors?limit=${MAX_ERRORS}`);
        if (!node.isConnected) return;
        found = found.concat(answer.errors.map((error) => ({ ...error, topic, key: keyOf(topic, error.error, answer.errors) })));
        examined += answer.examined;
        isPart ||= answer.more;
      }
      found.sort((one, other) => other.count - one.count);
      isPart ||= found.length > MAX_ERRORS;
      const some = isPart ? "The most frequent errors of" : "The errors of";
      setText(note, examined === 0 ? "No job is dead." : `${some} ${counted(examined, "dead job")}. Errors that differ only in numbers, ids, addresses or quoted values count as one. To kick or delete the jobs, open the dead jobs of the topic.`);
      keyed(list, found.slice(0, MAX_ERRORS), ({ key }) => key, create, (row, { topic, error, count: times, example }) =>
        update(row, `${count(times)} ×`, error ?? NO_ERROR, "", { topic, id: example }, "dead"));
    } catch (error) {
      setText(note, `Failed to load: ${error.message}`);
    }
    pacer.end();
  }

  return {
    node,
    tick({ most_dead: dead, jobs }) {
      if (!pacer.isDue(jobs.dead === knownDead ? PERIOD : PERIOD_DURING_CHANGES)) return;
      knownDead = jobs.dead;
      load(dead.filter((topic) => topic.dead > 0));
    },
    refresh: () => pacer.want(),
  };
}
