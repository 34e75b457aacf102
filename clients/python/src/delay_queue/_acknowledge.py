"""Sends finishes, releases and buries in batches, and repeats them until they are answered."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Set

from ._batch import MOST_JOBS, batch_content, first_batch
from ._exchange import Failed, Outcome, Request, Success, pause, refusal
from ._outage import Outage
from ._transport import AsyncTransport
from .errors import Refused
from .values import encoded

log = logging.getLogger("delay_queue")


@dataclasses.dataclass
class Acknowledgement:
    """The fields of one finish, release or bury. ``done`` is set when it is answered or given up."""

    id: str
    topic: str
    reservation: str
    content: bytes
    done: "asyncio.Future[None]"
    has_result: bool = False
    #: Whether an earlier request may have been applied.
    unknown: bool = False


class Acknowledger:
    """Sends the acknowledgements of one kind: while a request is under way, the next batch gathers."""

    def __init__(self, kind: str, transport: AsyncTransport, outage: Outage, without_result: Set[str]) -> None:
        self.kind = kind
        self._transport = transport
        self._outage = outage
        self._waiting: Deque[Acknowledgement] = deque()
        self._task: Optional["asyncio.Task[None]"] = None
        #: Topics for which the warning of a result that is not kept was logged.
        self._without_result = without_result
        self._largest = MOST_JOBS
        #: Whether an acknowledgement of the last batch must be repeated later.
        self._repeats = False
        self._is_closed = False

    def add(self, job: Any, fields: Dict[str, Any], has_result: bool = False) -> "asyncio.Future[None]":
        """Adds an acknowledgement. Raises TypeError or ValueError for fields that JSON cannot express."""
        content = encoded({"id": job.id, "reservation": job.reservation, **fields})
        done = asyncio.get_running_loop().create_future()
        if self._is_closed:
            done.set_result(None)
            return done
        self._waiting.append(Acknowledgement(job.id, job.topic, job.reservation, content, done, has_result))
        if self._task is None:
            # The task starts after the handlers that end at the same time.
            self._task = asyncio.ensure_future(self._send())
        return done

    async def idle(self) -> None:
        """Waits until nothing is left to send."""
        while self._task is not None:
            await asyncio.wait({self._task})

    def give_up(self) -> int:
        """Ends the repetitions. Returns how many jobs stay without an answer."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            self._task = None
        return len(self._waiting)

    async def _send(self) -> None:
        failures = 0
        while self._waiting:
            # They stay in the queue until they are answered.
            batch = first_batch(self._waiting, self._largest)
            content = batch_content(one.content for one in batch)
            timeout = self._transport.settings.timeout
            outcome = await self._transport.send(Request("POST", f"/batch/{self.kind}", timeout, content=content))
            self._outage.note(outcome)
            self._settle(batch, outcome)
            failures = failures + 1 if self._repeats else 0
            if failures:
                await asyncio.sleep(pause(failures, outcome.retry_after if isinstance(outcome, Failed) else 0.0))
        self._task = None

    def _settle(self, batch: List[Acknowledgement], outcome: Outcome) -> None:
        """Takes the answered acknowledgements out of the queue."""
        self._repeats = False
        for _ in batch:
            self._waiting.popleft()
        if isinstance(outcome, Success):
            self._largest = MOST_JOBS
            for one, result in zip(batch, outcome.value["results"]):
                self._settle_one(one, result)
            return
        if isinstance(outcome, Refused) and outcome.status in (400, 413, 422):
            # One of the batch spoils it: smaller batches find out which.
            self._largest = max(1, len(batch) // 2)
            if len(batch) == 1:
                self._without(batch.pop(), outcome)
        elif isinstance(outcome, Failed):
            for one in batch:
                one.unknown = one.unknown or outcome.applied != "no"
            self._repeats = True
        else:
            self._outage.refused(outcome)
            self._repeats = True
        self._waiting.extendleft(reversed(batch))

    def _settle_one(self, one: Acknowledgement, result: Dict[str, Any]) -> None:
        status = result["status"]
        if status < 300:
            self._end(one)
        elif status in (404, 409):
            if not one.unknown:
                log.warning("job %s lost its reservation before its %s: %s", one.id, self.kind, result.get("code"))
            self._end(one)
        elif status in (429, 503, 507, 401, 403):
            one.unknown = one.unknown or result.get("applied") == "unknown"
            self._repeats = True
            self._waiting.append(one)
        else:
            self._without(one, refusal(result, status))

    def _without(self, one: Acknowledgement, error: Refused) -> None:
        """Repeats a refused finish without its result, and gives up a refused acknowledgement that has none."""
        if not one.has_result:
            log.error("the %s of job %s is refused; it waits for the end of its TTR: %s", self.kind, one.id, error)
            self._end(one)
            return
        if error.code == "result_not_kept":
            if one.topic not in self._without_result:
                self._without_result.add(one.topic)
                log.warning(
                    "job %s of topic %s is finished without its result, as it has no finished_retention; "
                    "further jobs of this topic are not logged",
                    one.id,
                    one.topic,
                )
        else:
            log.warning("job %s is finished without its result: %s", one.id, error)
        one.content = encoded({"id": one.id, "reservation": one.reservation})
        one.has_result = False
        self._waiting.append(one)

    def _end(self, one: Acknowledgement) -> None:
        if not one.done.done():
            one.done.set_result(None)
