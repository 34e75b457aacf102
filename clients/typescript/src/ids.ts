import { randomBytes } from "node:crypto";

const DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** Makes an id: a ULID, 48 bits of Unix milliseconds and 80 random bits in 26 characters. */
export function newId(now = Date.now()): string {
  let id = "";
  for (let rest = now, i = 0; i < 10; i++) {
    id = DIGITS.charAt(rest % 32) + id;
    rest = Math.floor(rest / 32);
  }
  // Each byte gives one digit of five bits: a byte has 256 = 8 × 32 values, so all digits are equally likely.
  for (const byte of randomBytes(16)) id += DIGITS.charAt(byte % 32);
  return id;
}
