import { type Duration, milliseconds } from "../duration.js";
import { Refused } from "../errors.js";
import { newId } from "../ids.js";
import type { Acknowledged, Acknowledgement, Cancelled, Consumer, PopRequest, Producer, Verb } from "../interfaces.js";
import type { Job, JobInfo, Put, PutJob, PutOptions, State, Topic, TopicSettings } from "../types.js";
import type { Worker } from "../worker/worker.js";
import { FakeJob } from "./fake-job.js";
import { refused } from "./policy.js";

/** How an attempt ended in a fake. */
export interface Run {
  id: string;
  attempt: number;
  outcome: "finished" | "released" | "buried" | "snoozed";
}

const OUTCOMES = { finish: "finished", release: "released", bury: "buried", touch: "released" } as const;

/**
 * A queue in memory, for tests. Time stands still until `advance`; backoffs have no jitter. It keeps no history, does
 * not pause topics, and has no limits of size.
 */
export class FakeQueue implements Producer, Consumer {
  #now: number;
  readonly #jobs = new Map<string, FakeJob>();
  readonly #settings = new Map<string, TopicSettings>();
  #waiting: (() => void)[] = [];

  constructor({ now = new Date("2026-01-31T12:00:00Z") }: { now?: Date } = {}) {
    this.#now = now.getTime();
  }

  /** Time of the fake's clock. */
  get now(): Date {
    return new Date(this.#now);
  }

  /** Moves the clock: jobs become due, reservations end, retentions pass. */
  advance(duration: Duration): void {
    this.#now += milliseconds(duration, "duration");
    this.#settle();
  }

  /**
   * Runs the worker's handler once for each job that is due, one after another, by priority, then due time. Returns how
   * each attempt ended. Jobs that become due meanwhile wait for the next call.
   */
  async runDue(worker: Pick<Worker, "handle" | "topics">): Promise<Run[]> {
    const runs: Run[] = [];
    for (const fake of this.#due(worker.topics)) {
      if (fake.state !== "ready") continue;
      const job = fake.reserve(this.#now, newId(this.#now));
      const { id, reservation, attempt } = job;
      fake.isHeld = true;
      const { verb, fields, result } = await worker.handle(job);
      fake.isHeld = false;
      const answer = this.#answer(verb, { id, reservation, ...(fields && { fields }), result });
      if (answer.code === "result_not_kept") this.#answer(verb, { id, reservation });
      const isSnooze = fields?.count_attempt === false;
      runs.push({ id, attempt, outcome: isSnooze ? "snoozed" : OUTCOMES[verb] });
    }
    return runs;
  }

  async put(topic: string, body?: unknown, options: PutOptions = {}): Promise<PutJob> {
    const put: Put = { ...options, topic, body };
    const id = put.id ?? newId(this.#now);
    const existing = this.#find(id);
    if (existing && !(put.onConflict && put.onConflict !== "reject" && existing.topic === topic)) {
      const { state } = existing;
      const detail = `a ${state} job of the topic ${existing.topic} has the id ${id} already`;
      throw refused(409, "job_exists", detail, { state, topic: existing.topic });
    }
    if (existing && put.onConflict === "keep") return existing.answer();
    if (existing?.state === "reserved") throw refused(409, "job_reserved", `a consumer holds the job ${id}`);
    const record = new FakeJob(id, put, this.#settings.get(topic) ?? {}, this.#now);
    this.#jobs.set(id, record);
    this.#settle();
    return record.answer();
  }

  putMany(puts: Iterable<Put>): Promise<PromiseSettledResult<PutJob>[]> {
    return Promise.allSettled(Array.from(puts, ({ topic, body, ...options }) => this.put(topic, body, options)));
  }

  /** Does not wait: the clock stands still. */
  async get(id: string): Promise<JobInfo | null> {
    return this.#find(id)?.info() ?? null;
  }

  /** Frees the id at once, whatever `remember` says. */
  async cancel(id: string): Promise<Cancelled | null> {
    const record = this.#find(id);
    if (!record) return null;
    const { state } = record;
    if (state !== "delayed" && state !== "ready") {
      throw refused(409, "wrong_state", `the job ${id} is ${state}, not delayed or ready`, { state });
    }
    this.#jobs.delete(id);
    return { id, state };
  }

  async topic(topic: string): Promise<Topic> {
    const counts: Record<State, number> = { delayed: 0, ready: 0, reserved: 0, dead: 0, finished: 0 };
    for (const record of this.#jobs.values()) if (record.topic === topic) counts[record.state]++;
    const fixed = { paused: false, pausedUntil: null, nextDueAt: null, oldestReadyAge: null };
    return { topic, ...counts, ...fixed, defaults: this.#settings.get(topic) ?? {} };
  }

  setTopic(topic: string, settings: TopicSettings): Promise<Topic> {
    this.#settings.set(topic, settings);
    return this.topic(topic);
  }

  /** Waits for a job by the real clock, until the signal is aborted. */
  async pop({ topics, count, signal }: PopRequest): Promise<Job[]> {
    for (;;) {
      signal.throwIfAborted();
      const jobs = this.#take(topics, count);
      if (jobs.length > 0) return jobs;
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
  }

  async acknowledge(verb: Verb, jobs: Acknowledgement[]): Promise<Acknowledged[]> {
    return jobs.map((job) => this.#answer(verb, job));
  }

  #answer(verb: Verb, job: Acknowledgement): Acknowledged {
    try {
      this.#apply(verb, job);
      return { status: verb === "finish" ? 204 : 200 };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const { status, code = "", detail } = error;
      return { status, code, detail };
    } finally {
      this.#settle();
    }
  }

  #apply(verb: Verb, { id, reservation, fields = {}, result }: Acknowledgement): void {
    const record = this.#find(id);
    if (!record) throw refused(404, "job_not_found", `there is no job ${id}`);
    if (record.reservation !== reservation || (verb === "touch" && record.state !== "reserved")) {
      throw refused(409, "reservation_lost", `the reservation of the job ${id} is not the current one`);
    }
    if (verb === "touch") {
      record.touch(this.#now);
      return;
    }
    if (verb === "finish" && !record.finish(this.#now, result)) this.#jobs.delete(id);
    if (verb === "release") record.release(this.#now, fields);
    if (verb === "bury") record.bury(this.#now, fields.error);
    record.reservation = null;
  }

  #take(topics: string[], count: number): Job[] {
    const due = this.#due(topics).sort((a, b) => topics.indexOf(a.topic) - topics.indexOf(b.topic));
    return due.slice(0, count).map((job) => job.reserve(this.#now, newId(this.#now)));
  }

  #due(topics: string[]): FakeJob[] {
    return [...this.#jobs.values()]
      .filter(({ topic, state }) => state === "ready" && topics.includes(topic))
      .sort((a, b) => b.priority - a.priority || a.dueAt - b.dueAt);
  }

  #find(id: string): FakeJob | undefined {
    return this.#jobs.get(id);
  }

  #settle(): void {
    for (const [id, record] of this.#jobs) if (!record.settle(this.#now)) this.#jobs.delete(id);
    for (const wake of this.#waiting.splice(0)) wake();
  }
}
