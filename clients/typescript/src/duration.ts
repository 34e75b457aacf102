import { UsageError } from "./errors.js";

/** Seconds, or text with the units `ms s m h d w`, such as `"500ms"` or `"1h30m"`. */
export type Duration = number | string;

const MILLISECONDS: Record<string, number> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/**
 * Returns whole milliseconds, rounded up as the server does.
 *
 * @throws UsageError that calls the value by `name`
 */
export function milliseconds(duration: Duration, name: string): number {
  const total = typeof duration === "number" ? duration * 1000 : parse(duration);
  if (!(total >= 0) || total === Infinity) {
    throw new UsageError(
      `${name} is ${typeof duration === "number" ? duration : JSON.stringify(duration)}; it must be a number of seconds or text such as "30s" or "1h30m"`,
    );
  }
  return Math.ceil(total - 1e-6);
}

function parse(text: string): number {
  if (!/^(\d+(\.\d+)?(ms|[smhdw]))+$/.test(text)) return NaN;
  let total = 0;
  for (const [, count, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhdw])/g)) {
    total += Number(count) * MILLISECONDS[unit!]!;
  }
  return total;
}
