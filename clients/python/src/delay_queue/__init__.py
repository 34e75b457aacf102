"""Producers and workers of a delay-queue server.

Queue and AsyncQueue put, get and cancel jobs; Worker runs handlers for them; FakeQueue replaces the server in tests;
verify checks the signature of a push.
"""

from ._version import VERSION as __version__
from .async_queue import AsyncQueue
from .bodies import BodyError
from .errors import (
    Bury,
    DelayQueueError,
    ProtocolError,
    Refused,
    SignatureError,
    Snooze,
    Unavailable,
    UsageError,
)
from .fake import FakeQueue, Ran
from .job import Job
from .puts import Backoff, CancelAnswer, JobInfo, Put, PutAnswer, PutFields
from .queue import Queue
from .signature import verify
from .values import Duration, Time
from .worker import Worker

__all__ = [
    "AsyncQueue",
    "Backoff",
    "BodyError",
    "Bury",
    "CancelAnswer",
    "DelayQueueError",
    "Duration",
    "FakeQueue",
    "Job",
    "JobInfo",
    "ProtocolError",
    "Put",
    "PutAnswer",
    "PutFields",
    "Queue",
    "Ran",
    "Refused",
    "SignatureError",
    "Snooze",
    "Time",
    "Unavailable",
    "UsageError",
    "Worker",
    "__version__",
    "verify",
]
