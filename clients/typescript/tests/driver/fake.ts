import { FakeQueue, type Put, Worker } from "../../src/index.js";
import { fromWire } from "../../src/wire.js";
import { problem, toPut, toWireJob } from "./answers.js";
import { Gates, scripted } from "./handler.js";

export interface Step {
  put?: object;
  advance?: number;
  run?: boolean;
  get?: string;
  cancel?: string;
}

/** Runs steps of the suite against a new fake; returns the result of each. */
export async function runFake(steps: Step[]): Promise<unknown[]> {
  const fake = new FakeQueue();
  const handler = scripted(new Gates(), () => undefined);
  const [first = "none", ...others] = steps.flatMap(({ put }) =>
    put ? [(fromWire(put) as unknown as Put).topic] : [],
  );
  const worker = new Worker(fake, first, handler);
  for (const topic of others) worker.on(topic, handler);
  const results: unknown[] = [];
  for (const step of steps) {
    results.push(await runStep(fake, worker, step).catch((error: unknown) => ({ error: problem(error) })));
  }
  return results;
}

async function runStep(fake: FakeQueue, worker: Worker, step: Step): Promise<unknown> {
  if (step.put) {
    const { topic, body, options } = toPut(step.put);
    return toWireJob(await fake.put(topic, body, options));
  }
  if (step.advance !== undefined) {
    fake.advance(step.advance);
    return null;
  }
  if (step.run) return fake.runDue(worker);
  if (step.cancel !== undefined) return fake.cancel(step.cancel);
  if (step.get === undefined) throw new TypeError(`unknown step ${JSON.stringify(step)}`);
  const job = await fake.get(step.get);
  if (!job) return null;
  const { id, state, attempt, error = null, result = null } = job;
  return { id, state, attempt, error, result };
}
