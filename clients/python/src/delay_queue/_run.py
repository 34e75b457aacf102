"""One run of a worker: pops jobs into free slots until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Dict, List, Mapping, Optional, Set, cast

from ._acknowledge import Acknowledger
from ._attempt import Attempt
from ._exchange import Failed, Outcome, Request, Success, pause
from ._handler import GIVE_BACK, Handler
from ._outage import Outage
from ._settings import Settings
from ._threads import Threads
from ._transport import AsyncTransport
from .errors import DelayQueueError, ProtocolError, Refused
from .job import Job

log = logging.getLogger("delay_queue")
MOST_JOBS = 100
#: Seconds by which the timeout of a pop exceeds its wait.
POP_MARGIN = 10.0
#: Seconds in which the last pop may still be answered after the stop.
LAST_POP = 1.0
#: Seconds for acknowledgements after the grace, if the server is unavailable.
LAST_WAIT = 5.0


class Run:
    """The state of one run. All methods belong to its event loop."""

    def __init__(
        self,
        settings: Settings,
        handlers: Mapping[str, Handler],
        concurrency: int,
        wait: float,
        grace: float,
        consumer: str,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.settings = settings
        self.handlers = handlers
        self.transport = AsyncTransport(settings)
        self.outage = Outage(settings.url)
        self.threads = Threads()
        self._concurrency = concurrency
        self._wait = wait
        self._grace = grace
        self._path = f"/topics/{','.join(handlers)}/pop"
        self._consumer = consumer
        self._attempts: Set[Attempt] = set()
        self._stopping: "asyncio.Future[None]" = self.loop.create_future()
        self._slot_freed: Optional["asyncio.Future[None]"] = None
        without_result: Set[str] = set()
        self._acknowledgers = {
            kind: Acknowledger(kind, self.transport, self.outage, without_result)
            for kind in ("finish", "release", "bury")
        }

    async def main(self) -> None:
        """Works until it is stopped. Raises the error of a first pop that is refused."""
        log.info("worker %s starts with %s at %s", self._consumer, ", ".join(self.handlers), self.settings.url)
        try:
            await self._pop_jobs()
            await self._finish_attempts()
        finally:
            for attempt in list(self._attempts):
                attempt.task.cancel()
            self.threads.close()
            await self.transport.client.aclose()

    def stop(self) -> None:
        """Ends the pops; ``main`` returns after the grace at the latest."""
        if not self._stopping.done():
            log.info("worker %s stops: %d jobs have %g s to end", self._consumer, len(self._attempts), self._grace)
            self._stopping.set_result(None)

    def ended(self, attempt: Attempt) -> None:
        """Frees the slot of an attempt."""
        self._attempts.discard(attempt)
        if self._slot_freed is not None and not self._slot_freed.done():
            self._slot_freed.set_result(None)

    async def acknowledge(self, job: Job[Any], kind: str, fields: Dict[str, Any]) -> None:
        """Finishes, releases or buries a job; returns when the server has answered."""
        await self._acknowledgers[kind].add(job, fields, "result" in fields)

    async def _pop_jobs(self) -> None:
        failures = 0
        has_popped = False
        while not self._stopping.done():
            free = self._concurrency - len(self._attempts)
            if free <= 0:
                self._slot_freed = self.loop.create_future()
                await asyncio.wait([self._slot_freed, self._stopping], return_when=asyncio.FIRST_COMPLETED)
                continue
            outcome = await self._pop(min(free, MOST_JOBS))
            if outcome is None:
                return
            self.outage.note(outcome)
            if isinstance(outcome, Success):
                failures, has_popped = 0, True
                self.outage.succeeded()
                self._begin(outcome.value["jobs"])
                continue
            if isinstance(outcome, DelayQueueError):
                if not has_popped:
                    raise explained(outcome, self.settings)
                self.outage.refused(outcome)
            failures += 1
            seconds = pause(failures, outcome.retry_after if isinstance(outcome, Failed) else 0.0)
            await asyncio.wait({self._stopping}, timeout=seconds)

    async def _pop(self, count: int) -> Optional[Outcome]:
        """Pops jobs. Returns None, without a job, if the worker is stopped meanwhile."""
        params = {"count": str(count), "wait": f"{self._wait:g}", "consumer": self._consumer}
        pop = asyncio.ensure_future(self.transport.send(Request("GET", self._path, self._wait + POP_MARGIN, params)))
        await asyncio.wait(
            cast("List[asyncio.Future[Any]]", [pop, self._stopping]), return_when=asyncio.FIRST_COMPLETED
        )
        if not self._stopping.done():
            return pop.result()
        # Jobs of an answer that is on its way would wait for their TTR if the connection were closed at once.
        await asyncio.wait({pop}, timeout=LAST_POP)
        if not pop.done():
            pop.cancel()  # closes the connection; the server takes back what it has popped
        await asyncio.wait({pop})
        outcome = None if pop.cancelled() else pop.result()
        if isinstance(outcome, Success):
            jobs: List[Dict[str, Any]] = outcome.value["jobs"]
            for job in jobs:
                self._acknowledgers["release"].add(Job(job, None), GIVE_BACK[1])
        return None

    def _begin(self, jobs: List[Dict[str, Any]]) -> None:
        for fields in jobs:
            if fields["topic"] in self.handlers:
                self._attempts.add(Attempt(self, fields))

    async def _finish_attempts(self) -> None:
        """Lets the handlers end, cancels them after the grace, and sends the outstanding acknowledgements."""
        await self._wait_for_attempts(self._grace)
        for attempt in list(self._attempts):
            attempt.cancel("stop")
        acknowledgements = [acknowledger.idle() for acknowledger in self._acknowledgers.values()]
        idle = asyncio.gather(self._wait_for_attempts(LAST_WAIT), *acknowledgements)
        await asyncio.wait({idle}, timeout=LAST_WAIT)
        idle.cancel()
        left = sum(acknowledger.give_up() for acknowledger in self._acknowledgers.values())
        if left:
            log.error("%d acknowledgements could not be sent; their jobs wait for the end of their TTR", left)
        log.info("worker %s has stopped", self._consumer)

    async def _wait_for_attempts(self, timeout: float) -> None:
        tasks = {attempt.task for attempt in self._attempts}
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)


def explained(error: DelayQueueError, settings: Settings) -> DelayQueueError:
    """Returns the error of a refused first pop, with advice."""
    if isinstance(error, ProtocolError) or not isinstance(error, Refused):
        return error
    advice = f"check the URL {settings.url} and the topics of the worker"
    if error.status == 401:
        advice = f"give the queue of {settings.url} a valid token: `delay-queue token create` makes one"
    elif error.status == 403:
        advice = f"give the token the scope pop on all topics of the worker, or check the URL {settings.url}"
    return Refused(error.status, error.code, f"{error.detail}; {advice}", error.field, error.applied, error.state)
