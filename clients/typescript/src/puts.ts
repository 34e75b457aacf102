import { type Refusal, Refused, UsageError } from "./errors.js";
import { newId } from "./ids.js";
import { Backoff, repeatable, sleep } from "./retry.js";
import { refused } from "./transport.js";
import type { Put, PutJob } from "./types.js";
import { fromWire, toWire } from "./wire.js";

/** A put on its way to the server, which can be sent any number of times, since it has an id. */
export class PendingPut {
  result: PromiseSettledResult<PutJob> | undefined;
  /** Last failure. */
  failure: unknown;
  #json = "";
  #repetition = "";
  #mayBeApplied = false;

  constructor(put: Put) {
    const id = put.id ?? newId();
    // After an unknown result, a job that has the id counts as the one of the first attempt.
    const onConflict = !put.onConflict || put.onConflict === "reject" ? "keep" : put.onConflict;
    try {
      this.#json = encode({ ...put, id });
      this.#repetition = encode({ ...put, id, onConflict });
    } catch (error) {
      this.result = { status: "rejected", reason: error };
    }
  }

  /** JSON of the request. */
  get json(): string {
    return this.#mayBeApplied ? this.#repetition : this.#json;
  }

  /** UTF-16 units of the request; close to its bytes. */
  get size(): number {
    return this.#json.length;
  }

  succeed(answer: object): void {
    this.result = { status: "fulfilled", value: fromWire(answer) as unknown as PutJob };
  }

  /** Takes the result from a batch, which is a job or a problem, each with its status. */
  settle(item: Refusal): void {
    const { status, ...job } = item;
    if (status < 300) this.succeed(job);
    else this.fail(refused(item));
  }

  /** Sets the result, unless a repetition may succeed. */
  fail(error: unknown): void {
    const applied = repeatable(error);
    this.failure = error;
    if (applied === "unknown") this.#mayBeApplied = true;
    if (!applied) this.giveUp();
  }

  /** Sets the last failure as the result. */
  giveUp(): void {
    this.result = { status: "rejected", reason: this.failure };
  }
}

function encode(put: Put): string {
  const { body } = put;
  if (typeof body === "function" || typeof body === "symbol") {
    throw new UsageError(`body is a ${typeof body}, which JSON cannot express`);
  }
  try {
    return JSON.stringify(toWire(put));
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`body has a value that JSON cannot express: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * Sends puts until each has a result or `retryFor` milliseconds are over. `send` passes the server's results to the
 * puts, or throws if the whole request failed.
 */
export async function complete(
  puts: PendingPut[],
  retryFor: number,
  send: (puts: PendingPut[]) => Promise<void>,
): Promise<void> {
  const end = performance.now() + retryFor;
  const backoff = new Backoff();
  for (let pending = puts.filter((put) => !put.result); pending.length > 0;) {
    try {
      await send(pending);
    } catch (error) {
      if (error instanceof Refused && error.status === 413 && pending.length > 1) {
        const half = pending.length >> 1;
        await complete(pending.slice(0, half), end - performance.now(), send);
        await complete(pending.slice(half), end - performance.now(), send);
        return;
      }
      for (const put of pending) put.fail(error);
    }
    pending = pending.filter((put) => !put.result);
    const wait = backoff.next(pending[0]?.failure);
    if (performance.now() + wait > end) {
      for (const put of pending) put.giveUp();
      return;
    }
    if (pending.length > 0) await sleep(wait);
  }
}

/** Cuts puts into requests of at most 1,000 jobs and about 4 MiB; the server takes 8 MiB. */
export function* chunks<T extends { size: number }>(puts: T[], mostUnits = 4 << 20): Generator<T[]> {
  let chunk: T[] = [];
  let size = 0;
  for (const put of puts) {
    if (chunk.length === 1000 || (chunk.length > 0 && size + put.size > mostUnits)) {
      yield chunk;
      [chunk, size] = [[], 0];
    }
    chunk.push(put);
    size += put.size;
  }
  if (chunk.length > 0) yield chunk;
}
