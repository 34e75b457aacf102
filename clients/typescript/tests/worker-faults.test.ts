import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { type Handler, JobLost, NotAllowed, Refused, UsageError } from "../src/index.js";
import { Bench } from "./support/bench.js";
import { event } from "./support/lines.js";

describe("a worker in trouble", () => {
  let bench: Bench;

  beforeEach(async () => {
    bench = await Bench.start();
  });
  afterEach(() => bench.stub.stop());

  it("repeats a finish whose answer was lost", async () => {
    bench.stub.disturb(/batch.finish/, "lose");
    assert.equal(await bench.once(() => undefined), null);
    assert.equal(bench.stub.requests(/batch.finish/).length, 2);
    assert.deepEqual(bench.log.matching(/lost its reservation/), []);
  });

  it("logs a job that another consumer got before it was finished", async () => {
    await bench.once(async () => {
      bench.stub.fake.advance("2h");
      await bench.pop();
    });
    assert.equal(bench.log.matching(/warn job a of orders lost its reservation before it was finished/).length, 1);
  });

  it("touches at a third of the TTR, and cancels the handler of a lost job without acknowledging it", async () => {
    const cancelled = event<unknown>();
    bench.stub.disturb(/batch.touch/, { status: 503, json: { code: "overloaded", applied: "no" } });
    const handler: Handler = (_, { signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          cancelled.happen(signal.reason);
          reject(signal.reason as Error);
        });
      });
    await bench.queue.put("orders", 1, { id: "a", ttr: 9, backoff: ["1h"] });
    const one = bench.worker(handler);
    const running = one.run();
    await bench.log.line(/is available again/);
    bench.stub.fake.advance("20s");
    assert.ok((await cancelled.happened) instanceof JobLost);
    one.stop();
    await running;
    assert.ok(bench.stub.requests(/batch.touch/).length >= 3);
    assert.deepEqual(bench.stub.requests(/batch.(finish|release|bury)/), []);
    assert.equal(bench.log.matching(/job a of orders lost its reservation: .*its handler is cancelled/).length, 1);
  });

  it("cancels a handler when no touch succeeds within the TTR", async () => {
    bench.stub.disturb(/batch.touch/, "cut", 1000);
    await bench.queue.put("orders", 1, { ttr: 1, backoff: ["1h"] });
    const one = bench.worker((_, { signal }) => new Promise((resolve) => signal.addEventListener("abort", resolve)));
    const running = one.run();
    await bench.log.line(/no touch succeeded within its TTR/);
    one.stop();
    await running;
    assert.deepEqual(bench.stub.requests(/batch.(finish|release|bury)/), []);
  });

  it("survives a server that goes and returns, with one line for each", async () => {
    const started = event();
    const done = event();
    const one = bench.worker(({ body }) => (body === "last" ? done.happen() : started.happen()));
    await bench.queue.put("orders", "first");
    const running = one.run();
    await started.happened;
    await bench.stub.stop();
    await bench.log.line(/is unavailable/);
    await bench.stub.listen();
    await bench.log.line(/is available again/);
    await bench.queue.put("orders", "last");
    await done.happened;
    one.stop();
    await running;
    assert.equal(bench.log.lines.length, 2, bench.log.lines.join("\n"));
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
