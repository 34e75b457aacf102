// Chart of delayed jobs by due time, of one topic or of all.

import { get, part, query } from "./api.js";
import { chart } from "./chart.js";
import { choice, h } from "./dom.js";
import { count } from "./format.js";

/** Length of the chart and of its steps, in seconds. */
const SPANS = {
  hour: { ahead: 3600, step: 60, each: "minute" },
  day: { ahead: 86_400, step: 900, each: "quarter of an hour" },
  week: { ahead: 604_800, step: 7200, each: "two hours" },
};

/** Milliseconds between two updates of the chart. */
const PERIOD = 15_000;

async function dueOf(topic, from, { ahead, step }) {
  const range = query({ from: String(from), until: String(from + ahead * 1000), step: `${step}s` });
  return (await get(`/topics/${part(topic)}/due${range}`)).counts;
}

/** Returns the topics with the most delayed jobs, and a note about the other topics: each topic costs a call. */
function largest({ most_delayed: most, jobs }) {
  const left = jobs.delayed - most.reduce((sum, topic) => sum + topic.delayed, 0);
  const note = left > 0 ? ` Counts the ${most.length} topics with the most delayed jobs; the others have ${count(left)} delayed jobs.` : "";
  return { names: most.map((topic) => topic.topic), note };
}

/** Creates the panel; `topic` is null for all topics. */
export function upcoming(topic) {
  let chosen = "hour";
  let requestedAt = 0;
  let latestRequest = 0;
  let overview = null;
  const plot = chart({
    title: "Delayed jobs by due time",
    series: [{ label: "due", color: "accent", kind: "bars", show: count }],
    days: () => chosen !== "hour",
  });
  const spans = choice("How far ahead", [["hour", "Hour"], ["day", "Day"], ["week", "Week"]], chosen, (value) => {
    chosen = value;
    refresh();
  });
  const node = h("section", { class: "panel", "aria-labelledby": "upcoming" },
    h("div", { class: "row" }, h("h2", { id: "upcoming" }, topic === null ? "Upcoming jobs" : "Upcoming jobs of this topic"), spans),
    plot.node);

  async function refresh() {
    if (topic === null && !overview) return;
    requestedAt = Date.now();
    const thisRequest = (latestRequest += 1);
    const { step, ahead, each } = SPANS[chosen];
    const from = Math.floor(Date.now() / (step * 1000)) * step * 1000;
    try {
      const { names, note } = topic === null ? largest(overview) : { names: [topic], note: "" };
      const all = await Promise.all(names.map((name) => dueOf(name, from, SPANS[chosen])));
      if (thisRequest !== latestRequest) return;
      const counts = Array.from({ length: ahead / step }, (_, n) => all.reduce((sum, one) => sum + (one[n] ?? 0), 0));
      const times = counts.map((_, n) => from / 1000 + n * step);
      const total = counts.reduce((sum, n) => sum + n, 0);
      const peak = Math.max(...counts);
      plot.set([times, counts], `${count(total)} due within the next ${chosen}, with a peak of ${count(peak)} per ${each}.${note}`);
    } catch (error) {
      if (thisRequest === latestRequest) plot.fail(`Failed to load: ${error.message}`);
    }
  }

  return {
    node,
    /** `now` is the overview if the panel shows all topics. */
    tick(now) {
      overview = now;
      if (Date.now() - requestedAt > PERIOD) refresh();
    },
    refresh,
    close: plot.close,
  };
}
