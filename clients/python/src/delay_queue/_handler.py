"""The functions of a worker, and how what they raise or return ends an attempt."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
from typing import Any, Callable, Dict, Optional, Tuple

from .bodies import BodyError
from .errors import Bury, Snooze
from .job import Job
from .values import duration, encoded

log = logging.getLogger("delay_queue")
ERROR_BYTES = 4096
#: The kind of an acknowledgement, and its fields.
End = Tuple[str, Dict[str, Any]]
GIVE_BACK: End = ("release", {"delay": 0, "count_attempt": False})


@dataclasses.dataclass(frozen=True)
class Handler:
    """A function for the jobs of one topic. ``body`` makes its type of the JSON."""

    function: Callable[[Job[Any]], Any]
    body: Optional[Callable[[Any], Any]]
    is_async: bool

    @classmethod
    def of(cls, function: Callable[[Job[Any]], Any], body: Optional[Callable[[Any], Any]]) -> Handler:
        """Returns the handler of a function, which is called in a thread unless it is ``async def``."""
        call = function.func if isinstance(function, functools.partial) else function
        is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)
        return cls(function, body, is_async)

    def typed(self, job: Job[Any]) -> Optional[End]:
        """Gives the job its typed body. Returns how it ends if the body does not fit."""
        if self.body is None:
            return None
        try:
            job.body = self.body(job.body)
        except Exception as error:  # a function of the user may raise anything for a body that does not fit
            reason = str(error) if isinstance(error, BodyError) else f"the body does not fit: {error!r}"
            log.error("job %s of topic %s is buried: %s", job.id, job.topic, reason)
            return "bury", {"error": cut(reason)}
        return None


def end_of_value(job: Job[Any], value: Any) -> End:
    """Returns how a handler ends that returns a value."""
    if isinstance(value, (Bury, Snooze)):
        return end_of_error(job, value)
    if value is None:
        return "finish", {}
    try:
        encoded(value)
    except (TypeError, ValueError) as error:
        log.error(
            "job %s is finished without its result, a %s that JSON cannot express: %s",
            job.id,
            type(value).__name__,
            error,
        )
        return "finish", {}
    return "finish", {"result": value}


def end_of_error(job: Job[Any], error: BaseException) -> End:
    """Returns how a handler ends that raises an exception."""
    if isinstance(error, Bury):
        return "bury", {"error": cut(str(error.reason))}
    if isinstance(error, Snooze):
        delay = duration(error.delay)
        try:
            encoded(delay)
        except (TypeError, ValueError):
            delay = ""
        if not isinstance(delay, bool) and ((isinstance(delay, str) and delay) or isinstance(delay, (int, float))):
            return "release", {"delay": delay, "count_attempt": False}
        error = ValueError(f"the delay of Snooze must be seconds or text such as '10m'; got {error.delay!r}")
    log.warning("job %s of topic %s failed in attempt %d", job.id, job.topic, job.attempt, exc_info=error)
    return "release", {"error": cut(text_of(error))}


def text_of(error: BaseException) -> str:
    """Returns the type and text of an exception, whose ``__str__`` may fail too."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def cut(text: str) -> str:
    """Returns the text within the limit of the API, cut between characters. Surrogates become question marks."""
    return text.encode(errors="replace")[:ERROR_BYTES].decode(errors="ignore")
