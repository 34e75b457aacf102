// Tests that no request which a foreign web page can make Chromium send without a click changes a job. The tests start
// Chromium directly, as users do, since browser drivers may disable prefetching. A proxy in front of the server records
// whether each kind of attack has sent its request.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, request as send } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { client } from "./load.mjs";
import { newToken, start, until } from "./server.mjs";
import { preflighted, navigations, gets, posts } from "./attacks.mjs";

async function listen(server) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server.address().port;
}

/** Starts a proxy that passes requests on to `target`, and records the answered ones. Its path /rebound serves the page of a DNS rebinding attack. */
async function recording(target) {
  const seen = [];
  const { port: targetPort } = new URL(target);
  const record = ({ method, url }) => seen.push({ method, url });
  const proxy = createServer((request, response) => {
    const { method, url: path, rawHeaders: headers } = request;
    if (path === "/rebound") {
      response.setHeader("content-type", "text/html");
      return response.end(recorded.page);
    }
    const passed = send({ host: "127.0.0.1", port: targetPort, method, path, headers }, (answer) => {
      record(request);
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    passed.on("error", () => response.destroy());
    request.pipe(passed);
  });
  proxy.on("upgrade", (request, socket) => {
    const passed = connect(targetPort, "127.0.0.1").once("data", () => record(request));
    const headers = request.rawHeaders.map((text, at) => (at % 2 ? `${text}\r\n` : `${text}: `)).join("");
    passed.write(`${request.method} ${request.url} HTTP/1.1\r\n${headers}\r\n`);
    for (const [one, other] of [[passed, socket], [socket, passed]]) one.on("error", () => other.destroy()).pipe(other);
  });
  const recorded = { seen, proxy, port: await listen(proxy), page: "" };
  return recorded;
}

/** Starts the attacker's server, with `pages` by path. */
async function attacker(pages) {
  const server = createServer((request, response) => {
    const { pathname, search } = new URL(request.url, "http://x");
    const argument = decodeURIComponent(search.slice(1));
    const type = (value) => response.setHeader("content-type", value);
    if (pathname === "/to") response.writeHead(307, { location: argument }).end();
    else if (pathname === "/worker.js") {
      type("text/javascript");
      response.end(`fetch(${JSON.stringify(argument)}, { mode: "no-cors" }).catch(() => {})`);
    } else {
      type("text/html");
      response.end(`<!doctype html><title>x</title>${pages[pathname.slice(1)] ?? ""}`);
    }
  });
  return { server, port: await listen(server) };
}

/** Runs Chromium with a page until `use` completes. The name rebound.test resolves to this machine. */
async function browse(url, use) {
  const profile = await mkdtemp(join(tmpdir(), "delay-queue-chromium-"));
  const command = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-popup-blocking", "--mute-audio", "--host-resolver-rules=MAP rebound.test 127.0.0.1", `--user-data-dir=${profile}`, url];
  const child = spawn("setpriv", ["--pdeathsig", "KILL", process.env.CHROMIUM ?? "/usr/bin/chromium", ...command], { stdio: "ignore" });
  const ended = once(child, "exit");
  try {
    await use();
  } finally {
    child.kill("SIGTERM");
    await ended;
    await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}

const name = (attackName) => attackName.replaceAll("_", "-");

for (const [kind, token] of [["without tokens", undefined], ["with tokens", newToken()]]) {
  describe(`a server ${kind}`, () => {
    let victim, recorded;
    before(async () => {
      victim = await start("file", { token });
      recorded = await recording(victim.base);
      if (token) {
        const all = { put: ["*"], pop: ["*"], read: ["*"], manage: ["*"] };
        const made = await victim.call("POST", "/tokens", { name: "all", scopes: all });
        victim.call = client(victim.base, made.token);
      }
    });
    after(async () => {
      recorded?.proxy.closeAllConnections();
      recorded?.proxy.close();
      await victim?.stop();
    });

    /** Makes all attacks from pages of `host`, and checks that all requests arrived and none changed a job. */
    async function attack(host, run) {
      const [target, prefix] = [`http://127.0.0.1:${recorded.port}`, `${host.replaceAll(/[^a-z0-9]/g, "-")}.`];
      const topic = (attackName) => prefix + name(attackName);
      const pop = (attackName) => `${target}/topics/${topic(attackName)}/pop?ttr=1h`;
      const body = (attackName) => JSON.stringify({ topic: topic(`put-${attackName}`) });
      const popped = [...Object.keys(gets), ...Object.keys(navigations), ...Object.keys(posts).map((attackName) => `pop_${attackName}`), "typed"];
      for (const attackName of popped) await victim.call("POST", "/jobs", { topic: topic(attackName) });
      for (const attackName of Object.keys(preflighted)) await victim.call("POST", "/jobs", { topic: topic(attackName), id: topic(attackName) });
      const seen = (method, path) => recorded.seen.some((request) => request.method === method && request.url.split("?")[0] === path);

      const html = [];
      for (const [attackName, make] of Object.entries(gets)) html.push(make(pop(attackName)));
      for (const [attackName, make] of Object.entries(posts)) {
        html.push(make(`${target}/jobs?${attackName}`, body(attackName)));
        html.push(make(`${target}/topics/${topic(`pop_${attackName}`)}/pop`, "{}").replaceAll(attackName, `pop_${attackName}`));
      }
      for (const [attackName, make] of Object.entries(preflighted)) html.push(make(`${target}/jobs/${topic(attackName)}`));
      for (const attackName of Object.keys(navigations)) html.push(`<script>open("/${attackName}")</script>`);
      const pages = Object.fromEntries(Object.entries(navigations).map(([attackName, make]) => [attackName, make(pop(attackName))]));
      const attacking = await attacker({ ...pages, all: html.join("\n") });
      const from = `http://${host}:${attacking.port}`;
      try {
        const isTyped = () => seen("GET", `/topics/${topic("typed")}/pop`);
        await browse(`${from}/to?${encodeURIComponent(pop("typed"))}`, () => until("the request for a typed address", async () => isTyped()));
        await browse(`${from}/all`, async () => {
          const missing = () => [
            ...[...Object.keys(gets), ...Object.keys(navigations)].filter((attackName) => !seen("GET", `/topics/${topic(attackName)}/pop`)),
            ...Object.keys(posts).filter((attackName) => !seen("POST", `/topics/${topic(`pop_${attackName}`)}/pop`)).map((attackName) => `pop_${attackName}`),
            ...Object.keys(posts).filter((attackName) => !recorded.seen.some(({ method, url }) => method === "POST" && url === `/jobs?${attackName}`)),
            ...Object.keys(preflighted).filter((attackName) => !seen("OPTIONS", `/jobs/${topic(attackName)}`)),
          ];
          await until(() => `all attacks send their requests; missing: ${missing().join(", ")}`, async () => missing().length === 0);
        });
      } finally {
        attacking.server.closeAllConnections();
        attacking.server.close();
      }
      const { topics } = await victim.call("GET", `/topics?prefix=${prefix}&limit=1000`);
      const changed = topics.filter(({ ready, delayed, reserved, dead }) => ready !== 1 || delayed || reserved || dead);
      assert.deepEqual(changed.map(({ topic, reserved }) => `${topic}: ${reserved} popped`), [], "changed");
      assert.equal(topics.length, popped.length + Object.keys(preflighted).length, "a job was put");
    }

    test("a page whose name is bound to the server's address changes no job", async () => {
      await victim.call("POST", "/jobs", { topic: "rebound", id: "rebound" });
      const calls = [
        ["GET", "/topics/rebound/pop?ttr=1h"], ["POST", "/topics/rebound/pop?ttr=1h"], ["POST", "/jobs", '{"topic":"rebound"}'],
        ["PATCH", "/jobs/rebound", '{"priority":1}'], ["DELETE", "/jobs/rebound"], ["DELETE", "/topics/rebound/jobs"], ["POST", "/topics/rebound/pause"],
      ];
      const code = ([method, url, body]) => `fetch("${url}", { method: "${method}", headers: { "content-type": "application/json" }, body: ${body ? `'${body}'` : undefined} });`;
      recorded.page = `<!doctype html><script>${calls.map(code).join("\n")}</script>`;
      recorded.seen.length = 0;
      await browse(`http://rebound.test:${recorded.port}/rebound`, async () => {
        const missing = () => calls.filter(([method, url]) => !recorded.seen.some((one) => one.method === method && one.url === url));
        await until(() => `all attacks send their requests; missing: ${missing()}`, async () => missing().length === 0);
      });
      const { ready, reserved, paused } = await victim.call("GET", "/topics/rebound");
      assert.deepEqual({ ready, reserved, paused }, { ready: 1, reserved: 0, paused: false });
    });
    test("a page of another site changes no job", () => attack("localhost"));
    test("a page of another port of the same host changes no job", () => attack("127.0.0.1"));
  });
}
