import { Refused } from "../errors.js";
import type { Acknowledged, Acknowledgement, Consumer, Verb } from "../interfaces.js";
import { Backoff, sleep } from "../retry.js";
import type { Outage } from "./outage.js";

/** One acknowledgement that waits for its answer. */
export interface Entry extends Acknowledgement {
  /** Whether an earlier request, whose answer was lost, may have applied it. */
  mayBeApplied: boolean;
  /** Whether its answer still matters. */
  isWanted: () => boolean;
  /** Takes the answer; returns true to send the entry again. */
  settle: (answer: Acknowledged) => boolean;
}

/** Bounds of a request: jobs, and UTF-16 units of results. The server takes 1,000 and 8 MiB. */
const MOST_JOBS = 1000;
const MOST_UNITS = 1 << 20;
/** Least wait before a request is repeated, in milliseconds. */
const LEAST_WAIT = 100;

/**
 * Acknowledgements of one verb. One request is under way at a time, and the next one takes everything that waits when
 * it returns: no job waits for a timer, and under load a request has many. Failed requests are repeated.
 */
export class Lane {
  #waiting: Entry[] = [];
  #mostJobs = MOST_JOBS;
  #draining = false;
  readonly #backoff = new Backoff(LEAST_WAIT);

  constructor(
    private readonly consumer: Consumer,
    private readonly verb: Verb,
    private readonly outage: Outage,
    private readonly closed: AbortSignal,
  ) {}

  add(entry: Entry): void {
    this.#waiting.push(entry);
    if (this.#draining) return;
    this.#draining = true;
    // Handlers that end in the same turn of the event loop share the first request.
    setImmediate(() => void this.#drain());
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0 && !this.closed.aborted) {
      const batch = this.#take();
      if (batch.length === 0) break;
      const failure = await this.#send(batch);
      if (!failure) continue;
      this.outage.failed(this.verb, failure);
      await sleep(this.#backoff.next(failure), this.closed);
    }
    this.#draining = false;
    this.outage.abandoned(this.verb);
  }

  /** Sends a batch; returns why some of it is to be sent again. */
  async #send(batch: Entry[]): Promise<unknown> {
    try {
      const answers = await this.consumer.acknowledge(this.verb, batch, this.closed);
      const again = batch.filter((entry, i) => entry.settle(answers[i]!));
      this.#waiting.unshift(...again);
      const first = again[0] && answers[batch.indexOf(again[0])];
      // A finish that is repeated without its result needs no pause.
      if (first && isTemporary(first)) return new Refused(first);
      this.#backoff.reset();
      this.outage.succeeded(this.verb);
      return undefined;
    } catch (error) {
      return this.#refused(batch, error);
    }
  }

  #refused(batch: Entry[], error: unknown): unknown {
    const isFinal = error instanceof Refused && !isTemporary(error);
    if (isFinal && error.status === 413 && batch.length > 1) {
      this.#mostJobs = batch.length >> 1;
      this.#waiting.unshift(...batch);
      return undefined;
    }
    if (isFinal) {
      const { status, detail, applied, field = "", code = "refused" } = error;
      this.#waiting.unshift(...batch.filter((entry) => entry.settle({ status, code, detail, field, applied })));
      return undefined;
    }
    const mayBeApplied = (error as { applied?: string }).applied !== "no";
    for (const entry of batch) entry.mayBeApplied ||= mayBeApplied;
    this.#waiting.unshift(...batch);
    return error;
  }

  #take(): Entry[] {
    const wanted = this.#waiting.filter((entry) => entry.isWanted());
    let units = 0;
    let count = 0;
    for (const { result } of wanted.slice(0, this.#mostJobs)) {
      units += result?.length ?? 0;
      if (count > 0 && units > MOST_UNITS) break;
      count++;
    }
    this.#waiting = wanted.slice(count);
    return wanted.slice(0, count);
  }
}

/** Whether the same acknowledgement may succeed later. A missing or wrong token may be replaced at the server. */
export function isTemporary({ status, code }: { status: number; code?: string | undefined }): boolean {
  return (status >= 500 && code !== "job_damaged") || [401, 403, 408, 429].includes(status);
}
