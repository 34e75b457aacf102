"""Errors of calls, and the two exceptions with which a handler decides how its attempt ends."""

from __future__ import annotations

from typing import Optional

from .values import Duration


class DelayQueueError(Exception):
    """Base of all errors of this library."""


class UsageError(DelayQueueError):
    """A value that the library refuses before it sends anything."""


class Refused(DelayQueueError):
    """An answer with which the server refuses a request; nothing was changed unless ``applied`` is ``unknown``."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        field: Optional[str] = None,
        applied: Optional[str] = None,
        state: Optional[str] = None,
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        self.field = field
        self.applied = applied
        #: State of the job, with the codes ``job_exists`` and ``wrong_state``.
        self.state = state


class Unavailable(DelayQueueError):
    """No useful answer within ``retry_for``. ``applied`` is ``no``, or ``unknown`` if a request may have arrived."""

    def __init__(self, message: str, applied: str, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.applied = applied
        #: Status of the last answer, if there was one.
        self.status = status


class ProtocolError(DelayQueueError):
    """An answer that no delay-queue gives: the URL probably belongs to another server."""

    def __init__(self, message: str, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.status = status


class SignatureError(DelayQueueError):
    """A push whose headers, time or signature do not verify."""


class Bury(Exception):
    """Raised or returned by a handler to make its job dead, with a reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Snooze(Exception):
    """Raised or returned by a handler to get its job again after a delay, without counting the attempt."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(f"again after {delay}")
        self.delay = delay
