// Tests of schedules: their list, the page of one, the form with its preview, and their actions.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { chromium } from "playwright-core";
import { launch } from "./chromium.mjs";
import { client } from "./load.mjs";
import { newToken, start } from "./server.mjs";
import { onEachStore } from "./stores.mjs";
import { checkWithAxe, visit as visitWith } from "./visit.mjs";

const SIZES = [
  { viewport: { width: 1440, height: 900 }, colorScheme: "light" },
  { viewport: { width: 1440, height: 900 }, colorScheme: "dark" },
  { viewport: { width: 320, height: 740 }, colorScheme: "dark" },
];
const BERLIN = { timezoneId: "Europe/Berlin" };

const rows = (page) => page.getByRole("region", { name: "List of schedules" }).locator("tbody tr");
const row = (page, name) => rows(page).filter({ has: page.getByRole("link", { name, exact: true }) });
const cell = (page, name, label) => row(page, name).locator(`[data-label="${label}"]`);
const dialog = (page) => page.getByRole("dialog");
const input = (page, name) => dialog(page).getByLabel(name, { exact: true });
const preview = (page) => dialog(page).getByRole("status", { name: "Preview" });
const fieldOf = (page, name) => dialog(page).locator(".field", { has: page.getByLabel(name, { exact: true }) });
const fact = (page, label) => page.locator(`.facts dt:text-is("${label}") + dd`);

