// Tests of the dashboard in a real Chromium, on each store. Each page must also send no request to another host and log
// no error.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { chromium } from "playwright-core";
import { PATIENCE, launch } from "./chromium.mjs";
import { client } from "./load.mjs";
import { newToken, start, until } from "./server.mjs";
import { checkWithAxe, leave, visit as visitWith } from "./visit.mjs";

for (const store of (process.env.STORES ?? "file,redis").split(",")) {
  describe(`on ${store}`, () => {
    let server, browser;
    before(async () => {
      server = await start(store);
      browser = await launch(chromium);
    });
    after(async () => {
      await browser?.close();
      await server?.stop();
    });

    const visit = (hash, use, options) => visitWith(browser, server.base, hash, use, options);
    const put = (job) => server.call("POST", "/jobs", job);
    const getJob = (id) => server.call("GET", `/jobs/${id}`);
    const counts = (topic) => server.call("GET", `/topics/${topic}`);
    const button = (page, name) => page.getByRole("button", { name, exact: true });
    /** Returns a button of the open dialog. */
    const dialogButton = (page, name) => page.getByRole("dialog").getByRole("button", { name, exact: true });
    /** Waits until a toast has the text. */
    const waitForToast = (page, text) => page.locator("#said").getByText(text).waitFor();

    async function dead(topic, ids) {
      for (const id of ids) await put({ topic, id, max_attempts: 1 });
      const { jobs } = await server.call("GET", `/topics/${topic}/pop?count=100`);
      for (const { id, reservation } of jobs) await server.call("POST", `/jobs/${id}/release`, { reservation, error: `cannot ${id}` });
    }

    test("the overview shows whether jobs are delivered, which topics have trouble and why jobs died", async () => {
      await put({ topic: "waiting", id: "w1" });
      await dead("failed", ["f1", "f2"]);
      await put({ topic: "resting", id: "r1" });
      await server.call("POST", "/topics/resting/pause");
      await visit("", async (page) => {
        await page.locator(".verdict[data-level]").waitFor();
        assert.match(await page.locator(".verdict").innerText(), /(Moving|Behind): 1 job is due/);
        await page.getByRole("row").filter({ hasText: "waiting" }).waitFor();
        await page.getByRole("row").filter({ hasText: "resting" }).getByText("paused").waitFor();
        await button(page, "Most dead").click();
        const row = page.getByRole("row").filter({ hasText: "failed" });
        assert.match(await row.innerText(), /failed[\s\S]*2/);
        await page.getByRole("region", { name: "Errors of dead jobs" }).getByText(/cannot f[12]/).waitFor();
        const last = page.getByRole("region", { name: "Last errors" });
        await last.getByRole("listitem").filter({ hasText: /cannot f[12]/ }).getByText("2 ×, dead").waitFor();
        await put({ topic: "waiting", id: "w2" });
        await page.locator(".tile").filter({ hasText: "Due, waiting" }).getByText("2", { exact: true }).waitFor();
        await row.getByRole("link", { name: "2", exact: true }).click();
        await page.getByRole("heading", { level: 1, name: "failed" }).waitFor();
        await page.getByText("1–2 of 2 dead jobs").waitFor();
      });
      await server.call("POST", "/topics/resting/resume");
      for (const topic of ["waiting", "failed", "resting"]) await server.call("DELETE", `/topics/${topic}/jobs`);
    });

    test("the verdict names a topic without a consumer, although other topics have one", async () => {
      await put({ topic: "stuck", id: "s1" });
      let popped = 0;
      const prepare = (page) => page.route("**/overview", async (route) => {
        const overview = await (await route.fetch()).json();
        for (const topic of overview.oldest_ready) if (topic.topic === "stuck") topic.oldest_ready_age = 100;
        overview.since_start.popped += popped += 5;
        await route.fulfill({ json: overview });
      });
      await visit("", async (page) => {
        await page.locator(".verdict[data-level=bad]").waitFor();
        assert.match(await page.locator(".verdict").innerText(), /^Critical .* stuck is not being consumed; the oldest job has waited for 1 m 40 s\.$/);
      }, { prepare });
      await server.call("DELETE", "/topics/stuck/jobs");
    });

    test("the charts of upcoming jobs count an hour, a day and a week, of all topics or of one", async () => {
      for (const [delay, n] of [["10m", 3], ["5h", 2], ["3d", 1]]) {
        for (let i = 0; i < n; i += 1) await put({ topic: "coming", delay });
      }
      // The chart reads the topics of the overview only every 15 seconds.
      const isCounted = async () => (await server.call("GET", "/overview")).most_delayed.some(({ topic }) => topic === "coming");
      await until("the overview has the topic", isCounted);
      for (const hash of ["", "#/topic/coming"]) {
        await visit(hash, async (page) => {
          const plot = page.getByRole("img", { name: /^Delayed jobs by due time/ });
          for (const [name, total] of [["Hour", 3], ["Day", 5], ["Week", 6]]) {
            await button(page, name).click();
            await page.getByRole("img", { name: new RegExp(`${total} due within the next ${name.toLowerCase()}`) }).waitFor();
          }
          assert.equal(await plot.locator("canvas").count(), 1);
        });
      }
      await server.call("DELETE", "/topics/coming/jobs");
    });

    test("a test job is put, and the curl line shown does the same", async () => {
      await visit("#/topic/tried", async (page) => {
        await page.locator("h1").waitFor();
        await page.locator("header").getByRole("button", { name: "Put a job" }).click();
        assert.equal(await page.getByRole("dialog").getByLabel("Topic").inputValue(), "tried");
        await page.getByRole("dialog").getByLabel("Id").fill("try:1");
        await page.getByRole("dialog").getByLabel("Delay").fill("1h");
        await page.getByRole("dialog").getByLabel("Body").fill('{"it\'s": 12345678901234567890}');
        const line = await page.locator(".curl code").innerText();
        await dialogButton(page, "Put").click();
        await waitForToast(page, "Put try:1: it is delayed.");
        await page.getByRole("heading", { name: /try:1/ }).waitFor();
        await page.locator("pre.body").getByText("12345678901234567890").waitFor();
        assert.equal((await getJob("try:1")).topic, "tried");
        await server.call("DELETE", "/jobs/try:1");
        execFileSync("bash", ["-c", line.replace("curl ", "curl -sf ")]);
        assert.deepEqual((await getJob("try:1")).state, "delayed");
      });
    });

    test("the dialog shows why a put is refused", async () => {
      await visit("", async (page) => {
        await button(page, "Put a job").click();
        await page.getByRole("dialog").getByLabel("Topic").fill("tried");
        await page.getByRole("dialog").getByLabel("Delay").fill("5x");
        await dialogButton(page, "Put").click();
        await page.getByRole("dialog").getByRole("alert").getByText("`delay`").waitFor();
        await page.getByRole("dialog").getByLabel("Body").fill("{");
        await dialogButton(page, "Put").click();
        await page.getByRole("dialog").getByRole("alert").getByText("The body is not JSON").waitFor();
        await page.keyboard.press("Escape");
        await page.getByRole("dialog").waitFor({ state: "detached" });
        assert.equal(await page.evaluate(() => document.activeElement.textContent), "Put a job");
      }, { refused: [422] });
    });

    test("a job is rescheduled, kicked, buried and deleted", async () => {
      await put({ topic: "acted", id: "a1", delay: "1h" });
      await visit("#/job/a1", async (page) => {
        await button(page, "Reschedule").click();
        await page.getByLabel("Delay from now").fill("3d");
        await dialogButton(page, "Reschedule").click();
        await waitForToast(page, "Rescheduled a1");
        assert.ok(new Date((await getJob("a1")).due_at) - Date.now() > 2.9 * 86_400_000);
        await page.locator(".timeline").getByText("in 2 d 23 h").waitFor();
        await button(page, "Kick").click();
        await dialogButton(page, "Kick").click();
        await waitForToast(page, "Kicked a1");
        await page.locator("h1 .badge").getByText("ready").waitFor();
        // The server refuses to bury a job that no consumer has popped, and the page shows the refusal.
        await button(page, "Bury").click();
        await dialogButton(page, "Bury").click();
        await page.getByRole("dialog").getByRole("alert").getByText("Failed").waitFor();
        await dialogButton(page, "Cancel").click();
        await server.call("GET", "/topics/acted/pop");
        await page.locator("h1 .badge").getByText("reserved").waitFor();
        await button(page, "Bury").click();
        await page.getByRole("dialog").getByLabel("Error").fill("it <b>cannot</b> work");
        await dialogButton(page, "Bury").click();
        await waitForToast(page, "Buried a1");
        await page.locator("pre.error").getByText("it <b>cannot</b> work").waitFor();
        assert.equal((await getJob("a1")).state, "dead");
        await button(page, "Delete").click();
        await dialogButton(page, "Delete").click();
        await waitForToast(page, "Deleted a1: it was dead.");
        await page.getByText("No job has the id a1").waitFor();
      }, { refused: [404, 409] });
    });

    test("after a change without an answer, the dialog says that it may have been made", async () => {
      await put({ topic: "unanswered", id: "u1", delay: "1h" });
      await visit("#/job/u1", async (page) => {
        await page.route("**/jobs/u1/kick", (route) => route.abort());
        await button(page, "Kick").click();
        await dialogButton(page, "Kick").click();
        const alert = page.getByRole("dialog").getByRole("alert");
        await alert.getByText("Failed: the server does not answer. The change may have been made").waitFor();
        await dialogButton(page, "Cancel").click();
      }, { unreachable: true });
    });

    test("a topic is paused, resumed, its dead kicked, and purged after its name is typed", async () => {
      await dead("whole", ["x1", "x2", "x3"]);
      await visit("#/topic/whole", async (page) => {
        await button(page, "Pause").click();
        await page.getByLabel("For", { exact: true }).fill("5x");
        await dialogButton(page, "Pause").click();
        await page.getByRole("dialog").getByRole("alert").getByText("`for`").waitFor();
        await page.getByLabel("For", { exact: true }).fill("");
        await dialogButton(page, "Pause").click();
        await page.locator("h1").getByText("paused", { exact: true }).waitFor();
        const { paused, paused_until: until } = await counts("whole");
        assert.deepEqual([paused, until], [true, null]);
        await button(page, "Resume").click();
        const line = await page.locator(".curl code").innerText();
        await dialogButton(page, "Cancel").click();
        execFileSync("bash", ["-c", line.replace("curl ", "curl -sf ")]);
        assert.equal((await counts("whole")).paused, false, line);
        await button(page, "Kick all dead").click();
        // Delays the answer until the page shows the progress.
        let release;
        const released = new Promise((resume) => { release = resume; });
        await page.route("**/kick?*", async (route) => { await released; await route.continue(); });
        await dialogButton(page, "Kick all").click();
        await page.getByRole("progressbar").waitFor();
        assert.equal(await page.getByRole("progressbar").evaluate((bar) => bar.max), 3);
        release();
        await waitForToast(page, "Kicked 3 dead jobs of whole.");
        assert.equal((await counts("whole")).ready, 3);
        await button(page, "Purge").click();
        assert.equal(await dialogButton(page, "Purge").isDisabled(), true);
        await page.getByLabel("Type whole to confirm").fill("who");
        assert.equal(await dialogButton(page, "Purge").isDisabled(), true);
        await page.getByLabel("Type whole to confirm").fill("whole");
        await page.getByLabel("Jobs in the state").selectOption("ready");
        assert.match(await page.locator(".curl code").innerText(), /-X DELETE .*\/topics\/whole\/jobs\?state=ready'$/);
        await dialogButton(page, "Purge").click();
        await waitForToast(page, "Purged 3 jobs of whole.");
        assert.equal((await counts("whole")).ready, 0);
      }, { refused: [422] });
    });

    test("a pause with an end shows this end, and ends although no page is open", async () => {
      await put({ topic: "timed", id: "t1" });
      await visit("#/topic/timed", async (page) => {
        await button(page, "Pause").click();
        await page.getByLabel("For", { exact: true }).fill("15s");
        await dialogButton(page, "Pause").click();
        await waitForToast(page, /^Paused timed until /);
        await page.locator("h1").getByText(/^paused until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d$/).waitFor();
      });
      const { jobs } = await server.call("GET", "/topics/timed/pop?wait=30s");
      assert.equal(jobs[0]?.id, "t1");
      assert.equal((await counts("timed")).paused, false);
    });

    test("selected jobs are kicked and deleted together", async () => {
      await dead("selected", ["m1", "m2", "m3", "m4"]);
      await visit("#/topic/selected/dead", async (page) => {
        const checkbox = (id) => page.getByRole("checkbox", { name: `Select ${id}` });
        await checkbox("m1").waitFor();
        assert.equal(await button(page, "Kick selected").isDisabled(), true);
        await checkbox("m1").check();
        await checkbox("m3").check();
        await button(page, "Kick selected").click();
        await page.getByRole("heading", { name: "Kick 2 jobs" }).waitFor();
        await server.call("DELETE", "/jobs/m3");
        await dialogButton(page, "Kick").click();
        await waitForToast(page, "Kicked 1 job. 1 refused: 1 gone.");
        assert.equal((await getJob("m1")).state, "ready");
        await page.getByText("1–2 of 2 dead jobs").waitFor();
        await page.getByRole("checkbox", { name: "Select all jobs of the page" }).check();
        await button(page, "Delete selected").click();
        await dialogButton(page, "Delete").click();
        await waitForToast(page, "Deleted 2 jobs.");
        await page.getByText("No dead jobs").waitFor();
      });
      assert.equal((await counts("selected")).dead, 0);
    });

    test("finished jobs are listed with their results, and can only be deleted", async () => {
      for (const id of ["k1", "k2"]) await put({ topic: "kept", id, finished_retention: "1h", body: { secret: id } });
      const { jobs } = await server.call("GET", "/topics/kept/pop?count=100");
      const result = (id) => (id === "k2" ? { result: { sum: 7 } } : {});
      for (const { id, reservation } of jobs) await server.call("POST", `/jobs/${id}/finish`, { reservation, ...result(id) });
      await put({ topic: "kept", id: "k3", delay: "1h" });
      await server.call("DELETE", "/jobs/k3?remember=1h");
      await visit("#/topic/kept", async (page) => {
        await page.getByText("1–3 of 3 finished jobs").waitFor();
        const row = (id) => page.getByRole("row").filter({ hasText: id });
        await row("k2").getByText('{"sum":7}').waitFor();
        assert.match(await row("k1").innerText(), /–[\s\S]*finished/);
        await row("k3").getByText("deleted").waitFor();
        await page.getByRole("link", { name: "k2", exact: true }).click();
        await page.locator("h1 .badge").getByText("finished").waitFor();
        await page.locator(".timeline").getByText("Finished, attempt 1 of 20").waitFor();
        await page.getByRole("heading", { name: "Result" }).waitFor();
        assert.equal(await page.locator("pre.body .block").textContent(), '{\n  "sum": 7\n}');
        for (const name of ["Kick", "Reschedule", "Bury", "Put a copy"]) assert.equal(await button(page, name).isDisabled(), true, name);
        await page.goto(`${server.base}/#/job/k3`);
        await page.locator(".timeline").getByText("Deleted, its id is remembered").waitFor();
        assert.equal(await page.locator("pre.body").isVisible(), false);
        await page.goto(`${server.base}/#/topic/kept`);
        await button(page, "Purge").click();
        await page.getByLabel("Type kept to confirm").fill("kept");
        await page.getByLabel("Jobs in the state").selectOption("finished");
        await dialogButton(page, "Purge").click();
        await waitForToast(page, "Purged 3 jobs of kept.");
      });
      assert.equal((await counts("kept")).finished, 0);
    });

    test("a job's timeline shows past attempts and the consequence of a failure, and the job can be copied", async () => {
      await put({ topic: "lived", id: "lived1", backoff: ["2m", "10m"], body: { n: 10000000000000000000001 } });
      const { jobs } = await server.call("GET", "/topics/lived/pop");
      await server.call("POST", "/jobs/lived1/release", { reservation: jobs[0].reservation, error: "busy" });
      await visit("#/job/lived1", async (page) => {
        const items = page.locator(".timeline li");
        await items.filter({ hasText: "Attempt 1: released" }).getByText("busy").waitFor();
        assert.match((await items.allInnerTexts()).join("\n"), /Put[\s\S]*Attempt 1: released[\s\S]*took \d+[\s\S]*Due for its next attempt[\s\S]*If attempt 2 fails: again after 10 m$/);
        await button(page, "Put a copy").click();
        assert.equal(await page.getByRole("dialog").getByLabel("Topic").inputValue(), "lived");
        await page.getByRole("dialog").getByLabel("Id").fill("lived2");
        await dialogButton(page, "Put").click();
        await waitForToast(page, "Put lived2");
      });
      assert.deepEqual((await getJob("lived2")).body, (await getJob("lived1")).body);
    });

    test("jobs are listed by state and due time, page by page", async () => {
      const jobs = Array.from({ length: 120 }, (_, n) => ({ topic: "listed", id: `l${n}`, delay: `${n + 10}m`, body: { n } }));
      await server.call("POST", "/batch/jobs", { jobs });
      await put({ topic: "listed", id: "already" });
      await visit("#/topic/listed", async (page) => {
        const rows = page.getByRole("region", { name: "List of jobs" }).locator("tbody tr");
        await rows.getByText("already").waitFor();
        await button(page, "delayed 120").click();
        const seen = new Set();
        for (const [shown, expected, first] of [["1–50", 50, 0], ["51–100", 50, 50], ["101–120", 20, 100]]) {
          await page.getByText(`${shown} of 120 delayed jobs`).waitFor();
          await rows.getByText(`l${first}`, { exact: true }).waitFor();
          for (const id of await rows.locator("th").allInnerTexts()) seen.add(id);
          if (expected === 50) await button(page, "Next").click();
        }
        assert.equal(seen.size, 120);
        assert.equal(await button(page, "Next").isDisabled(), true);
        await button(page, "Previous").click();
        await page.getByText("51–100 of 120 delayed jobs").waitFor();
        await page.waitForURL(/#\/topic\/listed\/delayed\?cursor=.+&before=50$/);
        const inOneHour = await page.evaluate(() => {
          const at = new Date(Date.now() + 3600_000 - new Date().getTimezoneOffset() * 60_000);
          return at.toISOString().slice(0, 19);
        });
        await page.getByLabel("Due before").fill(inOneHour);
        await page.getByLabel("Due before").dispatchEvent("change");
        await page.getByText(/1–(49|50|51) delayed jobs/).waitFor();
        await page.getByLabel("Due before").fill("");
        await page.getByLabel("Due from").fill(inOneHour);
        await page.getByLabel("Jobs per page").selectOption("200");
        await page.getByText(/1–(69|70|71) delayed jobs/).waitFor();
      });
      await server.call("DELETE", "/topics/listed/jobs");
    });

    test("a job is found by its id, and an unknown or invalid id is reported", async () => {
      await put({ topic: "searched", id: "needle:1", delay: "1h", backoff: ["2m", "10m"], body: { a: [1, { b: null }], e: [] } });
      await visit("", async (page) => {
        const search = page.getByRole("searchbox", { name: "Job id" });
        await search.fill(" needle:1 ");
        await search.press("Enter");
        await page.getByRole("heading", { name: /needle:1/ }).waitFor();
        const text = () => page.locator("pre.body .block").textContent();
        assert.equal(await text(), '{\n  "a": [\n    1,\n    {\n      "b": null\n    }\n  ],\n  "e": []\n}');
        await button(page, "As it was put").click();
        assert.equal(await text(), '{"a":[1,{"b":null}],"e":[]}');
        await page.locator(".facts").getByText("2 m, 10 m").waitFor();
        for (const [text, answer] of [["nothing", "No job has the id nothing"], ["a b/../<i>", "This is not a job id"]]) {
          await search.fill(text);
          await search.press("Enter");
          await page.getByText(answer).waitFor();
        }
      }, { refused: [404] });
    });

    test("hostile names, bodies and errors are shown as text", async () => {
      const evil = '<script>window.pwned=1</script><img src=x onerror=window.pwned=1>';
      for (const topic of ["__proto__", "constructor", "-rf", "t".repeat(128)]) await put({ topic, id: `of:${topic.slice(0, 20)}`, body: { [evil]: evil } });
      await server.call("GET", "/topics/__proto__/pop");
      await server.call("POST", "/jobs/of:__proto__/bury", { error: evil });
      await put({ topic: "constructor", id: "binary", body: "\u0000\u0001\u202eevil\u2028\ufeff\u007f" });
      await visit("", async (page) => {
        await page.getByRole("link", { name: "constructor", exact: true }).waitFor();
        await page.locator(".errors").getByText(evil).first().waitFor();
        await page.goto(`${server.base}/#/topic/constructor`);
        await page.locator("td").getByText(evil).first().waitFor();
        await page.goto(`${server.base}/#/job/of:__proto__`);
        await page.locator("pre.error").getByText(evil).waitFor();
        await page.locator("pre.body").getByText("<script>").waitFor();
        await page.goto(`${server.base}/#/job/binary`);
        await page.locator("pre.body").getByText("\\u202eevil\\u2028\\ufeff").waitFor();
        await page.goto(`${server.base}/#/topic/${"t".repeat(128)}`);
        await page.locator("h1").getByText("t".repeat(128)).waitFor();
        for (const hash of ["#/topic/%E0%A4%A", "#/job/%00", "#/nothing/at/all", "#/topic/a%2Fb"]) {
          await page.goto(`${server.base}/${hash}`);
          await page.locator("h1").first().waitFor({ state: "attached" });
        }
        assert.equal(await page.evaluate(() => [window.pwned, document.images.length].join()), ",1");
      }, { refused: [422, 404], viewport: { width: 360, height: 740 } });
      for (const topic of ["__proto__", "constructor", "-rf", "t".repeat(128)]) await server.call("DELETE", `/topics/${topic}/jobs`);
    });

    test("large and deeply nested bodies are shown in part, and whole on demand", async () => {
      const long = `[${"1,".repeat(130_000)}"end"]`;
      const deep = `${"[".repeat(128)}"deepest"${"]".repeat(128)}`;
      const text = JSON.stringify(`${"ab\u0000\\\"".repeat(20_000)}last`);
      for (const [id, body] of [["long", long], ["deep", deep], ["text", text]]) {
        const answer = await fetch(`${server.base}/jobs`, { method: "POST", body: `{"topic":"large","id":"${id}","body":${body}}`, headers: { "Content-Type": "application/json" } });
        assert.equal(answer.status, 201, await answer.text());
      }
      await visit("#/topic/large", async (page) => {
        await page.getByText("1–3 of 3 ready jobs").waitFor();
        const size = () => page.locator("pre.body").evaluate((node) => node.textContent.length);
        for (const [id, end] of [["long", '"end"'], ["text", 'last"']]) {
          await page.goto(`${server.base}/#/job/${id}`);
          await page.getByText("The first 16,384 are shown.").waitFor();
          assert.ok((await size()) < 130_000, "the page lays out more than the beginning of the body");
          await button(page, "Show all").click();
          await page.waitForFunction((end) => document.querySelector("pre.body").textContent.includes(end), end);
          await button(page, "As it was put").click();
          await button(page, "Show all").click();
          await page.waitForFunction((end) => document.querySelector("pre.body").textContent.includes(end), end);
        }
        await page.goto(`${server.base}/#/job/deep`);
        await page.locator("pre.body").getByText('"deepest"').waitFor();
      });
      await server.call("DELETE", "/topics/large/jobs");
    });

    test("the page reports a stopped server in one line, and continues by itself when it is back", async () => {
      await visit("", async (page) => {
        await page.locator(".verdict[data-level]").waitFor();
        await server.kill();
        await page.getByRole("alert").getByText(/^No answer from the server since \d\d:\d\d:\d\d/).waitFor();
        await server.begin();
        await page.locator("#banner").waitFor({ state: "hidden" });
        await page.locator("#pulse").getByText("as of").waitFor();
      }, { unreachable: true });
    });

    test("for an unknown path, a browser gets a page and a program gets a problem", async () => {
      await visit("", async (page) => {
        for (const path of ["/assets/nope.js", "/nope", "/topics/t/nope"]) {
          const answer = await page.goto(server.base + path);
          assert.equal(answer.status(), 404);
          await page.getByRole("heading", { name: "Not found" }).waitFor();
          const problem = await fetch(server.base + path, { headers: { Accept: "application/json" } });
          assert.equal(problem.headers.get("content-type"), "application/problem+json");
          assert.equal((await problem.json()).code, "route_not_found");
        }
        await checkWithAxe(page, "the page for an unknown path");
        await page.getByRole("link", { name: "Go to the dashboard" }).click();
        await page.locator(".verdict[data-level]").waitFor();
      }, { refused: [404] });
    });

    test("a hidden tab does not poll, and polls at once when it is visible again", async () => {
      await visit("", async (page, requests) => {
        await page.locator(".verdict[data-level]").waitFor();
        const polls = () => requests.filter((url) => url.endsWith("/overview")).length;
        const setVisible = (visible) => page.evaluate((hidden) => {
          Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
          document.dispatchEvent(new Event("visibilitychange"));
        }, !visible);
        await page.clock.runFor(6000);
        await setVisible(false);
        await page.waitForLoadState("networkidle");
        const before = polls();
        assert.ok(before >= 2, `${before} polls`);
        await page.clock.runFor(60_000);
        assert.equal(polls(), before);
        const next = page.waitForRequest(/\/overview$/);
        await setVisible(true);
        await next;
      }, { prepare: (page) => page.clock.install() });
    });

    test("axe finds no violation, in both themes, and no page is wider than a phone", async () => {
      await dead("axed", ["axe1"]);
      await put({ topic: "axed", id: "axe2", delay: "1h", body: { a: 1 } });
      for (const colorScheme of ["light", "dark"]) {
        for (const viewport of [{ width: 1600, height: 1000 }, { width: 360, height: 740 }]) {
          await visit("", async (page) => {
            for (const hash of ["#/", "#/topics", "#/topic/axed", "#/topic/axed/dead?error_contains=axe1", "#/job/axe1", "#/job/axe2"]) {
              await page.goto(`${server.base}/${hash}`);
              await page.locator(".panel:visible").first().waitFor();
              await page.locator("#pulse").getByText("as of").waitFor();
              await checkWithAxe(page, `${hash} ${colorScheme}`);
              const width = await page.evaluate(() => document.documentElement.scrollWidth);
              assert.ok(width <= viewport.width, `${hash} is ${width} wide`);
            }
            await page.goto(`${server.base}/#/topic/axed`);
            await button(page, "Purge").click();
            await checkWithAxe(page, `dialog ${colorScheme}`);
            await dialogButton(page, "Cancel").click();
            await button(page, "Settings").click();
            await page.getByRole("dialog").getByLabel("Priority").fill("11");
            await dialogButton(page, "Save").click();
            await page.getByRole("dialog").getByRole("alert").getByText("`priority`").waitFor();
            await checkWithAxe(page, `refused settings ${colorScheme}`);
          }, { colorScheme, viewport, refused: [422] });
        }
      }
    });

    test("the theme is switched and kept, and the keyboard reaches the content at once", async () => {
      await visit("", async (page) => {
        await page.locator("h1").waitFor({ state: "attached" });
        await page.keyboard.press("Tab");
        assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
        const background = () => page.evaluate(() => getComputedStyle(document.body.parentElement).backgroundColor);
        const light = await background();
        await button(page, "Theme: system").click();
        await button(page, "Theme: light").click();
        await button(page, "Theme: dark").waitFor();
        assert.notEqual(await background(), light);
        await page.reload();
        await button(page, "Theme: dark").waitFor();
        assert.notEqual(await background(), light);
      }, { colorScheme: "light" });
    });
  });

  describe(`on ${store}, with tokens`, () => {
    const root = newToken();
    let server, browser;
    before(async () => {
      server = await start(store, { token: root });
      browser = await launch(chromium);
    });
    after(async () => {
      await browser?.close();
      await server?.stop();
    });

    /** Creates a token with these scopes. */
    const create = async (name, scopes) => (await server.call("POST", "/tokens", { name, scopes })).token;

    async function open(hash) {
      const page = await browser.newPage();
      page.setDefaultTimeout(PATIENCE);
      page.errors = [];
      page.on("pageerror", (error) => page.errors.push(String(error)));
      page.on("console", (message) => {
        if (message.type() === "error" && !/status of (401|403|404)/.test(message.text())) page.errors.push(message.text());
      });
      await page.goto(`${server.base}/${hash}`);
      return page;
    }

    async function enter(page, token) {
      await page.getByLabel("Token").fill(token);
      await page.getByRole("button", { name: "Continue" }).click();
    }

    const buttons = (page) => page.locator("main button:visible, header button:visible").allInnerTexts();

    test("the page asks for a token, refuses a wrong one in one line, and asks again after a revocation", async () => {
      const reader = await create("reader", { read: ["*"] });
      const page = await open("");
      await page.getByRole("heading", { name: "Token" }).waitFor();
      assert.equal(await page.locator("main .problem:visible").count(), 0);
      for (const wrong of ["nonsense", newToken(), "tökén →"]) {
        // A late refusal of this token would forget the next one. The last one is not sent.
        const refused = /^[\x21-\x7e]+$/.test(wrong) && page.waitForResponse((answer) => answer.status() === 401);
        await enter(page, wrong);
        await refused;
        await page.getByText("The server does not accept this token").waitFor();
        assert.equal(await page.locator(".problem:visible, .banner:visible").count(), 1);
      }
      await checkWithAxe(page, "the page that asks for a token");
      await enter(page, reader);
      await page.locator(".verdict[data-level]").waitFor();
      await page.reload();
      await page.locator(".verdict[data-level]").waitFor();
      await server.call("DELETE", "/tokens/reader");
      await page.getByText("The server does not accept this token").waitFor();
      await enter(page, await create("second", { read: ["*"] }));
      await page.locator(".verdict[data-level]").waitFor();
      await page.getByRole("button", { name: "Forget token" }).click();
      await page.getByRole("heading", { name: "Token" }).waitFor();
      assert.deepEqual(page.errors, []);
      await page.close();
    });

    test("groups of dead jobs offer no action to a token that may only read, and say what a revoked scope refuses", async () => {
      const writer = client(server.base, await create("killer", { put: ["*"], pop: ["*"] }));
      for (const id of ["g1", "g2"]) await writer("POST", "/jobs", { topic: "failing", id });
      await writer("GET", "/topics/failing/pop?count=2");
      for (const id of ["g1", "g2"]) await writer("POST", `/jobs/${id}/bury`, { error: `no shop ${id}` });
      const reader = await open("#/topic/failing/dead");
      await enter(reader, await create("watcher", { read: ["failing"] }));
      const groups = (page) => page.getByRole("region", { name: "Dead jobs by error" });
      await groups(reader).getByText("2 ×").waitFor();
      assert.equal(await groups(reader).getByRole("button").count(), 0);
      await reader.close();
      const changer = await open("#/topic/failing/dead");
      await enter(changer, await create("changer", { read: ["failing"], cancel: ["failing"] }));
      await changer.getByRole("button", { name: "Delete these 2" }).click();
      // The refusal of a poll would close the dialog.
      let release;
      const released = new Promise((resolve) => { release = resolve; });
      await changer.route("**/access", async (route) => { await released; await route.continue(); });
      await server.call("DELETE", "/tokens/changer");
      await changer.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
      release();
      await changer.getByText("The server does not accept this token").waitFor();
      const watcher = client(server.base, await create("checker", { read: ["failing"] }));
      assert.equal((await watcher("GET", "/topics/failing")).dead, 2);
      await leave(changer);
    });

    test("each topic offers only the actions that the token allows", async () => {
      const writer = client(server.base, await create("writer", { put: ["*"], pop: ["*"] }));
      for (const topic of ["mine.a", "theirs"]) await writer("POST", "/jobs", { topic, id: `job-of-${topic}` });
      const all = await open("");
      await enter(all, await create("operator", { read: ["*"], manage: ["mine.*"] }));
      await all.locator(".verdict[data-level]").waitFor();
      assert.ok(!(await buttons(all)).includes("Put a job"));
      const offered = async (page, hash) => {
        await page.goto(`${server.base}/${hash}`);
        await page.locator("h1").getByText(/mine|theirs/).waitFor();
        await page.locator(".panel:visible").first().waitFor();
        return (await buttons(page)).filter((name) => /^(Put|Pause|Settings|Kick|Purge|Delete|Bury|Resch)/.test(name));
      };
      assert.deepEqual(await offered(all, "#/topic/mine.a"), ["Pause", "Settings", "Kick all dead", "Purge", "Kick selected", "Delete selected"]);
      assert.deepEqual(await offered(all, "#/topic/theirs"), []);
      assert.deepEqual(await offered(all, "#/job/job-of-mine.a"), ["Kick", "Reschedule", "Delete"]);
      assert.deepEqual(await offered(all, "#/job/job-of-theirs"), []);
      const canceller = await open("");
      await enter(canceller, await create("canceller", { read: ["*"], cancel: ["mine.*"] }));
      await canceller.locator(".verdict[data-level]").waitFor();
      assert.deepEqual(await offered(canceller, "#/topic/mine.a"), ["Kick selected", "Delete selected"]);
      assert.deepEqual(await offered(canceller, "#/job/job-of-mine.a"), ["Kick", "Reschedule", "Delete"]);
      assert.deepEqual(await offered(canceller, "#/job/job-of-theirs"), []);
      await canceller.close();
      await all.goto(`${server.base}/#/topic/mine.a`);
      await all.getByRole("button", { name: "Pause", exact: true }).click();
      assert.match(await all.locator(".curl code").innerText(), /Bearer \$DELAY_QUEUE_TOKEN/);
      await all.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
      await all.locator("h1").getByText("paused until").waitFor();
      assert.deepEqual(all.errors, []);
      await all.close();

      // With a token for some topics, the page lists these and says why there is no overview.
      const some = await open("");
      await enter(some, await create("limited", { read: ["mine.*", "unused"], put: ["mine.*"] }));
      await some.getByText("Your token may read: mine.*, unused.").waitFor();
      for (const topic of ["mine.a", "unused"]) assert.equal(await some.getByRole("link", { name: topic }).getAttribute("href"), `#/topic/${topic}`);
      assert.equal(await some.getByRole("link", { name: "theirs" }).count(), 0);
      await checkWithAxe(some, "the overview of a token for some topics");
      await some.getByRole("link", { name: "Topics" }).click();
      await some.getByRole("link", { name: "mine.a" }).waitFor();
      assert.equal(await some.getByRole("link", { name: "theirs" }).count(), 0);
      assert.deepEqual(await offered(some, "#/topic/mine.a"), ["Put a job", "Put a job"], "in the header and on the page");
      await some.goto(`${server.base}/#/topic/theirs`);
      await some.getByRole("alert").getByText("lacks the scope `read`").waitFor();
      await some.goto(`${server.base}/#/job/job-of-theirs`);
      await some.getByText("No job has the id job-of-theirs").waitFor();
      assert.deepEqual(some.errors, []);
      await some.close();
    });
  });
}
