// Charts: uPlot for charts with axes, plain SVG for sparklines. To screen readers a chart is a
// picture, so each has a label in words.

import { h, setText, svg } from "./dom.js";
import { brief } from "./format.js";

const HEIGHT = 180;
/** Allowed steps of an axis of counts: only whole numbers. */
const COUNT_STEPS = Array.from({ length: 30 }, (_, n) => [1, 2, 5][n % 3] * 10 ** Math.floor(n / 3));

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/**
 * Creates a chart over time. `series` are `{ label, color, kind: "bars" | "line" | "area", show }`:
 * `color` names a variable of the style sheet, `show` formats a value. `axis` formats the values of
 * the axis; default: counts. `days` returns whether times are shown with their weekday. `past` is the
 * length of the time axis, which ends now, in seconds; default: the span of the data. `set` takes the
 * times in seconds, one list of values per series, and a description in words.
 */
export function chart({ title, series, axis, days = () => false, past = null }) {
  const container = h("div", { class: "plot", role: "img", "aria-label": title });
  const readout = h("figcaption", { class: "muted" });
  const figure = h("figure", { class: "chart" }, container, readout);
  let plot = null;
  let data = [[], ...series.map(() => [])];
  let summary = "";

  /** Returns the ends of the time axis, with room for the bar of the last step. */
  const range = (_, first, last) => (past ? [Date.now() / 1000 - past, Date.now() / 1000] : [first, last + data[0][1] - data[0][0]]);

  function options() {
    const ticks = { stroke: color("muted"), font: "12px system-ui, sans-serif", grid: { stroke: color("line"), width: 1 }, ticks: { show: false } };
    return {
      width: Math.max(container.clientWidth, 200),
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { x: { time: true, range }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
      axes: [
        { ...ticks, size: 26, grid: { show: false }, values: (_, splits) => labels(splits) },
        { ...ticks, size: 56, values: (_, splits) => splits.map(axis ?? brief), ...(axis ? {} : { incrs: COUNT_STEPS }) },
      ],
      series: [{}, ...series.map(seriesOptions)],
      hooks: { setCursor: [showValues] },
    };
  }

  function seriesOptions({ label, color: name, kind }) {
    const base = { label, stroke: color(name), width: 1.5, points: { show: (_, n) => kind !== "bars" && data[n].length < 3, size: 4 } };
    if (kind === "bars") return { ...base, width: 0, fill: color(name), paths: uPlot.paths.bars({ size: [0.8, 40], align: 1 }) };
    return kind === "area" ? { ...base, fill: `${color(name)}22` } : base;
  }

  function showValues({ cursor: { idx } }) {
    const at = data[0][idx];
    if (at === undefined || at === null) return setText(readout, summary);
    const values = series.map(({ label, show }, n) => `${label} ${show(data[n + 1][idx])}`);
    setText(readout, `${stamp(at, days())}: ${values.join(", ")}`);
  }

  function draw() {
    plot?.destroy();
    plot = null;
    if (container.isConnected && container.clientWidth > 0) plot = new uPlot(options(), data, container);
  }

  const resized = new ResizeObserver(() => {
    if (plot && container.clientWidth > 0) plot.setSize({ width: container.clientWidth, height: HEIGHT });
    else draw();
  });
  resized.observe(container);
  addEventListener("themechange", draw);

  return {
    node: figure,
    set(next, description) {
      data = next;
      summary = description;
      container.setAttribute("aria-label", `${title}. ${description}`);
      if (plot) plot.setData(data);
      else draw();
      if (!container.matches(":hover")) setText(readout, summary);
    },
    /** Shows the reason why the data is not updated. */
    fail(reason) {
      summary = reason;
      setText(readout, summary);
    },
    close() {
      resized.disconnect();
      removeEventListener("themechange", draw);
      plot?.destroy();
    },
  };
}

const pad = (n) => String(n).padStart(2, "0");
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

function stamp(at, days) {
  const date = new Date(at * 1000);
  const minute = `${pad(date.getHours())}:${pad(date.getMinutes())}`;
  return days ? `${DAYS[date.getDay()]} ${minute}` : minute;
}

// Labels midnight with the day: otherwise a week would have seven labels "00:00".
function labels(splits) {
  return splits.map((at) => {
    const date = new Date(at * 1000);
    return date.getHours() === 0 && date.getMinutes() === 0 ? `${DAYS[date.getDay()]} ${date.getDate()}` : stamp(at, false);
  });
}

/** Creates a sparkline: a line above a zero line, without axes, with a label for screen readers. */
export function spark() {
  const zero = svg("path", { d: "M0 19.5H60", class: "zero", "vector-effect": "non-scaling-stroke" });
  const line = svg("polyline", { fill: "none", "stroke-width": "1.5", "vector-effect": "non-scaling-stroke" });
  const node = svg("svg", { class: "spark", viewBox: "0 0 60 20", preserveAspectRatio: "none", role: "img" }, zero, line);
  return {
    node,
    set(values, label) {
      const highest = Math.max(...values, 1);
      const step = 60 / Math.max(values.length - 1, 1);
      const points = values.map((value, n) => `${(n * step).toFixed(1)},${(19 - (value / highest) * 18).toFixed(1)}`);
      line.setAttribute("points", values.length > 1 ? points.join(" ") : "");
      node.setAttribute("aria-label", label);
    },
  };
}
