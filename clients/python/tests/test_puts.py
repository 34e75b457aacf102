"""Puts as requests carry them, and the retries of calls."""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
import re
from typing import Any

import httpx
import pytest
from conftest import StubServer

from delay_queue import AsyncQueue, Put, Queue, Refused, Unavailable, UsageError
from delay_queue._exchange import LONGEST_WAIT, pause
from delay_queue.values import new_id

UTC = datetime.timezone.utc


def test_ids_are_ulids_and_ordered_by_time() -> None:
    first = new_id()
    assert re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", first)
    assert new_id()[:10] >= first[:10]
    assert len({new_id() for _ in range(1000)}) == 1000


def test_python_types_become_those_of_the_api() -> None:
    put = Put(
        "t",
        {"a": "é"},
        id="x",
        due_at=datetime.datetime(2026, 1, 31, 12, tzinfo=UTC),
        ttr=datetime.timedelta(minutes=2),
        backoff=(1, "2m", datetime.timedelta(hours=1)),
    )
    assert json.loads(put.to_json()) == {
        "topic": "t",
        "id": "x",
        "body": {"a": "é"},
        "due_at": "2026-01-31T12:00:00.000+00:00",
        "ttr": 120.0,
        "backoff": [1, "2m", 3600.0],
    }


@pytest.mark.parametrize("conflict", [None, "reject", "keep", "replace"])
def test_only_rejecting_puts_keep_the_job_after_an_unknown_result(conflict: Any) -> None:
    put = Put("t", on_conflict=conflict)
    assert json.loads(put.to_json()).get("on_conflict") == conflict
    expected = "replace" if conflict == "replace" else "keep"
    assert json.loads(put.to_json(after_unknown=True))["on_conflict"] == expected


@pytest.mark.parametrize("body", [{1, 2}, float("nan"), "\ud800", object()])
def test_a_body_that_json_cannot_express_is_not_sent(stub: StubServer, body: Any) -> None:
    with pytest.raises(UsageError, match="topic t"):
        Queue(stub.url).put("t", body)
    with pytest.raises(UsageError):
        Queue(stub.url).put_many([Put("t"), Put("t", body)])
    assert stub.requests == []


def test_a_time_without_a_zone_is_not_sent(stub: StubServer) -> None:
    with pytest.raises(UsageError, match="time zone"):
        Queue(stub.url).put("t", due_at=datetime.datetime(2026, 1, 31))
    assert stub.requests == []


@pytest.mark.parametrize("url", ["", "127.0.0.1:9277", "ftp://x", "http://", "http://x:port", None])
def test_a_wrong_url_is_named(url: Any) -> None:
    with pytest.raises(UsageError, match="url must be like"):
        Queue(url)


def test_a_refusal_has_the_fields_of_the_problem(stub: StubServer) -> None:
    problem = {"code": "job_exists", "detail": "taken", "field": "id", "applied": "no", "state": "ready"}
    stub.reply = lambda *_: (409, problem)
    with pytest.raises(Refused) as caught:
        Queue(stub.url).put("t")
    error = caught.value
    assert (error.status, error.code, error.field, error.applied) == (409, "job_exists", "id", "no")
    assert error.state == "ready"
    assert len(stub.requests) == 1


def test_a_full_topic_is_refused_at_once(stub: StubServer) -> None:
    stub.reply = lambda *_: (429, {"code": "topic_full", "detail": "full", "applied": "no"})
    with pytest.raises(Refused, match="topic_full"):
        Queue(stub.url).put("t")
    assert len(stub.requests) == 1


def test_the_queue_without_asyncio_repeats_and_reports_unknown(stub: StubServer) -> None:
    stub.reply = lambda *_: None
    with pytest.raises(Unavailable) as caught:
        Queue(stub.url, retry_for=0.2).put("t")
    assert caught.value.applied == "unknown"
    assert len({body["id"] for _, _, body in stub.requests}) == 1


def test_only_the_failed_puts_of_a_batch_are_repeated(stub: StubServer) -> None:
    def reply(method: str, path: str, body: Any) -> Any:
        first = len(stub.requests) == 1
        overloaded = {"status": 503, "code": "overloaded", "applied": "unknown"}
        return 200, {
            "results": [
                overloaded if first and index else {"id": job["id"], "status": 201}
                for index, job in enumerate(body["jobs"])
            ]
        }

    stub.reply = reply
    results = Queue(stub.url).put_many([Put("t", id="a"), Put("t", id="b")])
    assert [result["id"] for result in results if isinstance(result, dict)] == ["a", "b"]
    assert stub.requests[1][2] == {"jobs": [{"topic": "t", "id": "b", "on_conflict": "keep"}]}


def test_the_asynchronous_queue_has_the_same_calls(stub: StubServer) -> None:
    names = {name for name in vars(Queue) if not name.startswith("_")}
    assert names == {name for name in vars(AsyncQueue) if not name.startswith("_")}
    stub.reply = lambda *_: (201, {"id": "x"})

    async def put() -> Any:
        async with AsyncQueue(stub.url) as queue:
            return await queue.put("t", id="x")

    assert asyncio.run(put()) == {"id": "x"}


def test_pauses_double_up_to_the_longest_and_respect_retry_after() -> None:
    assert all(pause(1) <= 0.1 for _ in range(100))
    assert all(pause(1000) <= LONGEST_WAIT for _ in range(100))
    assert max(pause(1000) for _ in range(200)) > 2
    assert pause(1, 7.0) == 7.0


def test_no_request_is_logged_at_info(stub: StubServer, caplog: pytest.LogCaptureFixture) -> None:
    stub.reply = lambda method, path, body: (
        201,
        {"id": "x", "topic": "t", "state": "ready", "due_at": "2026-01-31T12:00:00.000Z"},
    )
    caplog.set_level(logging.INFO)
    Queue(stub.url).put("t", id="x")

    async def put() -> None:
        await AsyncQueue(stub.url).put("t", id="x")

    asyncio.run(put())
    assert not caplog.records
    httpx.get(stub.url, trust_env=False)
    assert [record.name for record in caplog.records] == ["httpx"], "requests of others are logged as before"
