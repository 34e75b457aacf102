import { DelayQueueError, type Refusal } from "./errors.js";
import { chunks, type PendingPut } from "./puts.js";

/** One put that waits for its turn, and the call that waits for its result. */
interface Entry {
  put: PendingPut;
  size: number;
  resolve: () => void;
  reject: (error: unknown) => void;
}

/** Requests of puts, each of which is sent once. Results of a batch have the order of its puts. */
export interface PutRequests {
  one: (put: string) => Promise<object>;
  batch: (puts: string[]) => Promise<Refusal[]>;
}

/** Bound of a request, in UTF-16 units. */
const MOST_UNITS = 1 << 20;
/** Statuses of a batch that one of its puts, or their size, may have caused. */
const SPOILT = [400, 413, 422];

/**
 * Puts of concurrent calls. One request is under way at a time, and the next one takes the puts that wait when it
 * returns: no put waits for a timer, and under load a request has many.
 */
export class Gatherer {
  #waiting: Entry[] = [];
  #isSending = false;

  constructor(private readonly requests: PutRequests) {}

  /** Sends a put once. Resolves when the put has its result; rejects if its request failed as a whole. */
  send(put: PendingPut): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ put, size: put.size, resolve, reject });
      if (this.#isSending) return;
      this.#isSending = true;
      void this.#drain();
    });
  }

  async #drain(): Promise<void> {
    for (;;) {
      // Calls of one turn of the event loop share a request, such as those whose puts were answered together.
      await new Promise(setImmediate);
      if (this.#waiting.length === 0) break;
      const [batch = []] = chunks(this.#waiting, MOST_UNITS);
      this.#waiting.splice(0, batch.length);
      if (batch.length > 1 && (await this.#sendTogether(batch))) continue;
      for (const entry of batch) await this.#sendAlone(entry);
    }
    this.#isSending = false;
  }

  /** Returns false if the puts must be sent alone, to find out which of them the server refuses. */
  async #sendTogether(batch: Entry[]): Promise<boolean> {
    try {
      const results = await this.requests.batch(batch.map(({ put }) => put.json));
      batch.forEach(({ put, resolve }, i) => {
        put.settle(withoutPlace(results[i]!, i));
        resolve();
      });
    } catch (error) {
      if (error instanceof DelayQueueError && SPOILT.includes((error as { status?: number }).status ?? 0)) return false;
      for (const { reject } of batch) reject(error);
    }
    return true;
  }

  async #sendAlone({ put, resolve, reject }: Entry): Promise<void> {
    try {
      put.succeed(await this.requests.one(put.json));
      resolve();
    } catch (error) {
      reject(error);
    }
  }
}

/** Returns a result with its field named as for a single put: `delay` instead of `jobs[3].delay`. */
function withoutPlace(result: Refusal, index: number): Refusal {
  const { field, detail } = result;
  const place = `jobs[${index}].`;
  return {
    ...result,
    ...(field !== undefined && { field: field.replace(place, "") }),
    ...(detail !== undefined && { detail: detail.replace(place, "") }),
  };
}
