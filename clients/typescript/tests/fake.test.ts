import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Bury, FakeQueue, Snooze, Worker } from "../src/index.js";

describe("FakeQueue", () => {
  it("hands a job out when it is due, and not before", async () => {
    const fake = new FakeQueue();
    const closed: unknown[] = [];
    const worker = new Worker<{ order: number }>(fake, "orders", ({ body }) => void closed.push(body.order));
    await fake.put("orders", { order: 7 }, { id: "close:7", delay: "30m" });
    assert.deepEqual(await fake.runDue(worker), []);
    fake.advance(1799.999);
    assert.deepEqual(await fake.runDue(worker), []);
    fake.advance("1ms");
    assert.deepEqual(await fake.runDue(worker), [{ id: "close:7", attempt: 1, outcome: "finished" }]);
    assert.deepEqual(closed, [7]);
    assert.equal(await fake.get("close:7"), null);
  });

  it("runs jobs by priority, then due time, each once", async () => {
    const fake = new FakeQueue();
    const worker = new Worker(fake, "a", () => Promise.reject(new Error("again"))).on("b", () => 1);
    await fake.putMany([
      { topic: "a", id: "late", delay: 2 },
      { topic: "a", id: "early", delay: 1 },
      { topic: "b", id: "urgent", delay: 3, priority: 9 },
    ]);
    fake.advance(3);
    const runs = await fake.runDue(worker);
    assert.deepEqual(
      runs.map(({ id, outcome }) => [id, outcome]),
      [
        ["urgent", "finished"],
        ["early", "released"],
        ["late", "released"],
      ],
    );
  });

  it("retries by the backoff until the attempts are spent", async () => {
    const fake = new FakeQueue();
    const worker = new Worker(fake, "calls", () => Promise.reject(new Error("no answer")));
    const puts = [
      { id: "list", backoff: ["2m", "10m"], seconds: [120, 600] },
      { id: "exponential", backoff: { initial: 1, factor: 3, max: 5 }, maxAttempts: 4, seconds: [1, 3, 5] },
    ];
    for (const { id, seconds, ...rest } of puts) {
      await fake.put("calls", null, { id, ...rest });
      for (const wait of seconds) {
        await fake.runDue(worker);
        const job = await fake.get(id);
        assert.equal((job?.dueAt.getTime() ?? 0) - fake.now.getTime(), wait * 1000);
        fake.advance(wait);
      }
      await fake.runDue(worker);
      const job = await fake.get(id);
      assert.deepEqual([job?.state, job?.error, job?.attempt], ["dead", "no answer", seconds.length + 1]);
    }
  });

  it("buries, snoozes and keeps results as the server does", async () => {
    const fake = new FakeQueue();
    const outcomes = { bury: new Bury("no"), snooze: new Snooze(60) };
    const worker = new Worker<keyof typeof outcomes | "finish">(fake, "t", ({ body }) => {
      if (body !== "finish") throw outcomes[body];
      return { sum: 3 };
    });
    for (const body of ["bury", "snooze", "finish"]) await fake.put("t", body, { id: body, finishedRetention: "1h" });
    const runs = await fake.runDue(worker);
    assert.deepEqual(
      runs.map(({ outcome }) => outcome),
      ["buried", "snoozed", "finished"],
    );
    assert.equal((await fake.get("bury"))?.state, "dead");
    assert.equal((await fake.get("snooze"))?.attempt, 0);
    assert.deepEqual((await fake.get("finish"))?.result, { sum: 3 });
    fake.advance("1h");
    assert.equal(await fake.get("finish"), null);
  });

  it("refuses what the server refuses", async () => {
    const fake = new FakeQueue();
    await fake.put("t", 1, { id: "a" });
    await assert.rejects(fake.put("t", 2, { id: "a" }), { code: "job_exists", state: "ready" });
    await assert.rejects(fake.put("u", 2, { id: "a", onConflict: "keep" }), { code: "job_exists" });
    assert.equal((await fake.put("t", 2, { id: "a", onConflict: "keep" })).state, "ready");
    await fake.put("t", 3, { id: "a", onConflict: "replace", delay: 5 });
    assert.deepEqual([(await fake.get("a"))?.body, (await fake.get("a"))?.state], [3, "delayed"]);
    await assert.rejects(fake.put("t", 1, { delay: "1M" }), { code: "invalid_field", field: "delay" });
    await assert.rejects(fake.put("a b", 1), { field: "topic" });
    await assert.rejects(fake.put("t", 1, { ttr: 0.5 }), { field: "ttr" });
    assert.deepEqual(await fake.cancel("a"), { id: "a", state: "delayed" });
    assert.equal(await fake.cancel("a"), null);
  });

  it("expires jobs and reservations, and moves the dead", async () => {
    const fake = new FakeQueue();
    await fake.setTopic("t", { deadTo: "failed", expiresAfter: 10 });
    await fake.put("t", 1, { id: "a", headers: { h: "1" } });
    const pop = { topics: ["t"], count: 1, wait: 0, consumer: "c", signal: new AbortController().signal };
    const [job] = await fake.pop(pop);
    assert.deepEqual(job?.headers, { h: "1" });
    fake.advance(60);
    const moved = await fake.get("a");
    assert.deepEqual([moved?.topic, moved?.state, moved?.deadFrom, moved?.error], ["failed", "ready", "t", "expired"]);
    const [answer] = await fake.acknowledge("touch", [{ id: "a", reservation: job.reservation }]);
    assert.equal(answer?.code, "reservation_lost");
  });

  it("serves a running worker", async () => {
    const fake = new FakeQueue();
    const worker: Worker = new Worker(fake, "t", () => worker.stop(), { stopOn: [] });
    const running = worker.run();
    await fake.put("t", 1, { id: "a", delay: 5 });
    fake.advance(5);
    await running;
    assert.equal(await fake.get("a"), null);
  });
});
