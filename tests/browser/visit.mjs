// Opens pages of the dashboard in Chromium. A page must log no error and send no request to another host.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { PATIENCE } from "./chromium.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export async function checkWithAxe(page, what) {
  // Injects axe through the debugger, since the page's policy forbids foreign scripts.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map((node) => [node.html, node.failureSummary])]), [], what);
}

/** Closes a page. A page polls, so handlers of `page.route` may still be at work; their errors then concern no test. */
export async function leave(page) {
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.close();
}

/**
 * Opens a page for `use`. `refused` lists the statuses that the console may report. With `unreachable`, the console may
 * also report requests without an answer.
 */
export async function visit(browser, base, hash, use, { refused = [], unreachable = false, prepare, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const errors = [];
  const requests = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    const expected = refused.some((status) => message.text().includes(`status of ${status}`)) || (unreachable && message.text().includes("net::ERR"));
    if (!expected) errors.push(message.text());
  });
  page.on("request", (request) => requests.push(request.url()));
  const unanswered = new Set();
  page.on("request", (request) => unanswered.add(request));
  for (const event of ["requestfinished", "requestfailed"]) page.on(event, (request) => unanswered.delete(request));
  try {
    await prepare?.(page);
    await page.goto(`${base}/${hash}`).catch((error) => {
      throw new Error(`${error.message}; without an answer: ${[...unanswered].map((request) => request.url())}`);
    });
    await use(page, requests);
    assert.deepEqual(errors, [], "errors in the browser's console");
    assert.deepEqual(requests.filter((url) => !url.startsWith(base)), [], "requests to other hosts");
  } finally {
    await leave(page);
    await context.close();
  }
}
