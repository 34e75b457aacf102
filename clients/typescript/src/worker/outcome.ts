import type { Acknowledgement, Verb } from "../interfaces.js";
import type { Logger } from "../logger.js";
import { Bury, Snooze } from "../thrown.js";
import type { Job } from "../types.js";

/** Call by which a worker ends its reservation of a job. */
export interface Outcome {
  verb: Verb;
  fields?: NonNullable<Acknowledgement["fields"]>;
  /** Result in JSON. */
  result?: string | undefined;
}

/** Bytes that the API allows for an error. */
const ERROR_BYTES = 4096;

/** Gives a job back, ready at once, as if it had not been popped. */
export const GIVE_BACK: Outcome = { verb: "release", fields: { delay: 0, count_attempt: false } };

/** Finishes a job with what its handler returned; the work is done, so a value that is not JSON is only reported. */
export function finished(job: Job, value: unknown, logger: Logger): Outcome {
  if (value === undefined || value === null) return { verb: "finish" };
  try {
    const result = JSON.stringify(value) as string | undefined;
    if (result !== undefined) return { verb: "finish", result: result === "null" ? undefined : result };
    logger.error(`job ${job.id} of ${job.topic} is finished without a result: ${typeOf(value)} has no form in JSON`);
  } catch (error) {
    const reason = textOf(error);
    logger.error(
      `job ${job.id} of ${job.topic} is finished without a result: ${typeOf(value)} has no form in JSON: ${reason}`,
    );
  }
  return { verb: "finish" };
}

/** Decides by what a handler threw: buries, snoozes, or releases with its text for another attempt. */
export function failed(thrown: unknown): Outcome {
  if (thrown instanceof Bury) return { verb: "bury", fields: { error: cut(thrown.message) } };
  if (thrown instanceof Snooze) return { verb: "release", fields: { delay: thrown.delay, count_attempt: false } };
  return { verb: "release", fields: { error: cut(textOf(thrown)) } };
}

/** Buries a job whose body is not of the declared type. */
export function misfit(thrown: unknown): Outcome {
  return { verb: "bury", fields: { error: cut(`the body does not fit: ${textOf(thrown)}`) } };
}

/** Returns the text of anything that can be thrown. */
export function textOf(thrown: unknown): string {
  try {
    if (thrown instanceof Error) {
      const name = thrown.name === "Error" || !thrown.name ? "" : `${thrown.name}: `;
      return `${name}${thrown.message}` || "an error without a message";
    }
    if (typeof thrown === "string") return thrown || "an empty text was thrown";
    return typeof thrown === "object" && thrown ? JSON.stringify(thrown) : `${String(thrown)} was thrown`;
  } catch {
    return `${typeOf(thrown)} was thrown, which has no text`;
  }
}

function typeOf(value: unknown): string {
  if (typeof value !== "object" || value === null) return `a ${typeof value}`;
  const name = (Object.getPrototypeOf(value) as object | null)?.constructor.name;
  return name ? `an object of type ${name}` : "an object";
}

/** Cuts a text to what the API allows, and replaces halves of surrogate pairs, which the server refuses. */
function cut(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= ERROR_BYTES) return bytes.toString();
  let end = ERROR_BYTES;
  // A byte 10xxxxxx continues a character: cut before its first byte.
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end);
}
