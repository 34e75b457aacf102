"""Workers against a server whose answers the tests decide."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from typing import Any, Callable, Dict, List, Optional

import pytest
from conftest import StubServer, popped

from delay_queue import Bury, FakeQueue, Job, Queue, Snooze, UsageError, Worker
from delay_queue._exchange import Outcome, Request, Success
from delay_queue._transport import AsyncTransport
from delay_queue.worker import consumer_name


def run(stub: StubServer, job: Dict[str, Any], handler: Callable[[Job[Any]], Any], **options: Any) -> List[Any]:
    """Runs one job and returns the acknowledgements; the worker stops at the first answered one."""
    worker = Worker(Queue(stub.url), **options)
    worker.on(job["topic"])(handler)
    acknowledged: List[Any] = []

    def reply(method: str, path: str, body: Any) -> Any:
        if "/pop" in path:
            first = sum("/pop" in request[1] for request in stub.requests) == 1
            return 200, {"jobs": [job] if first else []}
        if "/batch/" in path:
            acknowledged.append((path[10:], body["jobs"][0]))
            worker.stop()
            return 200, {"results": [{"id": job["id"], "status": 204}]}
        return 200, {}

    stub.reply = reply
    asyncio.run(worker.run_async())
    return acknowledged


def result_of(error: Optional[BaseException] = None, value: Any = None) -> Callable[[Job[Any]], Any]:
    def handler(job: Job[Any]) -> Any:
        if error is not None:
            raise error
        return value

    return handler


HOLD = {"id": "x", "reservation": "r"}


@pytest.mark.parametrize(
    ("error", "value", "expected"),
    [
        (None, None, ("finish", {})),
        (None, 0, ("finish", {"result": 0})),
        (None, {1}, ("finish", {})),
        (None, Bury("no"), ("bury", {"error": "no"})),
        (Bury("no"), None, ("bury", {"error": "no"})),
        (Snooze("10m"), None, ("release", {"delay": "10m", "count_attempt": False})),
        (ValueError("x"), None, ("release", {"error": "ValueError: x"})),
        (ValueError(), None, ("release", {"error": "ValueError"})),
        (ValueError("\ud800"), None, ("release", {"error": "ValueError: ?"})),
        (SystemExit(3), None, ("release", {"error": "SystemExit: 3"})),
        (KeyboardInterrupt(), None, ("release", {"error": "KeyboardInterrupt"})),
        (asyncio.CancelledError(), None, ("release", {"error": "CancelledError"})),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
def test_how_a_handler_ends_decides_the_acknowledgement(
    stub: StubServer, is_async: bool, error: Any, value: Any, expected: Any
) -> None:
    function = result_of(error, value)

    async def coroutine(job: Job[Any]) -> Any:
        return function(job)

    kind, fields = expected
    assert run(stub, popped("x"), coroutine if is_async else function) == [(kind, {**HOLD, **fields})]


def test_a_snooze_without_a_delay_is_an_error(stub: StubServer) -> None:
    kind, fields = run(stub, popped("x"), result_of(Snooze(None)))[0]  # type: ignore[arg-type]
    assert kind == "release"
    assert "delay of Snooze" in fields["error"]
    assert "count_attempt" not in fields


def test_a_thread_that_outlives_the_grace_gives_its_job_back(stub: StubServer) -> None:
    ends = threading.Event()
    seen: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def handler(job: Job[Any]) -> None:
        worker.stop()
        seen.put(job.wait_cancelled(60))
        ends.wait(60)

    worker = Worker(Queue(stub.url), grace=0.0)
    worker.on("orders")(handler)

    def reply(method: str, path: str, body: Any) -> Any:
        if "/pop" in path:
            first = sum("/pop" in request[1] for request in stub.requests) == 1
            return 200, {"jobs": [popped("x")] if first else []}
        return 200, {"results": [{"id": "x", "status": 200}]}

    stub.reply = reply
    asyncio.run(worker.run_async())
    ends.set()
    assert seen.get(timeout=60) is True
    released = [body["jobs"] for _, path, body in stub.requests if path == "/v1/batch/release"]
    assert released == [[{**HOLD, "delay": 0, "count_attempt": False}]]


def test_one_refused_finish_does_not_hold_up_the_others(stub: StubServer, caplog: pytest.LogCaptureFixture) -> None:
    """The server refuses a whole batch that has a number beyond a double: smaller batches find the job."""
    worker = Worker(Queue(stub.url))
    finished: Dict[str, Any] = {}

    @worker.on("orders")
    async def handler(job: Job[Any]) -> Any:
        return job.body

    def reply(method: str, path: str, body: Any) -> Any:
        if "/pop" in path:
            first = sum("/pop" in request[1] for request in stub.requests) == 1
            return 200, {"jobs": [popped(str(n), body=10**400 if n == 3 else n) for n in range(8)] if first else []}
        if any(job.get("result") == 10**400 for job in body["jobs"]):
            return 400, {"code": "invalid_json", "detail": "a number beyond a double"}
        finished.update({job["id"]: job.get("result") for job in body["jobs"]})
        if len(finished) == 8:
            worker.stop()
        return 200, {"results": [{"id": job["id"], "status": 204} for job in body["jobs"]]}

    stub.reply = reply
    with caplog.at_level(logging.WARNING):
        asyncio.run(worker.run_async())
    assert finished == {str(n): None if n == 3 else n for n in range(8)}
    assert "job 3 is finished without its result" in caplog.text


def test_cancelling_the_task_of_a_run_stops_the_worker(stub: StubServer) -> None:
    worker = Worker(Queue(stub.url))
    worker.on("orders")(result_of())
    popping = threading.Event()

    def reply(method: str, path: str, body: Any) -> Any:
        popping.set()
        return 200, {"jobs": []}

    stub.reply = reply

    async def main() -> None:
        task = asyncio.ensure_future(worker.run_async())
        await asyncio.get_running_loop().run_in_executor(None, popping.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_wrong_options_are_named(stub: StubServer) -> None:
    queue = Queue(stub.url)
    for options, text in [({"concurrency": 0}, "concurrency"), ({"grace": -1}, "grace"), ({"wait": 61}, "wait")]:
        with pytest.raises(UsageError, match=text):
            Worker(queue, **options)  # type: ignore[arg-type]
    worker = Worker(queue)
    with pytest.raises(UsageError, match="no handler"):
        worker.run()
    with pytest.raises(UsageError, match="a topic has"):
        worker.on("a b")
    worker.on("a")(result_of())
    with pytest.raises(UsageError, match="a handler already"):
        worker.on("a")
    fake = Worker(FakeQueue())
    fake.on("a")(result_of())
    with pytest.raises(UsageError, match="run_due"):
        fake.run()


def test_long_and_strange_host_names_fit_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "é" + "x" * 100)
    name = consumer_name()
    assert len(name) == 64
    assert name.startswith("-xxx")


def test_a_job_that_arrives_at_the_stop_is_given_back(stub: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of the pop arrives at the same time as the stop."""
    worker = Worker(Queue(stub.url))
    ran: List[str] = []
    worker.on("orders")(lambda job: ran.append(job.id))
    send = AsyncTransport.send

    async def send_and_stop(self: AsyncTransport, request: Request) -> Outcome:
        if "/pop" not in request.path:
            return await send(self, request)
        assert worker._run is not None
        worker._run.stop()
        return Success(200, {"jobs": [popped("x")]})

    monkeypatch.setattr(AsyncTransport, "send", send_and_stop)
    stub.reply = lambda *_: (200, {"results": [{"id": "x", "status": 200}]})
    asyncio.run(worker.run_async())
    assert ran == []
    released = {"jobs": [{**HOLD, "delay": 0, "count_attempt": False}]}
    assert stub.requests == [("POST", "/v1/batch/release", released)]
