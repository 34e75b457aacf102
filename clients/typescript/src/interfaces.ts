import type { Duration } from "./duration.js";
import type { Job, JobInfo, Put, PutJob, PutOptions, State, Topic, TopicSettings } from "./types.js";

/** Calls of producers. `Queue` carries them out on a server, `FakeQueue` in memory. */
export interface Producer {
  /** Puts a job. Throws `Refused`, or `Unavailable` after `retryFor`. Concurrent calls share requests. */
  put(topic: string, body?: unknown, options?: PutOptions): Promise<PutJob>;
  /** Puts any number of jobs; each has its own result, in the order of the puts. */
  putMany(puts: Iterable<Put>): Promise<PromiseSettledResult<PutJob>[]>;
  /** Returns a job, or null without one. With `wait`, waits for the end of the job for that long. */
  get(id: string, options?: { wait?: Duration }): Promise<JobInfo | null>;
  /**
   * Deletes a job that no consumer has: one that is delayed or ready. Returns null if there is no job, and throws
   * `Refused` with the code `wrong_state` if it is in another state.
   */
  cancel(id: string, options?: { remember?: Duration }): Promise<Cancelled | null>;
  topic(topic: string): Promise<Topic>;
  /** Replaces the defaults of a topic. */
  setTopic(topic: string, settings: TopicSettings): Promise<Topic>;
}

export interface Cancelled {
  id: string;
  /** State of the job before; null if the answer was lost and a repetition found the job gone. */
  state: State | null;
}

/** Verbs by which a consumer ends or holds its reservation of a job. */
export type Verb = "finish" | "release" | "bury" | "touch";

/** One call of a consumer for one job. */
export interface Acknowledgement {
  id: string;
  reservation: string;
  /** Fields of the API, such as `delay` and `error`. */
  fields?: { delay?: Duration; error?: string; count_attempt?: boolean };
  /** Result in JSON. */
  result?: string | undefined;
}

/** Answer to an acknowledgement: its status, and the code and reason of a refusal. */
export interface Acknowledged {
  status: number;
  code?: string;
  detail?: string;
  field?: string;
  applied?: string;
}

export interface PopRequest {
  topics: string[];
  /** Jobs at most, up to 100. */
  count: number;
  /** Milliseconds to wait for the first job. */
  wait: number;
  consumer: string;
  signal: AbortSignal;
}

/** Calls of workers, each a single request that is not repeated. */
export interface Consumer {
  pop(request: PopRequest): Promise<Job[]>;
  /** Sends up to 1,000 acknowledgements; returns an answer for each, in their order. */
  acknowledge(verb: Verb, jobs: Acknowledgement[], signal: AbortSignal): Promise<Acknowledged[]>;
}
