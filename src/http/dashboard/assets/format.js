// Numbers, durations and times as people read them.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** 1,234,567 */
export const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));

/** 1.2M, for axes and small places. */
export const brief = (n) => short.format(n);

/** Jobs a second: 0, 0.4, 12, 1,200. */
export function rate(perSecond) {
  if (perSecond === null) return "–";
  if (perSecond === 0) return "0";
  return perSecond < 10 ? perSecond.toFixed(1) : whole.format(Math.round(perSecond));
}

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1000]];

/** A duration in at most two units: 3 ms, 1.5 s, 2 m 10 s, 3 d 4 h. */
export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const first = UNITS.findIndex(([, size]) => ms >= size);
  const [unit, size] = UNITS[first];
  const rest = UNITS[first + 1];
  const second = rest ? Math.floor((ms % size) / rest[1]) : 0;
  return `${Math.floor(ms / size)} ${unit}${second ? ` ${second} ${rest[0]}` : ""}`;
}

/** A duration of the API, which is in seconds. */
export const seconds = (s) => (s === null || s === undefined ? "–" : span(s * 1000));

const two = (n) => String(n).padStart(2, "0");

/** 2026-01-31 12:00:00 in the time zone of the reader. */
export function time(at) {
  const date = new Date(at);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(date)}`;
}

/** 12:00:00 */
export function clock(at) {
  const date = new Date(at);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** How far away a time is: "in 2 m", "5 s ago", "now" within half a second. */
export function away(at, now) {
  const ms = new Date(at) - now;
  if (Math.abs(ms) < 500) return "now";
  return ms >= 0 ? `in ${span(ms)}` : `${span(-ms)} ago`;
}

/** The badge of a paused topic. */
export const pausedFor = ({ paused_until: until }) => (until ? `paused until ${time(until)}` : "paused");

// Controls, and the marks that turn the direction of writing: they would hide or reorder what
// stands beside them.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A text with everything in it visible. */
export const visible = (text) =>
  text.replace(UNSEEN, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** The beginning of a text, on one line. */
export function start(text, length) {
  const cut = text.length > length ? `${text.slice(0, length)}…` : text;
  return visible(cut.replace(/\s+/g, " "));
}

/** Where the page of a topic is, with its jobs of a state. */
export const topicLink = (topic, state) => `#/topic/${encodeURIComponent(topic)}${state ? `/${state}` : ""}`;

/** Where the page of a job is. */
export const jobLink = (id) => `#/job/${encodeURIComponent(id)}`;
