import { type Duration, milliseconds } from "../duration.js";
import { Refused, type Refusal } from "../errors.js";
import type { Backoff, Put, TopicSettings } from "../types.js";

const DAY = 86_400_000;

/** Rules of a fake job, from its put, then the defaults of its topic, then those of the server. In milliseconds. */
export interface Policy {
  dueAt: number;
  /** Unix milliseconds, or Infinity. */
  expiresAt: number;
  ttr: number;
  maxAttempts: number;
  backoff: Backoff | null;
  priority: number;
  finishedRetention: number;
  deadRetention: number;
  deadTo: string | null;
}

/** @throws Refused with the field that is wrong, as the server does; it does not check every field */
export function policyOf(put: Put, defaults: TopicSettings, now: number): Policy {
  if (!/^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$/.test(put.topic)) {
    throw invalid("topic", put.topic, "1 to 128 of A-Z a-z 0-9 . _ -");
  }
  const due = put.dueAt === undefined ? now + ms(put.delay ?? 0, "delay") : new Date(put.dueAt).getTime();
  if (Number.isNaN(due)) throw invalid("due_at", put.dueAt, "a time with an offset");
  const dueAt = Math.max(due, now);
  const ttr = put.ttr ?? defaults.ttr ?? 60;
  if (ms(ttr, "ttr") < 1000 || ms(ttr, "ttr") > DAY) throw invalid("ttr", ttr, "1 s to 24 h");
  const backoff = put.backoff ?? defaults.backoff ?? null;
  const expiresAfter = put.expiresAfter ?? defaults.expiresAfter;
  return {
    dueAt,
    expiresAt: expiresAfter ? dueAt + ms(expiresAfter, "expires_after") : Infinity,
    ttr: ms(ttr, "ttr"),
    maxAttempts: put.maxAttempts ?? defaults.maxAttempts ?? (Array.isArray(backoff) ? backoff.length + 1 : 20),
    backoff,
    priority: put.priority ?? defaults.priority ?? 4,
    finishedRetention: ms(put.finishedRetention ?? defaults.finishedRetention ?? 0, "finished_retention"),
    deadRetention: ms(defaults.deadRetention ?? "14d", "dead_retention"),
    deadTo: defaults.deadTo ?? null,
  };
}

/** Returns the wait after an attempt in milliseconds, without jitter. */
export function waitAfter(attempt: number, backoff: Backoff | null): number {
  if (!backoff || attempt === 0) return 0;
  if (Array.isArray(backoff)) return ms(backoff[Math.min(attempt, backoff.length) - 1] ?? 0, "backoff");
  const { initial, factor = 2, max } = backoff;
  const wait = ms(initial, "backoff.initial") * factor ** (attempt - 1);
  return max === undefined ? wait : Math.min(wait, ms(max, "backoff.max"));
}

/** Makes a refusal that has changed nothing. */
export function refused(status: number, code: string, detail: string, more: Partial<Refusal> = {}): Refused {
  return new Refused({ status, code, detail, applied: "no", ...more });
}

/** @throws Refused that names the field */
export function ms(duration: Duration, field: string): number {
  try {
    return milliseconds(duration, field);
  } catch {
    throw invalid(field, duration, 'a number of seconds or text such as "30s" or "1h30m"');
  }
}

function invalid(field: string, value: unknown, allowed: string): Refused {
  return refused(422, "invalid_field", `${field} is ${JSON.stringify(value)}; it must be ${allowed}`, { field });
}
