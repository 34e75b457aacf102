"""Requests, their outcomes, and retries, without input and output: Queue, AsyncQueue and Worker send the requests."""

from __future__ import annotations

import dataclasses
import json
import random
import time
from typing import Any, Callable, Generator, Mapping, Optional, Tuple, TypeVar, Union

from .errors import DelayQueueError, ProtocolError, Refused, Unavailable

FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0
#: Statuses of servers and proxies that are worth another request.
PASSING = (408, 429)


@dataclasses.dataclass(frozen=True)
class Request:
    """A request below ``/v1``. ``timeout`` is in seconds."""

    method: str
    path: str
    timeout: float
    params: Mapping[str, str] = dataclasses.field(default_factory=dict)
    content: Optional[bytes] = None


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer as it arrived."""

    status: int
    content: bytes
    retry_after: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Failed:
    """No useful answer. ``applied`` is ``no``, or ``unknown`` if the request may have been applied."""

    applied: str
    reason: str
    status: Optional[int] = None
    #: Seconds that the server wants to be left alone.
    retry_after: float = 0.0


@dataclasses.dataclass(frozen=True)
class Success:
    """The JSON of a 2xx answer, or None."""

    status: int
    value: Any


Outcome = Union[Success, Refused, Failed, ProtocolError]
T = TypeVar("T")
#: Yields a request to get its outcome, or the seconds of a pause, and returns a T.
Flow = Generator[Union[Request, float], Optional[Outcome], T]


def judged(answer: Answer, url: str) -> Outcome:
    """Returns the meaning of an answer. ``url`` is named if the answer is none of a delay-queue."""
    try:
        value = json.loads(answer.content) if answer.content else None
    except ValueError:
        value = answer
    if 200 <= answer.status < 300:
        return foreign(answer, url) if value is answer else Success(answer.status, value)
    problem = value if isinstance(value, dict) and "code" in value else None
    if problem is not None:
        return judged_problem(answer, problem)
    return failure(answer, None) if passes(answer.status) else foreign(answer, url)


def judged_problem(answer: Answer, problem: Mapping[str, Any]) -> Union[Failed, Refused]:
    """Returns the meaning of a problem, which is the content of an answer or a part of it."""
    if passes(answer.status) and problem.get("code") != "topic_full":
        return failure(answer, problem)
    return refusal(problem, answer.status)


def passes(status: int) -> bool:
    """Returns whether the same request may succeed later."""
    return status in PASSING or (status >= 500 and status != 507)


def failure(answer: Answer, problem: Optional[Mapping[str, Any]]) -> Failed:
    """Returns the failure that an answer such as 503 means."""
    applied = str((problem or {}).get("applied", "no" if answer.status in PASSING else "unknown"))
    reason = f"{answer.status} {problem['code']}: {problem.get('detail', '')}" if problem else f"answer {answer.status}"
    try:
        retry_after = float(answer.retry_after or 0)
    except ValueError:
        retry_after = 0.0  # a date, which only proxies send
    return Failed(applied, reason, answer.status, retry_after)


def refusal(problem: Mapping[str, Any], status: int) -> Refused:
    """Returns the error of a problem in an answer or in a result of a batch."""
    return Refused(
        status,
        str(problem["code"]),
        str(problem.get("detail", "")),
        problem.get("field"),
        problem.get("applied"),
        problem.get("state"),
    )


def foreign(answer: Answer, url: str) -> ProtocolError:
    """Returns the error of an answer that no delay-queue gives."""
    start = answer.content[:80].decode(errors="replace")
    return ProtocolError(
        f"{url} answered {answer.status} with {start!r}, which is no answer of a delay-queue: check the URL",
        answer.status,
    )


def pause(failures: int, retry_after: float = 0.0) -> float:
    """Returns the seconds to wait after a number of failures in a row: full jitter below a doubling limit."""
    limit = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(failures - 1, 10))
    return max(retry_after, random.uniform(0, limit))


def exchange(make: Callable[[bool], Request], retry_for: float) -> Flow[Tuple[Union[Success, Refused], bool]]:
    """Repeats a request until it succeeds or is refused.

    ``make`` gets whether the result of an earlier request is unknown. Returns the outcome and the same. Raises
    Unavailable after ``retry_for`` seconds, and ProtocolError.
    """
    end = time.monotonic() + retry_for
    unknown = False
    failures = 0
    while True:
        outcome = yield make(unknown)
        if isinstance(outcome, (Success, Refused)):
            return outcome, unknown
        if isinstance(outcome, DelayQueueError):
            raise outcome
        assert isinstance(outcome, Failed)
        failures += 1
        unknown = unknown or outcome.applied != "no"
        wait = pause(failures, outcome.retry_after)
        if time.monotonic() + wait > end:
            applied = "unknown" if unknown else "no"
            message = f"no success within {retry_for:g} s and {failures} requests; the last one: {outcome.reason}"
            raise Unavailable(message, applied, outcome.status)
        yield wait


def value_of(outcome: Union[Success, Refused]) -> Any:
    """Returns the value of a success, and raises a refusal."""
    if isinstance(outcome, Refused):
        raise outcome
    return outcome.value
