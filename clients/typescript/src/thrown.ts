import { type Duration, milliseconds } from "./duration.js";

/** Thrown by a handler: makes the job dead at once, with this reason. */
export class Bury extends Error {
  override name = "Bury";
}

/** Thrown by a handler: gives the job back without counting the attempt. */
export class Snooze extends Error {
  override name = "Snooze";

  /** @param delay until the next attempt: seconds, or text such as `"10m"` */
  constructor(readonly delay: Duration) {
    milliseconds(delay, "delay");
    super(`snoozed for ${typeof delay === "number" ? `${delay} s` : delay}`);
  }
}
