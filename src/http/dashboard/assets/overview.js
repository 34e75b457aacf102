// The overview page: verdict, figures, topics with trouble, due times, lateness and errors.

import { chart } from "./chart.js";
import { upcoming } from "./upcoming.js";
import { h, setText } from "./dom.js";
import { readablePatterns } from "./api.js";
import { errors, lastErrors } from "./errors.js";
import { brief, count, counted, rate, seconds, topicLink } from "./format.js";
import { targets } from "./targets.js";
import { topics } from "./topics.js";
import { trouble } from "./trouble.js";
import { verdict } from "./verdict.js";

/** Maximum number of samples over which rates are computed. */
const MAX_SAMPLES = 6;

/** Samples for rates, kept even while another page is shown. */
const samples = [];

/** Adds a sample. Call it even while another page is shown. */
export function addSample(overview) {
  // A restarted server counts from zero.
  if (samples.length && overview.since_start.popped < samples.at(-1).counted.popped) samples.length = 0;
  samples.push({ at: Date.now(), counted: overview.since_start });
  if (samples.length > MAX_SAMPLES) samples.shift();
}

/** Returns the rate of an event on this server per second; null while there is only one sample. */
function perSecond(name) {
  const [first, last] = [samples[0], samples.at(-1)];
  if (samples.length < 2) return null;
  return Math.max(0, (last.counted[name] - first.counted[name]) / ((last.at - first.at) / 1000));
}

const TILES = [
  ["Due, waiting", (o) => count(o.due_not_delivered), (o) => (o.oldest_ready_age === null ? "none waiting" : `oldest for ${seconds(o.oldest_ready_age)}`)],
  ["Delayed", (o) => count(o.jobs.delayed), (o) => `in ${counted(o.topics, "topic")}`],
  ["Reserved", (o) => count(o.jobs.reserved), (o) => `${brief(o.since_start.timed_out)} TTRs ended since start`],
  ["Dead", (o) => count(o.jobs.dead), () => "kept for inspection"],
  ["Put", () => `${rate(perSecond("put"))}/s`, (o) => `${brief(o.since_start.put)} since start`],
  ["Popped", () => `${rate(perSecond("popped"))}/s`, (o) => `${brief(o.since_start.popped)} since start`],
  ["Finished", () => `${rate(perSecond("finished"))}/s`, (o) => `${brief(o.since_start.finished)} since start, ${brief(o.jobs.finished)} kept`],
  ["Lateness, p99", (o) => seconds(latest(o)?.p99), (o) => (latest(o) ? `p50 ${seconds(latest(o).p50)}, in the last minute` : "no pops in the last minute")],
  ["Servers", (o) => count(Math.max(o.servers, 1)), (o) => `this one: ${o.version}`],
  ["Store", (o) => (o.store.status === "unavailable" ? "down" : o.store.status), (o) => (o.store.reasons.length ? "see above" : o.servers === 0 ? "embedded" : "Redis")],
];

/** Returns the lateness of the latest minute with pops: the current one, or the one before. */
const latest = ({ lateness, as_of: now }) => lateness.filter(({ at, popped }) => popped > 0 && new Date(now) - new Date(at) < 120_000).at(-1);

function tiles() {
  const cells = TILES.map(([label]) => h("div", { class: "tile" }, h("dt", {}, label), h("dd", { class: "figure" }), h("dd", { class: "muted" })));
  return {
    node: h("dl", { class: "tiles", "aria-label": "Figures" }, cells),
    tick(overview) {
      TILES.forEach(([, figure, more], n) => {
        setText(cells[n].children[1], figure(overview));
        setText(cells[n].children[2], more(overview));
      });
    },
  };
}

function lateness() {
  const plot = chart({
    title: "Lateness of this server's pops over the last hour",
    series: [
      { label: "p99", color: "warn", kind: "area", show: seconds },
      { label: "p50", color: "accent", kind: "line", show: seconds },
    ],
    axis: seconds,
    past: 3600,
  });
  const node = h("section", { class: "panel", "aria-labelledby": "lateness" },
    h("div", { class: "row" }, h("h2", { id: "lateness" }, "Lateness, last hour"),
      h("span", { class: "key" }, h("i", { class: "warn" }), "p99 ", h("i", { class: "accent" }), "p50")),
    plot.node);
  return {
    node,
    tick({ lateness: minutes }) {
      const times = minutes.map(({ at }) => new Date(at) / 1000);
      const pops = minutes.reduce((sum, minute) => sum + minute.popped, 0);
      const worst = Math.max(0, ...minutes.map((minute) => minute.p99 ?? 0));
      const words = pops === 0 ? "This server has popped nothing in the last hour." : `From due to popped: p99 at most ${seconds(worst)}, over ${count(pops)} pops of this server.`;
      plot.set([times, minutes.map((minute) => minute.p99), minutes.map((minute) => minute.p50)], words);
    },
    close: plot.close,
  };
}

/** Creates the page for a token that may not read all topics: a list of the topics that it may read. */
function topicsOfToken(parameters) {
  const names = readablePatterns().flatMap((name, n) => [n ? ", " : "", name.endsWith("*") ? name : h("a", { href: topicLink(name) }, name)]);
  const list = topics(parameters);
  list.node.prepend(h("p", { class: "panel" }, "The overview is for tokens that may read all topics. Your token may read: ", names.length ? names : "none", "."));
  return list;
}

export function overview(parameters) {
  const ordered = trouble();
  const parts = [verdict(() => perSecond("popped")), tiles(), ordered, upcoming(null), lateness(), lastErrors(), errors(), targets()];
  const [state, figures, table, due, late, last, failed, pushes] = parts.map(({ node }) => node);
  const node = h("div", { class: "page" },
    h("h1", { class: "hidden" }, "Overview"), state, figures,
    h("div", { class: "columns" }, due, late), table, pushes, h("div", { class: "columns" }, last, failed));
  const both = h("div", {}, node);
  let topicsOnly = null;
  ordered.go(parameters.order);
  return {
    title: "Overview",
    node: both,
    tick(now) {
      if (now === undefined) return;
      node.hidden = !now;
      if (now) {
        for (const one of parts) one.tick?.(now);
      } else if (!topicsOnly) {
        topicsOnly = topicsOfToken(parameters);
        both.append(topicsOnly.node);
      } else {
        topicsOnly.tick();
      }
    },
    go: (state, next) => {
      ordered.go(next.order);
      topicsOnly?.go(state, next);
    },
    lost: () => { for (const one of parts) one.lost?.(); },
    changed: () => { for (const one of [...parts, topicsOnly]) (one?.refresh ?? one?.changed)?.(); },
    close: () => { for (const one of parts) one.close?.(); },
  };
}
