import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { Queue } from "../src/index.js";
import { Stub } from "./support/stub.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** Returns the worker of the README, for a server at another URL. */
async function workerFor(url: string): Promise<string> {
  const readme = await readFile(`${ROOT}README.md`, "utf8");
  const code = /```ts worker\n(.*?)```/s.exec(readme)?.[1];
  assert.ok(code, "README.md has no worker");
  return code
    .replace("http://127.0.0.1:9277", url)
    .replace('"delay-queue"', JSON.stringify(`${ROOT}build/src/index.js`));
}

/** Checks types and compiles. */
async function compile(code: string): Promise<string> {
  await mkdir(`${ROOT}build/readme`, { recursive: true });
  const file = `${ROOT}build/readme/worker.mts`;
  await writeFile(file, code);
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    strict: true,
    types: ["node"],
    skipLibCheck: true,
  };
  const program = ts.createProgram([file], options);
  const problems = [...ts.getPreEmitDiagnostics(program), ...program.emit().diagnostics];
  assert.deepEqual(
    problems.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n")),
    [],
  );
  return file.replace(".mts", ".mjs");
}

describe("the worker of the README", () => {
  it("closes orders, buries what it does not know, and ends by itself on SIGTERM", async () => {
    const stub = await Stub.start();
    const queue = new Queue({ url: stub.url });
    await queue.put("orders", { order: "1" }, { id: "unknown" });
    await queue.put("orders", { order: "4711" }, { id: "close:4711" });

    const worker = spawn(process.execPath, [await compile(await workerFor(stub.url))], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exit = once(worker, "exit");
    const [line] = (await once(createInterface({ input: worker.stdout }), "line")) as [string];
    assert.equal(line, "closing order 4711");
    worker.kill("SIGTERM");
    assert.deepEqual(await exit, [0, null]);

    assert.equal(await queue.get("close:4711"), null);
    assert.equal((await queue.get("unknown"))?.error, "there is no order 1");
    await stub.stop();
  });
});
