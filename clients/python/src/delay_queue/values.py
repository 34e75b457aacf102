"""Durations, times, ids and JSON as requests carry them."""

from __future__ import annotations

import datetime
import json
import os
import re
import time
from typing import Any, Union

#: Seconds, text with a unit such as ``"1h30m"``, or a timedelta.
Duration = Union[int, float, str, datetime.timedelta]
#: An aware datetime, RFC 3339 text, or Unix milliseconds.
Time = Union[datetime.datetime, str, int]

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id() -> str:
    """Returns a ULID: 48 bits of Unix milliseconds and 80 random bits, in 26 characters."""
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def duration(value: Duration) -> Union[int, float, str]:
    """Returns a duration as a request carries it: seconds, or text with a unit."""
    return value.total_seconds() if isinstance(value, datetime.timedelta) else value


def duration_seconds(value: Duration) -> float:
    """Returns a duration in seconds. Raises ValueError for text that is none."""
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if not isinstance(value, str):
        return float(value)
    if not re.fullmatch(r"(\d+(\.\d+)?(ms|[smhdw]))+", value):
        raise ValueError(f"a duration is a number of seconds, or text such as '1h30m'; got {value!r}")
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)(ms|[smhdw])", value))


def instant(value: Time) -> Union[int, str]:
    """Returns a time as a request carries it. Raises ValueError for a datetime without a time zone."""
    if not isinstance(value, datetime.datetime):
        return value
    if value.utcoffset() is None:
        raise ValueError(f"due_at must be a datetime with a time zone, such as timezone.utc; got {value!r}")
    return value.isoformat(timespec="milliseconds")


def parsed_time(text: str) -> datetime.datetime:
    """Returns the time of an answer, which is RFC 3339 in UTC. Python before 3.11 does not know its Z."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def encoded(value: Any) -> bytes:
    """Returns JSON in UTF-8. Raises TypeError or ValueError for what JSON cannot express, such as NaN."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except RecursionError:
        raise ValueError("the value is nested too deep, or contains itself") from None
