// Tests of how the dashboard displays figures, text and times, on a large screen and on a phone.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { chromium } from "playwright-core";
import { launch } from "./chromium.mjs";
import { fillWithTrouble, traceback } from "./load.mjs";
import { start } from "./server.mjs";
import { checkWithAxe, visit as visitWith } from "./visit.mjs";

/** One character of each kind without a glyph, and the escape that the dashboard shows for it. */
const INVISIBLE = [
  ["\u061c", "\\u061c"], ["\u180e", "\\u180e"], ["\u200b", "\\u200b"], ["\u202e", "\\u202e"], ["\u2066", "\\u2066"], ["\u00ad", "\\u00ad"],
  ["\u206a", "\\u206a"], ["\u3164", "\\u3164"], ["\ufe0f", "\\ufe0f"], ["\ufff9", "\\ufff9"], ["\u{1d173}", "\\u{1d173}"],
  ["\u{e0000}", "\\u{e0000}"], ["\u{e0041}", "\\u{e0041}"], ["\u{e007f}", "\\u{e007f}"], ["\u{e0100}", "\\u{e0100}"],
];

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

  const visit = (hash, use, options) => visitWith(browser, server.base, hash, use, options);
  const put = (job) => server.call("POST", "/jobs", job);
  const button = (page, name) => page.getByRole("button", { name, exact: true });
  const region = (page, name) => page.getByRole("region", { name });
  const purge = async (...topics) => { for (const topic of topics) await server.call("DELETE", `/topics/${topic}/jobs`); };

  /** Puts a job for each of these errors, and releases it with the error. */
  async function fail(topic, errors, max_attempts = 1) {
    await server.call("POST", "/batch/jobs", { jobs: errors.map(() => ({ topic, max_attempts })) });
    for (let left = errors; left.length > 0; left = left.slice(100)) {
      const { jobs } = await server.call("GET", `/topics/${topic}/pop?count=100`);
      await server.call("POST", "/batch/release", { jobs: jobs.map(({ id, reservation }, n) => ({ id, reservation, delay: "1h", error: left[n] })) });
    }
  }

  /** Changes the overview on its way to the page. */
  const changed = (change) => (page) => page.route("**/overview", async (route) => {
    const overview = await (await route.fetch()).json();
    change(overview);
    await route.fulfill({ json: overview });
  });

  test("the first state of a topic that has jobs, unless the address names one", async () => {
    await put({ topic: "first", delay: "1h" });
    await visit("#/topic/first", async (page) => {
      await page.getByText("1–1 of 1 delayed jobs").waitFor();
      assert.equal(await button(page, "delayed 1").getAttribute("aria-pressed"), "true");
    });
    await visit("#/topic/first/ready", (page) => page.getByText("No ready jobs").waitFor());
    await visit("#/topic/none", (page) => page.getByText("No ready jobs").waitFor());
    await purge("first");
  });

  test("whole numbers of jobs on the axis of a chart", async () => {
    await put({ topic: "whole", delay: "10m" });
    const prepare = (page) => page.addInitScript(() => {
      window.drawn = [];
      const { fillText } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        window.drawn.push(text);
        return fillText.call(this, text, ...rest);
      };
    });
    await visit("#/topic/whole", async (page) => {
      await page.getByRole("img", { name: /1 due within the next hour/ }).waitFor();
      await page.waitForFunction(() => window.drawn.includes("1"));
      assert.deepEqual((await page.evaluate(() => window.drawn)).filter((text) => text.includes(".")), []);
    }, { prepare });
    await purge("whole");
  });

  test("the jobs of the last step of a chart", async () => {
    await put({ topic: "last", delay: "59m" });
    await visit("#/topic/last", async (page) => {
      await page.getByRole("img", { name: /1 due within the next hour/ }).waitFor();
      await page.waitForFunction(() => {
        const canvas = document.querySelector(".plot canvas");
        const from = Math.floor(canvas.width * 0.9);
        const { data } = canvas.getContext("2d").getImageData(from, 0, canvas.width - from, canvas.height);
        const blue = data.filter((red, at) => at % 4 === 0 && data[at + 2] - red > 100).length;
        return blue > 500; // More than the edge of a bar.
      });
    });
    await purge("last");
  });

  test("a long body and a traceback on one line each, and in full when unfolded", async () => {
    await fail("long", [traceback(1)]);
    const [{ id }] = (await server.call("GET", "/topics/long/jobs?state=dead")).jobs;
    await server.call("DELETE", `/jobs/${id}`);
    await put({ topic: "long", id: "long1", max_attempts: 1, body: { text: "a long body ".repeat(100), key: "x".repeat(500), last: true } });
    const { jobs } = await server.call("GET", "/topics/long/pop");
    await server.call("POST", "/jobs/long1/release", { reservation: jobs[0].reservation, error: traceback(1) });
    await visit("#/topic/long/dead", async (page) => {
      const list = region(page, "List of jobs");
      const row = list.getByRole("row").filter({ hasText: "long1" });
      await row.getByText("requests.exceptions.ConnectTimeout").first().waitFor();
      const line = await row.evaluate((node) => [node.offsetHeight, parseFloat(getComputedStyle(node).lineHeight)]);
      assert.ok(line[0] < 2 * line[1] + 2, `${line[0]} high, a line has ${line[1]}`);
      assert.equal(await list.evaluate((node) => node.scrollWidth > node.clientWidth), false, "a line is wider than the list");
      const texts = row.locator("td.text");
      for (let n = 0; n < 2; n += 1) assert.match(await texts.nth(n).locator("summary").evaluate((node) => getComputedStyle(node).fontFamily), /mono/i);
      for (let n = 0; n < 2; n += 1) await texts.nth(n).locator("summary").click();
      await texts.nth(0).locator("pre").getByText('"last": true').waitFor();
      await texts.nth(1).locator("pre").getByText("Traceback (most recent call last)").waitFor();
      assert.equal(await texts.nth(1).locator("pre").textContent(), traceback(1));
      await checkWithAxe(page, "unfolded texts");
    });
    await visit("", async (page) => {
      const error = region(page, "Errors of dead jobs").getByRole("listitem").first();
      await error.getByText("requests.exceptions.ConnectTimeout").first().click();
      await error.locator("pre").getByText("Traceback (most recent call last)").waitFor();
      await page.locator("#pulse").getByText("as of").waitFor();
      assert.equal(await error.locator("details").evaluate((node) => node.open), true, "a poll has folded the error");
    });
    await purge("long");
  });

  test("errors that differ only in numbers, ids, addresses or quoted values as one error", async () => {
    await fail("grouped", Array.from({ length: 30 }, (_, n) => traceback(n)));
    await visit("", async (page) => {
      for (const [name, times] of [["Last errors", "30 ×, dead"], ["Errors of dead jobs", "30 ×"]]) {
        const items = region(page, name).getByRole("listitem").filter({ hasText: "grouped" });
        await items.getByText(times).waitFor();
        assert.equal(await items.count(), 1, name);
      }
    });
    await purge("grouped");
  });

  test("the last errors of other topics while one topic has many", async () => {
    await fail("quiet", ["no such customer"]);
    await fail("flood", Array.from({ length: 30 }, (_, n) => `no ${"abcdefghij".repeat(4).slice(0, n + 1)} in sight`), 20);
    await visit("", async (page) => {
      const errors = region(page, "Last errors").getByRole("listitem");
      await errors.filter({ hasText: "flood" }).first().waitFor();
      await errors.filter({ hasText: "quiet" }).getByText("no such customer").waitFor();
    });
    await purge("flood", "quiet");
  });

  test("late topics first, then those with dead jobs, then paused ones, then the others by name", async () => {
    for (const topic of ["healthy.b", "healthy.a", "late.2", "late.1", "resting"]) await put({ topic });
    await fail("broken", ["no"]);
    await server.call("POST", "/topics/resting/pause");
    let popped = 0;
    const prepare = changed((overview) => {
      overview.since_start.popped += popped += 5;
      const ages = { "late.1": 30, "late.2": 20, resting: 3600 };
      for (const list of ["oldest_ready", "most_dead", "most_delayed"]) {
        for (const topic of overview[list]) topic.oldest_ready_age = ages[topic.topic] ?? 0.1;
      }
      overview.oldest_ready.sort((one, other) => other.oldest_ready_age - one.oldest_ready_age);
    });
    await visit("", async (page) => {
      const names = region(page, "Topics with trouble").locator("tbody th a");
      await names.nth(5).waitFor();
      assert.deepEqual(await names.allInnerTexts(), ["late.1", "late.2", "broken", "resting", "healthy.a", "healthy.b"]);
      await page.locator(".verdict[data-level=bad], .verdict[data-level=warn]").waitFor();
      await page.locator(".verdict").getByText("late.1 and 1 other topic are not being consumed; the oldest job has waited for 30 s.").waitFor();
      assert.match(await page.locator(".verdict").innerText(), /^Warning /);
      const zero = page.locator(".spark .zero").first();
      assert.ok((await zero.evaluate((node) => node.getBBox().y)) > 18, "the zero line is not at the bottom");
    }, { prepare });
    await server.call("POST", "/topics/resting/resume");
    await purge("healthy.a", "healthy.b", "late.1", "late.2", "resting", "broken");
  });

  test("no lateness if the last pop is more than two minutes ago", async () => {
    const tile = (page) => page.locator(".tile").filter({ hasText: "Lateness" });
    const minute = (overview, ago) => { overview.lateness = [{ at: new Date(new Date(overview.as_of) - ago).toISOString(), popped: 3, p50: 1, p99: 2, max: 2 }]; };
    await visit("", (page) => tile(page).getByText("no pops in the last minute").waitFor(), { prepare: changed((overview) => minute(overview, 600_000)) });
    await visit("", (page) => tile(page).getByText("p50 1.0 s, in the last minute").waitFor(), { prepare: changed((overview) => minute(overview, 30_000)) });
  });

  test("no verdict while the server does not answer", async () => {
    await visit("", async (page) => {
      await page.locator(".verdict[data-level=ok]").waitFor();
      await server.kill();
      await page.getByRole("alert").getByText(/^No answer from the server since/).waitFor();
      assert.match(await page.locator(".verdict").innerText(), /^Unknown /);
      await checkWithAxe(page, "a server that does not answer");
      await page.getByRole("link", { name: "Topics" }).click();
      await page.getByRole("link", { name: "Overview" }).click();
      await page.locator(".verdict[data-level=unknown]").waitFor();
      await server.begin();
      await page.locator(".verdict[data-level=ok]").waitFor();
    }, { unreachable: true });
  });

  test("every column within the width of a phone", async () => {
    await fillWithTrouble(server.call);
    for (const hash of ["#/", "#/topics", "#/topic/payments.callback/dead", "#/topic/invoices.dunning", "#/job/job:traceback"]) {
      await visit(hash, async (page) => {
        await page.locator(hash.startsWith("#/job") ? ".facts" : "tbody tr").first().waitFor();
        const outside = await page.evaluate(() =>
          [...document.querySelectorAll("th, td, .errors li *, .facts dd")].filter((node) => node.getBoundingClientRect().right > innerWidth).map((node) => node.outerHTML));
        assert.deepEqual(outside, [], hash);
        assert.equal(await page.locator(".scroll").evaluateAll((all) => all.filter((node) => node.scrollWidth > node.clientWidth).length), 0, hash);
        if (hash !== "#/job/job:traceback") assert.ok(await page.locator("td:visible").count() > 3);
        await checkWithAxe(page, hash);
      }, { viewport: { width: 360, height: 740 } });
    }
  });

  test("times with their zone", async () => {
    await put({ topic: "zoned", id: "zoned1", delay: "1h" });
    const full = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+05:30$/;
    await visit("#/job/zoned1", async (page) => {
      await page.locator(".timeline time").first().waitFor();
      for (const text of await page.locator(".timeline time:visible").allInnerTexts()) assert.match(text, full);
      await page.locator("#pulse").getByText(/^as of \d\d:\d\d:\d\d \+05:30$/).waitFor();
      await page.goto(`${server.base}/#/topic/zoned`);
      assert.match(await page.locator("td span").first().innerText(), full);
      await page.getByLabel(/^Due from \(Asia\/(Kolkata|Calcutta)\)$/).waitFor();
    }, { timezoneId: "Asia/Kolkata" });
    await purge("zoned");
  });

  test("no dialog that was opened on another page", async () => {
    await visit("#/topic/left", async (page) => {
      await page.locator("main").getByRole("button", { name: "Pause" }).click();
      await page.getByRole("dialog").waitFor();
      await page.evaluate(() => { location.hash = "#/topics"; });
      await page.getByRole("heading", { level: 1, name: "Topics" }).waitFor();
      assert.equal(await page.getByRole("dialog").count(), 0);
    });
  });

  test("the errors of dead jobs anew after a change, also one during a request", async () => {
    await visit("", async (page) => {
      const isDue = await page.evaluate(async () => {
        const { pace } = await import("./assets/live.js");
        const pacer = pace(20);
        pacer.begin();
        pacer.want();
        const meanwhile = pacer.isDue(0);
        pacer.end();
        const wanted = pacer.isDue(3_600_000);
        pacer.begin();
        pacer.end();
        return [meanwhile, wanted, pacer.isDue(3_600_000)];
      });
      assert.deepEqual(isDue, [false, true, false]);
    });
  });

  test("characters without a glyph as escapes", async () => {
    const text = INVISIBLE.map(([c]) => c).join("|");
    const shown = INVISIBLE.map(([, escape]) => escape).join("|");
    await put({ topic: "unseen", id: "unseen1", max_attempts: 1, body: text });
    const { jobs } = await server.call("GET", "/topics/unseen/pop");
    await server.call("POST", "/jobs/unseen1/release", { reservation: jobs[0].reservation, error: text });
    await visit("#/job/unseen1", async (page) => {
      await page.locator("pre.body").getByText(shown).waitFor();
      await page.locator("pre.error").getByText(shown).waitFor();
      await page.goto(`${server.base}/#/topic/unseen/dead`);
      await page.locator("td").getByText(shown).first().waitFor();
      assert.equal(await page.locator("td").getByText(shown).count() >= 2, true);
      await page.goto(`${server.base}/#/`);
      await region(page, "Last errors").getByText(shown).first().waitFor();
      for (const [hash, heading] of [[`#/job/a${encodeURIComponent("\u061c\u{e0041}")}b`, "Job a\\u061c\\u{e0041}b"], [`#/topic/a${encodeURIComponent("\u180e")}b`, "a\\u180eb"]]) {
        await page.goto(`${server.base}/${hash}`);
        await page.getByRole("heading", { level: 1, name: heading }).waitFor();
        assert.ok((await page.title()).includes(heading.replace("Job ", "")));
      }
    }, { refused: [404, 422] });
    await purge("unseen");
  });
});
