import { hostname } from "node:os";

const MOST_CHARACTERS = 64;

/** Makes the name of a consumer, from host and process if it has none, of the characters that the API allows. */
export function consumerName(name: string | undefined): string {
  if (name) return allowed(name).slice(0, MOST_CHARACTERS);
  const suffix = `:${process.pid}`;
  return allowed(hostname()).slice(0, MOST_CHARACTERS - suffix.length) + suffix;
}

function allowed(name: string): string {
  return name.replace(/[^A-Za-z0-9._:@/-]/g, "-");
}
