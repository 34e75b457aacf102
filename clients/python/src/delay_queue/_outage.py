"""Logs once when the server becomes unavailable, and once when it returns."""

from __future__ import annotations

import logging
import time
from typing import Optional, Set

from ._exchange import Failed, Outcome
from .errors import DelayQueueError

log = logging.getLogger("delay_queue")


class Outage:
    """The state of the server as all requests of one worker see it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._began: Optional[float] = None
        self._refusals: Set[str] = set()

    def note(self, outcome: Outcome) -> None:
        """Notes the outcome of a request."""
        if isinstance(outcome, Failed):
            if self._began is None:
                self._began = time.monotonic()
                log.warning("the server at %s is unavailable: %s; repeating requests", self.url, outcome.reason)
        elif self._began is not None:
            log.warning("the server at %s is available again after %.1f s", self.url, time.monotonic() - self._began)
            self._began = None

    def refused(self, error: DelayQueueError) -> None:
        """Logs a refused request of the worker, once for each message until ``succeeded``."""
        message = str(error)
        if message not in self._refusals:
            self._refusals.add(message)
            log.error("the server at %s refuses: %s; repeating requests", self.url, message)

    def succeeded(self) -> None:
        """Notes a pop that succeeded."""
        self._refusals.clear()
