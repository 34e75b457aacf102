"""The synchronous queue of producers."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Type

from ._calls import Calls, PutResult, seconds
from ._gather import Gatherer
from ._settings import Settings
from ._transport import Transport
from .puts import CancelAnswer, JobInfo, Put, PutAnswer, PutFields
from .values import Duration

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Queue:
    """A queue at a URL, for programs without asyncio. It may be shared by threads.

    ``retry_for`` is how many seconds a call repeats its request before it raises Unavailable, and ``timeout`` those of
    one request. All calls raise Refused, Unavailable, ProtocolError and UsageError.
    """

    def __init__(
        self, url: str, token: Optional[str] = None, *, retry_for: float = 30.0, timeout: float = 10.0
    ) -> None:
        self.settings = Settings(url, token, retry_for, timeout)
        self._calls = Calls(self.settings)
        self._transport = Transport(self.settings)
        self._gatherer = Gatherer(self._transport)

    def put(self, topic: str, body: Any = None, **fields: Unpack[PutFields]) -> PutAnswer:
        """Puts a job. The keyword arguments are the fields of Put.

        A put whose answer was lost is repeated, and finds its own job. Such a repetition cannot tell a job of the
        same ``id`` that another producer has put earlier in the same topic from its own. Concurrent puts share
        requests.
        """
        return self._transport.run(self._calls.put(Put.of(topic, body, fields)), self._gatherer.send)

    def put_many(self, puts: Iterable[Put]) -> List[PutResult]:
        """Puts jobs in batches of up to 1,000. Each put has its result, in order: the job or an error."""
        return self._transport.run(self._calls.put_many(list(puts)))

    def get(self, id: str, *, wait: float = 0.0) -> Optional[JobInfo]:
        """Returns a job, or None if it does not exist. Waits up to ``wait`` seconds until it is finished or dead."""
        return self._transport.run(self._calls.get(id, seconds(wait)))

    def cancel(self, id: str, *, remember: Optional[Duration] = None) -> Optional[CancelAnswer]:
        """Deletes a job that is delayed or ready. Returns None if it does not exist.

        ``remember`` keeps the id taken, so that a late put does not bring the job back. Raises Refused with the code
        ``wrong_state`` if a worker has the job, or it is dead or finished.
        """
        return self._transport.run(self._calls.cancel(id, remember))

    def topic(self, name: str) -> Dict[str, Any]:
        """Returns the counts and settings of a topic."""
        return self._transport.run(self._calls.topic(name))

    def set_topic(self, name: str, settings: Mapping[str, Any]) -> Dict[str, Any]:
        """Replaces the defaults of a topic for new jobs, such as ``{"ttr": "5m", "backoff": ["1s", "1m"]}``."""
        return self._transport.run(self._calls.set_topic(name, settings))

    def close(self) -> None:
        """Closes the connections."""
        self._transport.client.close()

    def __enter__(self) -> Queue:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
