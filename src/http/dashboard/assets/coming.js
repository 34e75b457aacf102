// What is coming: delayed jobs by the time when they fall due, of one topic or of all.

import { get, part, query } from "./api.js";
import { chart } from "./chart.js";
import { choice, h } from "./dom.js";
import { count } from "./format.js";

/** How far ahead, and in which steps, in seconds. */
const SPANS = {
  hour: { ahead: 3600, step: 60, each: "minute" },
  day: { ahead: 86_400, step: 900, each: "quarter of an hour" },
  week: { ahead: 604_800, step: 7200, each: "two hours" },
};

/** Topics that are added up for "all": each costs a call. */
const TOPICS = 20;
const LISTED = 1000;
const PERIOD = 15_000;

async function dueOf(topic, from, { ahead, step }) {
  const range = query({ from: String(from), until: String(from + ahead * 1000), step: `${step}s` });
  return (await get(`/topics/${part(topic)}/due${range}`)).counts;
}

/** The topics with the most delayed jobs, and what is left out. */
async function largest() {
  const { topics, cursor } = await get(`/topics?limit=${LISTED}`);
  const delayed = topics.filter((topic) => topic.delayed > 0).sort((a, b) => b.delayed - a.delayed);
  const names = delayed.slice(0, TOPICS).map((topic) => topic.topic);
  const left = delayed.length > TOPICS || cursor !== null;
  const note = left ? ` Only the ${TOPICS} topics with the most delayed jobs${cursor === null ? "" : `, of the first ${count(LISTED)} by name`}.` : "";
  return { names, note };
}

/** The panel; `topic` is null for all. */
export function coming(topic) {
  let chosen = "hour";
  let asked = 0;
  let turn = 0;
  const plot = chart({
    title: "Delayed jobs by due time",
    series: [{ label: "due", color: "accent", kind: "bars", show: count }],
    days: () => chosen !== "hour",
  });
  const spans = choice("How far ahead", [["hour", "Hour"], ["day", "Day"], ["week", "Week"]], chosen, (value) => {
    chosen = value;
    refresh();
  });
  const node = h("section", { class: "panel", "aria-labelledby": "coming" },
    h("div", { class: "row" }, h("h2", { id: "coming" }, topic === null ? "What is coming" : "What is coming in this topic"), spans),
    plot.node);

  async function refresh() {
    asked = Date.now();
    const mine = (turn += 1);
    const { step, ahead, each } = SPANS[chosen];
    const from = Math.floor(Date.now() / (step * 1000)) * step * 1000;
    try {
      const { names, note } = topic === null ? await largest() : { names: [topic], note: "" };
      const all = await Promise.all(names.map((name) => dueOf(name, from, SPANS[chosen])));
      if (mine !== turn) return;
      const counts = Array.from({ length: ahead / step }, (_, n) => all.reduce((sum, one) => sum + (one[n] ?? 0), 0));
      const times = counts.map((_, n) => from / 1000 + n * step);
      const total = counts.reduce((sum, n) => sum + n, 0);
      const peak = Math.max(...counts);
      plot.set([times, counts], `${count(total)} due within the next ${chosen}, at most ${count(peak)} in one ${each}.${note}`);
    } catch (error) {
      if (mine === turn) plot.fail(`Not known: ${error.message}`);
    }
  }

  refresh();
  return {
    node,
    tick: () => { if (Date.now() - asked > PERIOD) refresh(); },
    refresh,
    close: plot.close,
  };
}
