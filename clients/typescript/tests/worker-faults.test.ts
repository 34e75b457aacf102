import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { JobLost, NotAllowed, Refused, UsageError } from "../src/index.js";
import { Bench } from "./support/bench.js";
import { event } from "./support/lines.js";

describe("a worker in trouble", () => {
  let bench: Bench;

  beforeEach(async () => {
    bench = await Bench.start();
  });
  afterEach(() => bench.stub.stop());

  it("aborts the signal of a lost job with JobLost", async () => {
    const started = event();
    const cancelled = event<unknown>();
    await bench.queue.put("orders", 1, { ttr: 9, backoff: ["1h"] });
    const one = bench.worker((_, { signal }) => {
      started.happen();
      return new Promise<void>((resolve) =>
        signal.addEventListener("abort", () => {
          cancelled.happen(signal.reason);
          resolve();
        }),
      );
    });
    const running = one.run();
    await started.happened;
    bench.stub.fake.advance("20s");
    assert.ok((await cancelled.happened) instanceof JobLost);
    one.stop();
    await running;
    assert.equal(bench.log.matching(/of orders lost its reservation: .*its handler is cancelled/).length, 1);
  });

  it("ends with an error that says what to do when the first pop is refused", async () => {
    const refusals = [
      { status: 401, code: "unauthenticated", error: NotAllowed, hint: /set the token/ },
      { status: 422, code: "invalid_field", error: Refused, hint: /invalid_field/ },
    ];
    for (const { status, code, error, hint } of refusals) {
      bench.stub.disturb(/pop/, { status, json: { code, applied: "no" } });
      await assert.rejects(
        bench.worker(() => 1).run(),
        (thrown) => thrown instanceof error && hint.test(thrown.message),
      );
    }
  });

  it("logs a later refusal once, and goes on", async () => {
    await bench.queue.put("orders", "first");
    const done = event();
    const one = bench.worker(
      ({ body }) => {
        if (body === "last") done.happen();
        else bench.stub.disturb(/pop/, { status: 403, json: { code: "forbidden", applied: "no" } }, 2);
      },
      { concurrency: 1 },
    );
    const running = one.run();
    await bench.log.line(/error a pop was refused/);
    await bench.queue.put("orders", "last");
    await done.happened;
    one.stop();
    await running;
    assert.equal(bench.log.matching(/a pop was refused/).length, 1);
  });

  it("gives jobs back uncounted whose handlers need more than the grace", async () => {
    const job = await bench.once(
      (_, { signal }) => new Promise((resolve) => signal.addEventListener("abort", resolve)),
      {},
      { grace: 0 },
    );
    assert.deepEqual([job?.state, job?.attempt], ["ready", 0]);
    assert.deepEqual(bench.log.lines, []);
  });

  it("gives the job of a handler back that ignores its signal", async () => {
    const job = await bench.once(() => new Promise(() => undefined), {}, { grace: 0 });
    assert.deepEqual([job?.state, job?.attempt], ["ready", 0]);
    assert.equal(bench.log.matching(/ignores its signal/).length, 1);
  });

  it("gives jobs back that arrive while it stops", async () => {
    const one = bench.worker(() => assert.fail("a handler ran"));
    const running = one.run();
    while (bench.stub.requests(/pop/).length === 0) await new Promise(setImmediate);
    one.stop();
    await bench.queue.put("orders", 1, { id: "a" });
    await running;
    const job = await bench.queue.get("a");
    assert.deepEqual([job?.state, job?.attempt], ["ready", 0]);
  });

  it("stops on a signal of the process, and then leaves signals alone", async () => {
    const before = process.listenerCount("SIGHUP");
    const one = bench.worker(() => 1, { stopOn: ["SIGHUP"] });
    const running = one.run();
    await assert.rejects(one.run(), /running already/);
    process.emit("SIGHUP");
    await running;
    assert.equal(process.listenerCount("SIGHUP"), before);
  });

  it("names wrong options", () => {
    for (const options of [
      { concurrency: 0 },
      { concurrency: 1.5 },
      { wait: "2m" },
      { grace: -1 },
      { grace: "long" },
    ]) {
      const name = Object.keys(options)[0] ?? "";
      assert.throws(
        () => bench.worker(() => 1, options),
        (error) => error instanceof UsageError && error.message.startsWith(name),
      );
    }
  });
});
