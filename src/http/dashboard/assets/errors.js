// The last errors that consumers reported, and the errors of dead jobs: a sample from the topics with
// the most dead jobs, counted by text.

import { get, part } from "./api.js";
import { folded, h, keyed, setText } from "./dom.js";
import { away, count, counted, jobLink, pattern } from "./format.js";

const TOPICS = 5;
const JOBS = 20;
/** Milliseconds between two samples while the number of dead jobs stays the same. */
const PERIOD = 30_000;
/** Milliseconds between two samples while it changes. */
const PERIOD_OF_CHANGES = 4000;

/** Creates a row: first cell, error, note, and a link to a job with the error. */
const create = () => h("li", {}, h("span", { class: "first" }), h("span"), h("span", { class: "muted" }), h("a", { class: "muted" }));

function update(row, first, error, note, { topic, id }) {
  const [start, text, more, link] = row.children;
  setText(start, first);
  // An unfolded error stays: the user is reading it.
  if (row.error !== error && !text.open) {
    row.error = error;
    text.replaceWith(folded(error));
  }
  setText(more, note);
  setText(link, `${topic}: ${id}`);
  link.href = jobLink(id);
}

/** Creates the panel of the last errors that this server received. */
export function lastErrors() {
  const list = h("ul", { class: "errors" });
  const note = h("p", { class: "muted" });
  const node = h("section", { class: "panel", "aria-labelledby": "last-errors" }, h("h2", { id: "last-errors" }, "Last errors"), note, list);

  function tick({ last_errors: all, as_of: now }) {
    setText(note, all.length ? "Given to this server with a release or bury." : "No consumer has given one to this server since it started.");
    keyed(list, all.slice(0, 6), ({ topic, error }) => `${topic} ${pattern(error)}`, create, (row, error) => {
      const { at, state, times } = error;
      update(row, away(at, Math.max(new Date(now), new Date(at))), error.error, `${times > 1 ? `${count(times)} ×, ` : ""}${state}`, error);
    });
  }

  return { node, tick };
}

/** Creates the panel of the errors of dead jobs. */
export function errors() {
  let asked = 0;
  let seen = null;
  const list = h("ul", { class: "errors" });
  const note = h("p", { class: "muted" }, "Asking …");
  const node = h("section", { class: "panel", "aria-labelledby": "errors" }, h("h2", { id: "errors" }, "Errors of dead jobs"), note, list);

  async function refresh(topics) {
    asked = Date.now();
    const pages = await Promise.all(topics.map(({ topic }) => get(`/topics/${part(topic)}/jobs?state=dead&limit=${JOBS}`)));
    const byPattern = new Map();
    for (const job of pages.flatMap((page) => page.jobs)) {
      const text = job.error ?? "no error was given: the TTR expired";
      const found = byPattern.get(pattern(text)) ?? { text, times: 0, job };
      found.times += 1;
      byPattern.set(pattern(text), found);
    }
    const found = [...byPattern.values()].sort((a, b) => b.times - a.times).slice(0, 8);
    const sampled = pages.reduce((sum, page) => sum + page.jobs.length, 0);
    setText(note, sampled === 0 ? "No job is dead." : `A sample of ${counted(sampled, "dead job")}. Errors that differ only in numbers, ids or addresses count as one.`);
    keyed(list, found, (error) => pattern(error.text), create, (row, { text, times, job }) => update(row, `${count(times)} ×`, text, "", job));
  }

  return {
    node,
    tick({ most_dead: dead, jobs }) {
      const since = Date.now() - asked;
      if (since < PERIOD_OF_CHANGES || (since < PERIOD && jobs.dead === seen)) return;
      seen = jobs.dead;
      refresh(dead.filter((topic) => topic.dead > 0).slice(0, TOPICS))
        .catch((error) => setText(note, `Failed to load: ${error.message}`));
    },
    refresh: () => { asked = 0; },
  };
}
