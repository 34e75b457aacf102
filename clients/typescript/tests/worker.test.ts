import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { Snooze, UsageError } from "../src/index.js";
import { Bench } from "./support/bench.js";

describe("a worker", () => {
  let bench: Bench;

  beforeEach(async () => {
    bench = await Bench.start();
  });
  afterEach(() => bench.stub.stop());

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

  it("replaces halves of surrogate pairs in the text of an error", async () => {
    const half = await bench.once(() => Promise.reject(new Error("\ud800!")));
    assert.equal(half?.error, "\ufffd!");
  });

  it("refuses a snooze whose delay is no duration", () => {
    assert.throws(() => new Snooze("soon"), UsageError);
  });

  it("waits 20 s for jobs, writes its name as the API wants it, and logs nothing without need", async () => {
    assert.equal(await bench.once(() => undefined, {}, { concurrency: 3 }), null);
    assert.equal(bench.stub.requests(/pop/)[0]?.query.toString(), "count=3&wait=20000ms&consumer=test-1");
    assert.deepEqual(bench.log.lines, []);
  });
});
