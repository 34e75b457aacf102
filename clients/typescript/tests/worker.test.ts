import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { Bury, type Handler, JobLost, NotAllowed, Queue, Refused, Snooze, UsageError, Worker } from "../src/index.js";
import { event, Lines } from "./support/lines.js";
import { Stub } from "./support/stub.js";

describe("Worker", () => {
  let stub: Stub;
  let queue: Queue;
  let log: Lines;

  beforeEach(async () => {
    stub = await Stub.start();
    queue = new Queue({ url: stub.url });
    log = new Lines();
  });
  afterEach(() => stub.stop());

  function worker(handler: Handler, options: object = {}): Worker {
    return new Worker(queue, "orders", handler, { logger: log, stopOn: [], consumer: "test 1", ...options });
  }

  /** Runs a worker until its handler has run once; returns the job as it is then. */
  async function once(handler: Handler, put: object = {}, options: object = {}): ReturnType<Queue["get"]> {
    await queue.put("orders", { n: 1 }, { id: "a", backoff: ["1h"], ...put });
    const done = event();
    const one = worker((job, context) => {
      done.happen();
      return handler(job, context);
    }, options);
    const running = one.run();
    await done.happened;
    one.stop();
    await running;
    return queue.get("a");
  }

  it("finishes the job of a handler that returns, with its value", async () => {
    const job = await once(() => ({ sum: 3 }), { finishedRetention: 60 });
    assert.equal(job?.state, "finished");
    assert.deepEqual(job.result, { sum: 3 });
    assert.deepEqual(log.lines, []);
  });

  it("finishes without a value that is not kept, and warns", async () => {
    assert.equal(await once(() => 1), null);
    assert.equal(log.matching(/^warn .*job a of orders is finished without its result/).length, 1);
  });

  it("finishes without a value that is not JSON, and names the job and the type", async () => {
    const circle: { self?: unknown } = {};
    circle.self = circle;
    for (const [value, type] of [
      [1n, "bigint"],
      [() => 1, "function"],
      [Symbol("s"), "symbol"],
      [circle, "Object"],
    ] as const) {
      assert.equal(await once(() => value), null);
      assert.equal(
        log.matching(new RegExp(`^error job a of orders is finished without a result: an? .*${type}`)).length,
        1,
      );
    }
  });

  it("releases by the job's backoff when the handler throws anything", async () => {
    const strange = [
      new Error("boom"),
      new TypeError("bad"),
      "text",
      42,
      undefined,
      null,
      { code: 7 },
      Object.create(null),
    ];
    const texts = [
      "boom",
      "TypeError: bad",
      "text",
      "42 was thrown",
      "undefined was thrown",
      "null was thrown",
      '{"code":7}',
      "{}",
    ];
    for (const [i, thrown] of strange.entries()) {
      const job = await once(() => Promise.reject(thrown as Error), { onConflict: "replace" });
      assert.equal(job?.state, "delayed");
      assert.equal(job.error, texts[i]);
    }
  });

  it("buries, and snoozes without counting the attempt", async () => {
    const buried = await once(() => Promise.reject(new Bury("no such order")));
    assert.deepEqual([buried?.state, buried?.error], ["dead", "no such order"]);
    const snoozed = await once(() => Promise.reject(new Snooze("10m")), { onConflict: "replace" });
    assert.deepEqual([snoozed?.state, snoozed?.attempt], ["delayed", 0]);
    assert.equal(snoozed?.dueAt.getTime(), stub.fake.now.getTime() + 600_000);
    assert.throws(() => new Snooze("soon"), UsageError);
  });

  it("buries a job whose body does not fit, with what did not fit", async () => {
    await queue.put("orders", { order: 7 }, { id: "a" });
    const typed = new Worker<{ order: string }>(queue, "orders", ({ body }) => body.order.length, {
      logger: log,
      stopOn: [],
      parse: (body) => {
        const { order } = body as { order?: unknown };
        if (typeof order !== "string") throw new TypeError("order must be a text");
        return { order };
      },
    });
    const running = typed.run();
    await log.line(/job a of orders is buried/);
    typed.stop();
    await running;
    assert.equal((await queue.get("a"))?.error, "the body does not fit: TypeError: order must be a text");
  });

  it("pops for all topics in their order, as many jobs as it has free slots", async () => {
    const seen: string[] = [];
    await queue.putMany(["mails", "orders"].map((topic) => ({ topic })));
    const done = event();
    const both = worker(() => void seen.push("orders"), { concurrency: 3 }).on("mails", () => {
      seen.push("mails");
      done.happen();
    });
    const running = both.run();
    await done.happened;
    both.stop();
    await running;
    assert.deepEqual(seen, ["orders", "mails"]);
    const [pop] = stub.requests(/pop/);
    assert.equal(pop?.path, "/v1/topics/orders,mails/pop");
    assert.equal(pop.query.toString(), "count=3&wait=20000ms&consumer=test-1");
  });

  it("sends the finishes that wait together in one request", async () => {
    await queue.putMany(Array.from({ length: 10 }, () => ({ topic: "orders" })));
    await once(() => undefined);
    const sizes = stub.requests(/batch.finish/).map(({ body }) => (body.jobs as unknown[]).length);
    assert.deepEqual(sizes, [11]);
  });

  it("repeats a finish whose answer was lost", async () => {
    stub.disturb(/batch.finish/, "lose");
    assert.equal(await once(() => undefined), null);
    assert.equal(stub.requests(/batch.finish/).length, 2);
    assert.deepEqual(log.matching(/lost its reservation/), []);
  });

  it("logs a job that another consumer got before it was finished", async () => {
    const another = {
      topics: ["orders"],
      count: 1,
      wait: 0,
      consumer: "another",
      signal: new AbortController().signal,
    };
    await once(async () => {
      stub.fake.advance("2h");
      await stub.fake.pop(another);
    });
    assert.equal(log.matching(/warn job a of orders lost its reservation before it was finished/).length, 1);
  });

  it("touches at a third of the TTR, and cancels the handler of a lost job without acknowledging it", async () => {
    const cancelled = event<unknown>();
    stub.disturb(/batch.touch/, { status: 503, json: { code: "overloaded", applied: "no" } });
    const handler: Handler = (_, { signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          cancelled.happen(signal.reason);
          reject(signal.reason as Error);
        });
      });
    await queue.put("orders", 1, { id: "a", ttr: 1, backoff: ["1h"] });
    const one = worker(handler);
    const running = one.run();
    await log.line(/is available again/);
    stub.fake.advance("2s");
    assert.ok((await cancelled.happened) instanceof JobLost);
    one.stop();
    await running;
    assert.ok(stub.requests(/batch.touch/).length >= 3);
    assert.deepEqual(stub.requests(/batch.(finish|release|bury)/), []);
    assert.equal(log.matching(/job a of orders lost its reservation: .*its handler is cancelled/).length, 1);
  });

  it("cancels a handler when no touch succeeds within the TTR", async () => {
    stub.disturb(/batch.touch/, "cut", 1000);
    await queue.put("orders", 1, { ttr: 1, backoff: ["1h"] });
    const one = worker((_, { signal }) => new Promise((resolve) => signal.addEventListener("abort", resolve)));
    const running = one.run();
    await log.line(/no touch succeeded within its TTR/);
    one.stop();
    await running;
    assert.deepEqual(stub.requests(/batch.(finish|release|bury)/), []);
  });

  it("survives a server that goes and returns, with one line for each", async () => {
    const started = event();
    const done = event();
    const one = worker(({ body }) => (body === "last" ? done.happen() : started.happen()));
    await queue.put("orders", "first");
    const running = one.run();
    await started.happened;
    await stub.stop();
    await log.line(/is unavailable/);
    await stub.listen();
    await log.line(/is available again/);
    await queue.put("orders", "last");
    await done.happened;
    one.stop();
    await running;
    assert.equal(log.lines.length, 2, log.lines.join("\n"));
  });

  it("ends with an error that says what to do when the first pop is refused", async () => {
    const refusals = [
      { status: 401, code: "unauthenticated", error: NotAllowed, hint: /set the token/ },
      { status: 422, code: "invalid_field", error: Refused, hint: /invalid_field/ },
    ];
    for (const { status, code, error, hint } of refusals) {
      stub.disturb(/pop/, { status, json: { code, applied: "no" } });
      await assert.rejects(worker(() => 1).run(), (thrown) => thrown instanceof error && hint.test(thrown.message));
    }
  });

  it("logs a later refusal once, and goes on", async () => {
    await queue.put("orders", "first");
    const done = event();
    const one = worker(
      ({ body }) => {
        if (body === "last") done.happen();
        else stub.disturb(/pop/, { status: 403, json: { code: "forbidden", applied: "no" } }, 2);
      },
      { concurrency: 1 },
    );
    const running = one.run();
    await log.line(/error a pop was refused/);
    await queue.put("orders", "last");
    await done.happened;
    one.stop();
    await running;
    assert.equal(log.matching(/a pop was refused/).length, 1);
  });

  it("gives jobs back uncounted whose handlers need more than the grace", async () => {
    const job = await once(
      (_, { signal }) => new Promise((resolve) => signal.addEventListener("abort", resolve)),
      {},
      { grace: 0 },
    );
    assert.deepEqual([job?.state, job?.attempt], ["ready", 0]);
    assert.deepEqual(log.lines, []);
  });

  it("gives the job of a handler back that ignores its signal", async () => {
    const job = await once(() => new Promise(() => undefined), {}, { grace: 0 });
    assert.deepEqual([job?.state, job?.attempt], ["ready", 0]);
    assert.equal(log.matching(/ignores its signal/).length, 1);
  });

  it("gives jobs back that arrive while it stops", async () => {
    const one = worker(() => assert.fail("a handler ran"));
    const running = one.run();
    while (stub.requests(/pop/).length === 0) await new Promise(setImmediate);
    one.stop();
    await queue.put("orders", 1, { id: "a" });
    await running;
    const job = await queue.get("a");
    assert.deepEqual([job?.state, job?.attempt], ["ready", 0]);
  });

  it("stops on a signal of the process, and then leaves signals alone", async () => {
    const before = process.listenerCount("SIGHUP");
    const one = worker(() => 1, { stopOn: ["SIGHUP"] });
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
        () => worker(() => 1, options),
        (error) => error instanceof UsageError && error.message.startsWith(name),
      );
    }
  });
});
