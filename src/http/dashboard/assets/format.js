// Formats numbers, durations and times for people.

import { query } from "./api.js";

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Formats a number: 1,234,567. */
export const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));

/** Formats a number with its noun: 1 job, 2 jobs. */
export const counted = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

/** Formats a number briefly, for axes and small places: 1.2M. */
export const brief = (n) => short.format(n);

/** Formats a rate per second: 0, 0.4, 12, 1,200. */
export function rate(perSecond) {
  if (perSecond === null) return "–";
  if (perSecond === 0) return "0";
  return perSecond < 10 ? perSecond.toFixed(1) : whole.format(Math.round(perSecond));
}

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1000]];

/** Formats a duration in milliseconds, with at most two units: 3 ms, 1.5 s, 2 m 10 s, 3 d 4 h. */
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

/** Formats a duration in seconds, as the API has it. */
export const seconds = (s) => (s === null || s === undefined ? "–" : span(s * 1000));

/** Writes a duration in seconds as the API takes it, without loss: 1d12h, 250ms. */
export function duration(s) {
  let ms = Math.round(s * 1000);
  const parts = [...UNITS, ["ms", 1]].map(([unit, size]) => {
    const n = Math.floor(ms / size);
    ms -= n * size;
    return n ? `${n}${unit}` : "";
  });
  return parts.join("") || "0s";
}

const pad = (n) => String(n).padStart(2, "0");

/** Formats a time in the user's time zone: 2026-01-31 12:00:00 +01:00. */
export function time(at) {
  const date = new Date(at);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(date)}`;
}

/** Formats a time of day in the user's time zone: 12:00:00 +01:00. */
export function clock(at) {
  const date = new Date(at);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())} ${offset(date)}`;
}

/** Formats a time for an input of a local time; empty if there is none. */
export function localInput(at) {
  const date = new Date(at);
  return at && !Number.isNaN(date.getTime()) ? time(date).slice(0, 19).replace(" ", "T") : "";
}

function offset(date) {
  const minutes = Math.abs(date.getTimezoneOffset());
  return `${date.getTimezoneOffset() > 0 ? "-" : "+"}${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`;
}

/** The name of the user's time zone: Europe/Berlin. */
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Formats a time relative to now: "in 2 m", "5 s ago", or "now" within half a second. */
export function relativeTime(at, now) {
  const ms = new Date(at) - now;
  if (Math.abs(ms) < 500) return "now";
  return ms >= 0 ? `in ${span(ms)}` : `${span(-ms)} ago`;
}

/** Returns the text of a paused topic's badge. */
export const pausedFor = ({ paused_until: until }) => (until ? `paused until ${time(until)}` : "paused");

// Control characters and characters without a glyph, and characters that change the direction of
// writing: they would hide or reorder the text around them.
const INVISIBLE = /(?![\t\n])[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{DI}\ufff9-\ufffb]/gu;

function escaped(c) {
  const hex = c.codePointAt(0).toString(16);
  return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, "0")}`;
}

/** Replaces invisible characters with escapes. */
export const visible = (text) => text.replace(INVISIBLE, escaped);

/** Returns the beginning of a text as one line. Of a Python traceback, returns the last line, which names the error. */
export function headline(text, length) {
  const line = text.startsWith("Traceback (most recent call last)") ? text.trim().split("\n").at(-1) : text;
  return visible(line.slice(0, length)).replace(/\s+/g, " ");
}

const QUOTED = /(?<!\w)(?:'[^'\n]*'|"[^"\n]*"|`[^`\n]*`)(?!\w)/g;

/**
 * Removes the parts of an error that differ from job to job: quoted values and, from each word with a digit, the parts
 * that are numbers or hexadecimal. `queue/figures/pattern.rs` does the same.
 */
export const pattern = (text) =>
  text.replace(QUOTED, "#").replace(/[\w.:-]+/g, (word) => (/\d/.test(word) ? `#${word.split(/[\W_]/).filter((part) => !/\d|^[a-f]*$/i.test(part)).join("")}` : word));

/** Returns the address of a topic's page, with its jobs of a state that match these filters. */
export const topicLink = (topic, state, filters = {}) => `#/topic/${encodeURIComponent(topic)}${state ? `/${state}` : ""}${query(filters)}`;

/** Returns the address of a job's page. */
export const jobLink = (id) => `#/job/${encodeURIComponent(id)}`;

/** Returns the address of a schedule's page. */
export const scheduleLink = (name) => `#/schedule/${encodeURIComponent(name)}`;

/** Returns the address of the list of a topic's schedules. */
export const schedulesLink = (topic) => `#/schedules${query({ topic })}`;
