"""Where a queue is, and how long its calls take."""

from __future__ import annotations

import dataclasses
from typing import Dict, Optional
from urllib.parse import urlsplit

from ._version import VERSION
from .errors import UsageError


@dataclasses.dataclass(frozen=True)
class Settings:
    """The checked arguments of a queue. Durations are in seconds."""

    url: str
    token: Optional[str]
    retry_for: float
    timeout: float

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except (ValueError, AttributeError, TypeError):
            valid = False
        if not valid:
            raise UsageError(f"url must be like http://127.0.0.1:9277; got {self.url!r}")
        if self.token is not None and not (self.token.isascii() and self.token.isprintable()):
            raise UsageError("token must be printable ASCII, as `delay-queue token create` prints it")
        for name, value in (("retry_for", self.retry_for), ("timeout", self.timeout)):
            if not value >= 0:
                raise UsageError(f"{name} must be a number of seconds, 0 or more; got {value!r}")

    @property
    def base(self) -> str:
        """The URL that paths follow."""
        return self.url.rstrip("/") + "/v1"

    @property
    def headers(self) -> Dict[str, str]:
        """The headers of every request."""
        headers = {"content-type": "application/json", "user-agent": f"delay-queue-python/{VERSION}"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        return headers
