import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { FakeQueue, type Put, Refused, type Verb } from "../../src/index.js";
import { fromWire, toWire } from "../../src/wire.js";

/** Request as a test sees it. */
export interface Seen {
  method: string;
  path: string;
  query: URLSearchParams;
  body: Record<string, unknown>;
  token: string | undefined;
}

/** What goes wrong with a request: its answer is lost, it hangs, or it has this answer. */
export type Fault =
  "lose" | "hang" | { status: number; json?: object; text?: string; headers?: Record<string, string> };

/** A server of the API in this process, on a fake queue, whose requests tests see and disturb. */
export class Stub {
  readonly fake = new FakeQueue();
  readonly seen: Seen[] = [];
  readonly #faults: { path: RegExp; fault: Fault; times: number }[] = [];
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  #port = 0;

  static async start(): Promise<Stub> {
    const stub = new Stub();
    await stub.listen();
    return stub;
  }

  /** Listens, after a stop on the same port as before. */
  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Disturbs the next requests to these paths. */
  disturb(path: RegExp, fault: Fault, times = 1): void {
    this.#faults.push({ path, fault, times });
  }

  requests(path: RegExp): Seen[] {
    return this.seen.filter((request) => path.test(request.path));
  }

  async stop(): Promise<void> {
    await new Promise((resolve) => {
      this.#server.close(resolve);
      this.#server.closeAllConnections();
    });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "", this.url);
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const path = decodeURIComponent(url.pathname);
    const body = (text ? JSON.parse(text) : {}) as Record<string, unknown>;
    const method = request.method ?? "";
    this.seen.push({ method, path, query: url.searchParams, body, token: request.headers.authorization });
    const fault = this.#fault(path);
    if (fault === "hang") return;
    if (typeof fault === "object") {
      const type = fault.text === undefined ? "application/problem+json" : "text/html";
      response.writeHead(fault.status, { "content-type": type, ...fault.headers });
      return void response.end(fault.text ?? JSON.stringify({ status: fault.status, ...fault.json }));
    }
    const answer = await this.#answer(method, path, url.searchParams, body, response).catch(problem);
    if (fault === "lose") return void request.socket.destroy();
    const { status, ...rest } = answer;
    response.writeHead(status, { "content-type": "application/json" }).end(status === 204 ? "" : JSON.stringify(rest));
  }

  #fault(path: string): Fault | undefined {
    const found = this.#faults.find((entry) => entry.times > 0 && entry.path.test(path));
    if (found) found.times--;
    return found?.fault;
  }

  async #answer(
    method: string,
    path: string,
    query: URLSearchParams,
    body: Record<string, unknown>,
    response: ServerResponse,
  ): Promise<{ status: number }> {
    const [, , kind, name = "", action] = path.split("/");
    const jobs = (body.jobs ?? []) as object[];
    if (kind === "topics" && action === "pop") return { status: 200, ...(await this.#pop(name, query, response)) };
    if (kind === "topics") {
      const settings = fromWire(body);
      const topic = method === "PUT" ? await this.fake.setTopic(name, settings) : await this.fake.topic(name);
      return { ...toWire({ ...topic, defaults: toWire(topic.defaults) }), status: 200 };
    }
    if (kind === "batch" && name === "jobs") {
      return { status: 200, ...{ results: await Promise.all(jobs.map((job) => this.#put(job).catch(problem))) } };
    }
    if (kind === "batch") {
      const entries = (jobs as { id: string; reservation: string; result?: unknown }[]).map(
        ({ id, reservation, result, ...fields }) => {
          return { id, reservation, fields, result: result === undefined ? undefined : JSON.stringify(result) };
        },
      );
      return { status: 200, ...{ results: await this.fake.acknowledge(name as Verb, entries) } };
    }
    if (method === "POST") return this.#put(body);
    const found = method === "DELETE" ? await this.fake.cancel(name) : await this.fake.get(name);
    if (!found) throw new Refused({ status: 404, code: "job_not_found", applied: "no" });
    return { ...toWire(found), status: 200 };
  }

  async #put(wire: object): Promise<{ status: number }> {
    const { topic, body, ...options } = fromWire(wire) as unknown as Put;
    return { ...toWire(await this.fake.put(topic, body, options)), status: 201 };
  }

  async #pop(topics: string, query: URLSearchParams, response: ServerResponse): Promise<{ jobs: object[] }> {
    const gone = new AbortController();
    const timer = setTimeout(() => gone.abort(), parseInt(query.get("wait") ?? "0"));
    response.on("close", () => gone.abort());
    const request = { topics: topics.split(","), count: Number(query.get("count")), wait: 0, consumer: "" };
    const jobs = await this.fake.pop({ ...request, signal: gone.signal }).catch(() => []);
    clearTimeout(timer);
    return { jobs: jobs.map(toWire) };
  }
}

function problem(error: unknown): { status: number } {
  if (!(error instanceof Refused)) throw error;
  const { status, code, detail, field, applied, state } = error;
  return { status, ...{ code, detail, field, applied, state } };
}
