// Takes the screenshots of docs/images from a running server.
// node screenshots.mjs BASE FOLDER [JOBS]: fills the server first if JOBS is given.

import { mkdir } from "node:fs/promises";
import { chromium } from "playwright-core";
import { client, fill, traffic } from "./load.mjs";
import { launch } from "./chromium.mjs";

const [base, folder, jobs] = process.argv.slice(2);
const call = client(base);
await mkdir(folder, { recursive: true });
if (jobs) await fill(call, Number(jobs));
let done = false;
const load = traffic(call, () => done);

const browser = await launch(chromium);
for (const theme of ["light", "dark"]) {
  await take(`overview-${theme}`, { theme, width: 1440, height: 1180 }, "#/", 9000);
  await take(`topic-${theme}`, { theme, width: 1440, height: 1000 }, "#/topic/payments.callback", 3000, "[data-value=dead]");
  await take(`job-${theme}`, { theme, width: 1440, height: 900 }, "#/job/callback:7741", 2000);
}
await take("phone", { theme: "light", width: 360, height: 780 }, "#/", 9000);
await take("wide", { theme: "light", width: 1920, height: 1080 }, "#/", 9000);
await browser.close();
done = true;
await load;

/** Takes one screenshot after `wait` milliseconds, in which rates and sparklines get some polls. */
async function take(name, { theme, width, height }, hash, wait, click) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: theme, reducedMotion: "reduce" });
  await page.goto(`${base}/${hash}`);
  await page.locator("main .panel:visible").first().waitFor();
  if (click) await page.click(click);
  await page.waitForTimeout(wait);
  await page.screenshot({ path: `${folder}/${name}.png` });
  await page.close();
  console.log(name);
}
