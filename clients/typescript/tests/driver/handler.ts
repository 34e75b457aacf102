import { setTimeout as delay } from "node:timers/promises";
import { Bury, type Handler, type HandlerContext, type Job, Snooze } from "../../src/index.js";

/** Work that the body of a job describes. */
interface Script {
  then?: "finish" | "raise" | "bury" | "snooze" | "unencodable" | "throw";
  value?: unknown;
  text?: string;
  reason?: string;
  delay?: number;
  after?: number;
  gate?: string;
}

/** Named gates at which handlers wait until the suite opens them. */
export class Gates {
  readonly #gates = new Map<string, { opened: Promise<void>; open: () => void }>();

  open(name: string): void {
    this.#gate(name).open();
  }

  passed(name: string): Promise<void> {
    return this.#gate(name).opened;
  }

  #gate(name: string): { opened: Promise<void>; open: () => void } {
    let gate = this.#gates.get(name);
    if (!gate) {
      let open = (): void => undefined;
      const opened = new Promise<void>((resolve) => (open = resolve));
      this.#gates.set(name, (gate = { opened, open }));
    }
    return gate;
  }
}

/** Makes the handler whose work the bodies of jobs describe, and which reports what happens to it. */
export function scripted(gates: Gates, emit: (event: object) => void): Handler {
  return async (job, { signal }) => {
    const { id, topic, attempt, dueAt, traceparent, headers } = job;
    emit({ event: "started", id, topic, attempt, due_at: dueAt, at: Date.now(), traceparent, headers });
    const script = (typeof job.body === "object" && job.body ? job.body : {}) as Script;
    try {
      await waitFor(script, gates, signal);
    } catch (error) {
      emit({ event: "cancelled", id, attempt });
      throw error;
    }
    emit({ event: "ended", id, attempt });
    return act(script);
  };
}

async function waitFor(script: Script, gates: Gates, signal: HandlerContext["signal"]): Promise<void> {
  if (script.after !== undefined) await delay(script.after * 1000, undefined, { signal });
  if (script.gate === undefined) return;
  const cancelled = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
  await Promise.race([gates.passed(script.gate), cancelled]);
}

function act(script: Script): unknown {
  switch (script.then) {
    case "raise":
      throw new Error(script.text);
    case "bury":
      throw new Bury(script.reason);
    case "snooze":
      throw new Snooze(script.delay ?? 0);
    case "unencodable":
      return { amount: 1n };
    case "throw":
      // eslint-disable-next-line @typescript-eslint/only-throw-error -- a handler may throw anything
      throw undefined;
    default:
      return script.then === "finish" ? script.value : undefined;
  }
}

export interface Order {
  order: string;
  amount: number;
}

/** The type of bodies that the suite sends to typed handlers. */
export function parseOrder(body: unknown): Order {
  const { order, amount } = (body ?? {}) as Partial<Record<keyof Order, unknown>>;
  if (typeof order !== "string") throw new TypeError(`order is ${JSON.stringify(order)}; it must be a text`);
  if (!Number.isInteger(amount)) throw new TypeError(`amount is ${JSON.stringify(amount)}; it must be a whole number`);
  return { order, amount: amount as number };
}

/** Reports a typed job; returns nothing. */
export function typed(emit: (event: object) => void): (job: Job<Order>) => void {
  return ({ id, topic, attempt, dueAt }) => {
    emit({ event: "started", id, topic, attempt, due_at: dueAt, at: Date.now() });
    emit({ event: "ended", id, attempt });
  };
}
