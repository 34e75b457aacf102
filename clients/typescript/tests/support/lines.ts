import type { Logger } from "../../src/index.js";

/** A logger that keeps its lines, for which tests wait. */
export class Lines implements Logger {
  readonly lines: string[] = [];
  #waiting: (() => void)[] = [];

  info = (line: string): void => this.#add(`info ${line}`);
  warn = (line: string): void => this.#add(`warn ${line}`);
  error = (line: string): void => this.#add(`error ${line}`);

  matching(pattern: RegExp): string[] {
    return this.lines.filter((line) => pattern.test(line));
  }

  /** Waits for a line. */
  async line(pattern: RegExp): Promise<void> {
    while (this.matching(pattern).length === 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #add(line: string): void {
    this.lines.push(line);
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

/** A promise and the function that resolves it. */
export function event<T = void>(): { happened: Promise<T>; happen: (value: T) => void } {
  let happen!: (value: T) => void;
  const happened = new Promise<T>((resolve) => (happen = resolve));
  return { happened, happen };
}
