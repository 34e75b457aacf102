import type { Duration } from "./duration.js";

export type State = "delayed" | "ready" | "reserved" | "dead" | "finished";

/** Wait before the next attempt: a list whose last value repeats, or exponential. */
export type Backoff = Duration[] | { initial: Duration; factor?: number; max?: Duration; jitter?: number };

/** Options of a put. Defaults of the topic, then of the server, apply to what is left out. */
export interface PutOptions {
  /** Your own id, `[A-Za-z0-9._:-]{1,128}`, unique in the whole store. Default: the client makes a ULID. */
  id?: string;
  /** How long until the job is due, at most ten years. Default: due at once. */
  delay?: Duration;
  /** When the job is due, instead of `delay`. */
  dueAt?: Date | string;
  /** How long a consumer has for the job until it touches it, 1 s to 24 h. Default: 60 s. */
  ttr?: Duration;
  /** Pops before the job is dead; 0 is no limit. Default: 20. */
  maxAttempts?: number;
  backoff?: Backoff;
  /**
   * What happens if the id is in use. Default: `reject`, with `job_exists`. When the answer to a put was lost, it is
   * repeated with `keep`: a job with your id that another producer put before then counts as yours.
   */
  onConflict?: "reject" | "keep" | "replace";
  /** W3C trace context, for the handler. */
  traceparent?: string;
  /** Text for the consumers of the job: at most 32 pairs, together 8 KiB. */
  headers?: Record<string, string>;
  /** 0 to 9; the larger is popped first. Default: 4. */
  priority?: number;
  /** How long after its due time the job dies if it was not delivered. Default: never. */
  expiresAfter?: Duration;
  /** How long the job and its result are kept after its finish, at most 30 days. Default: 0. */
  finishedRetention?: Duration;
}

/** A put of a batch. */
export interface Put extends PutOptions {
  topic: string;
  body?: unknown;
}

/** The job that a put made or found. */
export interface PutJob {
  id: string;
  topic: string;
  state: State;
  dueAt: Date;
}

/** A job in the hands of a handler. */
export interface Job<T = unknown> {
  id: string;
  topic: string;
  body: T;
  /** Number of this attempt, from 1. */
  attempt: number;
  /** 0 is no limit. */
  maxAttempts: number;
  dueAt: Date;
  createdAt: Date;
  /** Seconds. */
  ttr: number;
  reservation: string;
  /** End of the TTR at the time of the pop; the worker touches the job long before. */
  reservedUntil: Date;
  traceparent?: string;
  headers?: Record<string, string>;
  priority?: number;
  /** Topic in which the job died before it came to this one. */
  deadFrom?: string;
  expiresAt?: Date;
  /** Instant of the schedule that put the job. */
  scheduledAt?: Date;
}

/** One attempt in the history of a job. */
export interface Attempt {
  attempt: number;
  startedAt: Date;
  endedAt: Date | null;
  outcome: "released" | "timed_out" | "buried" | "finished" | null;
  counted?: boolean;
  error?: string;
  consumer?: string;
}

/** A job as `get` returns it. Fields that a token may not see, or that the state does not have, are absent. */
export interface JobInfo {
  id: string;
  topic: string;
  state: State;
  body?: unknown;
  attempt: number;
  maxAttempts: number;
  priority: number;
  dueAt: Date;
  createdAt: Date;
  /** Seconds. */
  ttr: number;
  backoff: Backoff | null;
  reservedUntil: Date | null;
  diedAt: Date | null;
  error?: string | null;
  consumer?: string;
  history?: Attempt[];
  traceparent?: string;
  headers?: Record<string, string>;
  deadFrom?: string;
  expiresAt?: Date;
  expiresAfter?: number;
  finishedRetention?: number;
  finishedAt?: Date;
  outcome?: "finished" | "deleted";
  result?: unknown;
  resultDropped?: boolean;
}

/** Defaults of a topic for jobs that are put from now on. What is left out or null is unset. */
export interface TopicSettings {
  ttr?: Duration | null;
  maxAttempts?: number | null;
  backoff?: Backoff | null;
  deadRetention?: Duration | null;
  finishedRetention?: Duration | null;
  priority?: number | null;
  expiresAfter?: Duration | null;
  /** Topic to which jobs move when they die. */
  deadTo?: string | null;
}

/** A topic with the number of its jobs in each state. */
export interface Topic {
  topic: string;
  delayed: number;
  ready: number;
  reserved: number;
  dead: number;
  finished: number;
  paused: boolean;
  pausedUntil: Date | null;
  nextDueAt: Date | null;
  /** Seconds. */
  oldestReadyAge: number | null;
  push?: boolean;
  defaults: TopicSettings;
  sinceStart?: Record<string, number>;
}
