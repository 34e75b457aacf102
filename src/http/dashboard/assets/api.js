// Calls of the HTTP API, and their curl lines.

const TOKEN = "delay-queue token";

/** A refusal by the server. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `the server answered ${status}`);
    Object.assign(this, { status, code: problem.code, field: problem.field, applied: problem.applied });
  }
}

/** A request without an answer: the server may have made the change. */
export class NoAnswer extends Error {
  applied = "unknown";
}

/** The access token, kept until the tab is closed. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set(text) {
    scopes = null;
    sessionStorage.setItem(TOKEN, text);
  },
  forget() {
    scopes = null;
    sessionStorage.removeItem(TOKEN);
  },
};

// The URL is relative to the page, so that the dashboard works behind a proxy that serves it under a path.
const address = (path) => new URL(path.slice(1), document.baseURI).href;

/** Topics of each scope of the token; null until the server has sent them. */
let scopes = null;

/** Reads the scopes of the token. */
export async function loadScopes() {
  ({ scopes } = await get("/access"));
  dispatchEvent(new Event("scopes"));
}

export const hasScopes = () => scopes !== null;

const allows = (pattern, topic) => (pattern.endsWith("*") ? topic.startsWith(pattern.slice(0, -1)) : topic === pattern);

/** Returns whether the token has this scope for this topic or, without a topic, for any; false until the scopes are known. */
export const may = (scope, topic) => Boolean(scopes?.[scope]?.some((pattern) => !topic || allows(pattern, topic)));

export const canReadAllTopics = () => Boolean(scopes?.read?.includes("*"));

/** Returns the patterns of the topics that the token may read. */
export const readablePatterns = () => scopes?.read ?? [];

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
  try { problem = JSON.parse(text); } catch { /* A proxy may have answered. */ }
  throw new Refused(answer.status, problem);
}

/** Sends a GET and returns the text of the answer. */
export const read = (path) => send("GET", path, undefined, 20_000);

/** Sends a GET and returns the parsed answer. */
export const get = async (path) => JSON.parse(await read(path));

/**
 * Sends a change: `{ method, path, body }`, the body as JSON text. It has no timeout, because a purge
 * of a million jobs takes a while. After a 403, reads the scopes of the token again.
 */
export async function change({ method, path, body }) {
  try {
    const text = await send(method, path, body);
    return text ? JSON.parse(text) : {};
  } catch (error) {
    if (error.status === 403 && error.code === "forbidden") {
      loadScopes().catch(() => {});
    }
    throw error;
  }
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** Returns the curl line of the same call. */
export function curl({ method, path, body }) {
  const parts = ["curl"];
  if (method !== "POST" || body === undefined) parts.push("-X", method);
  parts.push(quoted(address(path)));
  if (token.get()) parts.push('-H "Authorization: Bearer $DELAY_QUEUE_TOKEN"');
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", "-d", quoted(body));
  return parts.join(" ");
}

/** Encodes a segment of a path. */
export const part = encodeURIComponent;

/** Returns a query of the parameters that have a value. */
export function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
