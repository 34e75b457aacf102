"""The driver of clients/CONTRACT.md: runs the library as JSON lines on standard input tell."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Dict, List, Optional

import httpx
from fake_steps import run_steps

import delay_queue
from delay_queue import AsyncQueue, Bury, Job, Put, Snooze, Worker

URL = os.environ.get("DELAY_QUEUE_URL", "")
TOKEN = os.environ.get("DELAY_QUEUE_TOKEN") or None
RETRY_FOR = float(os.environ.get("DELAY_QUEUE_RETRY_FOR") or 30)
KINDS = {
    delay_queue.Refused: "refused",
    delay_queue.Unavailable: "unavailable",
    delay_queue.ProtocolError: "protocol",
    delay_queue.UsageError: "usage",
    delay_queue.SignatureError: "signature",
}


@dataclass
class Order:
    """The body of the scenarios with types."""

    order: str
    amount: int


class Strange(BaseException):
    """No Exception, like SystemExit."""


def write(message: Dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def error_json(error: BaseException) -> Dict[str, Any]:
    kind = next((name for type_, name in KINDS.items() if isinstance(error, type_)), type(error).__name__)
    fields = {name: getattr(error, name, None) for name in ("status", "code", "field", "applied")}
    return {"kind": kind, "message": str(error), **fields}


class Driver:
    """Runs commands concurrently."""

    def __init__(self) -> None:
        self.queue: Optional[AsyncQueue] = None
        self.worker: Optional[Worker] = None
        self.run: Optional["asyncio.Future[None]"] = None
        self.gates: Dict[str, asyncio.Event] = {}
        self.quits = asyncio.Event()
        self.tasks: List["asyncio.Task[None]"] = []

    def client(self) -> AsyncQueue:
        if self.queue is None:
            self.queue = AsyncQueue(URL, TOKEN, retry_for=RETRY_FOR)
        return self.queue

    async def answer(self, command: Dict[str, Any]) -> None:
        method: Callable[[Dict[str, Any]], Awaitable[Any]] = getattr(self, command["do"])
        try:
            write({"n": command["n"], "ok": await method(command)})
        except BaseException as error:
            write({"n": command["n"], "error": error_json(error)})

    async def put(self, command: Dict[str, Any]) -> Any:
        fields = dict(command["put"])
        return await self.client().put(fields.pop("topic"), fields.pop("body", None), **fields)

    async def put_many(self, command: Dict[str, Any]) -> Any:
        results = await self.client().put_many([Put(**put) for put in command["puts"]])
        return [{"error": error_json(one)} if isinstance(one, Exception) else {"ok": one} for one in results]

    async def get(self, command: Dict[str, Any]) -> Any:
        return await self.client().get(command["id"], wait=command.get("wait") or 0)

    async def cancel(self, command: Dict[str, Any]) -> Any:
        return await self.client().cancel(command["id"], remember=command.get("remember"))

    async def topic_get(self, command: Dict[str, Any]) -> Any:
        return await self.client().topic(command["topic"])

    async def topic_set(self, command: Dict[str, Any]) -> Any:
        return await self.client().set_topic(command["topic"], command["settings"])

    async def verify(self, command: Dict[str, Any]) -> Any:
        delay_queue.verify(command["secrets"], command["headers"], command["body"].encode(), now=command["now"])
        return True

    async def fake(self, command: Dict[str, Any]) -> Any:
        return await run_steps(command["steps"], error_json)

    async def open(self, command: Dict[str, Any]) -> Any:
        self.gate(command["gate"]).set()
        return {}

    async def work(self, command: Dict[str, Any]) -> Any:
        options = {name: command[name] for name in ("grace", "wait") if command.get(name) is not None}
        self.worker = Worker(self.client(), command["concurrency"], **options)
        for topic in command["topics"]:
            if command.get("quiet"):
                self.worker.on(topic)(nothing)
            elif command.get("types"):
                self.worker.on(topic, body=Order)(self.handle_order)
            else:
                self.worker.on(topic)(self.handle)
        self.run = asyncio.ensure_future(self.work_to_the_end(self.worker))
        return {}

    async def work_to_the_end(self, worker: Worker) -> None:
        try:
            await worker.run_async()
            write({"event": "worker_ended"})
        except BaseException as error:
            write({"event": "worker_ended", "error": error_json(error)})

    async def stop(self, command: Dict[str, Any]) -> Any:
        if self.worker is not None and self.run is not None:
            self.worker.stop()
            await self.run
        return {}

    async def bare(self, command: Dict[str, Any]) -> Any:
        left = [command["jobs"]]
        async with httpx.AsyncClient(base_url=URL, limits=httpx.Limits(max_connections=None)) as client:

            async def loop() -> None:
                while left[0] > 0:
                    answer = await client.get(f"/v1/topics/{command['topic']}/pop?count=1&wait=1s", timeout=30)
                    for job in answer.json()["jobs"]:
                        body = {"reservation": job["reservation"]}
                        await client.post(f"/v1/jobs/{job['id']}/finish", json=body, timeout=30)
                        left[0] -= 1

            await asyncio.gather(*[loop() for _ in range(command["concurrency"])])
        return {}

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    async def handle_order(self, job: Job[Order]) -> None:
        started(job)
        ended(job)

    async def handle(self, job: Job[Any]) -> Any:
        started(job)
        does = job.body if isinstance(job.body, dict) else {}
        try:
            if "gate" in does:
                await self.gate(does["gate"]).wait()
            if "after" in does:
                await asyncio.sleep(does["after"])
        except asyncio.CancelledError:
            write({"event": "cancelled", "id": job.id, "attempt": job.attempt})
            raise
        ended(job)
        return result(does)


def result(does: Dict[str, Any]) -> Any:
    """Ends a handler as its body says."""
    then = does.get("then")
    if then == "raise":
        raise RuntimeError(does["text"])
    if then == "bury":
        raise Bury(does["reason"])
    if then == "snooze":
        raise Snooze(does["delay"])
    if then == "throw":
        raise Strange("no Exception")
    return {1, 2} if then == "unencodable" else does.get("value")


async def nothing(job: Job[Any]) -> None:
    """Does nothing, for measurements."""


def started(job: Job[Any]) -> None:
    event = {"event": "started", "id": job.id, "topic": job.topic, "attempt": job.attempt}
    event.update(due_at=job.fields["due_at"], at=time.time_ns() // 1_000_000)
    event.update(traceparent=job.traceparent, headers=job.headers)
    write(event)


def ended(job: Job[Any]) -> None:
    write({"event": "ended", "id": job.id, "attempt": job.attempt})


async def main() -> None:
    driver = Driver()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, driver.quits.set)
    reader = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    write({"event": "ready", "pid": os.getpid()})
    quits = asyncio.ensure_future(driver.quits.wait())
    while True:
        line = asyncio.ensure_future(reader.readline())
        await asyncio.wait({line, quits}, return_when=asyncio.FIRST_COMPLETED)
        if quits.done() or not line.result():
            break
        driver.tasks.append(asyncio.ensure_future(driver.answer(json.loads(line.result()))))
    await driver.stop({})


logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
logging.getLogger("httpx").setLevel(logging.WARNING)
asyncio.run(main())
