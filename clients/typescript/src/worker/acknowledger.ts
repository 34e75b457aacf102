import type { Acknowledged, Consumer, Verb } from "../interfaces.js";
import type { Logger } from "../logger.js";
import type { Job } from "../types.js";
import { type Entry, isTemporary, Lane } from "./lane.js";
import type { Outage } from "./outage.js";
import type { Outcome } from "./outcome.js";

/** Result of a touch: the job is held, or why it is not. */
export type Touched = "held" | { lost: string };

/** Sends how jobs end, and touches them, until the server has answered. */
export class Acknowledger {
  readonly #lanes: Record<Verb, Lane>;
  /** Jobs whose end the server has not answered yet. */
  readonly #pending = new Set<Job>();
  readonly #closed = new AbortController();
  readonly #warned = new Set<string>();
  #onAnswer: (() => void) | undefined;

  constructor(
    consumer: Consumer,
    outage: Outage,
    private readonly logger: Logger,
  ) {
    const lane = (verb: Verb): Lane => new Lane(consumer, verb, outage, this.#closed.signal);
    this.#lanes = { finish: lane("finish"), release: lane("release"), bury: lane("bury"), touch: lane("touch") };
  }

  /** Ends the reservation of a job. Resolves when the server has answered. */
  end(job: Job, { verb, fields, result }: Outcome): Promise<void> {
    this.#pending.add(job);
    return new Promise((resolve) => {
      const entry: Entry = {
        id: job.id,
        reservation: job.reservation,
        ...(fields && { fields }),
        result,
        mayBeApplied: false,
        isWanted: () => true,
        settle: (answer) => {
          const again = this.#settle(job, verb, entry, answer);
          if (!again) {
            this.#pending.delete(job);
            this.#onAnswer?.();
            resolve();
          }
          return again;
        },
      };
      this.#lanes[verb].add(entry);
    });
  }

  /** Holds a job for another TTR. Resolves when the server has answered; failed requests are repeated until then. */
  touch({ id, reservation }: Job, isWanted: () => boolean): Promise<Touched> {
    return new Promise((resolve) => {
      const settle = (answer: Acknowledged): boolean => {
        if (isTemporary(answer)) return true;
        resolve(answer.status < 300 ? "held" : { lost: reasonOf(answer) });
        return false;
      };
      this.#lanes.touch.add({ id, reservation, mayBeApplied: false, isWanted, settle });
    });
  }

  /** Waits for all answers, at most for a time in milliseconds; logs the jobs that are left. */
  async close(patience: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, patience);
      this.#onAnswer = () => {
        if (this.#pending.size > 0) return;
        clearTimeout(timer);
        resolve();
      };
      this.#onAnswer();
    });
    this.#closed.abort();
    for (const job of this.#pending) {
      this.logger.error(`${name(job)} is delivered again after its TTR: the worker stopped before the server answered`);
    }
  }

  /** Judges an answer; returns true to send the entry again. */
  #settle(job: Job, verb: Verb, entry: Entry, answer: Acknowledged): boolean {
    const { status, code, field } = answer;
    if (status < 300) return false;
    if (isTemporary(answer)) {
      entry.mayBeApplied ||= answer.applied !== "no";
      return true;
    }
    const refusesResult = code === "result_not_kept" || status === 413 || field?.includes("result");
    if (entry.result !== undefined && refusesResult) {
      entry.result = undefined;
      this.#warnOnce(job, answer);
      return true;
    }
    if (status !== 404 && status !== 409) {
      this.logger.error(`${name(job)} could not be ${PAST[verb]}: ${reasonOf(answer)}`);
    } else if (!entry.mayBeApplied) {
      // If it may be, the request whose answer was lost has ended the reservation.
      this.logger.warn(`${name(job)} lost its reservation before it was ${PAST[verb]}: ${reasonOf(answer)}`);
    }
    return false;
  }

  /** Warns once for each topic and reason: producers decide which jobs are kept, so every job can be concerned. */
  #warnOnce(job: Job, answer: Acknowledged): void {
    const key = `${job.topic} ${answer.code}`;
    if (this.#warned.has(key)) return;
    this.#warned.add(key);
    const once = "further jobs of this topic are not reported";
    this.logger.warn(`${name(job)} is finished without its result: ${reasonOf(answer)}; ${once}`);
  }
}

const PAST: Record<Verb, string> = { finish: "finished", release: "released", bury: "buried", touch: "touched" };

function name({ id, topic }: Job): string {
  return `job ${id} of ${topic}`;
}

function reasonOf({ status, code, detail }: Acknowledged): string {
  return detail ?? `the server answers ${status}${code ? ` ${code}` : ""}`;
}
