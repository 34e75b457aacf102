// What went wrong: the last errors that consumers gave, and those that dead jobs carry, of which a
// sample from the topics with the most of them is counted by text.

import { get, part } from "./api.js";
import { h, keyed, setText } from "./dom.js";
import { away, jobLink, start } from "./format.js";

const TOPICS = 5;
const JOBS = 20;
/** Asked again after so many milliseconds, and sooner if other numbers of jobs are dead. */
const PERIOD = 30_000;
const PERIOD_OF_CHANGES = 4000;

/** The last errors that this server was given. */
export function lastErrors() {
  const list = h("ul", { class: "errors" });
  const note = h("p", { class: "muted" });
  const node = h("section", { class: "panel", "aria-labelledby": "last-errors" }, h("h2", { id: "last-errors" }, "Last errors"), note, list);

  const create = ({ error }) =>
    h("li", {}, h("span", { class: "ago" }), h("span", { class: "text" }, start(error, 300)), h("span", { class: "muted" }), h("a", { class: "muted" }));

  function tick({ last_errors: all, as_of: now }) {
    setText(note, all.length ? "Given to this server with a release or bury." : "No consumer has given one to this server since it started.");
    keyed(list, all.slice(0, 6), ({ topic, error }) => `${topic} ${error}`, create, (row, { at, topic, id, state, times }) => {
      const [when, , often, link] = row.children;
      setText(when, away(at, Math.max(new Date(now), new Date(at))));
      setText(often, `${times > 1 ? `${times} ×, ` : ""}${state}`);
      setText(link, `${topic}: ${id}`);
      link.href = jobLink(id);
    });
  }

  return { node, tick };
}

/** Those of dead jobs. */
export function errors() {
  let asked = 0;
  let seen = null;
  const list = h("ul", { class: "errors" });
  const note = h("p", { class: "muted" }, "Asking …");
  const node = h("section", { class: "panel", "aria-labelledby": "errors" }, h("h2", { id: "errors" }, "Errors of dead jobs"), note, list);

  async function refresh(topics) {
    asked = Date.now();
    const pages = await Promise.all(topics.map(({ topic }) => get(`/topics/${part(topic)}/jobs?state=dead&limit=${JOBS}`)));
    const byText = new Map();
    for (const job of pages.flatMap((page) => page.jobs)) {
      const text = job.error ?? "no error was given: the TTR expired";
      const found = byText.get(text) ?? { text, times: 0, job };
      found.times += 1;
      byText.set(text, found);
    }
    const found = [...byText.values()].sort((a, b) => b.times - a.times).slice(0, 8);
    const sampled = pages.reduce((sum, page) => sum + page.jobs.length, 0);
    setText(note, sampled === 0 ? "No job is dead." : `${sampled} dead jobs looked at, of the topics with the most.`);
    keyed(list, found, (error) => error.text, create, update);
  }

  function create({ text }) {
    return h("li", {}, h("span", { class: "times" }), h("span", { class: "text" }, start(text, 300)), h("a", { class: "muted" }));
  }

  function update(row, { times, job }) {
    setText(row.children[0], `${times} ×`);
    setText(row.children[2], `${job.topic}: ${job.id}`);
    row.children[2].href = jobLink(job.id);
  }

  return {
    node,
    tick({ most_dead: dead, jobs }) {
      const since = Date.now() - asked;
      if (since < PERIOD_OF_CHANGES || (since < PERIOD && jobs.dead === seen)) return;
      seen = jobs.dead;
      refresh(dead.filter((topic) => topic.dead > 0).slice(0, TOPICS))
        .catch((error) => setText(note, `Not known: ${error.message}`));
    },
    refresh: () => { asked = 0; },
  };
}
