// Measures the dashboard of a running server; asserts nothing.
// node measure.mjs BASE [JOBS [TOPICS]]: fills the server first if JOBS is given.

import { chromium } from "playwright-core";
import { launch } from "./chromium.mjs";
import { client, fill, fillEvenly } from "./load.mjs";

const [base, jobs, topics] = process.argv.slice(2);
const ROUNDS = 7;
const call = client(base);
if (topics) await fillEvenly(call, Number(jobs), Number(topics));
else if (jobs) await fill(call, Number(jobs));

const sorted = (values) => [...values].sort((a, b) => a - b);
const stats = (values) => `median ${Math.round(sorted(values)[values.length >> 1] * 10) / 10}, worst ${Math.round(Math.max(...values) * 10) / 10}`;

/** Calls a route `times` times, with a pause of `every` milliseconds, and prints how long the calls took. The first call may have to count jobs. */
async function time(path, times, every) {
  const durations = [];
  let size = 0;
  for (let n = 0; n < times; n += 1) {
    const start = performance.now();
    size = (await (await fetch(base + path)).text()).length;
    durations.push(performance.now() - start);
    await new Promise((resume) => setTimeout(resume, every));
  }
  const [first, ...rest] = durations;
  console.log(`GET ${path}: first ${Math.round(first)} ms, then ${stats(rest)} ms of ${times - 1} calls, ${(size / 1024).toFixed(1)} KB`);
}

await time("/overview", 30, 300);

const large = {
  "measured:list": `[${"1,".repeat(130_000)}"end"]`,
  "measured:text": JSON.stringify("ab\u0000\\\"".repeat(20_000)),
  "measured:deep": "[".repeat(128) + "]".repeat(128),
};
for (const [id, body] of Object.entries(large)) {
  await fetch(`${base}/jobs`, { method: "POST", headers: { "Content-Type": "application/json" }, body: `{"topic":"measured","id":"${id}","delay":"1d","on_conflict":"replace","body":${body}}` });
}

const browser = await launch(chromium);
const first = (await call("GET", "/overview")).most_delayed[0].topic;
for (const hash of ["#/", `#/topic/${first}/delayed`, ...Object.keys(large).map((id) => `#/job/${id}`)]) {
  const results = { paint: [], shown: [], kilobytes: [], requests: [], longest: [] };
  let [errors, others] = [0, 0];
  for (let round = 0; round < ROUNDS; round += 1) {
    // A new context has nothing in its cache.
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    let [requests, bytes] = [0, 0];
    page.on("console", (message) => { if (message.type() === "error") errors += 1; });
    page.on("pageerror", () => { errors += 1; });
    page.on("request", (request) => {
      requests += 1;
      if (!request.url().startsWith(base)) others += 1;
    });
    const session = await context.newCDPSession(page);
    await session.send("Network.enable");
    session.on("Network.loadingFinished", ({ encodedDataLength }) => { bytes += encodedDataLength; });
    await page.addInitScript(() => {
      window.longest = 0;
      new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration); }).observe({ type: "longtask", buffered: true });
    });
    await page.goto(`${base}/${hash}`);
    await page.locator(hash.startsWith("#/job") ? "pre.body .block" : ".figure").filter({ hasText: /[^–]/ }).first().waitFor();
    results.shown.push(await page.evaluate(() => performance.now()));
    if (hash.startsWith("#/job")) {
      const all = page.getByRole("button", { name: "Show all" });
      if (await all.isVisible()) await all.click();
    }
    await page.waitForTimeout(1000); // until the charts and tables are drawn
    results.paint.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
    results.longest.push(await page.evaluate(() => window.longest));
    results.requests.push(requests);
    results.kilobytes.push(bytes / 1024);
    await context.close();
  }
  console.log(`${hash}`);
  console.log(`  first paint (ms)        ${stats(results.paint)}`);
  console.log(`  figures shown (ms)      ${stats(results.shown)}`);
  console.log(`  longest task (ms)       ${stats(results.longest)}   (0: none above 50)`);
  console.log(`  requests in 1 s, KB     ${stats(results.requests)}; ${stats(results.kilobytes)}`);
  console.log(`  to other hosts, errors  ${others}, ${errors}`);
}
await browser.close();
for (const id of Object.keys(large)) await call("DELETE", `/jobs/${id}`);
