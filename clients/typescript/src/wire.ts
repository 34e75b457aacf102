import { UsageError } from "./errors.js";

/** Names and times of the API in the form of this library: `due_at` is `dueAt`, and times are dates. */

const camels = new Map<string, string>();
const snakes = new Map<string, string>();

function cached(names: Map<string, string>, name: string, convert: (name: string) => string): string {
  let converted = names.get(name);
  if (converted === undefined) {
    converted = convert(name);
    // Names come from a fixed set; the limit guards against a caller whose keys are data.
    if (names.size < 1000) names.set(name, converted);
  }
  return converted;
}

const camel = (name: string): string =>
  cached(camels, name, (text) => text.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()));
const snake = (name: string): string =>
  cached(snakes, name, (text) => text.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));

const isTime = (name: string): boolean => name.endsWith("_at") || name.endsWith("_until");

/** Converts an object of the API. Only names of the API are converted, never those of the caller's data. */
export function fromWire(object: object): Record<string, unknown> {
  const converted: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(object) as [string, unknown][]) {
    converted[camel(name)] = typeof value === "string" && isTime(name) ? new Date(value) : nested(name, value);
  }
  return converted;
}

function nested(name: string, value: unknown): unknown {
  if (name === "history" && Array.isArray(value)) return value.map((attempt: object) => fromWire(attempt));
  if ((name === "defaults" || name === "since_start") && typeof value === "object" && value) return fromWire(value);
  return value;
}

/**
 * Converts an object for the API; leaves fields out whose value is undefined.
 *
 * @throws UsageError for a number or date that JSON would turn into null, which the API takes for an absent field
 */
export function toWire(object: object): Record<string, unknown> {
  const converted: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(object) as [string, unknown][]) {
    if (value === undefined) continue;
    if ((typeof value === "number" || value instanceof Date) && !Number.isFinite(Number(value)) && name !== "body") {
      throw new UsageError(
        `${name} is ${String(value)}; it must be a ${typeof value === "number" ? "number" : "time"}`,
      );
    }
    converted[snake(name)] = value;
  }
  return converted;
}
