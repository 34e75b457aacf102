import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { Bury, Snooze, UsageError, Worker } from "../src/index.js";
import { Bench } from "./support/bench.js";
import { event } from "./support/lines.js";

describe("a worker", () => {
  let bench: Bench;

  beforeEach(async () => {
    bench = await Bench.start();
  });
  afterEach(() => bench.stub.stop());

  it("finishes the job of a handler that returns, with its value", async () => {
    const job = await bench.once(() => ({ sum: 3 }), { finishedRetention: 60 });
    assert.equal(job?.state, "finished");
    assert.deepEqual(job.result, { sum: 3 });
    assert.deepEqual(bench.log.lines, []);
  });

  it("finishes without a value that is not kept, and warns", async () => {
    assert.equal(await bench.once(() => 1), null);
    assert.equal(bench.log.matching(/^warn .*job a of orders is finished without its result/).length, 1);
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
      assert.equal(await bench.once(() => value), null);
      assert.equal(
        bench.log.matching(new RegExp(`^error job a of orders is finished without a result: an? .*${type}`)).length,
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
      const job = await bench.once(() => Promise.reject(thrown as Error), { onConflict: "replace" });
      assert.equal(job?.state, "delayed");
      assert.equal(job.error, texts[i]);
    }
  });

  it("cuts the text of an error between characters, and replaces halves of surrogate pairs", async () => {
    const long = await bench.once(() => Promise.reject(new Error(`x${"ü".repeat(3000)}`)));
    assert.equal(long?.error, `x${"ü".repeat(2047)}`);
    const half = await bench.once(() => Promise.reject(new Error("\ud800!")), { onConflict: "replace" });
    assert.equal(half?.error, "\ufffd!");
  });

  it("buries, and snoozes without counting the attempt", async () => {
    const buried = await bench.once(() => Promise.reject(new Bury("no such order")));
    assert.deepEqual([buried?.state, buried?.error], ["dead", "no such order"]);
    const snoozed = await bench.once(() => Promise.reject(new Snooze("10m")), { onConflict: "replace" });
    assert.deepEqual([snoozed?.state, snoozed?.attempt], ["delayed", 0]);
    assert.equal(snoozed?.dueAt.getTime(), bench.stub.fake.now.getTime() + 600_000);
    assert.throws(() => new Snooze("soon"), UsageError);
  });

  it("buries a job whose body does not fit, with what did not fit", async () => {
    await bench.queue.put("orders", { order: 7 }, { id: "a" });
    const typed = new Worker<{ order: string }>(bench.queue, "orders", ({ body }) => body.order.length, {
      logger: bench.log,
      stopOn: [],
      parse: (body) => {
        const { order } = body as { order?: unknown };
        if (typeof order !== "string") throw new TypeError("order must be a text");
        return { order };
      },
    });
    const running = typed.run();
    await bench.log.line(/job a of orders is buried/);
    typed.stop();
    await running;
    assert.equal((await bench.queue.get("a"))?.error, "the body does not fit: TypeError: order must be a text");
  });

  it("pops for all topics in their order, as many jobs as it has free slots", async () => {
    const seen: string[] = [];
    await bench.queue.putMany(["mails", "orders"].map((topic) => ({ topic })));
    const done = event();
    const both = bench
      .worker(() => void seen.push("orders"), { concurrency: 3 })
      .on("mails", () => {
        seen.push("mails");
        done.happen();
      });
    const running = both.run();
    await done.happened;
    both.stop();
    await running;
    assert.deepEqual(seen, ["orders", "mails"]);
    const [pop] = bench.stub.requests(/pop/);
    assert.equal(pop?.path, "/v1/topics/orders,mails/pop");
    assert.equal(pop.query.toString(), "count=3&wait=20000ms&consumer=test-1");
  });

  it("sends the finishes that wait together in one request", async () => {
    await bench.queue.putMany(Array.from({ length: 10 }, () => ({ topic: "orders" })));
    await bench.once(() => undefined);
    const sizes = bench.stub.requests(/batch.finish/).map(({ body }) => (body.jobs as unknown[]).length);
    assert.deepEqual(sizes, [11]);
  });
});
