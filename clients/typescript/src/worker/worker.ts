import type { Consumer } from "../interfaces.js";
import type { Job } from "../types.js";
import { Cancellation, type Handler, outcomeOf, type Registration } from "./execution.js";
import { check, type Settings, type TopicOptions, type WorkerOptions } from "./options.js";
import { GIVE_BACK, type Outcome } from "./outcome.js";
import { Session } from "./session.js";

/** Pops the jobs of topics and runs their handlers, until it is stopped. */
export class Worker<T = unknown> {
  readonly #registrations = new Map<string, Registration>();
  readonly #settings: Settings;
  #stopping = new AbortController();
  #isRunning = false;

  /** @throws UsageError that names the wrong option */
  constructor(
    /** Where the jobs come from. */
    readonly queue: Consumer,
    topic: string,
    handler: Handler<T>,
    options: WorkerOptions<T> = {},
  ) {
    this.#settings = check(options as WorkerOptions<never>);
    this.on(topic, handler, options);
  }

  /** Handles another topic too. Jobs of topics that were named earlier come first. */
  on<U>(topic: string, handler: Handler<U>, { parse }: TopicOptions<U> = {}): this {
    this.#registrations.set(topic, { handler: handler, parse });
    return this;
  }

  /** Topics in the order in which they are served. */
  get topics(): string[] {
    return [...this.#registrations.keys()];
  }

  /**
   * Works until `stop` is called or the process gets one of the signals of `stopOn`, and running handlers have ended.
   *
   * @throws NotAllowed, UnexpectedAnswer or Refused if the first pop shows that token, url or topics are wrong
   */
  async run(): Promise<void> {
    if (this.#isRunning) throw new Error("the worker is running already");
    this.#isRunning = true;
    const { stopOn } = this.#settings;
    const stop = (): void => this.stop();
    for (const signal of stopOn) process.on(signal, stop);
    // A second signal ends the process, as it does without a worker.
    const forget = (): void => stopOn.forEach((signal) => process.off(signal, stop));
    this.#stopping.signal.addEventListener("abort", forget, { once: true });
    try {
      await new Session(this.queue, this.#registrations, this.#settings, this.#stopping.signal).run();
    } finally {
      this.stop();
      this.#stopping = new AbortController();
      this.#isRunning = false;
    }
  }

  /** Stops popping. `run` returns when the handlers have ended, soon after the grace at the latest. */
  stop(): void {
    this.#stopping.abort();
  }

  /** Runs the handler of a job and returns how the job is to end, without a call to the queue. For fakes of a queue. */
  async handle(job: Job): Promise<Outcome> {
    const registration = this.#registrations.get(job.topic);
    return registration ? outcomeOf(job, registration, new Cancellation(), this.#settings.logger) : GIVE_BACK;
  }
}
