/** The program through which `clients/scenarios` drives this library. */
import { createInterface } from "node:readline";
import { Queue, UsageError, verifySignature, Worker } from "../../src/index.js";
import { toWire } from "../../src/wire.js";
import { problem, toPut, toWireJob } from "./answers.js";
import { bare } from "./bare.js";
import { runFake, type Step } from "./fake.js";
import { Gates, parseOrder, scripted, typed } from "./handler.js";

interface Command {
  n: number;
  do: string;
  put: object;
  puts: object[];
  id: string;
  wait?: number;
  remember?: number;
  topic: string;
  settings: object;
  secrets: string[];
  headers: Record<string, string>;
  body: string;
  now: number;
  topics: string[];
  concurrency: number;
  grace?: number;
  types?: boolean;
  quiet?: boolean;
  gate: string;
  jobs: number;
  steps: Step[];
}

const { DELAY_QUEUE_URL: url = "", DELAY_QUEUE_TOKEN: token, DELAY_QUEUE_RETRY_FOR: retryFor } = process.env;
const gates = new Gates();
let worker: Worker | undefined;
let ended: Promise<void> = Promise.resolve();

function emit(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

let made: Queue | undefined;
function queue(): Queue {
  return (made ??= new Queue({ url, token: token ?? undefined, ...(retryFor && { retryFor: Number(retryFor) }) }));
}

function work({ topics, concurrency, grace, wait, types, quiet }: Command): object {
  const [first, ...others] = topics;
  if (first === undefined) throw new UsageError("topics is empty");
  const handler = quiet ? () => undefined : types ? (typed(emit) as never) : scripted(gates, emit);
  const parse = types ? { parse: parseOrder as (body: unknown) => unknown } : {};
  const options = { concurrency, ...(grace !== undefined && { grace }), ...(wait !== undefined && { wait }) };
  worker = new Worker(queue(), first, handler, { ...options, ...parse });
  for (const topic of others) worker.on(topic, handler, parse);
  ended = worker.run().then(
    () => emit({ event: "worker_ended" }),
    (error: unknown) => emit({ event: "worker_ended", error: problem(error) }),
  );
  return {};
}

async function stop(): Promise<object> {
  worker?.stop();
  await ended;
  return {};
}

const COMMANDS: Record<string, (command: Command) => unknown> = {
  put: async ({ put }) => {
    const { topic, body, options } = toPut(put);
    return toWireJob(await queue().put(topic, body, options));
  },
  put_many: async ({ puts }) => {
    const results = await queue().putMany(puts.map((put) => toPut(put).put));
    return results.map((result) =>
      result.status === "fulfilled" ? { ok: toWireJob(result.value) } : { error: problem(result.reason) },
    );
  },
  get: async ({ id, wait }) => {
    const job = await queue().get(id, wait === undefined ? {} : { wait });
    return job && toWireJob(job);
  },
  cancel: ({ id, remember }) => queue().cancel(id, remember === undefined ? {} : { remember }),
  topic_get: async ({ topic }) => toWireJob(await queue().topic(topic)),
  topic_set: async ({ topic, settings }) => toWire(await queue().setTopic(topic, settings)),
  verify: ({ secrets, headers, body, now }) => {
    verifySignature({ secrets, headers, body, now: new Date(now * 1000) });
    return true;
  },
  work,
  stop,
  open: ({ gate }) => {
    gates.open(gate);
    return {};
  },
  bare: ({ topic, concurrency, jobs }) => bare(url, token, { topic, concurrency, jobs }),
  fake: ({ steps }) => runFake(steps),
};

async function answer(line: string): Promise<void> {
  const command = JSON.parse(line) as Command;
  try {
    const run = COMMANDS[command.do];
    if (!run) throw new UsageError(`unknown command ${command.do}`);
    emit({ n: command.n, ok: await run(command) });
  } catch (error) {
    emit({ n: command.n, error: problem(error) });
  }
}

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.once(signal, () => void stop().then(() => process.exit(0)));
}
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => void answer(line));
lines.on("close", () => void stop().then(() => process.exit(0)));
emit({ event: "ready", pid: process.pid });
