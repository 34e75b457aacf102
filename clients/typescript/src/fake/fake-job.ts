import type { Acknowledgement } from "../interfaces.js";
import type { Job, JobInfo, Put, PutJob, State, TopicSettings } from "../types.js";
import { ms, type Policy, policyOf, refused, waitAfter } from "./policy.js";

/** A job of a fake queue, and its transitions. All times are Unix milliseconds of the fake's clock. */
export class FakeJob {
  topic: string;
  state: State;
  dueAt: number;
  reservation: string | null = null;
  /** Whether a handler of `runDue` has the job: a real worker would touch it in time. */
  isHeld = false;
  readonly #policy: Policy;
  readonly #body: string;
  #attempt = 0;
  #reservedUntil = 0;
  #endedAt = 0;
  #error: string | null = null;
  #deadFrom: string | undefined;
  #result: unknown;

  constructor(
    readonly id: string,
    private readonly put: Put,
    defaults: TopicSettings,
    private readonly createdAt: number,
  ) {
    this.#policy = policyOf(put, defaults, createdAt);
    this.#body = JSON.stringify(put.body ?? null);
    this.topic = put.topic;
    this.dueAt = this.#policy.dueAt;
    this.state = this.dueAt > createdAt ? "delayed" : "ready";
  }

  get priority(): number {
    return this.#policy.priority;
  }

  /** Carries out what the passing of time does; returns false if the job is gone. */
  settle(now: number): boolean {
    if (this.state === "reserved" && !this.isHeld && this.#reservedUntil <= now) this.#endAttempt(this.#reservedUntil);
    const isWaiting = this.state === "delayed" || this.state === "ready";
    // The end of the reservation may have changed the policy.
    const { expiresAt, finishedRetention, deadRetention } = this.#policy;
    if (isWaiting && expiresAt <= now) this.#die(expiresAt, "expired");
    if (this.state === "delayed" && this.dueAt <= now) this.state = "ready";
    if (this.state === "finished") return this.#endedAt + finishedRetention > now;
    return this.state !== "dead" || this.#endedAt + deadRetention > now;
  }

  reserve(now: number, reservation: string): Job {
    this.state = "reserved";
    this.reservation = reservation;
    this.#attempt++;
    this.touch(now);
    return this.#job();
  }

  touch(now: number): void {
    this.#reservedUntil = now + this.#policy.ttr;
  }

  /** Returns whether the job stays, as finished. */
  finish(now: number, result: string | undefined): boolean {
    const isKept = this.#policy.finishedRetention > 0;
    if (result !== undefined && !isKept) {
      throw refused(422, "result_not_kept", "the job is not kept after its finish, so it cannot have a result");
    }
    this.#result = result === undefined ? undefined : JSON.parse(result);
    this.state = "finished";
    this.#endedAt = now;
    return isKept;
  }

  release(now: number, { delay, error, count_attempt = true }: NonNullable<Acknowledgement["fields"]>): void {
    this.#error = error ?? null;
    if (!count_attempt) this.#attempt--;
    if (count_attempt) this.#endAttempt(now, delay === undefined ? undefined : ms(delay, "delay"));
    else this.#wait(now, delay === undefined ? waitAfter(this.#attempt, this.#policy.backoff) : ms(delay, "delay"));
  }

  bury(now: number, error: string | undefined): void {
    this.#die(now, error ?? null);
  }

  answer(): PutJob {
    return { id: this.id, topic: this.topic, state: this.state, dueAt: new Date(this.dueAt) };
  }

  info(): JobInfo {
    const { reservation: _r, reservedUntil: _u, body, ...job } = this.#job();
    const { priority, backoff, finishedRetention } = this.#policy;
    const isFinished = this.state === "finished";
    return {
      ...job,
      state: this.state,
      priority,
      backoff,
      reservedUntil: this.state === "reserved" ? new Date(this.#reservedUntil) : null,
      diedAt: this.state === "dead" ? new Date(this.#endedAt) : null,
      error: this.#error,
      ...(finishedRetention > 0 && { finishedRetention: finishedRetention / 1000 }),
      ...(isFinished ? { finishedAt: new Date(this.#endedAt), outcome: "finished" as const } : { body }),
      ...(isFinished && this.#result !== undefined && { result: this.#result }),
    };
  }

  #job(): Job {
    const { traceparent, headers } = this.put;
    const { maxAttempts, ttr, priority, expiresAt } = this.#policy;
    return {
      id: this.id,
      topic: this.topic,
      body: JSON.parse(this.#body),
      attempt: this.#attempt,
      maxAttempts,
      dueAt: new Date(this.dueAt),
      createdAt: new Date(this.createdAt),
      ttr: ttr / 1000,
      reservation: this.reservation ?? "",
      reservedUntil: new Date(this.#reservedUntil),
      ...(traceparent !== undefined && { traceparent }),
      ...(headers && { headers }),
      ...(priority !== 4 && { priority }),
      ...(this.#deadFrom !== undefined && { deadFrom: this.#deadFrom }),
      ...(expiresAt !== Infinity && { expiresAt: new Date(expiresAt) }),
    };
  }

  #endAttempt(now: number, delay?: number): void {
    const { maxAttempts, backoff } = this.#policy;
    if (maxAttempts > 0 && this.#attempt >= maxAttempts) this.#die(now, this.#error);
    else this.#wait(now, delay ?? waitAfter(this.#attempt, backoff));
  }

  #wait(now: number, delay: number): void {
    this.dueAt = now + delay;
    this.state = delay > 0 ? "delayed" : "ready";
    if (this.dueAt >= this.#policy.expiresAt) this.#die(now, "expired");
  }

  #die(now: number, error: string | null): void {
    this.#error = error;
    this.#endedAt = now;
    this.state = "dead";
    const { deadTo } = this.#policy;
    if (deadTo === null) return;
    this.#deadFrom = this.topic;
    this.topic = deadTo;
    Object.assign(this.#policy, { deadTo: null, expiresAt: Infinity });
    [this.#attempt, this.dueAt, this.state] = [0, now, "ready"];
  }
}
