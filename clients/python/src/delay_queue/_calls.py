"""The calls of a producer as flows, which Queue and AsyncQueue run."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union, cast
from urllib.parse import quote

from ._batch import MOST_JOBS, batch_content
from ._exchange import Answer, Failed, Flow, Outcome, Request, Success, exchange, failure, pause, refusal, value_of
from ._settings import Settings
from .errors import Refused, Unavailable, UsageError
from .puts import CancelAnswer, JobInfo, Put, PutAnswer
from .values import Duration, duration, encoded

#: Bytes of the bodies in one batch; a server accepts requests of 8 MiB by default.
BATCH_BYTES = 4 << 20
LONGEST_GET = 60.0
PutResult = Union[PutAnswer, Refused, Unavailable]


class Calls:
    """Makes the flows of one queue."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def put(self, put: Put) -> Flow[PutAnswer]:
        """Puts one job."""
        put.checked()
        outcome, _ = yield from self._exchange("POST", "/jobs", lambda unknown: put.to_json(unknown))
        return cast(PutAnswer, value_of(outcome))

    def put_many(self, puts: Sequence[Put]) -> Flow[List[PutResult]]:
        """Puts jobs in batches. The results have the order of the puts."""
        results: List[PutResult] = []
        for batch in batches([put.checked() for put in puts]):
            results += yield from self._put_batch(batch)
        return results

    def _put_batch(self, puts: List[Put]) -> Flow[List[PutResult]]:
        """Puts one batch, and repeats the puts that the server did not apply."""
        results: List[Optional[PutResult]] = [None] * len(puts)
        end = time.monotonic() + self.settings.retry_for
        left = list(range(len(puts)))
        was_unknown = [False] * len(puts)
        failures = 0
        while left:

            def content(unknown: bool, left: List[int] = left) -> bytes:
                return batch_content(puts[index].to_json(unknown or was_unknown[index]) for index in left)

            outcome, _ = yield from self._exchange("POST", "/batch/jobs", content)
            again: List[int] = []
            failures += 1
            wait = pause(failures)
            for index, result in zip(left, value_of(outcome)["results"]):
                judged = judged_result(result)
                if isinstance(judged, Success):
                    results[index] = cast(PutAnswer, judged.value)
                elif isinstance(judged, Failed) and time.monotonic() + wait <= end:
                    was_unknown[index] = was_unknown[index] or judged.applied != "no"
                    again.append(index)
                elif isinstance(judged, Failed):
                    results[index] = Unavailable(judged.reason, judged.applied, judged.status)
                elif isinstance(judged, Refused):
                    results[index] = judged
            left = again
            if left:
                yield wait
        return [cast(PutResult, result) for result in results]

    def get(self, id: str, wait: Optional[float]) -> Flow[Optional[JobInfo]]:
        """Gets a job, and with ``wait`` seconds waits until it is finished, dead or gone."""
        end = time.monotonic() + (wait or 0.0)
        while True:
            left = min(LONGEST_GET, max(0.0, end - time.monotonic()))
            params = {"wait": f"{left:.3f}"} if wait else {}
            outcome, _ = yield from self._exchange("GET", job_path(id), None, params, left)
            if isinstance(outcome, Refused) and outcome.status == 404:
                return None
            job = cast(JobInfo, value_of(outcome))
            if time.monotonic() >= end or job["state"] in ("finished", "dead"):
                return job

    def cancel(self, id: str, remember: Optional[Duration]) -> Flow[Optional[CancelAnswer]]:
        """Deletes a delayed or ready job."""
        params = {"state": "delayed,ready"}
        if remember is not None:
            value = duration(remember)
            params["remember"] = value if isinstance(value, str) else f"{value:.3f}"
        outcome, repeated = yield from self._exchange("DELETE", job_path(id), None, params)
        if isinstance(outcome, Refused):
            gone = outcome.status == 404
            remembered = remember is not None and outcome.code == "wrong_state" and outcome.state == "finished"
            if repeated and (gone or remembered):
                return {"id": id, "state": None}
            if gone:
                return None
        return cast(CancelAnswer, value_of(outcome))

    def topic(self, name: str) -> Flow[Dict[str, Any]]:
        """Gets a topic."""
        outcome, _ = yield from self._exchange("GET", topic_path(name))
        return cast(Dict[str, Any], value_of(outcome))

    def set_topic(self, name: str, settings: Mapping[str, Any]) -> Flow[Dict[str, Any]]:
        """Replaces the settings of a topic."""
        try:
            content = encoded(settings)
        except (TypeError, ValueError) as error:
            raise UsageError(f"the settings of topic {name} cannot be sent: {error}") from error
        outcome, _ = yield from self._exchange("PUT", topic_path(name), lambda _: content)
        return cast(Dict[str, Any], value_of(outcome))

    def _exchange(
        self,
        method: str,
        path: str,
        content: Any = None,
        params: Optional[Mapping[str, str]] = None,
        wait: float = 0.0,
    ) -> Flow[Tuple[Union[Success, Refused], bool]]:
        """Repeats a request until it is answered. ``content`` makes its body, and ``wait`` lengthens its timeout."""

        def make(unknown: bool) -> Request:
            body = content(unknown) if content else None
            return Request(method, path, self.settings.timeout + wait, params or {}, body)

        return exchange(make, self.settings.retry_for + wait)


def batches(puts: Sequence[Put]) -> List[List[Put]]:
    """Splits puts by number and bytes."""
    batches: List[List[Put]] = []
    size = 0
    for put in puts:
        length = len(put.to_json())
        if not batches or len(batches[-1]) == MOST_JOBS or size + length > BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(put)
        size += length
    return batches


def judged_result(result: Dict[str, Any]) -> Outcome:
    """Returns the meaning of one result of a batch."""
    status = result.pop("status")
    if status < 300:
        return Success(status, result)
    if status in (429, 503) and result.get("code") != "topic_full":
        return failure(Answer(status, b""), result)
    return refusal(result, status)


def job_path(id: str) -> str:
    """Returns the path of a job below ``/v1``. Raises UsageError for an empty id, which would name another route."""
    if not id:
        raise UsageError("the id of a job must not be empty")
    return f"/jobs/{quote(id, safe=':')}"


def topic_path(name: str) -> str:
    """Returns the path of a topic below ``/v1``. Raises UsageError for an empty name."""
    if not name:
        raise UsageError("the name of a topic must not be empty")
    return f"/topics/{quote(name, safe='')}"


def seconds(value: Union[int, float]) -> float:
    """Returns a wait in seconds. Raises UsageError unless it is a number from 0."""
    if not isinstance(value, (int, float)) or not value >= 0:
        raise UsageError(f"wait must be a number of seconds, 0 or more; got {value!r}")
    return float(value)
