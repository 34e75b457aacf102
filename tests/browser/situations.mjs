// Takes a picture of every page in every situation, for review after a change of the dashboard.
// PROGRAM=… node situations.mjs FOLDER [SITUATION…]

import { mkdir } from "node:fs/promises";
import { chromium } from "playwright-core";
import { launch } from "./chromium.mjs";
import { client, fillWithTrouble, traffic } from "./load.mjs";
import { madeToken, start } from "./server.mjs";

const [folder, ...wanted] = process.argv.slice(2);
const DEVICES = {
  light: { colorScheme: "light", viewport: { width: 1440, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1440, height: 900 } },
  phone: { colorScheme: "light", viewport: { width: 360, height: 780 } },
};
const OVERVIEW = { overview: "#/" };
const PAGES = {
  ...OVERVIEW, topics: "#/topics", topic: "#/topic/payments.callback", dead: "#/topic/payments.callback/dead",
  list: "#/topic/invoices.dunning", job: "#/job/job:traceback", ready: "#/job/job:long", dialog: "#/topic/invoices.dunning",
};

/** Setup of each situation, and what happens once the pages are shown. */
const SITUATIONS = {
  empty: { pages: { overview: "#/", topics: "#/topics", topic: "#/topic/nothing", job: "#/job/nothing" } },
  trouble: { fill: true, pages: PAGES },
  "server-down": { fill: true, pages: { ...OVERVIEW, dead: PAGES.dead }, then: (server) => server.kill() },
  "redis-down": { store: "redis", fill: true, pages: OVERVIEW, then: (server) => server.killRedis() },
  login: { token: madeToken(), pages: OVERVIEW },
  limited: { token: madeToken(), scopes: { read: ["payments.*", "invoices.dunning"], put: ["invoices.dunning"] }, fill: true, pages: { ...OVERVIEW, topics: "#/topics", topic: PAGES.list } },
};
/** Milliseconds: rates and the first minute of lateness need some polls; a chart of no size needs none. */
const SETTLED = 15_000;

await mkdir(folder, { recursive: true });
const browser = await launch(chromium);
for (const [name, situation] of Object.entries(SITUATIONS)) {
  if (wanted.length === 0 || wanted.includes(name)) await take(name, situation);
}
await browser.close();

async function take(name, { store = "file", token, scopes, fill, pages, then }) {
  const server = await start(store, { token });
  const create = async (scopes) => token && scopes && (await server.call("POST", "/tokens", { name: Object.keys(scopes).join("-"), scopes })).token;
  const given = await create(scopes);
  let done = false;
  let load = null;
  if (fill) {
    const call = client(server.base, await create({ put: ["*"], pop: ["*"], manage: ["*"] }));
    await fillWithTrouble(call);
    load = traffic(call, () => done).catch(() => {}); // It ends with the server.
  }
  const shown = [];
  for (const [device, options] of Object.entries(DEVICES)) {
    for (const [page, hash] of Object.entries(pages)) shown.push([`${page}-${name}-${device}`, await open(server.base + "/" + hash, options, given)]);
  }
  await shown.at(-1)[1].waitForTimeout(SETTLED);
  if (then) {
    await then(server);
    await shown.at(-1)[1].waitForTimeout(SETTLED);
  }
  for (const [file, page] of shown) {
    if (file.startsWith("dialog")) await page.getByRole("button", { name: "Purge", exact: true }).click();
    await page.screenshot({ path: `${folder}/${file}.png`, fullPage: true });
    await page.context().close();
    console.log(file);
  }
  done = true;
  await load;
  await server.stop();
}

async function open(url, options, token) {
  const context = await browser.newContext({ ...options, reducedMotion: "reduce", timezoneId: "Europe/Berlin" });
  if (token) await context.addInitScript((text) => sessionStorage.setItem("delay-queue token", text), token);
  const page = await context.newPage();
  await page.goto(url);
  return page;
}
