import { JobLost } from "../errors.js";
import type { Logger } from "../logger.js";
import type { Job } from "../types.js";
import type { Acknowledger } from "./acknowledger.js";
import { failed, finished, GIVE_BACK, misfit, type Outcome, textOf } from "./outcome.js";

export interface HandlerContext {
  /** Aborted when the job is lost (`JobLost`) or the worker gives up waiting for its handlers (`WorkerStopped`). */
  readonly signal: AbortSignal;
}

/** Makes its signal when a handler first asks for it: a signal costs more than the rest of a short job. */
export class Cancellation implements HandlerContext {
  #controller: AbortController | undefined;
  #reason: Error | undefined;

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  abort(reason: Error): void {
    this.#reason = reason;
    this.#controller?.abort(reason);
  }
}

/** Does the work of a job. The value that it returns is the job's result, if the job is kept. */
export type Handler<T = unknown> = (job: Job<T>, context: HandlerContext) => unknown;

/** A handler with the function that turns bodies into its type. */
export interface Registration {
  handler: Handler<never>;
  parse: ((body: unknown) => unknown) | undefined;
}

/** Runs the handler of a job and decides how the job ends. Never throws. */
export async function outcomeOf(
  job: Job,
  { handler, parse }: Registration,
  context: HandlerContext,
  logger: Logger,
): Promise<Outcome> {
  if (parse) {
    try {
      job.body = parse(job.body);
    } catch (error) {
      logger.error(`job ${job.id} of ${job.topic} is buried: the body does not fit: ${textOf(error)}`);
      return misfit(error);
    }
  }
  try {
    return finished(job, await handler(job as Job<never>, context), logger);
  } catch (thrown) {
    return failed(thrown);
  }
}

/**
 * One job of a worker, from the pop until its acknowledgement is answered: touches it, and cancels its handler when the
 * job is lost.
 */
export class Execution {
  readonly #cancellation = new Cancellation();
  /** Milliseconds. */
  readonly #ttr: number;
  /** Milliseconds of `performance.now()`. */
  #reservedUntil: number;
  #timer: NodeJS.Timeout | undefined;
  #state: "running" | "stopped" | "ending" | "ended" = "running";

  constructor(
    private readonly job: Job,
    private readonly registration: Registration,
    private readonly acknowledger: Acknowledger,
    private readonly logger: Logger,
  ) {
    this.#ttr = job.ttr * 1000;
    this.#reservedUntil = performance.now() + this.#ttr;
  }

  /** Resolves when the worker is done with the job. */
  async run(): Promise<void> {
    this.#touchLater();
    const outcome = await outcomeOf(this.job, this.registration, this.#cancellation, this.logger);
    if (this.#state === "running") await this.#end(outcome);
    else if (this.#state === "stopped") await this.#end(GIVE_BACK);
  }

  /** Cancels the handler of a worker that stops. Its job is given back as soon as it ends. */
  stop(reason: Error): void {
    if (this.#state !== "running") return;
    this.#state = "stopped";
    this.#cancellation.abort(reason);
  }

  /** Gives the job of a stopped handler back that goes on in spite of its signal. */
  abandon(): void {
    if (this.#state === "stopped") {
      this.logger.warn(
        `the handler of job ${this.job.id} of ${this.job.topic} ignores its signal; the job is given back`,
      );
      void this.#end(GIVE_BACK);
    }
    this.#release();
  }

  async #end(outcome: Outcome): Promise<void> {
    this.#state = "ending";
    await this.acknowledger.end(this.job, outcome);
    this.#release();
  }

  /** Ends the touches. */
  #release(): void {
    this.#state = "ended";
    clearTimeout(this.#timer);
  }

  #touchLater(): void {
    this.#timer = setTimeout(() => void this.#touch(), this.#ttr / 3);
  }

  async #touch(): Promise<void> {
    const sent = performance.now();
    const end = Math.max(0, this.#reservedUntil - sent);
    this.#timer = setTimeout(() => {
      this.#lose("no touch succeeded within its TTR");
    }, end);
    const touched = await this.acknowledger.touch(this.job, () => this.#state !== "ended");
    if (this.#state === "ended") return;
    clearTimeout(this.#timer);
    if (touched === "held") {
      this.#reservedUntil = sent + this.#ttr;
      this.#touchLater();
    } else {
      this.#lose(touched.lost);
    }
  }

  #lose(why: string): void {
    // An acknowledgement under way is repeated until it is answered; its answer says whether the job was lost.
    if (this.#state === "ending") return;
    this.#release();
    const text = `job ${this.job.id} of ${this.job.topic} lost its reservation: ${why}`;
    this.logger.warn(`${text}; its handler is cancelled`);
    this.#cancellation.abort(new JobLost(text));
  }
}
