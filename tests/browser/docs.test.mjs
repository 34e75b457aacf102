// Tests of the reference at /docs in a real Chromium: without scripts, by keyboard, on a phone, in both themes.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { chromium } from "playwright-core";
import { launch } from "./chromium.mjs";
import { start } from "./server.mjs";
import { checkWithAxe, visit as visitWith } from "./visit.mjs";

describe("the reference", () => {
  let server, browser;
  before(async () => {
    server = await start("file");
    browser = await launch(chromium);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  /** Opens the page and calls `use` with it. */
  const visit = (options, use) => visitWith(browser, server.base, "docs", use, options);

  test("shows every route without a script", async () => {
    const { paths } = await server.call("GET", "/openapi.json");
    await visit({ javaScriptEnabled: false }, async (page) => {
      const shown = await page.locator("main code").allInnerTexts();
      for (const [path, methods] of Object.entries(paths)) {
        for (const method of Object.keys(methods)) assert.ok(shown.includes(`${method.toUpperCase()} ${path}`), path);
      }
      await page.getByRole("heading", { name: "Put a job", exact: true }).waitFor();
      assert.match(await page.locator("main").innerText(), /curl -s http:\/\/127.0.0.1:9277\/jobs/);
      await page.getByRole("main").getByRole("link", { name: "reservations", exact: true }).first().click();
      await page.waitForURL(/#reservations$/);
      await page.getByRole("heading", { name: "Reservations" }).waitFor();
    });
  });

  test("has a heading for every link", async () => {
    await visit({}, async (page) => {
      const links = await page.locator('a[href^="#"]').evaluateAll((all) => all.map((link) => link.getAttribute("href")));
      assert.ok(links.length > 40, `${links.length} links`);
      const missing = await page.evaluate((all) => all.filter((link) => !document.getElementById(link.slice(1))), links);
      assert.deepEqual(missing, []);
      await page.getByRole("navigation", { name: "Contents" }).getByRole("link", { name: "Pop jobs" }).click();
      await page.waitForURL(/#pop-jobs$/);
      await page.getByRole("link", { name: "Dashboard" }).click();
      await page.waitForURL(`${server.base}/`);
      // Waits for the page's requests: leaving the page would abort them, which logs an error.
      await page.locator(".verdict[data-level]").waitFor();
    });
  });

  for (const colorScheme of ["light", "dark"]) {
    for (const [device, viewport] of [["a screen", { width: 1280, height: 900 }], ["a phone", { width: 375, height: 700 }]]) {
      test(`has no violation by axe on ${device}, ${colorScheme}`, async () => {
        await visit({ colorScheme, viewport }, async (page) => {
          await checkWithAxe(page, `${device}, ${colorScheme}`);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          assert.equal(wide, 0, "the page is wider than the screen");
        });
      });
    }
  }

  test("can be read with the keyboard: skipping to the content, reaching routes, scrolling wide tables", async () => {
    await visit({}, async (page) => {
      await page.keyboard.press("Tab");
      await page.keyboard.press("Enter");
      await page.waitForURL(/#main$/);
      const link = page.getByRole("navigation", { name: "Contents" }).getByRole("link", { name: "Put a job", exact: true });
      await link.focus();
      await page.keyboard.press("Enter");
      await page.waitForURL(/#put-a-job$/);
      for (const table of await page.locator(".wide").all()) {
        await table.focus();
        assert.ok(await table.evaluate((element) => element === document.activeElement));
      }
    });
  });
});
