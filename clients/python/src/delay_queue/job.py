"""The job that a handler gets."""

from __future__ import annotations

import datetime
import threading
from typing import Any, Dict, Generic, Mapping, Optional, TypeVar

from .values import parsed_time

B = TypeVar("B")


class Job(Generic[B]):
    """A popped job with a body of type B."""

    def __init__(self, fields: Mapping[str, Any], body: B) -> None:
        #: The job as the server sent it, with times as text.
        self.fields = fields
        self.id: str = fields["id"]
        self.topic: str = fields["topic"]
        self.body = body
        #: The number of this attempt, from 1.
        self.attempt: int = fields["attempt"]
        self._cancelled = threading.Event()

    @property
    def max_attempts(self) -> int:
        """The attempts after which the job is dead; 0 is no limit."""
        return int(self.fields["max_attempts"])

    @property
    def due_at(self) -> datetime.datetime:
        """When the job was due."""
        return parsed_time(self.fields["due_at"])

    @property
    def created_at(self) -> datetime.datetime:
        """When the job was put."""
        return parsed_time(self.fields["created_at"])

    @property
    def ttr(self) -> float:
        """The time to run in seconds. The worker touches the job after each third."""
        return float(self.fields["ttr"])

    @property
    def reservation(self) -> str:
        """The proof that this worker holds the job."""
        return str(self.fields["reservation"])

    @property
    def headers(self) -> Dict[str, str]:
        """The headers of the put."""
        return dict(self.fields.get("headers") or {})

    @property
    def traceparent(self) -> Optional[str]:
        """The W3C trace context of the put."""
        return self.fields.get("traceparent")

    @property
    def priority(self) -> int:
        """From 0 to 9; 4 is the default."""
        return int(self.fields.get("priority", 4))

    @property
    def dead_from(self) -> Optional[str]:
        """The topic in which the job died, if it was moved here by ``dead_to``."""
        return self.fields.get("dead_from")

    @property
    def expires_at(self) -> Optional[datetime.datetime]:
        """When the job expires."""
        return self._time("expires_at")

    @property
    def scheduled_at(self) -> Optional[datetime.datetime]:
        """The instant of the schedule that put the job."""
        return self._time("scheduled_at")

    @property
    def cancelled(self) -> bool:
        """Whether the worker has lost the job or is stopping. A handler in a thread should look, and return."""
        return self._cancelled.is_set()

    def wait_cancelled(self, timeout: Optional[float] = None) -> bool:
        """Waits in a thread until the job is cancelled, at most ``timeout`` seconds. Returns whether it is."""
        return self._cancelled.wait(timeout)

    def cancel(self) -> None:
        """Marks the job as cancelled, as the worker does."""
        self._cancelled.set()

    def _time(self, name: str) -> Optional[datetime.datetime]:
        text = self.fields.get(name)
        return parsed_time(text) if text else None

    def __repr__(self) -> str:
        return f"<Job {self.id} of {self.topic}, attempt {self.attempt}>"
