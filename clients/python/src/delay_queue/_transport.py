"""Sends requests with httpx."""

from __future__ import annotations

import asyncio
import logging
import time
from contextvars import ContextVar
from typing import Awaitable, Callable, Optional, TypeVar, Union

import httpx

from ._exchange import Answer, Failed, Flow, Outcome, Request, judged
from ._settings import Settings

T = TypeVar("T")
#: Failures before a request was written: the server cannot have applied it.
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
CONNECTIONS = httpx.Limits(max_connections=100, max_keepalive_connections=20)

#: Whether this context sends a request of this library. httpx logs each one at INFO, which would fill a worker's log.
_sends: ContextVar[bool] = ContextVar("delay_queue_sends", default=False)
logging.getLogger("httpx").addFilter(lambda record: record.levelno != logging.INFO or not _sends.get())


class Transport:
    """A synchronous client of one server."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.client = httpx.Client(
            base_url=settings.base, headers=settings.headers, limits=CONNECTIONS, trust_env=False
        )

    def send(self, request: Request) -> Outcome:
        """Sends a request once."""
        sends = _sends.set(True)
        try:
            return received(self.client.send(built(self.client, request)), self.settings)
        except httpx.HTTPError as error:
            return failed(error)
        finally:
            _sends.reset(sends)

    def run(self, flow: Flow[T], send: Optional[Callable[[Request], Outcome]] = None) -> T:
        """Runs a flow to its end. ``send`` sends its requests in another way than alone."""
        outcome: Optional[Outcome] = None
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = None
            if isinstance(step, Request):
                outcome = (send or self.send)(step)
            else:
                time.sleep(step)


class AsyncTransport:
    """An asynchronous client of one server."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.client = httpx.AsyncClient(
            base_url=settings.base, headers=settings.headers, limits=CONNECTIONS, trust_env=False
        )

    async def send(self, request: Request) -> Outcome:
        """Sends a request once. Its cancellation closes the connection, so that the server takes back a pop."""
        sends = _sends.set(True)
        try:
            return received(await self.client.send(built(self.client, request)), self.settings)
        except httpx.HTTPError as error:
            return failed(error)
        finally:
            _sends.reset(sends)

    async def run(self, flow: Flow[T], send: Optional[Callable[[Request], Awaitable[Outcome]]] = None) -> T:
        """Runs a flow to its end. ``send`` sends its requests in another way than alone."""
        outcome: Optional[Outcome] = None
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = None
            if isinstance(step, Request):
                outcome = await (send or self.send)(step)
            else:
                await asyncio.sleep(step)


def built(client: Union[httpx.Client, httpx.AsyncClient], request: Request) -> httpx.Request:
    """Returns the request of httpx."""
    return client.build_request(
        request.method,
        request.path[1:],
        params=request.params or None,
        content=request.content,
        timeout=request.timeout,
    )


def received(response: httpx.Response, settings: Settings) -> Outcome:
    """Returns the meaning of an answer."""
    return judged(Answer(response.status_code, response.content, response.headers.get("retry-after")), settings.url)


def failed(error: httpx.HTTPError) -> Failed:
    """Returns the failure of a request without a whole answer."""
    reason = str(error) or type(error).__name__
    return Failed("no" if isinstance(error, UNSENT) else "unknown", reason)
