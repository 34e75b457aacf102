// Calls of the HTTP API, and the curl lines of the same calls.

const TOKEN = "delay-queue token";

/** The server refused. */
export class Refused extends Error {
  constructor(status, problem, scope) {
    super(problem.detail ?? `the server answered ${status}`);
    Object.assign(this, { status, code: problem.code, applied: problem.applied, scope });
  }
}

/** No answer came. */
export class NoAnswer extends Error {}

/** The token, kept for this tab until it is closed. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (text) => sessionStorage.setItem(TOKEN, text),
  forget: () => sessionStorage.removeItem(TOKEN),
};

// Relative to the page, so that it also works behind a proxy that serves it under a path.
const address = (path) => new URL(path.slice(1), document.baseURI).href;

/** Scopes that the token lacks, as refusals told. */
const missing = new Set();

/** Whether the token may have this scope: unknown is yes. */
export const may = (scope) => !missing.has(scope);

/** Forgets what was refused: another token may have it. */
export const hope = () => missing.clear();

async function send(method, path, body, timeout) {
  const headers = {};
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const signal = timeout ? AbortSignal.timeout(timeout) : undefined;
  let answer, text;
  try {
    answer = await fetch(address(path), { method, headers, body, signal, cache: "no-store" });
    text = await answer.text();
  } catch {
    throw new NoAnswer("the server does not answer");
  }
  if (answer.ok) return text;
  let problem = {};
  try { problem = JSON.parse(text); } catch { /* Not from our server: a proxy, say. */ }
  const scope = /scope="([a-z]+)"/.exec(answer.headers.get("WWW-Authenticate") ?? "")?.[1];
  throw new Refused(answer.status, problem, scope);
}

/** Reads: the text of the answer. */
export const read = (path) => send("GET", path, undefined, 20_000);

/** Reads: the answer. */
export const get = async (path) => JSON.parse(await read(path));

/**
 * Changes something: `{ method, path, body, scope }`, the body as JSON text. It has no time limit:
 * a purge of a million jobs takes a while. A refusal for want of a scope hides what needs it.
 */
export async function change({ method, path, body, scope }) {
  try {
    const text = await send(method, path, body);
    return text ? JSON.parse(text) : {};
  } catch (error) {
    if (error.status === 403 && error.code === "forbidden") {
      missing.add(error.scope ?? scope);
      dispatchEvent(new Event("scopes"));
    }
    throw error;
  }
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The same call for a shell. */
export function curl({ method, path, body }) {
  const parts = ["curl"];
  if (method !== "POST" || body === undefined) parts.push("-X", method);
  parts.push(quoted(address(path)));
  if (token.get()) parts.push('-H "Authorization: Bearer $DELAY_QUEUE_TOKEN"');
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", "-d", quoted(body));
  return parts.join(" ");
}

/** A part of a path. */
export const part = encodeURIComponent;

/** A query of those parameters that have a value. */
export function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
