import { createHmac, timingSafeEqual } from "node:crypto";
import { InvalidSignature, UsageError } from "./errors.js";

/** Headers of a request: those of fetch, or of `node:http`. */
export type RequestHeaders = { get(name: string): string | null } | Record<string, string | string[] | undefined>;

export interface VerifyOptions {
  /** Secrets of the push, `whsec_…`; while a secret is replaced, the old and the new one. */
  secrets: string | string[];
  headers: RequestHeaders;
  /** The bytes as they arrived: JSON that was parsed and written again differs. */
  body: Uint8Array | string;
  /** Default: the clock of this machine. */
  now?: Date;
}

/** Seconds between the clocks of server and receiver, both ways. */
const TOLERANCE = 300;

/**
 * Checks that the server has sent a push, less than five minutes ago. Repetitions have the same `webhook-id`.
 *
 * @throws InvalidSignature for every other request, UsageError if a secret is none
 */
export function verifySignature({ secrets, headers, body, now = new Date() }: VerifyOptions): void {
  const keys = [secrets].flat().map(keyOf);
  if (keys.length === 0) throw new UsageError("secrets is empty; it must have a secret of the push");
  const id = required(headers, "webhook-id");
  const timestamp = required(headers, "webhook-timestamp");
  const signatures = required(headers, "webhook-signature").split(" ");
  if (!/^\d{1,15}$/.test(timestamp)) {
    throw new InvalidSignature(`webhook-timestamp is ${JSON.stringify(timestamp)}; it must be Unix seconds`);
  }
  const age = now.getTime() / 1000 - Number(timestamp);
  if (Math.abs(age) > TOLERANCE) {
    const when = age > 0 ? "old" : "ahead";
    throw new InvalidSignature(
      `webhook-timestamp is ${Math.round(Math.abs(age))} s ${when}; at most ${TOLERANCE} s are allowed`,
    );
  }
  for (const key of keys) {
    const mac = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64");
    const expected = Buffer.from(`v1,${mac}`);
    for (const signature of signatures) {
      const given = Buffer.from(signature);
      if (given.length === expected.length && timingSafeEqual(given, expected)) return;
    }
  }
  throw new InvalidSignature(
    "webhook-signature fits none of the secrets: the body was changed, or another secret signed it",
  );
}

function keyOf(secret: string): Buffer {
  const encoded = secret.startsWith("whsec_") ? secret.slice(6) : "";
  const key = Buffer.from(encoded, "base64");
  const isBase64 = /^[A-Za-z0-9+/]+={0,2}$/.test(encoded);
  if (!isBase64 || key.length < 24 || key.length > 64) {
    throw new UsageError('a secret is not of the form "whsec_" and the base64 of 24 to 64 bytes');
  }
  return key;
}

function required(headers: RequestHeaders, name: string): string {
  const value = find(headers, name);
  if (!value) throw new InvalidSignature(`the request has no ${name}; pushes have it if they have secrets`);
  return value;
}

function find(headers: RequestHeaders, name: string): string | null | undefined {
  if (typeof headers.get === "function") return headers.get(name);
  const fields = Object.entries(headers as Record<string, string | string[] | undefined>);
  const value = fields.find(([key]) => key.toLowerCase() === name)?.[1];
  return Array.isArray(value) ? value[0] : value;
}
