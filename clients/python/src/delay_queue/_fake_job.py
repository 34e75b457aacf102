"""A job of the fake, and its rules."""

from __future__ import annotations

import datetime
import json
from typing import Any, Dict, Mapping, Optional, cast

from .errors import UsageError
from .puts import Backoff, JobInfo, Put, PutAnswer
from .values import Duration, duration_seconds, encoded, parsed_time

DEFAULTS = {"ttr": 60, "max_attempts": 20, "priority": 4, "finished_retention": 0}


class FakeJob:
    """The state of one job. All times are those of the fake's clock."""

    def __init__(self, put: Put, topic: Mapping[str, Any], now: datetime.datetime) -> None:
        def setting(name: str) -> Any:
            value = getattr(put, name)
            return value if value is not None else topic.get(name, DEFAULTS.get(name))

        self.put = put
        # As the server would return it: a copy, without tuples.
        self.body = json.loads(encoded(put.body))
        self.created_at = now
        self.due_at = due_time(put, now)
        self.ttr = duration_seconds(setting("ttr"))
        self.backoff: Optional[Backoff] = setting("backoff")
        self.max_attempts = attempts_of(put, self.backoff, int(setting("max_attempts")))
        self.priority = int(setting("priority"))
        self.finished_retention = duration_seconds(setting("finished_retention"))
        expiry: Optional[Duration] = setting("expires_after")
        self.expires_at = None if expiry is None else self.due_at + seconds(duration_seconds(expiry))
        self.attempt = 0
        self.is_reserved = False
        self.error: Optional[str] = None
        self.result: Any = None
        self.outcome: Optional[str] = None
        self.died_at: Optional[datetime.datetime] = None
        self.gone_at: Optional[datetime.datetime] = None

    def state(self, now: datetime.datetime) -> str:
        """Returns the state at a time."""
        if self.outcome is not None:
            return "finished"
        if self.died_at is not None:
            return "dead"
        if self.is_reserved:
            return "reserved"
        return "ready" if self.due_at <= now else "delayed"

    def end(self, now: datetime.datetime, retention: float, result: Any = None, outcome: str = "finished") -> None:
        """Finishes the job, which is gone after its retention in seconds."""
        self.outcome, self.gone_at = outcome, now + seconds(retention)
        self.result = json.loads(encoded(result))

    def die(self, now: datetime.datetime, error: Optional[str]) -> None:
        """Makes the job dead."""
        self.died_at, self.error = now, error

    def expire(self, now: datetime.datetime) -> None:
        """Makes a job dead that was not run in time."""
        if self.expires_at is not None and self.expires_at <= now and self.state(now) in ("delayed", "ready"):
            self.die(now, "expired")

    def release(self, now: datetime.datetime, fields: Mapping[str, Any]) -> None:
        """Gives the job back, or makes it dead after its last attempt."""
        counts = fields.get("count_attempt", True)
        self.error = fields.get("error", self.error)
        wait = self.wait() if fields.get("delay") is None else duration_seconds(fields["delay"])
        if not counts:
            self.attempt -= 1
        self.due_at = now + seconds(wait)
        is_last = counts and self.max_attempts and self.attempt >= self.max_attempts
        if is_last or (self.expires_at is not None and self.due_at >= self.expires_at):
            self.die(now, self.error if is_last else "expired")

    def wait(self) -> float:
        """Returns the seconds after the last attempt, without jitter."""
        if self.backoff is None:
            return 0.0
        if isinstance(self.backoff, Mapping):
            first = duration_seconds(self.backoff.get("initial", 1))
            wait = first * float(self.backoff.get("factor", 2)) ** (self.attempt - 1)
            most = self.backoff.get("max")
            return wait if most is None else min(wait, duration_seconds(most))
        return duration_seconds(self.backoff[min(self.attempt, len(self.backoff)) - 1])

    def answer(self, now: datetime.datetime) -> PutAnswer:
        """Returns the answer to a put."""
        return {"id": self.put.id, "topic": self.put.topic, "state": self.state(now), "due_at": written(self.due_at)}

    def info(self, now: datetime.datetime) -> JobInfo:
        """Returns the answer to a get."""
        info: Dict[str, Any] = dict(self.answer(now))
        info.update(
            attempt=self.attempt,
            max_attempts=self.max_attempts,
            priority=self.priority,
            ttr=self.ttr,
            created_at=written(self.created_at),
            error=self.error,
            died_at=None if self.died_at is None else written(self.died_at),
        )
        if self.outcome is None:
            info["body"] = self.body
        else:
            info["outcome"] = self.outcome
        if self.result is not None:
            info["result"] = self.result
        if self.put.traceparent is not None:
            info["traceparent"] = self.put.traceparent
        if self.put.headers:
            info["headers"] = dict(self.put.headers)
        if self.expires_at is not None:
            info["expires_at"] = written(self.expires_at)
        return cast(JobInfo, info)


def due_time(put: Put, now: datetime.datetime) -> datetime.datetime:
    """Returns when a put is due. Raises UsageError for a delay or time that is none."""
    if put.delay is not None and put.due_at is not None:
        raise UsageError("a put has delay or due_at, not both")
    try:
        if put.due_at is None:
            return now + seconds(duration_seconds(put.delay or 0))
        if isinstance(put.due_at, datetime.datetime):
            due = put.due_at
        elif isinstance(put.due_at, int):
            due = datetime.datetime.fromtimestamp(put.due_at / 1000, datetime.timezone.utc)
        else:
            due = parsed_time(put.due_at)
        return max(due, now)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the put of {put.id} in topic {put.topic}: {error}") from error


def attempts_of(put: Put, backoff: Optional[Backoff], default: int) -> int:
    """Returns max_attempts. A list of waits without it means one attempt more than it has waits."""
    if put.max_attempts is None and backoff is not None and not isinstance(backoff, Mapping):
        return len(backoff) + 1
    return default


def seconds(value: float) -> datetime.timedelta:
    """Returns a timedelta."""
    return datetime.timedelta(seconds=value)


def written(time: datetime.datetime) -> str:
    """Returns a time as the server writes it."""
    return time.astimezone(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
