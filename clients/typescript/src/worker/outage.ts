import { Refused, Unavailable } from "../errors.js";
import type { Logger } from "../logger.js";
import { isTemporary } from "./lane.js";
import { textOf } from "./outcome.js";

/** Logs the failures of a worker's calls: one line when the server goes, and one when all calls succeed again. */
export class Outage {
  readonly #failing = new Set<string>();
  readonly #refusals = new Set<string>();

  constructor(private readonly logger: Logger) {}

  failed(call: string, error: unknown): void {
    if (!isOutage(error)) {
      this.#refused(call, error);
      return;
    }
    if (this.#failing.size === 0)
      this.logger.warn(`the server is unavailable: ${textOf(error)}; the worker keeps trying`);
    this.#failing.add(call);
  }

  succeeded(call: string): void {
    if (call === "pop") this.#refusals.clear();
    if (this.#failing.delete(call) && this.#failing.size === 0) this.logger.info("the server is available again");
  }

  /** Forgets a call that is not repeated any more. */
  abandoned(call: string): void {
    this.#failing.delete(call);
  }

  /** Logs each refusal once, until a pop succeeds. */
  #refused(call: string, error: unknown): void {
    const text = `a ${call} was refused: ${textOf(error)}; the worker keeps trying`;
    if (!this.#refusals.has(text)) this.logger.error(text);
    this.#refusals.add(text);
  }
}

function isOutage(error: unknown): boolean {
  if (error instanceof Unavailable) return true;
  return error instanceof Refused && error.status !== 401 && error.status !== 403 && isTemporary(error);
}
