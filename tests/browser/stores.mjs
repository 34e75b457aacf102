// Tests on each store.

import { after, before, describe } from "node:test";
import { chromium } from "playwright-core";
import { launch } from "./chromium.mjs";
import { start } from "./server.mjs";
import { visit } from "./visit.mjs";

/** Describes tests on each store of the environment variable STORES. `define` takes the tools of a test. */
export function onEachStore(title, define) {
  for (const store of (process.env.STORES ?? "file,redis").split(",")) {
    describe(`${title}, on ${store},`, () => {
      let server, browser;
      before(async () => {
        server = await start(store);
        browser = await launch(chromium);
      });
      after(async () => {
        await browser?.close();
        await server?.stop();
      });

      const call = (...request) => server.call(...request);

      /** Puts jobs with these ids and errors, and releases them dead; `undefined` is no error. */
      async function die(topic, errors) {
        const all = Object.entries(errors).map(([id, error]) => ({ id, error }));
        for (let at = 0; at < all.length; at += 100) {
          const some = all.slice(at, at + 100);
          await call("POST", "/batch/jobs", { jobs: some.map(({ id }) => ({ topic, id, max_attempts: 1 })) });
          const { jobs } = await call("GET", `/topics/${topic}/pop?count=100`);
          await call("POST", "/batch/release", { jobs: jobs.map(({ id, reservation }) => ({ id, reservation, error: errors[id] })) });
        }
      }

      define({
        call,
        die,
        put: (job) => call("POST", "/jobs", job),
        base: () => server.base,
        visit: (hash, use, options) => visit(browser, server.base, hash, use, options),
        button: (page, name) => page.getByRole("button", { name, exact: true }),
        dialogButton: (page, name) => page.getByRole("dialog").getByRole("button", { name, exact: true }),
        waitForToast: (page, text) => page.locator("#said").getByText(text, { exact: true }).waitFor(),
      });
    });
  }
}
