import {
  DelayQueueError,
  NotAllowed,
  type Refusal,
  Refused,
  Unavailable,
  UnexpectedAnswer,
  UsageError,
} from "./errors.js";

export interface Request {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Path below `/v1`, with the query. */
  path: string;
  /** JSON. */
  body?: string;
  /** Milliseconds from the request to the end of the answer. */
  timeout: number;
  /** Abandons the request until its answer begins; an answer that has begun is read to its end. */
  signal?: AbortSignal | undefined;
}

/** Failures to connect: the server never saw the request. */
const NOT_SENT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** One server: sends a request once, and turns everything but success into a typed error. */
export class Transport {
  readonly url: string;
  readonly #base: string;
  readonly #headers: Record<string, string>;

  constructor(url: string | URL, token: string | undefined) {
    const parsed = parseUrl(url);
    this.url = parsed.href.replace(/\/+$/, "");
    this.#base = `${this.url}/v1`;
    this.#headers = { accept: "application/json" };
    if (token !== undefined) {
      if (!/^[\x21-\x7e]+$/.test(token)) {
        throw new UsageError(
          "token has a space, a line break or another character that no token has; it begins with dq_",
        );
      }
      this.#headers.authorization = `Bearer ${token}`;
    }
  }

  async send(request: Request): Promise<unknown> {
    request.signal?.throwIfAborted();
    const abort = new AbortController();
    const timer = setTimeout(
      () => abort.abort(new Error(`no answer within ${request.timeout / 1000} s`)),
      request.timeout,
    );
    const abandon = (): void => abort.abort(request.signal?.reason);
    request.signal?.addEventListener("abort", abandon, { once: true });
    try {
      const headers =
        request.body === undefined ? this.#headers : { ...this.#headers, "content-type": "application/json" };
      const response = await fetch(this.#base + request.path, {
        method: request.method,
        headers,
        body: request.body ?? null,
        // A redirected POST would become a GET.
        redirect: "manual",
        signal: abort.signal,
      });
      request.signal?.removeEventListener("abort", abandon);
      const text = await response.text();
      return this.#read(response, text);
    } catch (error) {
      // Before a timeout is reported, the caller's own abort is: it expects its reason.
      if (request.signal?.aborted && abort.signal.reason === request.signal.reason) throw request.signal.reason;
      throw this.#classify(error);
    } finally {
      clearTimeout(timer);
      request.signal?.removeEventListener("abort", abandon);
    }
  }

  #read(response: Response, text: string): unknown {
    const { status } = response;
    if (status === 204) return null;
    const json = parseJson(text);
    if (response.ok && json !== undefined) return json;
    const refusal = json as Partial<Refusal & { request_id: string }> | undefined;
    if (typeof refusal?.code === "string") return this.#refuse(response, refusal);
    const subject = `${this.url} answers ${status}`;
    // A proxy in front of the server, whose upstream may have applied the request.
    if (status >= 500 || status === 429) throw new Unavailable(`${subject} without a reason`, "unknown");
    const location = response.headers.get("location");
    const hint = location ? `it redirects to ${location}` : "that is no answer of a delay-queue server";
    throw new UnexpectedAnswer(`${subject}: ${hint}; set the url to where the server listens`, status);
  }

  #refuse(response: Response, problem: Partial<Refusal & { request_id: string }>): never {
    const { status } = response;
    const seconds = Number(response.headers.get("retry-after") ?? NaN);
    const refusal: Refusal = { ...problem, status };
    if (problem.request_id !== undefined) refusal.requestId = problem.request_id;
    if (seconds >= 0) refusal.retryAfter = seconds;
    throw refused(refusal);
  }

  #classify(error: unknown): Error {
    if (error instanceof DelayQueueError) return error;
    const failure = error as Error & { cause?: Error & { code?: string } };
    const code = failure.cause?.code;
    const reason = [failure.cause?.message, code, failure.message].find(Boolean);
    const applied = code !== undefined && NOT_SENT.has(code) ? "no" : "unknown";
    return new Unavailable(`${this.url} does not answer: ${reason}`, applied, { cause: error });
  }
}

/** Returns the error of a refusal. */
export function refused(refusal: Refusal): Refused {
  return refusal.status === 401 || refusal.status === 403 ? new NotAllowed(refusal) : new Refused(refusal);
}

function parseUrl(url: string | URL): URL {
  let parsed: URL | undefined;
  try {
    parsed = new URL(url);
  } catch {
    // Reported below, with every other wrong URL.
  }
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.username || parsed.search || parsed.hash) {
    throw new UsageError(
      `url is ${JSON.stringify(String(url))}; it must be http:// or https:// with a host, ` +
        'without user, query and fragment, such as "http://127.0.0.1:9277"',
    );
  }
  return parsed;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
