"""One attempt: runs the handler of a job, and holds the job by touches until it is acknowledged."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Dict, Optional

from ._calls import job_path
from ._exchange import Failed, Request, Success, pause
from ._handler import GIVE_BACK, End, end_of_error, end_of_value
from .errors import DelayQueueError, Refused
from .job import Job
from .values import encoded

if TYPE_CHECKING:
    from ._run import Run

log = logging.getLogger("delay_queue")


class Attempt:
    """A reserved job from its pop to its acknowledgement."""

    def __init__(self, run: Run, fields: Dict[str, Any]) -> None:
        self.run = run
        self.job: Job[Any] = Job(fields, fields["body"])
        self._ttr = float(fields["ttr"])
        self._held_until = time.monotonic() + self._ttr
        #: Why the handler is to end: ``lost`` or ``stop``.
        self._ends: Optional[str] = None
        self._handler_runs = True
        self._thread: Optional["asyncio.Future[Any]"] = None
        self._touch_task: Optional["asyncio.Task[None]"] = None
        self._timer = run.loop.call_later(self._ttr / 3, self._begin_touch)
        self.task = asyncio.ensure_future(self._attend())

    def cancel(self, ends: str) -> None:
        """Cancels the handler, if it still runs: the job is ``lost``, or the worker must ``stop``."""
        if not self._handler_runs or self._ends is not None:
            return
        self._ends = ends
        self.job.cancel()
        if self._thread is None:
            self.task.cancel()
        elif ends == "stop" and not self._thread.done():
            # A thread cannot be ended. Its job is given back, and the thread ends with the process.
            self._thread.set_result((None, asyncio.CancelledError()))

    async def _attend(self) -> None:
        try:
            end = await self._run_handler()
            self._handler_runs = False
            if end is not None:
                await self.run.acknowledge(self.job, *end)
        except asyncio.CancelledError:
            pass  # at the end of the run: the acknowledgement could not be sent
        except Exception as error:
            log.exception("job %s is left to the end of its TTR: %r", self.job.id, error)
        finally:
            self._timer.cancel()
            if self._touch_task is not None:
                self._touch_task.cancel()
            self.run.ended(self)

    async def _run_handler(self) -> Optional[End]:
        """Runs the handler. Returns its end, or None if the job is lost."""
        handler = self.run.handlers[self.job.topic]
        end = handler.typed(self.job)
        if end is not None:
            return end
        try:
            if handler.is_async:
                value = await handler.function(self.job)
            else:
                self._thread = self.run.threads.call(lambda: handler.function(self.job))
                value, error = await self._thread
                if error is not None:
                    raise error
        except BaseException as error:  # no exception of a handler may end the worker
            if self._ends == "lost":
                return None
            return GIVE_BACK if self._ends == "stop" else end_of_error(self.job, error)
        return None if self._ends == "lost" else end_of_value(self.job, value)

    def _begin_touch(self) -> None:
        self._touch_task = asyncio.ensure_future(self._touch())

    async def _touch(self) -> None:
        """Touches the job, and repeats that until it succeeds or the job is lost."""
        content = encoded({"reservation": self.job.reservation})
        failures = 0
        while True:
            sent = time.monotonic()
            timeout = max(0.1, min(self.run.settings.timeout, self._held_until - sent))
            outcome = await self.run.transport.send(
                Request("POST", f"{job_path(self.job.id)}/touch", timeout, content=content)
            )
            self.run.outage.note(outcome)
            if isinstance(outcome, Success):
                self._held_until = sent + self._ttr
                self._timer = self.run.loop.call_later(self._ttr / 3, self._begin_touch)
                return
            if isinstance(outcome, Refused) and outcome.status in (404, 409):
                self._lose(f"{outcome.status} {outcome.code}")
                return
            if isinstance(outcome, DelayQueueError):
                self.run.outage.refused(outcome)
            failures += 1
            left = self._held_until - time.monotonic()
            if left <= 0:
                self._lose("its TTR has passed without a touch")
                return
            retry_after = outcome.retry_after if isinstance(outcome, Failed) else 0.0
            await asyncio.sleep(min(left, pause(failures, retry_after)))

    def _lose(self, reason: str) -> None:
        if self._handler_runs:
            log.warning("job %s lost its reservation; its handler is cancelled: %s", self.job.id, reason)
            self.cancel("lost")
