"""A queue in memory for the tests of applications, with a clock that only the test moves."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import secrets
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional

from ._calls import PutResult
from ._fake_job import FakeJob, written
from ._handler import End, end_of_error, end_of_value
from .errors import Refused, UsageError
from .job import Job
from .puts import CancelAnswer, JobInfo, Put, PutAnswer, PutFields
from .values import Duration, duration_seconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .worker import Worker

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
OUTCOMES = {"finish": "finished", "bury": "buried"}


@dataclasses.dataclass(frozen=True)
class Ran:
    """How one attempt ended: ``finished``, ``released`` after an error, ``buried`` or ``snoozed``."""

    id: str
    attempt: int
    outcome: str


class FakeQueue:
    """Has the calls of Queue, and ``advance`` and ``run_due``. It knows neither tokens nor pauses nor ``dead_to``."""

    def __init__(self, now: datetime.datetime = START) -> None:
        #: The time of the clock.
        self.now = now
        self._jobs: Dict[str, FakeJob] = {}
        self._topics: Dict[str, Dict[str, Any]] = {}

    def put(self, topic: str, body: Any = None, **fields: Unpack[PutFields]) -> PutAnswer:
        """Puts a job, as Queue does."""
        return self._put(Put.of(topic, body, fields))

    def put_many(self, puts: Iterable[Put]) -> List[PutResult]:
        """Puts jobs. Each put has its result, in order: the job or an error."""
        results: List[PutResult] = []
        for put in puts:
            try:
                results.append(self._put(put))
            except Refused as error:
                results.append(error)
        return results

    def get(self, id: str, *, wait: float = 0.0) -> Optional[JobInfo]:
        """Returns a job, or None if it does not exist. It never waits, since only the test moves the clock."""
        job = self._jobs.get(id)
        return None if job is None else job.info(self.now)

    def cancel(self, id: str, *, remember: Optional[Duration] = None) -> Optional[CancelAnswer]:
        """Deletes a job that is delayed or ready. Raises Refused with ``wrong_state`` in another state."""
        job = self._jobs.get(id)
        if job is None:
            return None
        state = job.state(self.now)
        if state not in ("delayed", "ready"):
            raise Refused(409, "wrong_state", f"job {id} is {state}", applied="no", state=state)
        if remember is None:
            del self._jobs[id]
        else:
            job.end(self.now, duration_seconds(remember), outcome="deleted")
        return {"id": id, "state": state}

    def topic(self, name: str) -> Dict[str, Any]:
        """Returns the counts and settings of a topic."""
        counts = dict.fromkeys(("delayed", "ready", "reserved", "dead", "finished"), 0)
        for job in self._jobs.values():
            if job.put.topic == name:
                counts[job.state(self.now)] += 1
        return {"topic": name, **counts, **self._topics.get(name, {})}

    def set_topic(self, name: str, settings: Mapping[str, Any]) -> Dict[str, Any]:
        """Replaces the defaults of a topic for new jobs."""
        self._topics[name] = dict(settings)
        return self.topic(name)

    def advance(self, duration: Duration) -> None:
        """Moves the clock forward. Runs nothing."""
        seconds = duration_seconds(duration)
        if seconds < 0:
            raise UsageError(f"the clock only moves forward; got {duration!r}")
        self.now += datetime.timedelta(seconds=seconds)
        self._sweep()

    def run_due(self, worker: Worker) -> List[Ran]:
        """Runs the handlers of a worker once for each job that is due now, and returns how the attempts ended."""
        return asyncio.run(self.run_due_async(worker))

    async def run_due_async(self, worker: Worker) -> List[Ran]:
        """Does the same in a running event loop. Handlers that are not coroutines run in the same thread."""
        self._sweep()
        due = [
            job for job in self._jobs.values() if job.state(self.now) == "ready" and job.put.topic in worker.handlers
        ]
        due.sort(key=lambda job: (-job.priority, job.due_at))
        ran = []
        for job in due:
            if self._jobs.get(job.put.id) is job and job.state(self.now) == "ready":
                ran.append(await self._run(worker, job))
        return ran

    async def _run(self, worker: Worker, job: FakeJob) -> Ran:
        handler = worker.handlers[job.put.topic]
        job.attempt += 1
        job.is_reserved = True
        popped = Job(self._popped(job), job.body)
        end = handler.typed(popped)
        if end is None:
            try:
                value = handler.function(popped)
                end = end_of_value(popped, await value if handler.is_async else value)
            except BaseException as error:  # as the worker does
                end = end_of_error(popped, error)
        job.is_reserved = False
        return Ran(popped.id, popped.attempt, self._end(job, end))

    def _end(self, job: FakeJob, end: End) -> str:
        """Ends an attempt as the server does. Returns its outcome."""
        kind, fields = end
        if self._jobs.get(job.put.id) is not job:
            return OUTCOMES.get(kind, "released")  # replaced by its own handler
        if kind == "finish":
            job.end(self.now, job.finished_retention, fields.get("result"))
            self._sweep()
        elif kind == "bury":
            job.die(self.now, fields["error"])
        else:
            job.release(self.now, fields)
            return "snoozed" if "count_attempt" in fields else "released"
        return OUTCOMES[kind]

    def _put(self, put: Put) -> PutAnswer:
        put.checked()
        existing = self._jobs.get(put.id)
        if existing is not None:
            state = existing.state(self.now)
            same_topic = existing.put.topic == put.topic
            if put.on_conflict == "keep" and same_topic:
                return existing.answer(self.now)
            if put.on_conflict != "replace" or not same_topic:
                raise Refused(409, "job_exists", f"id {put.id} is in use", "id", "no", state)
            if state == "reserved":
                raise Refused(409, "job_reserved", f"job {put.id} is reserved", "id", "no", state)
        job = FakeJob(put, self._topics.get(put.topic, {}), self.now)
        self._jobs[put.id] = job
        return job.answer(self.now)

    def _sweep(self) -> None:
        """Removes finished jobs whose retention is over, and ends expired ones."""
        for id, job in list(self._jobs.items()):
            job.expire(self.now)
            if job.gone_at is not None and job.gone_at <= self.now:
                del self._jobs[id]

    def _popped(self, job: FakeJob) -> Dict[str, Any]:
        fields: Dict[str, Any] = dict(job.info(self.now))
        fields["reservation"] = secrets.token_hex(16)
        fields["reserved_until"] = written(self.now + datetime.timedelta(seconds=job.ttr))
        return fields
