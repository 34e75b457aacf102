// Numbers, durations and times as people read them.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** 1,234,567 */
export const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));

/** 1 job, 2 jobs */
export const counted = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

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

/** Formats a duration of the API, which is in seconds. */
export const seconds = (s) => (s === null || s === undefined ? "–" : span(s * 1000));

const two = (n) => String(n).padStart(2, "0");

/** 2026-01-31 12:00:00 +01:00, in the user's time zone. */
export function time(at) {
  const date = new Date(at);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(date)}`;
}

/** 12:00:00 +01:00 */
export function clock(at) {
  const date = new Date(at);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())} ${offset(date)}`;
}

function offset(date) {
  const minutes = Math.abs(date.getTimezoneOffset());
  return `${date.getTimezoneOffset() > 0 ? "-" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

/** Name of the user's time zone: Europe/Berlin. */
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Distance of a time: "in 2 m", "5 s ago", "now" within half a second. */
export function away(at, now) {
  const ms = new Date(at) - now;
  if (Math.abs(ms) < 500) return "now";
  return ms >= 0 ? `in ${span(ms)}` : `${span(-ms)} ago`;
}

/** Text of a paused topic's badge. */
export const pausedFor = ({ paused_until: until }) => (until ? `paused until ${time(until)}` : "paused");

// Control characters and characters without a glyph, and characters that change the direction of
// writing: they would hide or reorder the text around them.
const UNSEEN = /(?![\t\n])[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{DI}\ufff9-\ufffb]/gu;

function escaped(c) {
  const hex = c.codePointAt(0).toString(16);
  return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, "0")}`;
}

/** Replaces invisible characters with escapes. */
export const visible = (text) => text.replace(UNSEEN, escaped);

/** Returns the beginning of a text on one line; for a Python traceback its last line, which names the error. */
export function headline(text, length) {
  const line = text.startsWith("Traceback (most recent call last)") ? text.trim().split("\n").at(-1) : text;
  return visible(line.slice(0, length)).replace(/\s+/g, " ");
}

/**
 * Removes the parts of an error that differ from job to job: of each word with a digit, only the parts
 * that are neither numbers nor hexadecimal remain. `queue/last_errors.rs` does the same.
 */
export const pattern = (text) =>
  text.replace(/[\w.:-]+/g, (word) => (/\d/.test(word) ? `#${word.split(/[\W_]/).filter((part) => !/\d|^[a-f]*$/i.test(part)).join("")}` : word));

/** Address of a topic's page, with its jobs of a state. */
export const topicLink = (topic, state) => `#/topic/${encodeURIComponent(topic)}${state ? `/${state}` : ""}`;

/** Address of a job's page. */
export const jobLink = (id) => `#/job/${encodeURIComponent(id)}`;
