import { NotAllowed, Refused, UnexpectedAnswer, WorkerStopped } from "../errors.js";
import type { Consumer } from "../interfaces.js";
import { Backoff, sleep } from "../retry.js";
import type { Job } from "../types.js";
import { Acknowledger } from "./acknowledger.js";
import { Execution, type Registration } from "./execution.js";
import type { Settings } from "./options.js";
import { Outage } from "./outage.js";
import { GIVE_BACK } from "./outcome.js";

/** Jobs of one pop at most. */
const MOST_JOBS = 100;
/** Milliseconds in which a pop under way may still bring its jobs when the worker stops. */
const LAST_POP = 100;
/** Age of a pop in milliseconds up to which its answer is probably on its way: usually, and after a full answer. */
const FRESH_POP = 1000;
const FRESH_POP_OF_BACKLOG = 5000;
/** Milliseconds in which cancelled handlers may end before their jobs are given back. */
const LAST_TURN = 1000;
/** Milliseconds after the grace in which acknowledgements that are left are repeated. */
const LAST_ANSWERS = 5000;

/** One run of a worker, from its first pop to the last acknowledgement. */
export class Session {
  readonly #executions = new Set<Execution>();
  readonly #topics: string[];
  /** Aborts the last pop of a worker that stops. */
  readonly #abandoned = new AbortController();
  /** Milliseconds of `performance.now()`. */
  #popSent = 0;
  /** Whether the last answer to a pop had as many jobs as the pop asked for. */
  #hasBacklog = false;
  readonly #outage: Outage;
  readonly #acknowledger: Acknowledger;
  /** Wakes the run when a handler has ended or the worker is stopped. */
  #wake: (() => void) | undefined;

  constructor(
    private readonly queue: Consumer,
    private readonly registrations: ReadonlyMap<string, Registration>,
    private readonly settings: Settings,
    private readonly stopped: AbortSignal,
  ) {
    this.#topics = [...registrations.keys()];
    this.#outage = new Outage(settings.logger);
    this.#acknowledger = new Acknowledger(queue, this.#outage, settings.logger);
  }

  async run(): Promise<void> {
    let lastPop: NodeJS.Timeout | undefined;
    const stopping = new Promise<void>((resolve) => {
      const onStop = (): void => {
        this.#wake?.();
        lastPop = setTimeout(() => this.#abandoned.abort(), this.#patienceForPop());
        resolve();
      };
      this.stopped.addEventListener("abort", onStop, { once: true });
    });
    const popping = this.#popUntilStopped();
    await Promise.race([popping, stopping]);
    const end = performance.now() + this.settings.grace + LAST_ANSWERS;
    await this.#endHandlers();
    await popping;
    clearTimeout(lastPop);
    await this.#acknowledger.close(end - performance.now());
  }

  /**
   * Returns the milliseconds that the last pop of a stopping worker gets. If it were abandoned while its answer arrives,
   * the jobs in the answer would wait for the end of their TTR. So a pop that probably has jobs is left to end by itself.
   */
  #patienceForPop(): number {
    const fresh = this.#hasBacklog ? FRESH_POP_OF_BACKLOG : FRESH_POP;
    return Math.max(LAST_POP, fresh - (performance.now() - this.#popSent));
  }

  async #popUntilStopped(): Promise<void> {
    const backoff = new Backoff(100);
    let isStart = true;
    let hasFailed = false;
    while (!this.#isStopped()) {
      const free = this.settings.concurrency - this.#executions.size;
      if (free <= 0) {
        await new Promise<void>((resolve) => (this.#wake = resolve));
        continue;
      }
      try {
        const count = Math.min(free, MOST_JOBS);
        const jobs = await this.#pop(count, hasFailed);
        isStart = hasFailed = false;
        this.#hasBacklog = jobs.length === count;
        backoff.reset();
        this.#outage.succeeded("pop");
        for (const job of jobs) this.#start(job);
      } catch (error) {
        if (this.#isStopped()) break;
        if (isStart && isMistake(error)) throw error;
        hasFailed = true;
        this.#outage.failed("pop", error);
        await sleep(backoff.next(error), this.stopped);
      }
    }
    this.#outage.abandoned("pop");
  }

  /** After a failure, a pop does not wait, so that its answer shows at once whether the server is back. */
  #pop(count: number, hasFailed: boolean): Promise<Job[]> {
    const { consumer } = this.settings;
    const wait = hasFailed ? 0 : this.settings.wait;
    this.#popSent = performance.now();
    return this.queue.pop({ topics: this.#topics, count, wait, consumer, signal: this.#abandoned.signal });
  }

  #start(job: Job): void {
    const registration = this.registrations.get(job.topic);
    if (this.#isStopped() || !registration) {
      void this.#acknowledger.end(job, GIVE_BACK);
      return;
    }
    const execution = new Execution(job, registration, this.#acknowledger, this.settings.logger);
    this.#executions.add(execution);
    void execution.run().then(() => {
      this.#executions.delete(execution);
      this.#wake?.();
    });
  }

  #isStopped(): boolean {
    return this.stopped.aborted;
  }

  async #endHandlers(): Promise<void> {
    const { grace } = this.settings;
    await this.#handlersEnd(grace);
    const reason = new WorkerStopped(`the worker stops, and its grace of ${grace / 1000} s is over`);
    for (const execution of this.#executions) execution.stop(reason);
    await this.#handlersEnd(LAST_TURN);
    for (const execution of this.#executions) execution.abandon();
  }

  /** Waits until no handler runs, at most for a time in milliseconds. */
  async #handlersEnd(patience: number): Promise<void> {
    const end = performance.now() + patience;
    while (this.#executions.size > 0 && performance.now() < end) {
      const ended = new AbortController();
      this.#wake = () => ended.abort();
      await sleep(end - performance.now(), ended.signal);
    }
  }
}

/** Whether a refused pop shows a mistake of the caller. */
function isMistake(error: unknown): boolean {
  if (error instanceof NotAllowed || error instanceof UnexpectedAnswer) return true;
  return error instanceof Refused && error.status < 500 && error.status !== 429;
}
