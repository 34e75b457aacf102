"""The fields of a put, and the objects of the API that calls return."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, TypedDict, Union

from .errors import UsageError
from .values import Duration, Time, duration, encoded, instant, new_id

#: Waits before the next attempts: a list, of which the last repeats, or an object such as ``{"initial": "1s"}``.
Backoff = Union[Sequence[Duration], Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Put:
    """One job to put. Fields that are None are left to the defaults of the topic and the server."""

    topic: str
    body: Any = None
    #: Unique in the store. Without one, the library makes a ULID.
    id: str = dataclasses.field(default_factory=new_id)
    delay: Optional[Duration] = None
    due_at: Optional[Time] = None
    ttr: Optional[Duration] = None
    max_attempts: Optional[int] = None
    backoff: Optional[Backoff] = None
    #: ``reject``, ``keep`` or ``replace``.
    on_conflict: Optional[str] = None
    traceparent: Optional[str] = None
    headers: Optional[Mapping[str, str]] = None
    priority: Optional[int] = None
    expires_after: Optional[Duration] = None
    finished_retention: Optional[Duration] = None

    @classmethod
    def of(cls, topic: str, body: Any, fields: PutFields) -> Put:
        """Returns the put of a call; fields that are None count as absent."""
        given: Dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        return cls(topic, body, **given)

    def to_json(self, after_unknown: bool = False) -> bytes:
        """Returns the put in JSON. After an unknown result, a job that exists already is a success."""
        fields: Dict[str, Any] = {"topic": self.topic, "id": self.id}
        for name, convert in CONVERSIONS.items():
            value = getattr(self, name)
            if value is not None:
                fields[name] = convert(value)
        if after_unknown and self.on_conflict in (None, "reject"):
            fields["on_conflict"] = "keep"
        return encoded(fields)

    def checked(self) -> Put:
        """Returns itself. Raises UsageError for a value that JSON cannot express."""
        try:
            self.to_json()
        except (TypeError, ValueError) as error:
            raise UsageError(f"the put of {self.id} in topic {self.topic} cannot be sent: {error}") from error
        return self


def _as_is(value: Any) -> Any:
    return value


def _backoff(value: Backoff) -> Any:
    if isinstance(value, Mapping):
        return {name: duration(part) for name, part in value.items()}
    return [duration(part) for part in value]


CONVERSIONS: Dict[str, Callable[[Any], Any]] = {
    "body": _as_is,
    "delay": duration,
    "due_at": instant,
    "ttr": duration,
    "max_attempts": _as_is,
    "backoff": _backoff,
    "on_conflict": _as_is,
    "traceparent": _as_is,
    "headers": dict,
    "priority": _as_is,
    "expires_after": duration,
    "finished_retention": duration,
}


class PutFields(TypedDict, total=False):
    """The keyword arguments of a put: the fields of Put."""

    id: Optional[str]
    delay: Optional[Duration]
    due_at: Optional[Time]
    ttr: Optional[Duration]
    max_attempts: Optional[int]
    backoff: Optional[Backoff]
    on_conflict: Optional[str]
    traceparent: Optional[str]
    headers: Optional[Mapping[str, str]]
    priority: Optional[int]
    expires_after: Optional[Duration]
    finished_retention: Optional[Duration]


class PutAnswer(TypedDict):
    """The job that a put made or found."""

    id: str
    topic: str
    state: str
    due_at: str


class CancelAnswer(TypedDict):
    """The state in which a job was cancelled; None if the answer was lost and the repetition found no job."""

    id: str
    state: Optional[str]


class JobInfo(TypedDict, total=False):
    """A job as ``get`` returns it; docs/api.md describes the fields. Times are RFC 3339, durations seconds."""

    id: str
    topic: str
    state: str
    body: Any
    attempt: int
    max_attempts: int
    priority: int
    due_at: str
    created_at: str
    ttr: float
    backoff: Any
    reserved_until: Optional[str]
    died_at: Optional[str]
    error: Optional[str]
    consumer: str
    history: List[Dict[str, Any]]
    traceparent: str
    headers: Dict[str, str]
    finished_retention: float
    expires_at: str
    expires_after: float
    finished_at: str
    outcome: str
    result: Any
