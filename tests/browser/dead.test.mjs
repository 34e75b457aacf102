// Tests of the actions on dead jobs that have their error or a part of their id in common.

import assert from "node:assert/strict";
import { test } from "node:test";
import { onEachStore } from "./stores.mjs";

/** Returns `n` ids with their errors. */
const errors = (prefix, n, error) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`${prefix}:${i}`, error(i)]));

onEachStore("dead jobs", ({ call, die, visit, button, dialogButton, waitForToast }) => {
  const counts = (topic) => call("GET", `/topics/${topic}`);
  const group = (page, text) => page.getByRole("region", { name: "Dead jobs by error" }).getByRole("listitem").filter({ hasText: text });

  test("of equal errors are kicked or deleted together, and refusals are counted with their reasons", async () => {
    await die("grouped", {
      ...errors("refused", 22, (n) => `connection to 10.0.3.${n}:8443 refused after ${n} ms, request 5f2c1a${n + 10}-93b1-4e0a-8c57-2f6f9d1b0c17`),
      ...errors("unknown", 12, (n) => `no customer '${"abc".slice(n % 3)} ${n}' in "shop <b>${n}</b>"`),
      ...errors("silent", 3, () => undefined),
    });
    await visit("#/topic/grouped/dead", async (page) => {
      await page.getByText("37 dead jobs, in 3 groups.").waitFor();
      await group(page, "connection to").getByText("22 ×").waitFor();
      await group(page, "no error was reported").getByText("3 ×").waitFor();
      await button(page, "Kick these 22").click();
      await page.getByRole("dialog").getByRole("heading", { name: "Kick 22 jobs" }).waitFor();
      await page.getByRole("dialog").getByText("Their error is of the form: connection to 10.0.3.").waitFor();
      await call("DELETE", "/jobs/refused:3");
      await dialogButton(page, "Kick").click();
      await waitForToast(page, "Kicked 21 jobs. 1 refused: 1 gone.");
      await page.getByText("15 dead jobs, in 2 groups.").waitFor();
      assert.deepEqual([(await counts("grouped")).ready, (await counts("grouped")).dead], [21, 15]);
      await button(page, "Delete these 12").click();
      assert.equal(await page.evaluate(() => document.activeElement.textContent), "Cancel");
      // A job that is not dead any more is not deleted.
      await call("POST", "/jobs/unknown:5/kick");
      await call("DELETE", "/jobs/unknown:6");
      await dialogButton(page, "Delete").click();
      await waitForToast(page, "Deleted 10 jobs. 2 refused: 1 now ready, 1 gone.");
      await page.getByText("3 dead jobs, in 1 group.").waitFor();
      assert.equal((await call("GET", "/jobs/unknown:5")).state, "ready");
      await button(page, "ready 22").click();
      await group(page, "no error").waitFor({ state: "hidden" });
    });
    await call("DELETE", "/topics/grouped/jobs");
  });

  test("of more than one batch are reported as far as they were sent", async () => {
    await die("many", errors("many", 1100, (n) => `no order ${n}`));
    await visit("#/topic/many/dead", async (page) => {
      let sent = 0;
      await page.route("**/batch/delete", (route) => ((sent += 1) === 2 ? route.abort() : route.continue()));
      await button(page, "Delete these 1,100").click();
      await dialogButton(page, "Delete").click();
      const alert = page.getByRole("dialog").getByRole("alert");
      await alert.getByText("Failed: Deleted 1,000 jobs. 100 not sent. Then: the server does not answer. The change may have been made").waitFor();
      assert.equal((await counts("many")).dead, 100);
      await dialogButton(page, "Delete").click();
      await waitForToast(page, "Deleted 100 jobs. 1,000 refused: 1,000 gone.");
      await page.getByText("No dead jobs").waitFor();
    }, { unreachable: true });
  });

  test("are found by a part of the id or of the error, counted, kicked and deleted", async () => {
    await die("found", { ...errors("shop:7", 3, () => "timeout of shop"), ...errors("shop:8", 4, () => "no such shop"), other: "no such shop" });
    await visit("#/topic/found/dead", async (page) => {
      const rows = page.getByRole("region", { name: "List of jobs" }).locator("tbody tr");
      await page.getByText("1–8 of 8 dead jobs").waitFor();
      await group(page, "no such shop").getByRole("link", { name: "List" }).click();
      await page.getByText("1–5 dead jobs").waitFor();
      assert.equal(await page.getByLabel("Error contains").inputValue(), "no such shop");
      await page.getByLabel("Id contains").fill("p:8:");
      await page.getByLabel("Id contains").press("Enter");
      await page.getByText("1–4 dead jobs").waitFor();
      await page.getByText("4 dead jobs, in 1 group.").waitFor();
      assert.match(page.url(), /#\/topic\/found\/dead\?id_contains=p%3A8%3A&error_contains=no\+such\+shop$/);
      await button(page, "Kick all that match").click();
      await page.getByRole("dialog").getByRole("heading", { name: "Kick 4 jobs of found" }).waitFor();
      await dialogButton(page, "Kick all").click();
      await waitForToast(page, "Kicked 4 jobs of found.");
      await page.getByText("No matching dead jobs").waitFor();
      await page.getByLabel("Id contains").fill("");
      await page.getByLabel("Id contains").press("Enter");
      // A new view sets all fields, so the next one is filled after it is shown.
      await page.getByText("1–1 dead jobs").waitFor();
      await page.getByLabel("Error contains").fill("of shop");
      await page.getByLabel("Error contains").press("Enter");
      await page.getByText("1–3 dead jobs").waitFor();
      await button(page, "Delete all that match").click();
      await page.getByRole("dialog").getByRole("heading", { name: "Delete 3 jobs of found" }).waitFor();
      await dialogButton(page, "Delete all").click();
      await waitForToast(page, "Deleted 3 jobs of found.");
      await page.getByText("No matching dead jobs").waitFor();
      await page.getByLabel("Error contains").fill("");
      await page.getByLabel("Error contains").press("Enter");
      await page.getByText("1–1 dead jobs").or(page.getByText("1–1 of 1 dead jobs")).waitFor();
      assert.equal(await rows.getByText("other").count(), 1);
      await page.getByLabel("Died from").fill("2030-01-01T00:00:00");
      await page.getByLabel("Died from").dispatchEvent("change");
      await page.getByText("No matching dead jobs").waitFor();
    });
    const { ready, dead } = await counts("found");
    assert.deepEqual([ready, dead], [4, 1]);
    await call("DELETE", "/topics/found/jobs");
  });

  test("that match a filter without a match are not counted as an error of the page", async () => {
    await visit("#/topic/nothing/dead?id_contains=x", async (page) => {
      await page.getByText("No matching dead jobs").waitFor();
      await button(page, "Delete all that match").click();
      await page.getByRole("dialog").getByRole("heading", { name: "Delete 0 jobs of nothing" }).waitFor();
    });
    await visit(`#/topic/nothing/dead?error_contains=${"x".repeat(300)}`, (page) => page.getByRole("status").getByText("`error_contains`").waitFor(), { refused: [422] });
  });
});
