// Priorities, expiry and uncounted attempts in the dashboard.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { chromium } from "playwright-core";
import { launch } from "./chromium.mjs";
import { start, until } from "./server.mjs";
import { visit as visitWith } from "./visit.mjs";

describe("the dashboard shows", () => {
  let server, browser;
  before(async () => {
    server = await start("file");
    browser = await launch(chromium);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  const visit = (hash, use) => visitWith(browser, server.base, hash, use);
  const put = (job) => server.call("POST", "/jobs", job);
  const button = (page, name) => page.getByRole("button", { name, exact: true });

  test("the priority and the expiry of a job, and which of its attempts do not count", async () => {
    await put({ topic: "limited", id: "limited1", priority: 7, expires_after: "2h", backoff: ["2m", "10m"] });
    const { jobs } = await server.call("GET", "/topics/limited/pop");
    const uncounted = { reservation: jobs[0].reservation, delay: "10m", count_attempt: false, error: `not paid yet${"_".repeat(200)}` };
    await server.call("POST", "/jobs/limited1/release", uncounted);
    await put({ topic: "limited", id: "limited2", expires_after: "1ms" });
    await until("limited2 expires", async () => (await server.call("GET", "/jobs/limited2")).state === "dead");
    await visit("#/job/limited1", async (page) => {
      const facts = page.locator(".facts");
      await facts.getByText("Priority").waitFor();
      assert.match(await facts.innerText(), /Attempts\s+0 of 3[\s\S]*Priority\s+7\s+Expires at\s+\d{4}-[\s\S]*Expires after\s+2 h/);
      const items = await page.locator(".timeline li").allInnerTexts();
      assert.match(items.join("\n"), /Due[\s\S]*Expires, unless popped before[\s\S]*If attempt 1 fails: again after 2 m, unless it expires before$/);
      await page.locator(".timeline").getByText("Attempt 1: released, not counted").waitFor();
      const [shown, needed] = await page.locator(".timeline").evaluate((list) => [list.clientWidth, list.scrollWidth]);
      assert.ok(needed <= shown, `the timeline needs ${needed} of ${shown} pixels`);
      await page.goto(`${server.base}/#/job/limited2`);
      await page.locator(".timeline").getByText("Expired, before its first attempt").waitFor();
      await page.getByLabel("Last error").getByText("expired", { exact: true }).waitFor();
    });
    await server.call("DELETE", "/topics/limited/jobs");
  });

  test("the defaults of a topic, and the priority of its ready jobs if one is not the standard", async () => {
    const table = (page) => page.getByRole("region", { name: "List of jobs" });
    await put({ topic: "ranked", id: "plain" });
    await visit("#/topic/ranked", async (page) => {
      await table(page).getByText("plain").waitFor();
      assert.equal(await table(page).getByRole("columnheader", { name: "Priority" }).count(), 0);
      assert.equal(await page.getByText("Defaults of a new job").isVisible(), false);
      await server.call("PUT", "/topics/ranked", { priority: 7, expires_after: "2d" });
      await put({ topic: "ranked", id: "urgent" });
      await page.getByText("Defaults of a new job: priority 7; expires 2 d after its due time.").waitFor();
      await button(page, "Reload").click();
      await table(page).getByText("urgent").waitFor();
      await page.getByText("in order of priority and time within each bucket").waitFor();
      assert.equal(await table(page).getByRole("columnheader", { name: "Priority" }).count(), 1);
      assert.deepEqual(await table(page).locator("tbody td[data-label=Priority]").allInnerTexts(), ["7", "4"]);
      assert.deepEqual(await table(page).locator("tbody th").allInnerTexts(), ["urgent", "plain"]);
      await button(page, "delayed 0").click();
      await page.getByText("No delayed jobs").waitFor();
      assert.equal(await table(page).getByRole("columnheader", { name: "Priority" }).count(), 0);
    });
    await server.call("PUT", "/topics/ranked", {});
    await server.call("DELETE", "/topics/ranked/jobs");
  });
});
