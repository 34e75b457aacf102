// Tests of the settings of a topic, and of what they lead to: jobs that are kept finished, and jobs that move when they die.

import assert from "node:assert/strict";
import { test } from "node:test";
import { onEachStore } from "./stores.mjs";

onEachStore("settings", ({ call, put, base, visit, button, dialogButton, waitForToast }) => {
  const defaults = async (topic) => (await call("GET", `/topics/${topic}`)).defaults;
  const input = (page, name) => page.getByRole("dialog").getByLabel(name, { exact: true });

  test("of a topic are shown, changed, and removed by an empty field", async () => {
    await call("PUT", "/topics/ruled", { ttr: "90s", backoff: ["1m", "1h30m"], expires_after: 0.25 });
    await visit("#/topic/ruled", async (page) => {
      await page.getByText("Defaults of a new job: TTR 1 m 30 s; backoff 1 m, 1 h 30 m; expires 250 ms after its due time.").waitFor();
      await button(page, "Settings").click();
      for (const [name, value] of [["TTR", "1m30s"], ["Backoff", "1m, 1h30m"], ["Expires after", "250ms"], ["Priority", ""]]) assert.equal(await input(page, name).inputValue(), value, name);
      const changes = [
        ["TTR", ""], ["Attempts", "0"], ["Priority", "7"], ["Expires after", "2d"], ["Dead jobs are kept for", "30d"], ["Finished jobs are kept for", "3600"],
        ["Backoff", '{"initial": "1s", "factor": 2.5, "max": "1h", "jitter": 0.1}'], ["Dead jobs move to", "ruled.dead"],
      ];
      for (const [name, value] of changes) await input(page, name).fill(value);
      await dialogButton(page, "Save").click();
      await waitForToast(page, "Saved the settings of ruled.");
      assert.deepEqual(await defaults("ruled"), {
        ttr: null, max_attempts: 0, backoff: { initial: 1, factor: 2.5, max: 3600, jitter: 0.1 }, dead_retention: 2592000, finished_retention: 3600,
        priority: 7, expires_after: 172800, dead_to: "ruled.dead",
      });
      await page.getByText("attempts without limit; backoff from 1.0 s, × 2.5, at most 1 h, ± 10 %; priority 7; expires 2 d after its due time; kept for 30 d when dead; kept for 1 h when finished; moves to ruled.dead when it dies.").waitFor();
      await button(page, "Settings").click();
      assert.equal(await input(page, "Backoff").inputValue(), '{"initial":"1s","factor":2.5,"max":"1h","jitter":0.1}');
      for (const [name] of changes) await input(page, name).fill("");
      await dialogButton(page, "Save").click();
      await page.getByText("Defaults of a new job").waitFor({ state: "hidden" });
      assert.deepEqual(Object.values(await defaults("ruled")).filter((value) => value !== null), []);
    });
  });

  test("that are refused are reported at their fields", async () => {
    await visit("#/topic/refused", async (page) => {
      await button(page, "Settings").click();
      const refusals = [["TTR", "5x", "`ttr`"], ["Attempts", "many", "`max_attempts`"], ["Priority", "10", "`priority`"], ["Backoff", "1m, soon", "`backoff[1]`"], ["Backoff", '{"initial":', "The backoff is not JSON"], ["Dead jobs move to", "a b", "`dead_to`"]];
      for (const [name, value, text] of refusals) {
        await input(page, name).fill(value);
        await dialogButton(page, "Save").click();
        await page.locator(".field", { has: page.getByLabel(name, { exact: true }) }).getByRole("alert").getByText(text).waitFor();
        assert.equal(await input(page, name).getAttribute("aria-invalid"), "true");
        assert.equal(await page.locator("[aria-invalid]").count(), 1);
        await input(page, name).fill("");
      }
    }, { refused: [422] });
  });

  test("let jobs move when they die, and the job's page names the topic in which it died", async () => {
    await call("PUT", "/topics/source", { dead_to: "target", max_attempts: 1 });
    await put({ topic: "source", id: "moved" });
    const { jobs: [{ reservation }] } = await call("GET", "/topics/source/pop?consumer=worker-1");
    await call("POST", "/jobs/moved/release", { reservation, error: "no luck" });
    await visit("#/job/moved", async (page) => {
      await page.locator(".facts").getByText("Died in").waitFor();
      await page.locator(".timeline").getByText("Attempt 1: released").waitFor();
      await page.locator(".timeline").getByText(/^took .* by worker-1$/).waitFor();
      await page.locator(".facts").getByRole("link", { name: "source" }).click();
      await page.getByRole("heading", { level: 1, name: "source" }).waitFor();
    });
    await call("DELETE", "/topics/target/jobs");
  });

  test("let finished jobs be listed with their results, and each with the timeline of its attempts", async () => {
    await call("PUT", "/topics/kept", { finished_retention: "1h", max_attempts: 3 });
    await put({ topic: "kept", id: "kept1" });
    for (const [n, change] of [["release", { error: `busy ${"_".repeat(60)}`, delay: 0 }], ["release", { count_attempt: false, delay: 0 }], ["finish", { result: { sum: 7 } }]].entries()) {
      const { jobs: [{ reservation }] } = await call("GET", `/topics/kept/pop?wait=10s&consumer=worker-${n}`);
      await call("POST", `/jobs/kept1/${change[0]}`, { reservation, ...change[1] });
    }
    await visit("#/topic/kept/finished", async (page) => {
      await page.getByRole("region", { name: "List of jobs" }).getByText('{"sum":7}').waitFor();
      await page.getByRole("link", { name: "kept1" }).click();
      const items = page.locator(".timeline li");
      await items.nth(5).waitFor();
      const labels = await page.locator(".timeline .label").allInnerTexts();
      assert.deepEqual(labels.filter((text) => text !== "Was due"), ["Put", "Attempt 1: released", "Attempt 2: released, not counted", "Attempt 2: finished", "Finished, attempt 2 of 3"]);
      const first = items.filter({ hasText: "Attempt 1" });
      assert.match(await first.innerText(), /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d\s+.* ago\s+took \d.* by worker-0\s+busy _+/);
      await first.locator("summary").click();
      await page.locator("#pulse").getByText("as of").waitFor();
      await items.filter({ hasText: "Attempt 2: finished" }).getByText("by worker-2").waitFor();
      await page.waitForResponse((answer) => answer.url() === `${base()}/jobs/kept1`);
      assert.equal(await first.locator("details").evaluate((node) => node.open), true, "a poll folded it");
    });
    await call("DELETE", "/topics/kept/jobs");
  });
});