onEachStore("schedules", ({ call, visit, button, dialogButton, waitForToast }) => {
  const stored = (name) => call("GET", `/schedules/${name}`);
  const set = (name, schedule) => call("PUT", `/schedules/${name}`, schedule);

  /** Opens the dialog of a button, and waits until it is shown. */
  async function ask(page, name, heading) {
    await button(page, name).click();
    await dialog(page).getByRole("heading", { name: heading, exact: true }).waitFor();
  }

  test("are listed with their topic, timing, next time and last job, by prefix and topic, page by page", async () => {
    await set("list.daily", { topic: "listed", cron: "0 9 * * MON-FRI", timezone: "Europe/Berlin" });
    await set("list.ended", { topic: "other", every: "1h", end: "2020-01-01T00:00:00Z" });
    await set("list.rest", { topic: "listed", every: "1d" });
    await call("POST", "/schedules/list.rest/pause");
    await visit("#/schedules?prefix=list.", async (page) => {
      await page.getByText("3 schedules", { exact: true }).waitFor();
      await cell(page, "list.daily", "Timing").getByText("at 09:00, on Monday to Friday, Europe/Berlin", { exact: true }).waitFor();
      assert.match(await cell(page, "list.daily", "Next").innerText(), /^\d{4}-\d\d-\d\d 09:00:00 \+0[12]:00 in \d/);
      assert.equal(await cell(page, "list.daily", "Last job").innerText(), "none yet");
      assert.match(await cell(page, "list.ended", "Next").innerText(), /^none left/);
      assert.match(await cell(page, "list.rest", "Next").innerText(), /^–/);
      await row(page, "list.rest").getByText("paused", { exact: true }).waitFor();
      assert.equal(await row(page, "list.daily").getByText("paused").isVisible(), false);
      await page.getByLabel("Topic", { exact: true }).fill("listed");
      await page.getByLabel("Topic", { exact: true }).press("Enter");
      await page.getByText("2 schedules", { exact: true }).waitFor();
      assert.match(page.url(), /#\/schedules\?prefix=list\.&topic=listed$/);
      await page.getByLabel("Begins with").fill("list.d");
      await page.getByText("1 schedule", { exact: true }).waitFor();
      await page.getByLabel("Begins with").fill("list.x");
      await page.getByText("No schedule matches.").waitFor();
      await page.getByLabel("Begins with").fill("list.d");
      await cell(page, "list.daily", "Topic").getByRole("link", { name: "listed", exact: true }).click();
      await page.getByRole("heading", { level: 1, name: "listed" }).waitFor();
      await page.locator("main").getByRole("link", { name: "Schedules", exact: true }).click();
      await row(page, "list.rest").waitFor();
      assert.deepEqual(await rows(page).locator("th a").allInnerTexts(), ["list.daily", "list.rest"]);
    }, BERLIN);
    const names = Array.from({ length: 51 }, (_, n) => `page-${String(n).padStart(2, "0")}`);
    await Promise.all(names.map((name) => set(name, { topic: "paged", every: "1d" })));
    await visit("#/schedules?topic=paged", async (page) => {
      await page.getByText("Schedules 1–50", { exact: true }).waitFor();
      await button(page, "Next").click();
      await page.getByText("Schedules 51–51", { exact: true }).waitFor();
      await row(page, "page-50").waitFor();
      await page.goBack();
      await page.getByText("Schedules 1–50", { exact: true }).waitFor();
    });
  });

  test("are created with a preview while typing, shown on a page of their own, and changed without loss", async () => {
    await visit("#/schedules", async (page) => {
      await ask(page, "New schedule", "New schedule");
      await preview(page).getByText("The next times appear here").waitFor();
      await input(page, "Name").fill("made");
      await input(page, "Topic").fill("making");
      await input(page, "Cron line").pressSequentially("30 8 * * MON");
      await preview(page).getByText("At 08:30, on Monday, UTC", { exact: true }).waitFor();
      await input(page, "Time zone").pressSequentially("Europe/Berlin");
      await preview(page).getByText("At 08:30, on Monday, Europe/Berlin", { exact: true }).waitFor();
      const times = await preview(page).getByRole("listitem").allInnerTexts();
      assert.equal(times.length, 5);
      for (const text of times) assert.match(text, /^\d{4}-\d\d-\d\d 08:30:00 \+0[12]:00 in \d+ /);
      await input(page, "Body").fill('{"n": 12345678901234567890}');
      await input(page, "If the last job has not ended").selectOption("skip");
      await input(page, "Jitter").fill("1m30s");
      await dialog(page).getByText("Rules and headers of its jobs").click();
      await input(page, "TTR").fill("10m");
      await input(page, "Backoff").fill("1m, 1h");
      await input(page, "Headers").fill("x-shop: 7");
      await dialogButton(page, "Save").click();
      await waitForToast(page, "Saved the schedule made.");
      await page.getByRole("heading", { level: 1, name: "made" }).waitFor();
      const items = page.getByRole("list", { name: "Next times" }).getByRole("listitem");
      await items.nth(4).waitFor();
      const instants = (all) => all.map((text) => text.split(" in ")[0]);
      assert.deepEqual(instants(await items.allInnerTexts()), instants(times));
      const facts = {
        Topic: "making", "Cron line": "30 8 * * MON", "Time zone": "Europe/Berlin", Jitter: "up to 1 m 30 s", "If the last job has not ended": "skip the instant",
        "Times missed by over a minute": "put the latest", "Rules of its jobs": "TTR 10 m; backoff 1 m, 1 h", "Header x-shop": "7",
      };
      for (const [label, value] of Object.entries(facts)) assert.equal(await fact(page, label).innerText(), value, label);
      await page.getByLabel("Body of each job").getByText("12345678901234567890").waitFor();

      // A change keeps what the form does not show: milliseconds and the trace.
      const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
      await set("made", { ...(await stored("made")), start: "2020-02-03T04:05:06.789Z", traceparent });
      await ask(page, "Change made", "Schedule made");
      assert.equal(await input(page, "Start").inputValue(), "2020-02-03T05:05:06");
      assert.equal(await input(page, "Headers").inputValue(), "x-shop: 7");
      await input(page, "Cron line").fill("@daily");
      await input(page, "Jitter").fill("");
      await dialogButton(page, "Save").click();
      await fact(page, "Cron line").getByText("@daily", { exact: true }).waitFor();
      const { cron, timezone, start: from, jitter, overlap, ttr, backoff, headers, traceparent: trace } = await stored("made");
      assert.deepEqual({ cron, timezone, from, jitter, overlap, ttr, backoff, headers, trace }, {
        cron: "@daily", timezone: "Europe/Berlin", from: "2020-02-03T04:05:06.789Z", jitter: 0, overlap: "skip", ttr: 600, backoff: [60, 3600], headers: { "x-shop": "7" }, trace: traceparent,
      });
      // An interval replaces the cron line.
      await ask(page, "Change made", "Schedule made");
      for (const [name, value] of [["Cron line", ""], ["Time zone", ""], ["Or every", "2h"]]) await input(page, name).fill(value);
      await preview(page).getByText("Every 2 hours", { exact: false }).waitFor();
      await dialogButton(page, "Save").click();
      await fact(page, "Every").getByText("2 h", { exact: true }).waitFor();
      assert.equal((await stored("made")).cron, undefined);
      // A pause in typing sends an unfinished line.
    }, { ...BERLIN, refused: [422] });
  });

  test("that are refused are reported at the field, while typing and on saving", async () => {
    await set("taken", { topic: "wrong", every: "1h" });
    await visit("#/schedules", async (page) => {
      await ask(page, "New schedule", "New schedule");
      const isReported = (name, text) => fieldOf(page, name).getByRole("alert").getByText(text).waitFor();
      const whileTyping = [
        ["Cron line", "0 0 31 2 *", "Cron line", "`cron` must have an instant within"], ["Cron line", "61 * * * *", "Cron line", "`cron`"],
        ["Cron line", "@daily", null], ["Time zone", "Mars/Base", "Time zone", "`timezone`"], ["Time zone", "", null], ["Or every", "2h", "Or every", "`every` cannot be combined"],
        ["Cron line", "", null], ["Or every", "500ms", "Or every", "`every`"], ["Or every", "1h", null],
      ];
      for (const [name, value, faulty, text] of whileTyping) {
        await input(page, name).fill(value);
        if (faulty) await isReported(faulty, text);
        else await preview(page).getByRole("listitem").nth(4).waitFor();
        assert.equal(await page.locator("[aria-invalid]").count(), faulty ? 1 : 0, `${name} ${value}`);
        if (faulty) await preview(page).getByText("No preview until the timing is right.").waitFor();
        assert.equal(await input(page, name).evaluate((control) => control === document.activeElement), true, "the focus moved");
      }
      // An input elsewhere does not hide the problem.
      await input(page, "Start").fill("2030-01-02T00:00:00");
      await input(page, "End").fill("2030-01-01T00:00:00");
      await isReported("End", "`end`");
      await input(page, "Body").fill('{"a":');
      await isReported("End", "`end`");
      await input(page, "End").fill("");
      await preview(page).getByRole("listitem").nth(4).waitFor();

      const onSaving = [
        ["Name", "a b", "1 to 107 of"], ["Name", "preview", 'not "preview"'], ["Name", "right", null], ["Topic", "a b", "`topic`"], ["Topic", "wrong", null],
        ["Body", '{"a":', "The body is not JSON"], ["Body", "{}", null], ["Jitter", "5x", "`jitter`"], ["Jitter", "", null], ["Priority", "10", "`priority`"], ["Priority", "", null],
      ];
      await input(page, "Body").fill("{}");
      await input(page, "Topic").fill("wrong");
      for (const [name, value, text] of onSaving) {
        await input(page, name).evaluate((control, next) => { control.value = next; control.dispatchEvent(new Event("input", { bubbles: true })); }, value);
        if (text === null) continue;
        await dialogButton(page, "Save").click();
        await isReported(name, text);
        assert.equal(await input(page, name).isVisible(), true, `${name} is folded`);
      }
      await input(page, "Name").fill("taken");
      await input(page, "Name").press("Tab");
      await dialog(page).getByText("taken exists: saving replaces it.").waitFor();
      await input(page, "Name").fill("right");
      await input(page, "Name").press("Tab");
      await dialog(page).getByText("taken exists: saving replaces it.").waitFor({ state: "hidden" });
      await dialogButton(page, "Save").click();
      await waitForToast(page, "Saved the schedule right.");
    }, { refused: [422] });
  });

  test("are paused, resumed, run and deleted in the list and on their page", async () => {
    await set("acted", { topic: "acting", every: "1d" });
    await visit("#/schedules?prefix=acted", async (page) => {
      await row(page, "acted").waitFor();
      await ask(page, "Run now acted", "Run acted now");
      await dialogButton(page, "Run now").click();
      await page.locator("#said").getByText(/^Put acted:\d+: it is ready\.$/).waitFor();
      const { last } = await stored("acted");
      await cell(page, "acted", "Last job").getByText("ready", { exact: true }).waitFor();
      await cell(page, "acted", "Last job").getByRole("link").click();
      await page.getByRole("heading", { level: 1, name: last.id }).waitFor();
      await call("DELETE", `/jobs/${last.id}`);
      await page.goBack();
      await cell(page, "acted", "Last job").getByText("gone", { exact: true }).waitFor();
      assert.equal(await cell(page, "acted", "Last job").getByRole("link").count(), 0);

      await ask(page, "Pause acted", "Pause acted");
      await dialogButton(page, "Pause").click();
      await row(page, "acted").getByText("paused", { exact: true }).waitFor();
      assert.equal((await stored("acted")).paused, true);
      await row(page, "acted").getByRole("link", { name: "acted", exact: true }).click();
      await page.getByText("It is paused. If it were resumed now").waitFor();
      await ask(page, "Resume acted", "Resume acted");
      await dialogButton(page, "Resume").click();
      await button(page, "Pause acted").waitFor();
      await page.getByText("It is paused.").waitFor({ state: "hidden" });
      assert.equal((await stored("acted")).paused, false);

      await ask(page, "Delete acted", "Delete the schedule acted");
      assert.equal(await dialogButton(page, "Delete").isDisabled(), true);
      await page.getByLabel("to confirm").fill("acted");
      await dialogButton(page, "Delete").click();
      await waitForToast(page, "Deleted the schedule acted.");
      await page.getByText("No schedule has the name acted.").waitFor();
      assert.equal(await button(page, "Delete acted").isVisible(), false);
      await assert.rejects(stored("acted"), /schedule_not_found/);
    }, { refused: [404] });
  });

  test("have pages in which axe finds no violation, and which are no wider than a phone", async () => {
    await set("axed", { topic: "axes", cron: "*/5 9-17 * * MON-FRI", timezone: "America/Argentina/Buenos_Aires", body: { long: "x".repeat(200) } });
    await set("n".repeat(107), { topic: "t".repeat(128), every: "1d" });
    await call("POST", `/schedules/${"n".repeat(107)}/run`);
    await call("POST", "/schedules/axed/pause");
    for (const options of SIZES) {
      await visit("#/schedules", async (page) => {
        const fits = async (what) => {
          await checkWithAxe(page, what);
          const width = await page.evaluate(() => document.documentElement.scrollWidth);
          assert.ok(width <= options.viewport.width, `${what} is ${width} wide`);
          const wide = await page.locator("dialog form, dialog .field").evaluateAll((all) => all.filter((node) => node.scrollWidth > node.clientWidth).length);
          assert.equal(wide, 0, `${what} has fields that are too wide`);
        };
        await row(page, "axed").waitFor();
        await fits("the list");
        const hidden = await page.locator(".schedules .actions").evaluateAll((all) => all.filter((node) => node.scrollWidth > node.clientWidth).length);
        assert.equal(hidden, 0, "rows whose actions are too wide");
        await ask(page, "Change axed", "Schedule axed");
        await dialog(page).getByText("Rules and headers of its jobs").click();
        await preview(page).getByRole("listitem").nth(4).waitFor();
        await fits("the form");
        await input(page, "Cron line").fill("0 0 31 2 *");
        await page.locator("[aria-invalid]").waitFor();
        await fits("a refused form");
        await dialogButton(page, "Cancel").click();
        await row(page, "axed").getByRole("link", { name: "axed", exact: true }).click();
        await fact(page, "Cron line").waitFor();
        await fits("the page of a schedule");
      }, { ...options, refused: [422] });
    }
  });
});

describe("with tokens, schedules", () => {
  let server, browser;
  const create = async (name, scopes) => (await server.call("POST", "/tokens", { name, scopes })).token;
  before(async () => {
    server = await start("file", { token: newToken() });
    browser = await launch(chromium);
    const operator = client(server.base, await create("operator", { manage: ["*"], put: ["*"] }));
    for (const topic of ["mine", "theirs"]) await operator("PUT", `/schedules/of-${topic}`, { topic, every: "1d" });
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  const prepare = (token) => ({ prepare: (page) => page.addInitScript((text) => sessionStorage.setItem("delay-queue token", text), token) });
  const ACTIONS = ["Run now", "Pause", "Change", "Delete"];

  test("are shown without actions to a token without `manage`, or without `put`", async () => {
    for (const scopes of [{ read: ["*"] }, { read: ["*"], put: ["*"] }, { read: ["*"], manage: ["*"] }]) {
      const token = await create(Object.keys(scopes).join("-"), scopes);
      await visitWith(browser, server.base, "#/schedules", async (page) => {
        await row(page, "of-mine").waitFor();
        await page.locator("#pulse").getByText("as of").waitFor();
        assert.equal(await page.locator("main").getByRole("button", { name: /New|Run|Pause|Change|Delete/ }).count(), 0);
        await row(page, "of-mine").getByRole("link", { name: "of-mine", exact: true }).click();
        await fact(page, "Every").waitFor();
        assert.equal(await page.locator("main").getByRole("button", { name: /Run|Pause|Change|Delete/ }).count(), 0);
      }, prepare(token));
    }
  });

  test("offer their actions where a token has `manage` and `put`", async () => {
    const token = await create("owner", { read: ["*"], manage: ["mine"], put: ["*"] });
    await visitWith(browser, server.base, "#/schedules", async (page) => {
      await page.getByRole("button", { name: "New schedule", exact: true }).waitFor();
      await row(page, "of-mine").getByRole("button").first().waitFor();
      assert.deepEqual(await row(page, "of-mine").getByRole("button").allInnerTexts(), ACTIONS);
      assert.equal(await row(page, "of-theirs").getByRole("button").count(), 0);
    }, prepare(token));
  });
});
