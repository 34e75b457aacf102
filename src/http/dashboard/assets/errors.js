// The errors that dead jobs carry: a sample from the topics with the most of them, counted by text.

import { get, part } from "./api.js";
import { h, keyed, setText } from "./dom.js";
import { jobLink, start } from "./format.js";

const TOPICS = 5;
const JOBS = 20;
/** Asked again after so many milliseconds, and sooner if other numbers of jobs are dead. */
const PERIOD = 30_000;
const PERIOD_OF_CHANGES = 4000;

/** The panel. */
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
