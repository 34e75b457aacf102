import { type Duration, milliseconds } from "../duration.js";
import { UsageError } from "../errors.js";
import { type Logger, standardError } from "../logger.js";
import { consumerName } from "./consumer-name.js";

export interface TopicOptions<T> {
  /** Turns a body into its type. A job whose body makes it throw is buried, with what was thrown. */
  parse?: ((body: unknown) => T) | undefined;
}

/** Signals of the process that can stop a worker. */
export type StopSignal = "SIGTERM" | "SIGINT" | "SIGHUP" | "SIGBREAK";

export interface WorkerOptions<T = unknown> extends TopicOptions<T> {
  /** Handlers that run at once. Default: 16. */
  concurrency?: number;
  /** How long a pop waits for a job, up to 60 s. Default: 20 s. */
  wait?: Duration;
  /** How long running handlers may go on when the worker stops. Default: 25 s. */
  grace?: Duration;
  /** Name of this consumer, shown with its jobs; characters that the API refuses become `-`. Default: host and process. */
  consumer?: string;
  /** Signals that stop the worker; `[]` for none. Default: SIGTERM and SIGINT. */
  stopOn?: StopSignal[];
  /** Default: standard error. */
  logger?: Logger;
}

/** Checked options; times in milliseconds. */
export interface Settings {
  concurrency: number;
  wait: number;
  grace: number;
  consumer: string;
  stopOn: StopSignal[];
  logger: Logger;
}

/** @throws UsageError that names the wrong option */
export function check(options: WorkerOptions<never>): Settings {
  const { concurrency = 16, wait = 20, grace = 25, stopOn = ["SIGTERM", "SIGINT"], logger = standardError } = options;
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw new UsageError(`concurrency is ${concurrency}; it must be a whole number from 1`);
  }
  const settings = {
    concurrency,
    wait: milliseconds(wait, "wait"),
    grace: milliseconds(grace, "grace"),
    consumer: consumerName(options.consumer),
    stopOn,
    logger,
  };
  if (settings.wait > 60_000) throw new UsageError(`wait is ${JSON.stringify(wait)}; it must be at most 60 s`);
  return settings;
}
