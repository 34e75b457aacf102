"""Concurrent puts share requests: while one request is under way, the puts of the next one gather."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

from ._batch import batch_content, first_batch
from ._exchange import Answer, Failed, Flow, Outcome, Request, Success, judged_problem
from ._transport import AsyncTransport, Transport
from .errors import ProtocolError

#: Statuses of a batch that one of its puts, or their size, may have caused.
SPOILT = (400, 413, 422)


class PendingPut:
    """The request of one put until its outcome is known, and how to wake its caller."""

    def __init__(self, request: Request, wake: Callable[[], None]) -> None:
        self.request = request
        self.content = request.content or b""
        self.outcome: Optional[Outcome] = None
        #: Error of a request that could not be sent, such as that of a closed client.
        self.error: Optional[Exception] = None
        #: Whether it is the turn of its thread to send the next request.
        self.leads = False
        #: Whether the caller has given up.
        self.is_gone = False
        self.wake = wake

    def settle(self, outcome: Optional[Outcome], error: Optional[Exception] = None) -> None:
        """Sets the outcome or the error, and wakes the caller."""
        self.outcome, self.error = outcome, error
        self.wake()

    def result(self) -> Outcome:
        """Returns the outcome, or raises the error."""
        if self.error is not None:
            raise self.error
        assert self.outcome is not None
        return self.outcome


class Gatherer:
    """Sends the puts of threads. The thread whose put is the first of a request sends it for the others."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._waiting: List[PendingPut] = []
        self._is_sending = False

    def send(self, request: Request) -> Outcome:
        """Sends a put, at once or with the others that wait."""
        turn = threading.Event()
        put = PendingPut(request, turn.set)
        try:
            with self._lock:
                self._waiting.append(put)
                if not self._is_sending:
                    self._is_sending = put.leads = True
            if not put.leads:
                turn.wait()
            if put.leads:
                self._send_batch()
        finally:
            with self._lock:
                put.is_gone = True
                if put.leads:
                    self._pass_on()
        return put.result()

    def _send_batch(self) -> None:
        with self._lock:
            batch = taken(self._waiting)
        try:
            self._transport.run(exchanged(batch, self._transport.settings.url))
        except BaseException as error:
            fail(batch, error)
            raise

    def _pass_on(self) -> None:
        """Lets the first waiting thread send the next request."""
        self._waiting = [put for put in self._waiting if not put.is_gone]
        self._is_sending = bool(self._waiting)
        if self._waiting:
            self._waiting[0].leads = True
            self._waiting[0].wake()


class AsyncGatherer:
    """Sends the puts of tasks, by a task of its own that ends when no put waits."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._waiting: List[PendingPut] = []
        self._task: Optional["asyncio.Task[None]"] = None

    async def send(self, request: Request) -> Outcome:
        """Sends a put with the others that wait. Its cancellation does not end a request that is under way."""
        answered = asyncio.Event()
        put = PendingPut(request, answered.set)
        self._waiting.append(put)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._send_all())
        try:
            await answered.wait()
        finally:
            put.is_gone = True
        return put.result()

    async def _send_all(self) -> None:
        while batch := taken(self._waiting):
            try:
                await self._transport.run(exchanged(batch, self._transport.settings.url))
                # The calls that it answered may put again in this turn of the loop, and share the next request.
                await asyncio.sleep(0)
            except Exception as error:
                fail(batch, error)
            except BaseException as error:
                fail([*batch, *self._waiting], error)
                raise


def taken(waiting: List[PendingPut]) -> List[PendingPut]:
    """Removes the puts of the next request from those that wait, and returns them."""
    waiting[:] = [put for put in waiting if not put.is_gone]
    batch = first_batch(waiting)
    del waiting[: len(batch)]
    return batch


def exchanged(batch: Sequence[PendingPut], url: str) -> Flow[None]:
    """Sends puts with one request; if it is refused because of one of them or its size, again one by one."""
    if len(batch) > 1:
        content = batch_content(put.content for put in batch)
        outcome = yield Request("POST", "/batch/jobs", batch[0].request.timeout, content=content)
        assert outcome is not None
        if outcome.status not in SPOILT:
            for put, own in zip(batch, outcomes(outcome, len(batch), url)):
                put.settle(own)
            return
    for put in batch:
        if not put.is_gone:
            put.settle((yield put.request))


def outcomes(outcome: Outcome, count: int, url: str) -> Iterable[Outcome]:
    """Returns the outcome of each put of a batch, as its own request would have had it."""
    if not isinstance(outcome, Success):
        return [own(outcome) for _ in range(count)]
    results = outcome.value.get("results") if isinstance(outcome.value, dict) else None
    if not isinstance(results, list) or len(results) != count:
        message = f"{url} answered a batch of {count} puts without a result for each: check the URL"
        return [ProtocolError(message, outcome.status) for _ in range(count)]
    return [outcome_of(result, index) for index, result in enumerate(results)]


def outcome_of(result: Dict[str, Any], index: int) -> Outcome:
    """Returns the outcome of one result. A single put does not name the place in the batch."""
    status = result.pop("status")
    if status < 300:
        return Success(status, result)
    place = f"jobs[{index}]."
    for name in ("field", "detail"):
        if isinstance(result.get(name), str):
            result[name] = result[name].replace(place, "", 1)
    return judged_problem(Answer(status, b""), result)


def own(outcome: Outcome) -> Outcome:
    """Returns a copy of an error, so that each caller raises another one."""
    if not isinstance(outcome, Exception):
        return outcome
    copy = type(outcome).__new__(type(outcome), *outcome.args)
    copy.__dict__.update(outcome.__dict__)
    return copy


def fail(batch: Iterable[PendingPut], error: BaseException) -> None:
    """Ends puts whose request was not sent, or whose sender was interrupted. Calls repeat the latter."""
    for put in batch:
        if put.outcome is not None or put.error is not None:
            continue
        if isinstance(error, Exception):
            put.settle(None, error)
        else:
            put.settle(Failed("unknown", f"the request was interrupted by {type(error).__name__}"))
