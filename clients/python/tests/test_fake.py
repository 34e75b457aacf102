"""The fake follows the rules of the server."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from delay_queue import FakeQueue, Job, Put, Refused, UsageError, Worker

UTC = datetime.timezone.utc


def failing(queue: FakeQueue) -> Worker:
    worker = Worker(queue)

    @worker.on("t")
    async def fail(job: Job[Any]) -> None:
        raise RuntimeError("no")

    return worker


def test_an_exponential_backoff_and_the_attempts_are_those_of_the_job() -> None:
    queue = FakeQueue()
    worker = failing(queue)
    queue.put("t", id="x", backoff={"initial": "1s", "factor": 3, "max": "5s"}, max_attempts=4)
    waits = []
    for _ in range(3):
        assert len(queue.run_due(worker)) == 1
        waits.append((datetime.datetime.fromisoformat(due(queue)) - queue.now).total_seconds())
        queue.advance(waits[-1])
    assert waits == [1, 3, 5]
    queue.run_due(worker)
    job = queue.get("x")
    assert job is not None
    assert (job["state"], job["attempt"], job["error"]) == ("dead", 4, "RuntimeError: no")


def due(queue: FakeQueue) -> str:
    job = queue.get("x")
    assert job is not None
    return job["due_at"].replace("Z", "+00:00")


def test_an_expired_job_is_dead_and_topic_defaults_apply() -> None:
    queue = FakeQueue()
    queue.set_topic("t", {"expires_after": "1m", "max_attempts": 2, "finished_retention": 60})
    queue.put("t", id="x")
    queue.advance(59)
    assert queue.get("x")["state"] == "ready"  # type: ignore[index]
    queue.advance(1)
    job = queue.get("x")
    assert job is not None
    assert (job["state"], job["error"], job["max_attempts"]) == ("dead", "expired", 2)
    assert queue.run_due(failing(queue)) == []
    assert queue.topic("t")["dead"] == 1


def test_conflicts_are_refused_kept_or_replaced() -> None:
    queue = FakeQueue()
    queue.put("t", 1, id="x", delay=5)
    with pytest.raises(Refused, match="job_exists"):
        queue.put("t", 2, id="x")
    assert queue.put("t", 2, id="x", on_conflict="keep")["state"] == "delayed"
    assert queue.put("t", 3, id="x", on_conflict="replace")["state"] == "ready"
    with pytest.raises(Refused, match="job_exists"):
        queue.put("other", id="x", on_conflict="replace")
    results = queue.put_many([Put("t", id="x"), Put("t", id="y")])
    assert isinstance(results[0], Refused)
    assert isinstance(results[1], dict)


def test_a_cancelled_id_is_remembered_and_due_times_are_absolute() -> None:
    queue = FakeQueue(datetime.datetime(2026, 1, 1, tzinfo=UTC))
    queue.put("t", id="x", due_at="2026-01-01T01:00:00+01:00")
    assert queue.cancel("x", remember="1h") == {"id": "x", "state": "ready"}
    with pytest.raises(Refused, match="job_exists"):
        queue.put("t", id="x")
    queue.advance("1h")
    assert queue.put("t", id="x")["state"] == "ready"
    with pytest.raises(UsageError, match="forward"):
        queue.advance(-1)
    with pytest.raises(UsageError, match="not both"):
        queue.put("t", delay=1, due_at=2)
