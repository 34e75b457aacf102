import { type Duration, milliseconds } from "./duration.js";
import { Refused, UnexpectedAnswer } from "./errors.js";
import { Gatherer } from "./gatherer.js";
import type { Acknowledged, Acknowledgement, Cancelled, Consumer, PopRequest, Producer, Verb } from "./interfaces.js";
import { chunks, complete, PendingPut } from "./puts.js";
import { retrying } from "./retry.js";
import { type Request, Transport } from "./transport.js";
import type { Job, JobInfo, Put, PutJob, PutOptions, Topic, TopicSettings } from "./types.js";
import { fromWire, toWire } from "./wire.js";

export interface QueueOptions {
  /** Where the server listens, such as `http://127.0.0.1:9277`. */
  url: string | URL;
  /** Access token, `dq_…`; needed if the server has tokens. */
  token?: string | undefined;
  /** How long a call is repeated while the server is unavailable or overloaded. Default: 30 s. */
  retryFor?: Duration;
  /** How long one request may take, without the time for which it waits on purpose. Default: 10 s. */
  timeout?: Duration;
}

/** Longest wait of a request, in milliseconds. */
const LONGEST_WAIT = 60_000;

/** A delay-queue server. Producers use it directly, consumers through a `Worker`. */
export class Queue implements Producer, Consumer {
  readonly #transport: Transport;
  readonly #retryFor: number;
  readonly #timeout: number;
  readonly #gatherer = new Gatherer({
    one: (put) => this.#send({ method: "POST", path: "/jobs", body: put }),
    batch: (puts) => this.#batch("jobs", puts),
  });

  /** @throws UsageError, which names the wrong option */
  constructor({ url, token, retryFor = 30, timeout = 10 }: QueueOptions) {
    this.#transport = new Transport(url, token);
    this.#retryFor = milliseconds(retryFor, "retryFor");
    this.#timeout = milliseconds(timeout, "timeout");
  }

  async put(topic: string, body?: unknown, options?: PutOptions): Promise<PutJob> {
    const put = new PendingPut({ ...options, topic, body });
    await complete([put], this.#retryFor, () => this.#gatherer.send(put));
    if (put.result?.status === "fulfilled") return put.result.value;
    throw put.result?.reason;
  }

  async putMany(puts: Iterable<Put>): Promise<PromiseSettledResult<PutJob>[]> {
    const all = Array.from(puts, (put) => new PendingPut(put));
    for (const chunk of chunks(all)) {
      await complete(chunk, this.#retryFor, async (pending) => {
        const results = await this.#batch(
          "jobs",
          pending.map((put) => put.json),
        );
        pending.forEach((put, i) => put.settle(results[i]!));
      });
    }
    return all.map(({ result }) => result!);
  }

  async get(id: string, { wait }: { wait?: Duration } = {}): Promise<JobInfo | null> {
    const path = `/jobs/${encodeURIComponent(id)}`;
    const total = wait === undefined ? 0 : milliseconds(wait, "wait");
    const end = performance.now() + total;
    for (;;) {
      const job = await this.#existing(() => {
        const left = Math.max(0, Math.min(end - performance.now(), LONGEST_WAIT));
        return this.#send({ method: "GET", path: total ? `${path}?wait=${Math.ceil(left)}ms` : path }, left);
      });
      const info = job && (fromWire(job) as unknown as JobInfo);
      const ended = info?.state === "finished" || info?.state === "dead";
      if (!info || ended || performance.now() >= end) return info;
    }
  }

  async cancel(id: string, { remember }: { remember?: Duration } = {}): Promise<Cancelled | null> {
    const query = `state=delayed,ready${remember === undefined ? "" : `&remember=${milliseconds(remember, "remember")}ms`}`;
    const path = `/jobs/${encodeURIComponent(id)}?${query}`;
    return retrying(this.#retryFor, async (mayBeApplied) => {
      try {
        return (await this.#send({ method: "DELETE", path })) as Cancelled;
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        const isGone = error.code === "job_not_found";
        const isRemembered = remember !== undefined && error.code === "wrong_state" && error.state === "finished";
        if (mayBeApplied && (isGone || isRemembered)) return { id, state: null };
        if (isGone) return null;
        throw error;
      }
    });
  }

  async topic(topic: string): Promise<Topic> {
    const path = `/topics/${encodeURIComponent(topic)}`;
    return fromWire(await retrying(this.#retryFor, () => this.#send({ method: "GET", path }))) as unknown as Topic;
  }

  async setTopic(topic: string, settings: TopicSettings): Promise<Topic> {
    const path = `/topics/${encodeURIComponent(topic)}`;
    const body = JSON.stringify(toWire(settings));
    return fromWire(
      await retrying(this.#retryFor, () => this.#send({ method: "PUT", path, body })),
    ) as unknown as Topic;
  }

  async pop({ topics, count, wait, consumer, signal }: PopRequest): Promise<Job[]> {
    const names = topics.map(encodeURIComponent).join(",");
    const query = `count=${count}&wait=${wait}ms&consumer=${encodeURIComponent(consumer)}`;
    const answer = await this.#send({ method: "GET", path: `/topics/${names}/pop?${query}`, signal }, wait);
    const jobs = (answer as { jobs?: object[] }).jobs ?? this.#unexpected();
    return jobs.map((job) => fromWire(job) as unknown as Job);
  }

  async acknowledge(verb: Verb, jobs: Acknowledgement[], signal?: AbortSignal): Promise<Acknowledged[]> {
    const entries = jobs.map(({ id, reservation, fields, result }) => {
      const json = JSON.stringify({ id, reservation, ...fields });
      return result === undefined ? json : `${json.slice(0, -1)},"result":${result}}`;
    });
    return this.#batch(verb, entries, signal);
  }

  async #batch(route: string, entries: string[], signal?: AbortSignal): Promise<Acknowledged[]> {
    const body = `{"jobs":[${entries.join(",")}]}`;
    const answer = await this.#send({ method: "POST", path: `/batch/${route}`, body, signal });
    const { results } = answer as { results?: Acknowledged[] };
    return results?.length === entries.length ? results : this.#unexpected();
  }

  /** @param wait milliseconds for which the server waits on purpose */
  async #send(request: Omit<Request, "timeout">, wait = 0): Promise<object> {
    return (await this.#transport.send({ ...request, timeout: this.#timeout + wait })) ?? {};
  }

  async #existing(call: () => Promise<object>): Promise<object | null> {
    try {
      return await retrying(this.#retryFor, call);
    } catch (error) {
      if (error instanceof Refused && error.code === "job_not_found") return null;
      throw error;
    }
  }

  #unexpected(): never {
    throw new UnexpectedAnswer(`${this.#transport.url} gives an answer of another form; check the url`, 200);
  }
}
