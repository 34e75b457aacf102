// Takes a screenshot of every page in every situation, for review after a change of the dashboard.
// PROGRAM=… node situations.mjs FOLDER [SITUATION…]

import { mkdir } from "node:fs/promises";
import { chromium } from "playwright-core";
import { launch } from "./chromium.mjs";
import { client, fillWithDead, fillWithPush, fillWithTrouble, traffic } from "./load.mjs";
import { newToken, start } from "./server.mjs";

const [folder, ...wanted] = process.argv.slice(2);
const DEVICES = {
  light: { colorScheme: "light", viewport: { width: 1440, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1440, height: 900 } },
  phone: { colorScheme: "light", viewport: { width: 360, height: 780 } },
  "phone-dark": { colorScheme: "dark", viewport: { width: 390, height: 844 } },
};
const OVERVIEW = { overview: "#/" };
const PAGES = {
  ...OVERVIEW, topics: "#/topics", topic: "#/topic/payments.callback", dead: "#/topic/payments.callback/dead",
  list: "#/topic/invoices.dunning", job: "#/job/job:traceback", ready: "#/job/job:long", dialog: "#/topic/invoices.dunning",
};

const CAPTURE = "#/topic/payments.capture";
const DEAD = {
  groups: `${CAPTURE}/dead`, filtered: `${CAPTURE}/dead?id_contains=70&error_contains=refused`, settings: CAPTURE, kick: `${CAPTURE}/dead`,
  finished: `${CAPTURE}/finished`, history: "#/job/capture:finished",
};
/** The button that opens the dialog of a page. */
const DIALOGS = { dialog: "Purge", settings: "Settings", kick: "Kick these 140", change: "Change push", remove: "Delete push" };

/** Setup and pages of each situation. `then` causes an event after the pages are shown. */
const SITUATIONS = {
  empty: { pages: { overview: "#/", topics: "#/topics", topic: "#/topic/nothing", job: "#/job/nothing" } },
  trouble: { fill: true, pages: PAGES },
  dead: { fillWith: fillWithDead, pages: DEAD },
  push: { fillWith: fillWithPush, pages: { ...OVERVIEW, topic: CAPTURE, change: CAPTURE, remove: CAPTURE } },
  "server-down": { fill: true, pages: { ...OVERVIEW, dead: PAGES.dead }, then: (server) => server.kill() },
  "redis-down": { store: "redis", fill: true, pages: OVERVIEW, then: (server) => server.killRedis() },
  login: { token: newToken(), pages: OVERVIEW },
  limited: { token: newToken(), scopes: { read: ["payments.*", "invoices.dunning"], put: ["invoices.dunning"] }, fill: true, pages: { ...OVERVIEW, topics: "#/topics", topic: PAGES.list } },
};
/** Milliseconds before a screenshot. Rates and the first minute of lateness need some polls. */
const SETTLE_TIME = 15_000;

await mkdir(folder, { recursive: true });
const browser = await launch(chromium);
for (const [name, situation] of Object.entries(SITUATIONS)) {
  if (wanted.length === 0 || wanted.includes(name)) await take(name, situation);
}
await browser.close();

async function take(name, { store = "file", token, scopes, fill, fillWith, pages, then }) {
  const server = await start(store, { token });
  const create = async (scopes) => token && scopes && (await server.call("POST", "/tokens", { name: Object.keys(scopes).join("-"), scopes })).token;
  const given = await create(scopes);
  let done = false;
  let load = null;
  if (fill) {
    const call = client(server.base, await create({ put: ["*"], pop: ["*"], manage: ["*"] }));
    await fillWithTrouble(call);
    load = traffic(call, () => done).catch(() => {}); // fails when the server stops
  }
  await fillWith?.(server.call);
  const shown = [];
  for (const [device, options] of Object.entries(DEVICES)) {
    for (const [page, hash] of Object.entries(pages)) shown.push([`${page}-${name}-${device}`, await open(server.base + "/" + hash, options, given)]);
  }
  await shown.at(-1)[1].waitForTimeout(SETTLE_TIME);
  if (then) {
    await then(server);
    await shown.at(-1)[1].waitForTimeout(SETTLE_TIME);
  }
  for (const [file, page] of shown) {
    const button = DIALOGS[file.split("-")[0]];
    if (button) await page.getByRole("button", { name: button, exact: true }).click();
    await page.screenshot({ path: `${folder}/${file}.png`, fullPage: !button });
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
