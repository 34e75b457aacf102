// The last errors that consumers reported, and the errors of dead jobs: a sample from the topics with
// the most dead jobs, counted by text.

import { get, part } from "./api.js";
import { folded, h, keyed, setText } from "./dom.js";
import { relativeTime, count, counted, jobLink, pattern, topicLink } from "./format.js";
import { grouped } from "./groups.js";

const MAX_TOPICS = 5;
const JOBS_PER_TOPIC = 20;
/** Milliseconds between two samples while the number of dead jobs stays the same. */
const PERIOD = 30_000;
/** Milliseconds between two samples while that number changes. */
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

/** Creates the panel of the errors of dead jobs. */
export function errors() {
  let requestedAt = 0;
  let sampledDead = null;
  const list = h("ul", { class: "errors" });
  const note = h("p", { class: "muted" }, "Loading …");
  const node = h("section", { class: "panel", "aria-labelledby": "errors" }, h("h2", { id: "errors" }, "Errors of dead jobs"), note, list);

  async function refresh(topics) {
    requestedAt = Date.now();
    const pages = await Promise.all(topics.map(({ topic }) => get(`/topics/${part(topic)}/jobs?state=dead&limit=${JOBS_PER_TOPIC}`)));
    const found = grouped(pages.flatMap((page) => page.jobs)).slice(0, 8);
    const sampled = pages.reduce((sum, page) => sum + page.jobs.length, 0);
    setText(note, sampled === 0 ? "No job is dead." : `A sample of ${counted(sampled, "dead job")}. Errors that differ only in numbers, ids, addresses or quoted values count as one. To kick or delete them, open the dead jobs of the topic.`);
    keyed(list, found, ({ key }) => key, create, (row, { text, jobs, job }) => update(row, `${count(jobs.length)} ×`, text, "", job, "dead"));
  }

  return {
    node,
    tick({ most_dead: dead, jobs }) {
      const since = Date.now() - requestedAt;
      if (since < PERIOD_DURING_CHANGES || (since < PERIOD && jobs.dead === sampledDead)) return;
      sampledDead = jobs.dead;
      refresh(dead.filter((topic) => topic.dead > 0).slice(0, MAX_TOPICS))
        .catch((error) => setText(note, `Failed to load: ${error.message}`));
    },
    refresh: () => { requestedAt = 0; },
  };
}
