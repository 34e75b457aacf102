"""The worker: handlers by topic, and a run that ends with SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple, Type, TypeVar, Union, overload

from ._handler import Handler
from ._run import Run
from .async_queue import AsyncQueue
from .bodies import decoder
from .errors import UsageError
from .fake import FakeQueue
from .job import Job
from .queue import Queue

B = TypeVar("B")
Function = TypeVar("Function", bound=Callable[[Job[Any]], Any])
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Worker:
    """Pops jobs and runs their handlers: functions in a thread each, or coroutines.

    ``concurrency`` is how many jobs run at once, ``grace`` how many seconds they have to end when the worker is
    stopped, ``wait`` those for which a pop waits for a job, and ``consumer`` the name in the history of a job.
    """

    def __init__(
        self,
        queue: Union[Queue, AsyncQueue, FakeQueue],
        concurrency: int = 16,
        *,
        grace: float = 25.0,
        wait: float = 20.0,
        consumer: Optional[str] = None,
    ) -> None:
        if not isinstance(concurrency, int) or concurrency < 1:
            raise UsageError(f"concurrency must be an integer of 1 or more; got {concurrency!r}")
        if not grace >= 0:
            raise UsageError(f"grace must be a number of seconds, 0 or more; got {grace!r}")
        if not 0 <= wait <= 60:
            raise UsageError(f"wait must be a number of seconds from 0 to 60; got {wait!r}")
        self.handlers: Dict[str, Handler] = {}
        self._queue = queue
        self._concurrency = concurrency
        self._grace = grace
        self._wait = wait
        self._consumer = consumer or consumer_name()
        self._lock = threading.Lock()
        self._run: Optional[Run] = None
        self._is_stopped = False

    @overload
    def on(self, topic: str) -> Callable[[Function], Function]: ...
    @overload
    def on(
        self, topic: str, body: Union[Type[B], Callable[[Any], B]]
    ) -> Callable[[Callable[[Job[B]], Any]], Callable[[Job[B]], Any]]: ...
    def on(self, topic: str, body: Any = None) -> Callable[[Any], Any]:
        """Registers the decorated function as the handler of a topic; topics registered earlier are popped first.

        ``body`` is the type of the jobs' bodies: a dataclass, a type of ``typing``, a model of Pydantic, or a function
        that makes it of the JSON. A job whose body does not fit is buried. Without it, ``job.body`` is the JSON.
        """
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", topic):
            raise UsageError(f"a topic has 1 to 128 of the characters A-Z a-z 0-9 . _ -; got {topic!r}")
        if topic in self.handlers:
            raise UsageError(f"topic {topic} has a handler already")

        def register(function: Callable[[Job[Any]], Any]) -> Callable[[Job[Any]], Any]:
            self.handlers[topic] = Handler.of(function, None if body is None else decoder(body))
            return function

        return register

    def run(self) -> None:
        """Works until SIGTERM, SIGINT or ``stop``. Raises Refused or ProtocolError if the first pop is refused."""
        asyncio.run(self._main(threading.current_thread() is threading.main_thread()))

    async def run_async(self) -> None:
        """Works until ``stop``, or until its task is cancelled, which stops the worker in the same way."""
        await self._main(False)

    def stop(self) -> None:
        """Ends the run as SIGTERM does, and returns at once. May be called by any thread."""
        with self._lock:
            self._is_stopped = True
            run = self._run
        if run is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                run.loop.call_soon_threadsafe(run.stop)

    async def _main(self, with_signals: bool) -> None:
        if isinstance(self._queue, FakeQueue):
            raise UsageError("a worker of a FakeQueue is run by its run_due")
        if not self.handlers:
            raise UsageError("the worker has no handler: decorate a function with @worker.on(topic)")
        run = Run(self._queue.settings, dict(self.handlers), self._concurrency, self._wait, self._grace, self._consumer)
        with self._lock:
            self._run = run
            if self._is_stopped:
                run.stop()
        restore = take_signals(run) if with_signals else []
        main = asyncio.ensure_future(run.main())
        try:
            await asyncio.shield(main)
        except asyncio.CancelledError:
            run.stop()
            await main
            raise
        finally:
            for number, handler in restore:
                run.loop.remove_signal_handler(number)
                signal.signal(number, handler)
            with self._lock:
                self._run, self._is_stopped = None, False


def take_signals(run: Run) -> List[Tuple[signal.Signals, Any]]:
    """Makes SIGTERM and SIGINT stop the run. Returns the earlier handlers, where they must be restored."""
    earlier: List[Tuple[signal.Signals, Any]] = []
    for number in SIGNALS:
        handler = signal.getsignal(number)
        try:
            run.loop.add_signal_handler(number, run.stop)
            if handler is not None:  # None: installed by another language than Python
                earlier.append((number, handler))
        except NotImplementedError:  # on Windows
            signal.signal(number, lambda *_: run.loop.call_soon_threadsafe(run.stop))
    return earlier


def consumer_name() -> str:
    """Returns the host and process as the name of a consumer."""
    host = re.sub(r"[^A-Za-z0-9._:@/-]", "-", socket.gethostname())
    end = f":{os.getpid()}"
    return host[: 64 - len(end)] + end
