// A visit to the dashboard in Chromium that may log no error and send no request to another host.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export async function checkWithAxe(page, what) {
  // The page's policy forbids foreign scripts: the debugger injects this one.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map((node) => [node.html, node.failureSummary])]), [], what);
}

/**
 * Opens a page for `use`. `refused` are statuses that the console may report; with `away`, the server may not answer
 * at times.
 */
export async function visit(browser, base, hash, use, { refused = [], away = false, prepare, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const errors = [];
  const asked = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    const expected = refused.some((status) => message.text().includes(`status of ${status}`)) || (away && message.text().includes("net::ERR"));
    if (!expected) errors.push(message.text());
  });
  page.on("request", (request) => asked.push(request.url()));
  await prepare?.(page);
  await page.goto(`${base}/${hash}`);
  await use(page, asked);
  assert.deepEqual(errors, [], "errors in the console");
  assert.deepEqual(asked.filter((url) => !url.startsWith(base)), [], "other hosts");
  await context.close();
}
