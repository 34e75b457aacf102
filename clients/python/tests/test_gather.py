"""Concurrent puts that share requests."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, Callable, List

import pytest
from conftest import StubServer

from delay_queue import AsyncQueue, ProtocolError, Queue, Refused
from delay_queue._exchange import Request
from delay_queue._transport import Transport


def accepted(body: Any) -> Any:
    """Returns the answer of a server that accepts each put."""
    results = [{"id": job["id"], "status": 201} for job in body.get("jobs", [body])]
    return (200, {"results": results}) if "jobs" in body else (201, {"id": body["id"]})


class Held:
    """Lets the stub hold its first answer, and then answer as a test says."""

    def __init__(self, stub: StubServer, reply: Callable[[Any], Any] = accepted) -> None:
        self.stub, self.released, self.arrived = stub, threading.Event(), threading.Event()

        def answer(method: str, path: str, body: Any) -> Any:
            if len(stub.requests) > 1:
                return reply(body)
            self.arrived.set()
            assert self.released.wait(10)
            return accepted(body)

        stub.reply = answer

    def batches(self) -> List[List[str]]:
        """Returns the ids of each request after the first."""
        return [[job["id"] for job in body.get("jobs", [body])] for _, _, body in self.stub.requests[1:]]


async def arrived(held: Held) -> None:
    assert await asyncio.get_running_loop().run_in_executor(None, held.arrived.wait, 10)


async def put_all(held: Held, queue: AsyncQueue, ids: List[str], **fields: Any) -> List[Any]:
    """Puts jobs while the answer to another put is held. Returns their results or errors."""
    first = asyncio.ensure_future(queue.put("t", id="first"))
    await arrived(held)
    puts = [asyncio.ensure_future(queue.put("t", id=id, **fields)) for id in ids]
    await asyncio.sleep(0)
    held.released.set()
    results = await asyncio.gather(first, *puts, return_exceptions=True)
    return results[1:]


def run(stub: StubServer, held: Held, count: int, **fields: Any) -> List[Any]:
    async def main() -> List[Any]:
        async with AsyncQueue(stub.url, retry_for=5) as queue:
            return await put_all(held, queue, [f"{n}" for n in range(count)], **fields)

    return asyncio.run(main())


def test_puts_that_wait_share_requests_of_at_most_1000(stub: StubServer) -> None:
    held = Held(stub)
    results = run(stub, held, 1500)
    assert [result["id"] for result in results] == [f"{n}" for n in range(1500)]
    assert [len(batch) for batch in held.batches()] == [1000, 500]
    assert [id for batch in held.batches() for id in batch] == [f"{n}" for n in range(1500)]


def test_gathered_requests_have_at_most_a_mebibyte(stub: StubServer) -> None:
    held = Held(stub)
    run(stub, held, 5, body="x" * 400_000)
    assert [len(batch) for batch in held.batches()] == [2, 2, 1]
    assert [path for _, path, _ in stub.requests[-2:]] == ["/v1/batch/jobs", "/v1/jobs"]


def test_puts_of_one_turn_of_the_loop_share_the_first_request(stub: StubServer) -> None:
    stub.reply = lambda method, path, body: accepted(body)

    async def main() -> None:
        async with AsyncQueue(stub.url) as queue:
            await asyncio.gather(*[queue.put("t") for _ in range(20)])

    asyncio.run(main())
    assert [len(body["jobs"]) for _, _, body in stub.requests] == [20]


def test_calls_that_were_answered_together_share_the_next_request(stub: StubServer) -> None:
    held = Held(stub)

    async def main() -> None:
        async with AsyncQueue(stub.url) as queue:

            async def put_twice() -> None:
                await queue.put("t")
                await queue.put("t")

            first = asyncio.ensure_future(put_twice())
            await arrived(held)
            others = [asyncio.ensure_future(put_twice()) for _ in range(20)]
            await asyncio.sleep(0)
            held.released.set()
            await asyncio.gather(first, *others)

    asyncio.run(main())
    assert [len(batch) for batch in held.batches()] == [21, 20]


def test_each_put_has_the_error_of_its_own_request(stub: StubServer) -> None:
    tried: List[str] = []

    def reply(body: Any) -> Any:
        if "jobs" not in body:
            tried.append(body["id"])
            return accepted(body)
        wrong = {"status": 422, "code": "invalid_field", "field": "jobs[0].ttr", "detail": "`jobs[0].ttr` is jobs[0]."}
        full = {"status": 429, "code": "topic_full", "applied": "no"}
        lost = {"status": 500, "code": "internal", "applied": "unknown"}
        return 200, {"results": [wrong, full, lost, {"id": "3", "status": 201}]}

    wrong, full, lost, fine = run(stub, Held(stub, reply), 4)
    assert isinstance(wrong, Refused)
    assert (wrong.field, wrong.detail) == ("ttr", "`ttr` is jobs[0].")
    assert isinstance(full, Refused)
    assert full.code == "topic_full"
    assert (lost, fine, tried) == ({"id": "2"}, {"id": "3"}, ["2"])
    assert stub.requests[-1][2]["on_conflict"] == "keep"


@pytest.mark.parametrize("status", [400, 413, 422])
def test_puts_of_a_refused_request_are_sent_one_by_one(stub: StubServer, status: int) -> None:
    held = Held(stub, lambda body: (status, {"code": "x"}) if "jobs" in body or body["id"] == "1" else accepted(body))
    results = run(stub, held, 3)
    assert [result["id"] for result in results[::2]] == ["0", "2"]
    assert isinstance(results[1], Refused)
    assert held.batches() == [["0", "1", "2"], ["0"], ["1"], ["2"]]


def test_a_refused_token_is_the_error_of_each_put(stub: StubServer) -> None:
    held = Held(stub, lambda body: (401, {"code": "unauthenticated"}))
    results = run(stub, held, 3)
    assert [(type(error), error.status, str(error)) for error in results] == [
        (Refused, 401, "401 unauthenticated: ") for _ in range(3)
    ]
    assert len({id(error) for error in results}) == 3
    assert len(held.batches()) == 1


def test_an_answer_without_a_result_for_each_put_is_that_of_another_server(stub: StubServer) -> None:
    results = run(stub, Held(stub, lambda body: (200, {"results": []})), 2)
    assert [type(error) for error in results] == [ProtocolError, ProtocolError]


def test_a_lost_answer_is_repeated_by_each_call(stub: StubServer) -> None:
    held = Held(stub, lambda body: None if len(stub.requests) == 2 else accepted(body))
    results = run(stub, held, 10)
    assert [result["id"] for result in results] == [f"{n}" for n in range(10)]
    later = [job for _, _, body in stub.requests[2:] for job in body.get("jobs", [body])]
    assert sorted(job["id"] for job in later) == [f"{n}" for n in range(10)]
    assert {job["on_conflict"] for job in later} == {"keep"}


def test_a_cancelled_put_is_not_sent_or_does_not_disturb_the_others(stub: StubServer) -> None:
    held = Held(stub)

    async def main() -> Any:
        async with AsyncQueue(stub.url) as queue:
            first = asyncio.ensure_future(queue.put("t", id="first"))
            await arrived(held)
            waiting, other = (asyncio.ensure_future(queue.put("t", id=id)) for id in ("waiting", "other"))
            await asyncio.sleep(0)
            first.cancel()
            waiting.cancel()
            await asyncio.wait({first, waiting})
            assert len(stub.requests) == 1
            held.released.set()
            return await other

    assert asyncio.run(main()) == {"id": "other"}
    assert held.batches() == [["other"]]


def test_closing_ends_waiting_puts_with_the_error_of_a_closed_client(stub: StubServer) -> None:
    held = Held(stub)

    async def main() -> List[Any]:
        queue = AsyncQueue(stub.url, retry_for=0)
        first = asyncio.ensure_future(queue.put("t"))
        await arrived(held)
        puts = [asyncio.ensure_future(queue.put("t")) for _ in range(2)]
        await asyncio.sleep(0)
        await queue.close()
        held.released.set()
        return await asyncio.gather(first, *puts, return_exceptions=True)

    assert [type(result) for result in asyncio.run(main())[1:]] == [RuntimeError, RuntimeError]
    assert len(stub.requests) == 1


def in_threads(held: Held, queue: Queue, count: int, closes: bool = False) -> List[Any]:
    """Puts jobs by threads, all but the first while its answer is held. Returns their results or errors."""
    results: List[Any] = [None] * count

    def put(index: int) -> None:
        try:
            results[index] = queue.put("t", id=f"{index}")
        except BaseException as error:
            results[index] = error

    threads = [threading.Thread(target=put, args=(index,)) for index in range(count)]
    threads[0].start()
    assert held.arrived.wait(10)
    for thread in threads[1:]:
        thread.start()
    while len(queue._gatherer._waiting) < count - 1:
        time.sleep(0.001)
    if closes:
        queue.close()
    held.released.set()
    for thread in threads:
        thread.join()
    return results


def test_threads_share_requests(stub: StubServer) -> None:
    held = Held(stub)
    results = in_threads(held, Queue(stub.url), 50)
    assert [result["id"] for result in results] == [f"{n}" for n in range(50)]
    assert [len(batch) for batch in held.batches()] == [49]
    assert Queue(stub.url).put("t", id="later") == {"id": "later"}


def test_an_interrupted_thread_does_not_disturb_the_others(stub: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    held, queue = Held(stub), Queue(stub.url)
    send, interrupted = Transport.send, threading.Event()

    def send_or_interrupt(self: Transport, request: Request) -> Any:
        if b"jobs" in (request.content or b"") and not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt
        return send(self, request)

    monkeypatch.setattr(Transport, "send", send_or_interrupt)
    results = in_threads(held, queue, 5)
    assert sorted(type(result).__name__ for result in results) == ["KeyboardInterrupt", *["dict"] * 4]
    assert queue.put("t", id="later") == {"id": "later"}


def test_closing_ends_the_puts_of_threads(stub: StubServer) -> None:
    held = Held(stub)
    results = in_threads(held, Queue(stub.url, retry_for=0), 3, closes=True)
    assert {type(result) for result in results[1:]} == {RuntimeError}
    assert len(stub.requests) == 1
