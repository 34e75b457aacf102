"""Daemon threads for handlers, so that a handler which does not return cannot keep the process from ending."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from typing import Any, Callable, List, Tuple

Call = Tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class Threads:
    """Runs functions in threads, which are started when all others are busy."""

    def __init__(self) -> None:
        self._calls: "queue.SimpleQueue[Call | None]" = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: List[threading.Thread] = []

    def call(self, function: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Calls the function in a thread. The future gets its result and None, or None and its exception."""
        loop = asyncio.get_running_loop()
        future: "asyncio.Future[Any]" = loop.create_future()
        context = contextvars.copy_context()
        self._calls.put((lambda: context.run(function), future, loop))
        if not self._idle.acquire(blocking=False):
            thread = threading.Thread(target=self._work, name="delay-queue-handler", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def close(self) -> None:
        """Ends each thread after its current call."""
        for _ in self._threads:
            self._calls.put(None)

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            if call is None:
                return
            function, future, loop = call
            result, error = None, None
            try:
                result = function()
            except BaseException as caught:  # a handler may raise anything, and must not end the thread
                error = caught
            # Before the future is set: the loop may then call again at once.
            self._idle.release()
            try:
                loop.call_soon_threadsafe(settle, future, (result, error))
            except RuntimeError:
                return  # the loop was closed after the grace


def settle(future: "asyncio.Future[Any]", value: Any) -> None:
    """Sets the result unless the waiter has gone."""
    if not future.done():
        future.set_result(value)
