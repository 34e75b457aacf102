// Tests that lists refresh by themselves and keep their place, and that the address holds what they show.

import assert from "node:assert/strict";
import { test } from "node:test";
import { onEachStore } from "./stores.mjs";

onEachStore("lists", ({ call, put, base, visit, button }) => {
  const rows = (page) => page.getByRole("region", { name: "List of jobs" }).locator("tbody tr");
  const row = (page, id) => rows(page).filter({ has: page.getByRole("link", { name: id, exact: true }) });
  const fill = (topic, n, properties) => call("POST", "/batch/jobs", { jobs: Array.from({ length: n }, (_, i) => ({ topic, id: `${topic}:${String(i).padStart(3, "0")}`, ...properties(i) })) });

  test("show new jobs by themselves, and keep the position, the selection and unfolded texts", async () => {
    await fill("moving", 40, (n) => ({ delay: `${n + 10}m`, body: { text: "long ".repeat(30), n } }));
    await visit("#/topic/moving/delayed", async (page) => {
      const read = row(page, "moving:030");
      await read.locator("summary").click();
      await read.getByRole("checkbox").check();
      await read.scrollIntoViewIfNeeded();
      await read.getByRole("checkbox").focus();
      const top = () => read.evaluate((node) => node.getBoundingClientRect().top);
      const before = await top();
      // These jobs are listed above, and one of them leaves the list again.
      for (const [id, delay] of [["above1", "1m"], ["above2", "2m"]]) await put({ topic: "moving", id, delay });
      await row(page, "above1").waitFor();
      await call("DELETE", "/jobs/above1");
      await row(page, "above1").waitFor({ state: "detached" });
      await row(page, "above2").waitFor();
      await call("PATCH", "/jobs/moving:030", { body: { changed: true } });
      await call("PATCH", "/jobs/moving:000", { body: { changed: 7 } });
      await row(page, "moving:000").getByText('{"changed":7}').waitFor();
      assert.equal(await read.locator("details").evaluate((node) => node.open), true, "the text was folded");
      await read.getByText('"n": 30').waitFor();
      assert.equal(await read.getByRole("checkbox").isChecked(), true);
      assert.equal(await page.evaluate(() => document.activeElement.value), "moving:030");
      assert.ok(Math.abs(await top() - before) < 2, `it moved from ${before} to ${await top()}`);
    });
    await call("DELETE", "/topics/moving/jobs");
  });

  test("have a heading above each column while they load", async () => {
    await visit("#/topic/loading", async (page) => {
      const heads = page.getByRole("region", { name: "List of jobs" }).locator("thead th:visible");
      await heads.first().waitFor();
      const texts = await heads.evaluateAll((all) => all.map((head) => head.textContent || head.firstElementChild.ariaLabel));
      assert.ok(texts.length > 2 && texts.every((text) => text), `${texts}`);
    }, { prepare: (page) => page.route(/\/topics\/loading\/jobs/, () => {}) });
  });

  test("of topics have pages, and Back returns to the page before", async () => {
    const names = Array.from({ length: 101 }, (_, n) => `paged-${String(n).padStart(3, "0")}`);
    await Promise.all(names.map((name) => call("PUT", `/topics/${name}`, { ttr: "30s" })));
    await visit("#/topics?prefix=paged-", async (page) => {
      await page.getByText("Topics 1–100").waitFor();
      await button(page, "Next").click();
      await page.getByText("Topics 101–101").waitFor();
      assert.deepEqual(await page.getByRole("region", { name: "List of topics" }).getByRole("rowheader").allInnerTexts(), ["paged-100"]);
      await page.goBack();
      await page.getByText("Topics 1–100").waitFor();
    });
    await Promise.all(names.map((name) => call("PUT", `/topics/${name}`, {})));
  });

  test("have an address that shows the same state, filters and page, and Back returns to the list before", async () => {
    await fill("linked", 120, (n) => ({ delay: `${n + 10}m` }));
    await put({ topic: "linked", id: "now" });
    let link;
    await visit("#/topic/linked", async (page) => {
      await row(page, "now").waitFor();
      await button(page, "delayed 120").click();
      await page.getByText("1–50 of 120 delayed jobs").waitFor();
      await page.getByLabel("Due from").fill(await page.evaluate(() => {
        const at = new Date(Date.now() + 600_000 - new Date().getTimezoneOffset() * 60_000);
        return at.toISOString().slice(0, 19);
      }));
      await page.getByLabel("Due from").dispatchEvent("change");
      await page.getByText(/1–50 delayed jobs/).waitFor();
      await button(page, "Next").click();
      await page.getByText("51–100 delayed jobs").waitFor();
      link = page.url();
      await page.goBack();
      await page.getByText("1–50 delayed jobs").waitFor();
      await page.goBack();
      await page.getByText("1–50 of 120 delayed jobs").waitFor();
      assert.equal(await page.getByLabel("Due from").inputValue(), "");
      await page.goBack();
      await page.getByText("1–1 of 1 ready jobs").waitFor();
      await page.goForward();
      await page.getByText("1–50 of 120 delayed jobs").waitFor();
      await page.goForward();
      await page.getByText("1–50 delayed jobs").waitFor();
      await page.goForward();
      await page.getByText("51–100 delayed jobs").waitFor();
      await button(page, "Previous").click();
      await page.getByText("1–50 delayed jobs").waitFor();
    });
    await visit(link.slice(base().length + 1), async (page) => {
      await page.getByText("51–100 delayed jobs").waitFor();
      assert.notEqual(await page.getByLabel("Due from").inputValue(), "");
      assert.equal(await button(page, "delayed 120").getAttribute("aria-pressed"), "true");
      await button(page, "First page").click();
      await page.getByText("1–50 delayed jobs").waitFor();
      await page.goto(`${base()}/#/topic/linked/delayed?limit=1000&cursor=nonsense`);
      await page.getByText("`cursor`").first().waitFor();
    }, { refused: [422] });
    await call("DELETE", "/topics/linked/jobs");
  });

  test("of the overview have their order in the address", async () => {
    await visit("#/?order=most_delayed", async (page) => {
      await page.locator(".verdict[data-level]").waitFor();
      assert.equal(await button(page, "Most delayed").getAttribute("aria-pressed"), "true");
      await button(page, "Most dead").click();
      await page.locator('[data-value="most_dead"][aria-pressed="true"]').waitFor();
      assert.match(page.url(), /#\/\?order=most_dead$/);
      await page.goBack();
      await page.locator('[data-value="most_delayed"][aria-pressed="true"]').waitFor();
    });
  });

  test("are where the user left them when Back leads from a job to its list", async () => {
    await fill("scrolled", 50, (n) => ({ delay: `${n + 10}m` }));
    await visit("#/topic/scrolled/delayed", async (page) => {
      const link = page.getByRole("link", { name: "scrolled:045", exact: true });
      await link.scrollIntoViewIfNeeded();
      const before = await page.evaluate(() => scrollY);
      assert.ok(before > 100, `${before}`);
      await link.click();
      await page.getByRole("heading", { name: /Job scrolled:045/ }).waitFor();
      assert.equal(await page.evaluate(() => scrollY), 0);
      await page.goBack();
      await link.waitFor();
      await page.waitForFunction((y) => Math.abs(scrollY - y) < 2, before);
    });
    await call("DELETE", "/topics/scrolled/jobs");
  });

  test("of topics refresh by themselves, and their address has the beginning of the names", async () => {
    for (const topic of ["alpha.1", "alpha.2", "beta"]) await put({ topic, delay: "1h" });
    await visit("#/topics", async (page) => {
      const names = page.getByRole("region", { name: "List of topics" }).locator("tbody th a");
      await names.getByText("beta").waitFor();
      await page.getByLabel("Begins with").fill("alpha");
      await names.getByText("beta").waitFor({ state: "detached" });
      assert.match(page.url(), /#\/topics\?prefix=alpha$/);
      await put({ topic: "alpha.3", delay: "1h" });
      await names.getByText("alpha.3").waitFor();
      await put({ topic: "alpha.3", delay: "1h" });
      const cell = page.getByRole("row").filter({ hasText: "alpha.3" });
      await cell.getByRole("link", { name: "2", exact: true }).click();
      await page.getByText("1–2 of 2 delayed jobs").waitFor();
      await page.goBack();
      await names.getByText("alpha.3").waitFor();
      assert.equal(await page.getByLabel("Begins with").inputValue(), "alpha");
      assert.equal(await names.count(), 3);
    });
    for (const topic of ["alpha.1", "alpha.2", "alpha.3", "beta"]) await call("DELETE", `/topics/${topic}/jobs`);
  });
});
