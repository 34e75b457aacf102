// Tests of the push of a topic: its panel, its form, its actions, and its target on the overview.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { chromium } from "playwright-core";
import { launch } from "./chromium.mjs";
import { startEndpoint } from "./endpoint.mjs";
import { client } from "./load.mjs";
import { newToken, start } from "./server.mjs";
import { onEachStore } from "./stores.mjs";
import { checkWithAxe, visit as visitWith } from "./visit.mjs";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SIZES = [{ width: 1440, height: 900 }, { width: 360, height: 740 }];

const panel = (page) => page.getByRole("region", { name: "Push", exact: true });
const fact = (page, label) => panel(page).locator(`dt:text-is("${label}") + dd`);
const failure = (page, id) => panel(page).getByRole("row").filter({ has: page.getByRole("link", { name: id, exact: true }) });
const target = (page, { origin }) => page.getByRole("region", { name: "List of targets" }).getByRole("row").filter({ hasText: origin });
const isState = (page, state) => panel(page).locator(".badge").getByText(state, { exact: true }).waitFor();

onEachStore("a push", ({ call, put, visit, button, dialogButton, waitForToast }) => {
  let endpoint;
  before(async () => { endpoint = await startEndpoint(); });
  after(() => endpoint?.stop());

  const stored = (topic) => call("GET", `/topics/${topic}/push`);
  const input = (page, name) => page.getByRole("dialog").getByLabel(name, { exact: true });

  /** Opens the dialog of a button, and waits until it is shown. */
  async function ask(page, name, heading) {
    await button(page, name).click();
    await page.getByRole("dialog").getByRole("heading", { name: heading, exact: true }).waitFor();
  }

  async function save(page, topic) {
    await dialogButton(page, "Save").click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    // The result of an earlier change may still be shown.
    await page.locator("#said").getByText(`Saved the push of ${topic}.`, { exact: true }).last().waitFor();
  }

  test("is set up in a form, and delivers jobs with its headers and signatures", async () => {
    await visit("#/topic/sent", async (page) => {
      await ask(page, "Set up a push", "Push of sent");
      for (const [name, value] of [["URL", endpoint.url], ["Concurrency", "2"], ["Rate", "100/s"], ["Backoff", "1m, 1h"], ["Secrets", `${SECRET}\n`], ["Headers", "authorization: Bearer 7\nx-shop:  a: b"]]) {
        await input(page, name).fill(value);
      }
      await save(page, "sent");
      await isState(page, "running");
      assert.equal(await button(page, "Set up a push").isVisible(), false);
      const facts = { URL: endpoint.url, Concurrency: "2", Rate: "100/s", Timeout: "15 s", Batch: "none: one job in each request", Backoff: "1 m, 1 h", Secrets: "1", Headers: "x-shop, authorization" };
      for (const [label, value] of Object.entries(facts)) assert.equal(await fact(page, label).innerText(), value, label);
      const arrival = endpoint.next("sent1");
      await put({ topic: "sent", id: "sent1", body: { order: 7 } });
      const { headers, body } = await arrival;
      assert.deepEqual([headers.authorization, headers["x-shop"], JSON.parse(body)], ["Bearer 7", "a: b", { order: 7 }]);
      assert.match(headers["webhook-signature"], /^v1,/);
      await fact(page, "Requests").getByText(/^\d\.\d\/s delivered, 0\/s failed/).waitFor();
    });
  });

  test("keeps its secrets and the authorization in a change, unless they are removed", async () => {
    await call("PUT", "/topics/changed/push", { url: endpoint.url, secrets: [SECRET], headers: { authorization: "Bearer 8" }, batch: { max: 7, linger: "1500ms" }, backoff: { initial: "1s", factor: 2, max: "1h" } });
    await visit("#/topic/changed", async (page) => {
      await isState(page, "running");
      await ask(page, "Change push", "Push of changed");
      const values = { URL: endpoint.url, Concurrency: "16", Rate: "", Timeout: "15s", "Jobs in a batch": "7", "Linger of a batch": "1s500ms", Secrets: "", "If no secret is given": "kept", Headers: "authorization: ***" };
      for (const [name, value] of Object.entries(values)) assert.equal(await input(page, name).inputValue(), value, name);
      for (const name of ["Jobs in a batch", "Linger of a batch"]) await input(page, name).fill("");
      await input(page, "Timeout").fill("20s");
      await save(page, "changed");
      await fact(page, "Timeout").getByText("20 s", { exact: true }).waitFor();
      const { secret_count: secrets, batch, backoff, timeout } = await stored("changed");
      assert.deepEqual([secrets, batch, backoff.initial, timeout], [1, null, 1, 20]);
      const arrival = endpoint.next("changed1");
      await put({ topic: "changed", id: "changed1" });
      assert.equal((await arrival).headers.authorization, "Bearer 8");
      await ask(page, "Change push", "Push of changed");
      await input(page, "If no secret is given").selectOption("removed");
      await input(page, "Headers").fill("");
      await save(page, "changed");
      await fact(page, "Secrets").getByText("none: requests are not signed").waitFor();
      const after = await stored("changed");
      assert.deepEqual([after.secret_count, after.headers ?? {}], [0, {}]);
    });
  });

  test("is tested, paused, resumed and deleted", async () => {
    await call("PUT", "/topics/acted/push", { url: endpoint.url, headers: { authorization: "Bearer 9" } });
    await visit("#/topic/acted", async (page) => {
      await isState(page, "running");
      await ask(page, "Test push", "Test the push of acted");
      await dialogButton(page, "Test").click();
      await panel(page).getByRole("status").getByText(/^Answered 200 in /).waitFor();
      await panel(page).getByText("Request", { exact: true }).click();
      const request = await panel(page).locator("details pre").innerText();
      assert.ok(request.startsWith(`POST ${endpoint.url}\n`) && !request.includes("Bearer 9"), request);

      await ask(page, "Pause push", "Pause the push of acted");
      await dialogButton(page, "Pause").click();
      await isState(page, "paused");
      await panel(page).getByText("A client paused it.").waitFor();
      await put({ topic: "acted", id: "acted1" });
      await ask(page, "Resume push", "Resume the push of acted");
      assert.ok(!endpoint.ids.includes("acted1"), "it was sent during the pause");
      const arrival = endpoint.next("acted1");
      await dialogButton(page, "Resume").click();
      await isState(page, "running");
      await arrival;

      await ask(page, "Delete push", "Delete the push of acted");
      assert.equal(await dialogButton(page, "Delete").isDisabled(), true);
      await page.getByLabel("to confirm").fill("acted");
      await dialogButton(page, "Delete").click();
      await waitForToast(page, "Deleted the push of acted.");
      await panel(page).waitFor({ state: "hidden" });
      await button(page, "Set up a push").waitFor();
      await assert.rejects(stored("acted"), /push_not_found/);
      // A poll may have asked for the push just before it was deleted.
    }, { refused: [404] });
  });

  test("that is refused is reported at the field", async () => {
    await visit("#/topic/wrong", async (page) => {
      await ask(page, "Set up a push", "Push of wrong");
      await input(page, "URL").fill(endpoint.url);
      const refusals = [
        ["URL", "ftp://shop.example", "`url`"], ["URL", "http://10.0.0.1/", "`url`"], ["Concurrency", "many", "`concurrency`"], ["Rate", "5/x", "`rate`"], ["Timeout", "10m", "`timeout`"],
        ["Backoff", "1m, soon", "`backoff[1]`"], ["Jobs in a batch", "0", "`batch.max`"], ["Linger of a batch", "1m", "`batch.linger`"], ["Secrets", "whsec_short", "`secrets[0]`"],
        ["Headers", "authorization: ***", "`headers.authorization`"], ["Headers", "nonsense", 'not written as "Name: value": nonsense'], ["Headers", "a: 1\nb: 2\na: 3", "there twice: a: 3"],
      ];
      for (const [name, value, text] of refusals) {
        const before = await input(page, name).inputValue();
        await input(page, name).fill(value);
        await dialogButton(page, "Save").click();
        await page.locator(".field", { has: page.getByLabel(name, { exact: true }) }).getByRole("alert").getByText(text).waitFor();
        assert.equal(await input(page, name).getAttribute("aria-invalid"), "true");
        assert.equal(await page.locator("[aria-invalid]").count(), 1);
        await input(page, name).fill(before);
      }
      await save(page, "wrong");
    }, { refused: [422] });
  });

  test("is open while its target fails, on its page and on the overview", async () => {
    const down = await startEndpoint();
    down.status = 503;
    await call("PUT", "/topics/stuck/push", { url: down.url });
    await call("POST", "/batch/jobs", { jobs: Array.from({ length: 12 }, () => ({ topic: "stuck" })) });
    await visit("#/topic/stuck", async (page) => {
      await isState(page, "open");
      await panel(page).getByText("The target fails and is probed once a second; it last answered 503.").waitFor();
      await page.getByRole("link", { name: "Overview" }).click();
      await target(page, down).getByText("open", { exact: true }).waitFor();
      await call("DELETE", "/topics/stuck/push");
      await target(page, down).waitFor({ state: "detached" });
    });
    await call("DELETE", "/topics/stuck/jobs");
    await down.stop();
  });

  test("shows its last failures, and the overview shows its target; axe finds no violation, and no page is wider than a phone", async () => {
    endpoint.status = 500;
    await call("PUT", "/topics/failing/push", { url: endpoint.url, backoff: ["1h"] });
    await put({ topic: "failing", id: "failing1" });
    await put({ topic: "failing", id: "failing2", max_attempts: 1 });
    for (const viewport of SIZES) {
      const fits = async (what) => {
        await checkWithAxe(page, what);
        const width = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(width <= viewport.width, `${what} is ${width} wide`);
      };
      let page;
      await visit("#/topic/failing", async (shown) => {
        page = shown;
        for (const id of ["failing1", "failing2"]) {
          await failure(page, id).waitFor();
          assert.match(await failure(page, id).innerText(), /500[\s\S]*the endpoint answered 500/);
        }
        await fits("a push with failures");
        await ask(page, "Change push", "Push of failing");
        await fits("the form of a push");
        await dialogButton(page, "Cancel").click();
        await ask(page, "Test push", "Test the push of failing");
        await dialogButton(page, "Test").click();
        await panel(page).getByRole("status").getByText(/^Answered 500 in /).waitFor();
        await fits("a tested push");
        await failure(page, "failing1").getByRole("link").click();
        await page.getByRole("heading", { level: 1, name: "failing1" }).waitFor();
        await page.getByRole("link", { name: "Overview" }).click();
        await target(page, endpoint).getByText("closed", { exact: true }).waitFor();
        await fits("the overview with a target");
        await target(page, endpoint).getByRole("link", { name: "failing", exact: true }).click();
        await isState(page, "running");
      }, { viewport });
    }
    await call("DELETE", "/topics/failing/push");
  });
});

