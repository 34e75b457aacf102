import {
  DelayQueueError,
  InvalidSignature,
  type Put,
  type PutOptions,
  Refused,
  Unavailable,
  UnexpectedAnswer,
  UsageError,
} from "../../src/index.js";
import { fromWire, toWire } from "../../src/wire.js";

/** Converts a put of the suite, which has the names of the API. */
export function toPut(wire: object): { topic: string; body: unknown; options: PutOptions; put: Put } {
  const { due_at: dueAt, ...rest } = wire as { due_at?: string };
  const put = { ...fromWire(rest), ...(dueAt !== undefined && { dueAt }) } as unknown as Put;
  const { topic, body, ...options } = put;
  return { topic, body, options, put };
}

/** Converts an object of the library to the names of the API. */
export function toWireJob(object: object): object {
  const nested = Object.entries(toWire(object)).map(([name, value]) => {
    const isApi = name === "defaults" || name === "since_start";
    if (name === "history") return [name, (value as object[]).map(toWireJob)];
    return [name, isApi && value ? toWire(value) : value];
  });
  return Object.fromEntries(nested) as object;
}

/** Describes an error to the suite. */
export function problem(error: unknown): object {
  const { message } = error as Error;
  if (error instanceof Refused) {
    const { status, code, field, applied } = error;
    return { kind: "refused", message, status, code, field: field ?? null, applied };
  }
  if (error instanceof Unavailable) return { kind: "unavailable", message, applied: error.applied };
  if (error instanceof UnexpectedAnswer) return { kind: "protocol", message, status: error.status };
  if (error instanceof InvalidSignature) return { kind: "signature", message };
  if (error instanceof UsageError) return { kind: "usage", message };
  const text = error instanceof DelayQueueError ? error.stack : String(error);
  return { kind: "driver", message: text };
}
