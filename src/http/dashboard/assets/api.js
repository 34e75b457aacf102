// Calls of the HTTP API, and the curl lines of the same calls.

const TOKEN = "delay-queue token";

/** The server refused. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `the server answered ${status}`);
    Object.assign(this, { status, code: problem.code, applied: problem.applied });
  }
}

/** No answer came. */
export class NoAnswer extends Error {}

/** The token, kept for this tab until it is closed. */
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

// Relative to the page, so that it also works behind a proxy that serves it under a path.
const address = (path) => new URL(path.slice(1), document.baseURI).href;

/** The scopes of the token, each with its topics; null until the server has told them. */
let scopes = null;

/** Asks what the token may do. */
export async function learn() {
  ({ scopes } = await get("/access"));
  dispatchEvent(new Event("scopes"));
}

/** Whether that is known. */
export const learned = () => scopes !== null;

const allows = (pattern, topic) => (pattern.endsWith("*") ? topic.startsWith(pattern.slice(0, -1)) : topic === pattern);

/** Whether the token has this scope, for this topic or, without one, for any; no while it is not known. */
export const may = (scope, topic) => Boolean(scopes?.[scope]?.some((pattern) => !topic || allows(pattern, topic)));

/** Whether the token may read all topics. */
export const readsAll = () => Boolean(scopes?.read?.includes("*"));

/** The topics that the token may read, or the beginnings of their names. */
export const readable = () => scopes?.read ?? [];

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
  throw new Refused(answer.status, problem);
}

/** Reads: the text of the answer. */
export const read = (path) => send("GET", path, undefined, 20_000);

/** Reads: the answer. */
export const get = async (path) => JSON.parse(await read(path));

/**
 * Changes something: `{ method, path, body }`, the body as JSON text. It has no time limit:
 * a purge of a million jobs takes a while. After a refusal it is asked anew what the token may do.
 */
export async function change({ method, path, body }) {
  try {
    const text = await send(method, path, body);
    return text ? JSON.parse(text) : {};
  } catch (error) {
    if (error.status === 403 && error.code === "forbidden") {
      learn().catch(() => {});
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
