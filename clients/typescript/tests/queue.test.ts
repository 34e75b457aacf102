import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { NotAllowed, Queue, Refused, Unavailable, UnexpectedAnswer, UsageError } from "../src/index.js";
import { Stub } from "./support/stub.js";

describe("Queue", () => {
  let stub: Stub;
  let queue: Queue;

  beforeEach(async () => {
    stub = await Stub.start();
    queue = new Queue({ url: stub.url, token: "dq_x" });
  });
  afterEach(() => stub.stop());

  it("makes the id of a put, and sends its token and options", async () => {
    const job = await queue.put("orders", { order: 7 }, { delay: "30m", maxAttempts: 3, headers: { aB: "1" } });
    assert.match(job.id, /^[0-9A-HJKMNP-TV-Z]{26}$/);
    assert.equal(job.state, "delayed");
    assert.equal(job.dueAt.getTime(), stub.fake.now.getTime() + 1_800_000);
    const seen = stub.seen[0]!;
    const fields = { topic: "orders", id: job.id, delay: "30m", max_attempts: 3, headers: { aB: "1" } };
    assert.deepEqual(seen.body, { ...fields, body: { order: 7 } });
    assert.equal(seen.token, "Bearer dq_x");
  });

  it("keeps `replace` when it repeats a put", async () => {
    stub.disturb(/jobs$/, "lose");
    await queue.put("orders", 1, { id: "a", onConflict: "replace" });
    assert.deepEqual(
      stub.seen.map(({ body }) => body.on_conflict),
      ["replace", "replace"],
    );
  });

  it("reports a taken id without repetition", async () => {
    await queue.put("orders", 1, { id: "a" });
    await assert.rejects(queue.put("orders", 2, { id: "a" }), { name: "Refused", code: "job_exists", state: "ready" });
    assert.equal(stub.seen.length, 2);
  });

  it("does not repeat a put into a full topic", async () => {
    stub.disturb(/jobs$/, { status: 429, json: { code: "topic_full", applied: "no" } });
    await assert.rejects(queue.put("orders", 1), { code: "topic_full" });
  });

  it("gives up after retryFor with the last error", async () => {
    await stub.stop();
    const impatient = new Queue({ url: stub.url, retryFor: "200ms" });
    await assert.rejects(impatient.put("orders", 1), (error) => {
      assert.ok(error instanceof Unavailable);
      assert.equal(error.applied, "no");
      assert.match(error.message, /127\.0\.0\.1.*ECONNREFUSED/);
      return true;
    });
    await stub.listen();
  });

  it("ends a request without an answer, whose result is unknown", async () => {
    stub.disturb(/jobs$/, "hang");
    const impatient = new Queue({ url: stub.url, timeout: 0.1, retryFor: 0 });
    await assert.rejects(impatient.put("orders", 1), {
      name: "Unavailable",
      applied: "unknown",
      message: /within 0.1 s/,
    });
  });

  it("gives each put of a batch its own result", async () => {
    const circle: { self?: unknown } = {};
    circle.self = circle;
    const puts = [{ id: "a" }, { id: "a" }, { body: circle }, { body: 7n }, { id: "b", delay: NaN }];
    const results = await queue.putMany(puts.map((put) => ({ topic: "orders", ...put })));
    assert.deepEqual(
      results.map((result) => (result.status === "fulfilled" ? result.value.id : (result.reason as Error).name)),
      ["a", "Refused", "UsageError", "UsageError", "UsageError"],
    );
  });

  it("halves a batch that is too large for the server", async () => {
    stub.disturb(/batch/, { status: 413, json: { code: "body_too_large", applied: "no" } });
    const results = await queue.putMany([{ topic: "orders" }, { topic: "orders" }, { topic: "orders" }]);
    assert.ok(results.every(({ status }) => status === "fulfilled"));
    assert.equal(stub.requests(/batch/).length, 3);
  });

  it("returns jobs with dates, and null without a job", async () => {
    await queue.put("orders", { due_at: "as it is" }, { id: "a", dueAt: new Date("2026-02-01T00:00:00Z") });
    const job = await queue.get("a");
    assert.deepEqual(job?.body, { due_at: "as it is" });
    assert.equal(job.dueAt.toISOString(), "2026-02-01T00:00:00.000Z");
    assert.equal(await queue.get("none"), null);
  });

  it("replaces the settings of a topic, and takes those that it returns", async () => {
    await queue.setTopic("orders", { ttr: 90, deadTo: "failed" });
    const { defaults } = await queue.topic("orders");
    assert.deepEqual(defaults, { ttr: 90, deadTo: "failed" });
    assert.deepEqual((await queue.setTopic("orders", defaults)).defaults, defaults);
  });

  it("says what is wrong with url and token before it sends anything", () => {
    for (const url of ["", "127.0.0.1:9277", "ftp://host", "http://u:p@host", "http://host/?a=1"]) {
      assert.throws(
        () => new Queue({ url }),
        (error) => error instanceof UsageError && error.message.includes("url is"),
      );
    }
    assert.throws(() => new Queue({ url: "http://host", token: "dq_\n" }), UsageError);
    assert.throws(() => new Queue({ url: "http://host", retryFor: "soon" }), /retryFor is "soon"; it must be/);
  });

  it("tells refusals from answers of other servers", async () => {
    stub.disturb(/jobs$/, { status: 401, json: { code: "unauthenticated", applied: "no" } });
    await assert.rejects(queue.put("orders"), (error) => error instanceof NotAllowed && error instanceof Refused);
    for (const [status, location] of [[200], [404], [307, "https://other/"]] as const) {
      stub.disturb(/jobs$/, { status, text: "<html>", ...(location && { headers: { location } }) });
      await assert.rejects(queue.put("orders"), (error) => {
        assert.ok(error instanceof UnexpectedAnswer);
        assert.match(error.message, new RegExp(`127.0.0.1.*${location ?? status}`));
        return true;
      });
    }
  });
});
