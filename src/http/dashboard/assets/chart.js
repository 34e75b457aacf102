// Charts: uPlot for those with axes, a few points of SVG for sparklines. A chart is a picture to
// screen readers, so each has a label that tells what it shows.

import { h, setText, svg } from "./dom.js";
import { brief } from "./format.js";

const HEIGHT = 180;
/** Steps of an axis of counts: whole numbers. */
const WHOLE = Array.from({ length: 30 }, (_, n) => [1, 2, 5][n % 3] * 10 ** Math.floor(n / 3));

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/**
 * A chart over time. `series` are `{ label, color, kind: "bars" | "line" | "area", show }`, where
 * `color` names a design token and `show` writes a value. `set` takes the times, in seconds, with
 * one list of values a series, and the whole in words. `days` tells whether a time needs its day;
 * `past` shows as many seconds up to now, also where nothing is known.
 * Without an `axis` that writes them, values are counts.
 */
export function chart({ title, series, axis, days = () => false, past = null }) {
  const place = h("div", { class: "plot", role: "img", "aria-label": title });
  const readout = h("figcaption", { class: "muted" });
  const figure = h("figure", { class: "chart" }, place, readout);
  let plot = null;
  let data = [[], ...series.map(() => [])];
  let words = "";

  /** The bar of the last step has its place, too. */
  const range = (_, first, last) => (past ? [Date.now() / 1000 - past, Date.now() / 1000] : [first, last + data[0][1] - data[0][0]]);

  function options() {
    const ticks = { stroke: color("muted"), font: "12px system-ui, sans-serif", grid: { stroke: color("line"), width: 1 }, ticks: { show: false } };
    return {
      width: Math.max(place.clientWidth, 200),
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { x: { time: true, range }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
      axes: [
        { ...ticks, size: 26, grid: { show: false }, values: (_, splits) => labels(splits) },
        { ...ticks, size: 56, values: (_, splits) => splits.map(axis ?? brief), ...(axis ? {} : { incrs: WHOLE }) },
      ],
      series: [{}, ...series.map(drawn)],
      hooks: { setCursor: [read] },
    };
  }

  function drawn({ label, color: name, kind }) {
    const base = { label, stroke: color(name), width: 1.5, points: { show: (_, n) => kind !== "bars" && data[n].length < 3, size: 4 } };
    if (kind === "bars") return { ...base, width: 0, fill: color(name), paths: uPlot.paths.bars({ size: [0.8, 40], align: 1 }) };
    return kind === "area" ? { ...base, fill: `${color(name)}22` } : base;
  }

  function read({ cursor: { idx } }) {
    const at = data[0][idx];
    if (at === undefined || at === null) return setText(readout, words);
    const values = series.map(({ label, show }, n) => `${label} ${show(data[n + 1][idx])}`);
    setText(readout, `${stamp(at, days())}: ${values.join(", ")}`);
  }

  function draw() {
    plot?.destroy();
    plot = null;
    if (place.isConnected && place.clientWidth > 0) plot = new uPlot(options(), data, place);
  }

  const resized = new ResizeObserver(() => {
    if (plot && place.clientWidth > 0) plot.setSize({ width: place.clientWidth, height: HEIGHT });
    else draw();
  });
  resized.observe(place);
  addEventListener("themechange", draw);

  return {
    node: figure,
    set(next, description) {
      data = next;
      words = description;
      place.setAttribute("aria-label", `${title}. ${description}`);
      if (plot) plot.setData(data);
      else draw();
      if (!place.matches(":hover")) setText(readout, words);
    },
    /** Says why there is nothing newer. */
    fail(reason) {
      words = reason;
      setText(readout, words);
    },
    close() {
      resized.disconnect();
      removeEventListener("themechange", draw);
      plot?.destroy();
    },
  };
}

const two = (n) => String(n).padStart(2, "0");
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

function stamp(at, days) {
  const date = new Date(at * 1000);
  const minute = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return days ? `${DAYS[date.getDay()]} ${minute}` : minute;
}

// Midnight is told as the day, so that a week has seven names and not seven times 00:00.
function labels(splits) {
  return splits.map((at) => {
    const date = new Date(at * 1000);
    return date.getHours() === 0 && date.getMinutes() === 0 ? `${DAYS[date.getDay()]} ${date.getDate()}` : stamp(at, false);
  });
}

/** A line above its zero line, without axes, with its last value in words for those who do not see it. */
export function spark() {
  const zero = svg("path", { d: "M0 19.5H60", class: "zero", "vector-effect": "non-scaling-stroke" });
  const line = svg("polyline", { fill: "none", "stroke-width": "1.5", "vector-effect": "non-scaling-stroke" });
  const node = svg("svg", { class: "spark", viewBox: "0 0 60 20", preserveAspectRatio: "none", role: "img" }, zero, line);
  return {
    node,
    set(values, label) {
      const most = Math.max(...values, 1);
      const step = 60 / Math.max(values.length - 1, 1);
      const points = values.map((value, n) => `${(n * step).toFixed(1)},${(19 - (value / most) * 18).toFixed(1)}`);
      line.setAttribute("points", values.length > 1 ? points.join(" ") : "");
      node.setAttribute("aria-label", label);
    },
  };
}
