// The dead jobs of a topic by their error, as far as they match the filters of the list. All jobs of a
// group can be kicked or deleted.

import * as bulk from "./bulk.js";
import { SCOPES_BY_ID, button } from "./actions.js";
import { get, part, query } from "./api.js";
import { folded, h, keyed, setText } from "./dom.js";
import { requested } from "./filters.js";
import { count, counted, headline, jobLink, pattern, relativeTime, topicLink } from "./format.js";
import { pace } from "./live.js";

/** Maximum number of jobs that are grouped, and of groups that are shown. */
const MAX_JOBS = 5000;
const MAX_GROUPS = 20;
const JOBS_PER_PAGE = 1000;
/** Maximum number of requests: pages of large jobs, and of few matches, have fewer jobs. */
const MAX_PAGES = 20;
/** Milliseconds between two refreshes, at least, while the number of dead jobs stays the same or changes. */
const PERIOD = 10_000;
const PERIOD_DURING_CHANGES = 3000;

/** The error of a job whose consumers reported none. */
export const NO_ERROR = "no error was reported";

/** Groups jobs by error, the largest group first. */
function grouped(jobs) {
  const byPattern = new Map();
  for (const job of jobs) {
    const text = job.error ?? NO_ERROR;
    const key = pattern(text);
    const group = byPattern.get(key) ?? { key, text, jobs: [], job };
    group.jobs.push(job);
    if (job.died_at > group.job.died_at) group.job = job;
    byPattern.set(key, group);
  }
  return [...byPattern.values()].sort((a, b) => b.jobs.length - a.jobs.length);
}

/** Returns the longest text that all errors of a group contain, for a search; empty if there is none. */
function common({ key, jobs }) {
  const parts = pattern(headline(jobs[0].error ?? "", 200)).split("#").map((text) => text.trim()).filter((text) => text.length > 3);
  return parts.sort((a, b) => b.length - a.length).find((text) => jobs.every(({ error }) => error?.includes(text))) ?? "";
}

/** Creates the panel; `show` takes the view of the list. */
export function groups(topic) {
  let view = null;
  let latestRequest = 0;
  let total = 0;
  let isStale = false;
  const pacer = pace(20);
  const note = h("p", { class: "muted" });
  const list = h("ul", { class: "errors groups" });
  const node = h("section", { class: "panel", hidden: true, "aria-labelledby": "groups" }, h("h2", { id: "groups" }, "Dead jobs by error"), note, list);

  function create() {
    const row = h("li", {}, h("span", { class: "first" }), h("span"), h("span", { class: "where muted" }, h("a"), ", ", h("span")));
    const kick = button("", SCOPES_BY_ID, () => bulk.kickJobs(row.ids, row.error), { topic, class: "small" });
    const remove = button("", SCOPES_BY_ID, () => bulk.deleteJobs(row.ids, "dead", row.error), { topic, class: "small danger" });
    const matching = h("a", {}, "List");
    row.append(h("span", { class: "actions" }, matching, kick, remove));
    return Object.assign(row, { parts: { matching, kick, remove } });
  }

  function update(row, group) {
    const { text, jobs, job } = group;
    const [times, error, more] = row.children;
    const these = `these ${count(jobs.length)}`;
    row.ids = jobs.map(({ id }) => id);
    row.error = text;
    setText(times, `${count(jobs.length)} ×`);
    // An unfolded error is not replaced, since the user is reading it.
    if (error.textContent === "" && !error.open) error.replaceWith(folded(text));
    const [link, died] = more.children;
    link.href = jobLink(job.id);
    setText(link, job.id);
    setText(died, `died ${relativeTime(job.died_at, Date.now())}`);
    const { matching, kick, remove } = row.parts;
    setText(kick, `Kick ${these}`);
    setText(remove, `Delete ${these}`);
    const contained = common(group);
    matching.hidden = !contained || contained === view.error_contains;
    matching.href = topicLink(topic, "dead", { error_contains: contained });
    matching.setAttribute("aria-label", `List jobs with the error ${contained}`);
  }

  /** Reads the dead jobs; `more` says whether there are others. */
  async function fetchJobs() {
    const jobs = [];
    let cursor = null;
    for (let n = 0; n < MAX_PAGES && jobs.length < MAX_JOBS; n += 1) {
      const page = await get(`/topics/${part(topic)}/jobs${query({ ...requested(view), limit: JOBS_PER_PAGE, cursor })}`);
      // The rest of a job may be large.
      for (const { id, error, died_at } of page.jobs) jobs.push({ id, error, died_at });
      cursor = page.cursor;
      if (cursor === null) break;
    }
    return { jobs, more: cursor !== null };
  }

  async function load() {
    const thisRequest = (latestRequest += 1);
    pacer.begin();
    isStale = false;
    try {
      const { jobs, more } = await fetchJobs();
      if (thisRequest !== latestRequest) return;
      const all = grouped(jobs);
      node.hidden = all.length === 0;
      const some = more ? `The first ${counted(jobs.length, "dead job")} of ${count(total)}; there are more` : counted(jobs.length, "dead job");
      const largest = all.length > MAX_GROUPS ? `, of which the ${MAX_GROUPS} largest are shown` : "";
      setText(note, `${some}, in ${counted(all.length, "group")}${largest}. Errors that differ only in numbers, ids, addresses or quoted values are one group.`);
      keyed(list, all.slice(0, MAX_GROUPS), ({ key }) => key, create, update);
    } catch (error) {
      if (thisRequest === latestRequest) setText(note, `Failed to load: ${error.message}`);
    }
    pacer.end();
  }

  return {
    node,
    show(next) {
      if (view && JSON.stringify(requested(view)) === JSON.stringify(requested(next))) return;
      view = next;
      latestRequest += 1;
      node.hidden = true;
      if (view.state === "dead") load();
    },
    tick(dead) {
      isStale ||= total !== dead;
      total = dead;
      if (view?.state === "dead" && pacer.isDue(isStale ? PERIOD_DURING_CHANGES : PERIOD)) load();
    },
    refresh: () => { if (view?.state === "dead") load(); },
  };
}
