// Servers and Redis as separate processes, on free ports of loopback.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PATIENCE } from "./chromium.mjs";
import { client } from "./load.mjs";

async function freePort() {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address();
  listener.close();
  await once(listener, "close");
  return port;
}

const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

/** Repeats the check `holds` until it returns true; fails after `PATIENCE`. `what` is the condition in words, or a function that returns it. */
export async function until(what, holds) {
  const end = Date.now() + PATIENCE;
  while (!(await holds().catch(() => false))) {
    if (Date.now() > end) throw new Error(`${typeof what === "function" ? what() : what}: not within ${PATIENCE / 60_000} minutes`);
    await pause(20); // There is no event to wait for.
  }
}

const answers = (port) =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("connect", () => { socket.destroy(); resolve(true); });
    socket.on("error", () => resolve(false));
  });

/** Sends a signal to a process that these tests started, and waits for its end. */
async function end(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill(signal);
  await ended;
}

// If this process is killed, setpriv kills the server too.
const run = (command, folder) =>
  spawn("setpriv", ["--pdeathsig", "KILL", ...command], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });

function crc32(text) {
  let crc = ~0;
  for (const byte of Buffer.from(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

/** Returns a new token in the format of `delay-queue token`. */
export function newToken() {
  const body = `dq_${randomBytes(32).toString("hex")}`;
  return body + crc32(body).toString(16).padStart(8, "0");
}

/**
 * Starts a server on a store of this kind ("file" or "redis"), with its data in a new folder. With `token`, the server
 * requires tokens, and `token` may create others. It pushes to loopback, too.
 */
export async function start(kind, { token } = {}) {
  const environment = { DELAY_QUEUE__PUSH__ALLOWED_NETWORKS: "127.0.0.0/8" };
  if (token) environment.DELAY_QUEUE__SERVER__BOOTSTRAP_TOKEN = token;
  const folder = await mkdtemp(join(tmpdir(), "delay-queue-browser-"));
  const [port, redisPort] = [await freePort(), await freePort()];
  let redis = null;
  if (kind === "redis") {
    redis = run(["redis-server", "--port", String(redisPort), "--bind", "127.0.0.1", "--appendonly", "yes", "--loglevel", "warning", "--logfile", "redis.log"], folder);
    await until("redis-server answers", () => answers(redisPort));
  }
  const store = kind === "redis" ? `redis://127.0.0.1:${redisPort}/0` : `file:${folder}/data`;
  const base = `http://127.0.0.1:${port}`;
  let child = null;

  async function begin() {
    const command = [process.env.PROGRAM, "--listen", `127.0.0.1:${port}`, "--store", store];
    child = spawn("setpriv", ["--pdeathsig", "KILL", ...command], {
      cwd: folder, stdio: ["ignore", "ignore", "inherit"], env: { ...process.env, DELAY_QUEUE__LOG__FILTER: "error", ...environment },
    });
    await until("the server is ready", async () => (await fetch(`${base}/readyz`)).ok);
  }

  await begin();
  const call = client(base, token);
  // The first token of a store must be an administrator's.
  if (token) await call("POST", "/tokens", { name: "first", scopes: { admin: ["*"] } });
  return {
    base,
    call,
    begin,
    kill: () => end(child, "SIGKILL"),
    killRedis: () => end(redis, "SIGKILL"),
    async stop() {
      await end(child, "SIGTERM");
      if (redis) await end(redis, "SIGTERM");
      await rm(folder, { recursive: true, force: true });
    },
  };
}
