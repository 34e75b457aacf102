import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { NotAllowed, type PutJob, Queue, Refused, Unavailable, UnexpectedAnswer } from "../src/index.js";
import { Stub } from "./support/stub.js";

describe("Queue, for concurrent puts,", () => {
  let stub: Stub;
  let queue: Queue;

  beforeEach(async () => {
    stub = await Stub.start();
    queue = new Queue({ url: stub.url });
  });
  afterEach(() => stub.stop());

  /** Puts jobs with the ids 0, 1, … in one turn of the event loop. */
  function putAll(count: number, body?: unknown): Promise<PromiseSettledResult<PutJob>[]> {
    return Promise.allSettled(Array.from({ length: count }, (_, n) => queue.put("orders", body, { id: `${n}` })));
  }

  /** Returns the ids of each request. */
  function ids(): string[][] {
    return stub.seen.map(({ body }) => {
      const jobs = (body.jobs ?? [body]) as { id: string }[];
      return jobs.map(({ id }) => id);
    });
  }

  function reasons(results: PromiseSettledResult<PutJob>[]): unknown[] {
    return results.map((result) => (result.status === "rejected" ? result.reason : result.value.id) as unknown);
  }

  it("sends at most 1,000 in a request, in their order", async () => {
    const results = await putAll(1500);
    assert.deepEqual(
      reasons(results),
      results.map((_, n) => `${n}`),
    );
    assert.deepEqual(
      ids().map(({ length }) => length),
      [1000, 500],
    );
    assert.deepEqual(ids().flat(), reasons(results));
  });

  it("sends about 1 MiB in a request, and a put that is left alone", async () => {
    await putAll(5, "x".repeat(400_000));
    assert.deepEqual(ids(), [["0", "1"], ["2", "3"], ["4"]]);
    assert.equal(stub.seen.at(-1)?.path, "/v1/jobs");
  });

  it("lets callers that were answered together share the next request", async () => {
    const putTwice = async (): Promise<void> => {
      await queue.put("orders");
      await queue.put("orders");
    };
    await Promise.all(Array.from({ length: 20 }, putTwice));
    assert.deepEqual(
      ids().map(({ length }) => length),
      [20, 20],
    );
  });

  it("gives each put the error of a request of its own", async () => {
    const results = [
      { status: 422, code: "invalid_field", field: "jobs[0].ttr", detail: "`jobs[0].ttr` is jobs[0].", applied: "no" },
      { status: 403, code: "forbidden", detail: "no scope", applied: "no" },
      { status: 503, code: "overloaded", detail: "later", applied: "unknown" },
      { id: "3", topic: "orders", state: "ready", status: 201 },
    ];
    stub.disturb(/batch/, { status: 200, json: { results } });
    const [wrong, forbidden, later, fine] = reasons(await putAll(4));
    assert.ok(wrong instanceof Refused);
    assert.deepEqual([wrong.field, wrong.detail], ["ttr", "`ttr` is jobs[0]."]);
    assert.ok(forbidden instanceof NotAllowed);
    assert.deepEqual([later, fine], ["2", "3"]);
    assert.deepEqual(ids(), [["0", "1", "2", "3"], ["2"]]);
    assert.equal(stub.seen[1]?.body.on_conflict, "keep");
  });

  for (const status of [400, 413, 422]) {
    it(`sends puts one by one after ${status} for all of them`, async () => {
      stub.disturb(/batch/, { status, json: { code: "x", applied: "no" } });
      stub.disturb(/v1.jobs/, { status, json: { code: "x", applied: "no" } });
      const [first, ...others] = reasons(await putAll(3));
      assert.ok(first instanceof Refused);
      assert.deepEqual(others, ["1", "2"]);
      assert.deepEqual(ids(), [["0", "1", "2"], ["0"], ["1"], ["2"]]);
    });
  }

  it("refuses all of them without a valid token", async () => {
    stub.disturb(/batch/, { status: 401, json: { code: "unauthenticated", applied: "no" } });
    assert.ok(reasons(await putAll(3)).every((error) => error instanceof NotAllowed));
    assert.equal(stub.seen.length, 1);
  });

  it("rejects an answer without a result for each", async () => {
    stub.disturb(/batch/, { status: 200, json: { results: [] } });
    assert.ok(reasons(await putAll(2)).every((error) => error instanceof UnexpectedAnswer));
  });

  it("repeats each of them after a lost answer", async () => {
    stub.disturb(/batch/, "lose");
    assert.deepEqual(reasons(await putAll(5)), ["0", "1", "2", "3", "4"]);
    assert.deepEqual(ids().slice(1).flat().sort(), ["0", "1", "2", "3", "4"]);
    const jobs = stub.seen.slice(1).flatMap(({ body }) => (body.jobs ?? [body]) as { on_conflict: string }[]);
    assert.ok(jobs.every((job) => job.on_conflict === "keep"));
  });

  it("sends the waiting puts when the request before them has failed", async () => {
    stub.disturb(/jobs/, "hang");
    queue = new Queue({ url: stub.url, timeout: 0.2, retryFor: 0 });
    const first = queue.put("orders", 1, { id: "first" });
    first.catch(() => undefined);
    await new Promise(setImmediate); // its request is under way
    assert.deepEqual(reasons(await putAll(2)), ["0", "1"]);
    await assert.rejects(first, Unavailable);
    assert.deepEqual(ids(), [["first"], ["0", "1"]]);
  });
});
