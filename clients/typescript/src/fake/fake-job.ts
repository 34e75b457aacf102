import { type Duration, milliseconds } from "../duration.js";
import { Refused } from "../errors.js";
import type { Acknowledgement } from "../interfaces.js";
import type { Backoff, Job, JobInfo, Put, PutJob, State, TopicSettings } from "../types.js";

const DAY = 86_400_000;

/** A job of a fake queue, and its transitions. All times are Unix milliseconds of the fake's clock. */
export class FakeJob {
  topic: string;
  state: State;
  dueAt: number;
  reservation: string | null = null;
  reservedUntil = 0;
  /** Whether a handler of `runDue` has the job: a real worker would touch it in time. */
  isHeld = false;
  readonly priority: number;
  #attempt = 0;
  #endedAt = 0;
  #error: string | null = null;
  #deadFrom: string | undefined;
  #result: unknown;
  readonly #body: string;
  readonly #maxAttempts: number;
  readonly #ttr: number;
  readonly #backoff: Backoff | null;
  readonly #retention: number;
  readonly #deadRetention: number;
  #expiresAt: number;
  #deadTo: string | null;

  constructor(
    readonly id: string,
    private readonly put: Put,
    defaults: TopicSettings,
    private readonly createdAt: number,
  ) {
    const { backoff, ttr, expiresAfter } = { ...defaults, ...withoutUndefined(put) };
    const due = put.dueAt === undefined ? createdAt + ms(put.delay ?? 0, "delay") : new Date(put.dueAt).getTime();
    if (Number.isNaN(due)) throw invalid("dueAt", put.dueAt, "a time with an offset");
    if (!/^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$/.test(put.topic))
      throw invalid("topic", put.topic, "1 to 128 of A-Z a-z 0-9 . _ -");
    this.topic = put.topic;
    this.dueAt = Math.max(due, createdAt);
    this.state = this.dueAt > createdAt ? "delayed" : "ready";
    this.priority = put.priority ?? defaults.priority ?? 4;
    this.#body = JSON.stringify(put.body ?? null);
    this.#backoff = backoff ?? null;
    this.#maxAttempts = put.maxAttempts ?? defaults.maxAttempts ?? (Array.isArray(backoff) ? backoff.length + 1 : 20);
    this.#ttr = ms(ttr ?? 60, "ttr");
    if (this.#ttr < 1000 || this.#ttr > DAY) throw invalid("ttr", ttr, "1 s to 24 h");
    this.#retention = ms(put.finishedRetention ?? defaults.finishedRetention ?? 0, "finishedRetention");
    this.#deadRetention = ms(defaults.deadRetention ?? "14d", "deadRetention");
    this.#expiresAt = expiresAfter ? this.dueAt + ms(expiresAfter, "expiresAfter") : Infinity;
    this.#deadTo = defaults.deadTo ?? null;
  }

  /** Carries out what the passing of time does; returns false if the job is gone. */
  settle(now: number): boolean {
    if (this.state === "reserved" && !this.isHeld && this.reservedUntil <= now) this.#endAttempt(this.reservedUntil);
    if (this.#isWaiting() && this.#expiresAt <= now) this.#die(this.#expiresAt, "expired");
    if (this.state === "delayed" && this.dueAt <= now) this.state = "ready";
    if (this.state === "finished") return this.#endedAt + this.#retention > now;
    return this.state !== "dead" || this.#endedAt + this.#deadRetention > now;
  }

  reserve(now: number, reservation: string): Job {
    this.state = "reserved";
    this.reservation = reservation;
    this.reservedUntil = now + this.#ttr;
    this.#attempt++;
    return this.#job();
  }

  /** @returns whether the job stays, as finished */
  finish(now: number, result: string | undefined): boolean {
    if (result !== undefined && this.#retention === 0) {
      throw refused(422, "result_not_kept", "the job is not kept after its finish, so it cannot have a result");
    }
    this.#result = result === undefined ? undefined : JSON.parse(result);
    this.state = "finished";
    this.#endedAt = now;
    return this.#retention > 0;
  }

  release(now: number, { delay, error, count_attempt = true }: NonNullable<Acknowledgement["fields"]>): void {
    this.#error = error ?? null;
    if (!count_attempt) this.#attempt--;
    if (!count_attempt || delay !== undefined) {
      if (count_attempt && this.#isLast()) {
        this.#die(now, this.#error);
        return;
      }
      this.#wait(now, delay === undefined ? this.#backoffAfter() : ms(delay, "delay"));
      return;
    }
    this.#endAttempt(now);
  }

  bury(now: number, error: string | undefined): void {
    this.#die(now, error ?? null);
  }

  touch(now: number): void {
    this.reservedUntil = now + this.#ttr;
  }

  answer(): PutJob {
    return { id: this.id, topic: this.topic, state: this.state, dueAt: new Date(this.dueAt) };
  }

  info(): JobInfo {
    const { reservation: _r, reservedUntil: _u, body, ...job } = this.#job();
    const isFinished = this.state === "finished";
    return {
      ...job,
      state: this.state,
      priority: this.priority,
      backoff: this.#backoff,
      reservedUntil: this.state === "reserved" ? new Date(this.reservedUntil) : null,
      diedAt: this.state === "dead" ? new Date(this.#endedAt) : null,
      error: this.#error,
      ...(this.#retention && { finishedRetention: this.#retention / 1000 }),
      ...(isFinished ? { finishedAt: new Date(this.#endedAt), outcome: "finished" as const } : { body }),
      ...(isFinished && this.#result !== undefined && { result: this.#result }),
    };
  }

  #job(): Job {
    const { traceparent, headers } = this.put;
    return {
      id: this.id,
      topic: this.topic,
      body: JSON.parse(this.#body),
      attempt: this.#attempt,
      maxAttempts: this.#maxAttempts,
      dueAt: new Date(this.dueAt),
      createdAt: new Date(this.createdAt),
      ttr: this.#ttr / 1000,
      reservation: this.reservation ?? "",
      reservedUntil: new Date(this.reservedUntil),
      ...(traceparent !== undefined && { traceparent }),
      ...(headers && { headers }),
      ...(this.priority !== 4 && { priority: this.priority }),
      ...(this.#deadFrom !== undefined && { deadFrom: this.#deadFrom }),
      ...(this.#expiresAt !== Infinity && { expiresAt: new Date(this.#expiresAt) }),
    };
  }

  #isWaiting(): boolean {
    return this.state === "delayed" || this.state === "ready";
  }

  #isLast(): boolean {
    return this.#maxAttempts > 0 && this.#attempt >= this.#maxAttempts;
  }

  #endAttempt(now: number): void {
    if (this.#isLast()) this.#die(now, this.#error);
    else this.#wait(now, this.#backoffAfter());
  }

  #wait(now: number, delay: number): void {
    this.dueAt = now + delay;
    this.state = delay > 0 ? "delayed" : "ready";
    if (this.dueAt >= this.#expiresAt) this.#die(now, "expired");
  }

  /** Milliseconds until the attempt after this one, without jitter. */
  #backoffAfter(): number {
    if (!this.#backoff || this.#attempt === 0) return 0;
    if (Array.isArray(this.#backoff)) {
      return ms(this.#backoff[Math.min(this.#attempt, this.#backoff.length) - 1] ?? 0, "backoff");
    }
    const { initial, factor = 2, max } = this.#backoff;
    const wait = ms(initial, "backoff.initial") * factor ** (this.#attempt - 1);
    return max === undefined ? wait : Math.min(wait, ms(max, "backoff.max"));
  }

  #die(now: number, error: string | null): void {
    this.#error = error;
    this.#endedAt = now;
    this.state = "dead";
    if (this.#deadTo === null) return;
    this.#deadFrom = this.topic;
    this.topic = this.#deadTo;
    [this.#deadTo, this.#expiresAt, this.#attempt] = [null, Infinity, 0];
    [this.dueAt, this.state] = [now, "ready"];
  }
}

export function refused(
  status: number,
  code: string,
  detail: string,
  more: { field?: string; state?: string; topic?: string } = {},
): Refused {
  return new Refused({ status, code, detail, applied: "no", ...more });
}

function invalid(field: string, value: unknown, allowed: string): Refused {
  return refused(422, "invalid_field", `${field} is ${JSON.stringify(value)}; it must be ${allowed}`, { field });
}

function ms(duration: Duration, field: string): number {
  try {
    return milliseconds(duration, field);
  } catch {
    throw invalid(field, duration, 'a number of seconds or text such as "30s" or "1h30m"');
  }
}

function withoutUndefined<T extends object>(object: T): T {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined && value !== null)) as T;
}
