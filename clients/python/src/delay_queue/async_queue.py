"""The queue of producers with asyncio."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Type

from ._calls import Calls, PutResult, seconds
from ._gather import AsyncGatherer
from ._settings import Settings
from ._transport import AsyncTransport
from .puts import CancelAnswer, JobInfo, Put, PutAnswer, PutFields
from .values import Duration

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AsyncQueue:
    """A queue at a URL, for programs with asyncio. It belongs to one event loop.

    ``retry_for`` is how many seconds a call repeats its request before it raises Unavailable, and ``timeout`` those of
    one request. All calls raise Refused, Unavailable, ProtocolError and UsageError.
    """

    def __init__(
        self, url: str, token: Optional[str] = None, *, retry_for: float = 30.0, timeout: float = 10.0
    ) -> None:
        self.settings = Settings(url, token, retry_for, timeout)
        self._calls = Calls(self.settings)
        self._transport = AsyncTransport(self.settings)
        self._gatherer = AsyncGatherer(self._transport)

    async def put(self, topic: str, body: Any = None, **fields: Unpack[PutFields]) -> PutAnswer:
        """Puts a job. The keyword arguments are the fields of Put.

        A put whose answer was lost is repeated, and finds its own job. Such a repetition cannot tell a job of the
        same ``id`` that another producer has put earlier in the same topic from its own. Concurrent puts share
        requests.
        """
        return await self._transport.run(self._calls.put(Put.of(topic, body, fields)), self._gatherer.send)

    async def put_many(self, puts: Iterable[Put]) -> List[PutResult]:
        """Puts jobs in batches of up to 1,000. Each put has its result, in order: the job or an error."""
        return await self._transport.run(self._calls.put_many(list(puts)))

    async def get(self, id: str, *, wait: float = 0.0) -> Optional[JobInfo]:
        """Returns a job, or None if it does not exist. Waits up to ``wait`` seconds until it is finished or dead."""
        return await self._transport.run(self._calls.get(id, seconds(wait)))

    async def cancel(self, id: str, *, remember: Optional[Duration] = None) -> Optional[CancelAnswer]:
        """Deletes a job that is delayed or ready. Returns None if it does not exist.

        ``remember`` keeps the id taken, so that a late put does not bring the job back. Raises Refused with the code
        ``wrong_state`` if a worker has the job, or it is dead or finished.
        """
        return await self._transport.run(self._calls.cancel(id, remember))

    async def topic(self, name: str) -> Dict[str, Any]:
        """Returns the counts and settings of a topic."""
        return await self._transport.run(self._calls.topic(name))

    async def set_topic(self, name: str, settings: Mapping[str, Any]) -> Dict[str, Any]:
        """Replaces the defaults of a topic for new jobs, such as ``{"ttr": "5m", "backoff": ["1s", "1m"]}``."""
        return await self._transport.run(self._calls.set_topic(name, settings))

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.client.aclose()

    async def __aenter__(self) -> AsyncQueue:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()