describe("with tokens, the push of a topic", () => {
  let server, browser;
  const create = async (name, scopes) => (await server.call("POST", "/tokens", { name, scopes })).token;
  before(async () => {
    server = await start("file", { token: newToken() });
    browser = await launch(chromium);
    const operator = client(server.base, await create("operator", { push: ["*"] }));
    await operator("PUT", "/topics/mine/push", { url: "http://127.0.0.1:9/hooks" });
    await operator("PUT", "/topics/theirs/push", { url: "http://127.0.0.1:9/hooks" });
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  test("is shown to a token that may read, and offers its actions to one with the scope `push`", async () => {
    const token = await create("owner", { read: ["*"], push: ["mine", "new"] });
    const prepare = (page) => page.addInitScript((text) => sessionStorage.setItem("delay-queue token", text), token);
    await visitWith(browser, server.base, "#/topic/theirs", async (page) => {
      await isState(page, "running");
      assert.equal(await panel(page).getByRole("button").count(), 0);
      await page.goto(`${server.base}/#/topic/mine`);
      await isState(page, "running");
      assert.deepEqual(await panel(page).getByRole("button").allInnerTexts(), ["Change push", "Test push", "Pause push", "Delete push"]);
      await page.goto(`${server.base}/#/topic/new`);
      await page.getByRole("button", { name: "Set up a push", exact: true }).waitFor();
      await page.goto(`${server.base}/#/topic/other`);
      await page.getByRole("heading", { level: 1, name: "other" }).waitFor();
      await page.getByText("No ready jobs").waitFor();
      assert.equal(await page.getByRole("button", { name: "Set up a push", exact: true }).isVisible(), false);
    }, { prepare });
  });
});
