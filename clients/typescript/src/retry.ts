import { Refused, Unavailable } from "./errors.js";

const FIRST = 100;
const LAST = 5000;

/** Waits between attempts: 100 ms doubling to 5 s, with full jitter, and at least what the server asks for. */
export class Backoff {
  #limit = FIRST;

  /** @param least milliseconds */
  constructor(private readonly least = 0) {}

  /** Returns milliseconds until the next attempt. */
  next(error: unknown): number {
    const asked = error instanceof Refused ? (error.retryAfter ?? 0) * 1000 : 0;
    const wait = Math.random() * this.#limit;
    this.#limit = Math.min(this.#limit * 2, LAST);
    return Math.max(wait, asked, this.least);
  }

  reset(): void {
    this.#limit = FIRST;
  }
}

/**
 * Whether the same request can be sent again, since its id makes it repeatable: `no` if the failed one was not
 * applied, `unknown` if it may have been; undefined if a repetition cannot help.
 */
export function repeatable(error: unknown): "no" | "unknown" | undefined {
  if (error instanceof Unavailable) return error.applied;
  if (!(error instanceof Refused)) return undefined;
  const { status, applied, code } = error;
  if (applied === "unknown") return status >= 500 && status !== 507 ? "unknown" : undefined;
  return status === 503 || (status === 429 && code !== "topic_full") ? "no" : undefined;
}

/** Waits; ends early, without an error, when the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}

/**
 * Repeats a call until it succeeds, is refused, or `retryFor` milliseconds are over; then throws the last error.
 * `attempt` learns whether an earlier attempt may have been applied.
 */
export async function retrying<T>(retryFor: number, attempt: (mayBeApplied: boolean) => Promise<T>): Promise<T> {
  const end = performance.now() + retryFor;
  const backoff = new Backoff();
  for (let mayBeApplied = false; ;) {
    try {
      return await attempt(mayBeApplied);
    } catch (error) {
      const applied = repeatable(error);
      const wait = backoff.next(error);
      if (!applied || performance.now() + wait > end) throw error;
      mayBeApplied ||= applied === "unknown";
      await sleep(wait);
    }
  }
}
