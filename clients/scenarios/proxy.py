"""A proxy between a library and the server, which records requests and injects faults."""

import asyncio
import json
import threading
import time
import urllib.parse

from server import PATIENCE, reserved_port

HEAD_BYTES = 1 << 16


class Seen:
    """A request, and the answer that the library got: its status, or the name of the fault."""

    def __init__(self, method, target, headers, content):
        parts = urllib.parse.urlsplit(target)
        self.method, self.path, self.target = method, urllib.parse.unquote(parts.path.removeprefix("/v1")), target
        self.query = dict(urllib.parse.parse_qsl(parts.query))
        self.headers, self.content = headers, content
        self.result = None
        self.at = time.monotonic()

    @property
    def json(self):
        return json.loads(self.content or b"null")

    def __repr__(self):
        return f"{self.method} {self.target} {self.content[:200]!r} -> {self.result}"


class Rule:
    """A fault for the next requests with a method and a path that contains a text.

    Actions: ``drop_answer`` (the server gets the request, and its answer is lost), ``hang`` (the request is swallowed),
    ``hold`` (the answer is held back until ``release``), ``answer`` (with a status, a problem and headers).
    """

    def __init__(self, method, text, action, times, answer):
        self.method, self.text, self.action, self.times, self.answer = method, text, action, times, answer
        self.released = asyncio.Event()

    def takes(self, seen):
        if self.times == 0 or self.method != seen.method or self.text not in seen.path:
            return False
        self.times -= 1
        return True


class Proxy:
    """Forwards to a server. ``refuse`` closes it, and ``accept`` opens it again."""

    def __init__(self, server):
        self.server = server
        self.holder = reserved_port()
        self.port = self.holder.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.seen, self.rules, self.changed = [], [], threading.Condition()
        self.connections = set()
        self.listener = None
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.accept()

    def rule(self, method, text, action, times=1, answer=None):
        rule = Rule(method, text, action, times, answer)
        self.rules.append(rule)
        return rule

    def lift(self, rule):
        """Ends a rule, and releases what it holds."""
        self.rules.remove(rule)
        self.loop.call_soon_threadsafe(rule.released.set)

    def accept(self):
        asyncio.run_coroutine_threadsafe(self._accept(), self.loop).result()

    def refuse(self):
        """Closes the port and cuts all connections."""
        asyncio.run_coroutine_threadsafe(self._refuse(), self.loop).result()

    def close(self):
        self.refuse()
        self.holder.close()

    def requests(self, method, text):
        """Returns the requests so far with a method and a path that contains a text."""
        return [seen for seen in list(self.seen) if seen.method == method and text in seen.path]

    def wait_for(self, what, holds):
        """Waits until ``holds(proxy)`` is true, and returns its value."""
        end = time.monotonic() + PATIENCE
        with self.changed:
            while True:
                if value := holds(self):
                    return value
                if not self.changed.wait(end - time.monotonic()):
                    raise TimeoutError(f"the proxy did not see: {what}; it saw {self.seen[-20:]}")

    def wait_for_requests(self, method, text, count=1):
        """Waits for a number of answered requests, and returns all."""

        def answered(_):
            found = [seen for seen in self.requests(method, text) if seen.result is not None]
            return found if len(found) >= count else None

        return self.wait_for(f"{count} × {method} {text}", answered)

    async def _accept(self):
        self.listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=HEAD_BYTES)

    async def _refuse(self):
        if self.listener:
            self.listener.close()
            self.listener = None
        for writer in list(self.connections):
            writer.transport.abort()

    def _note(self, seen, result=None):
        with self.changed:
            if result is None:
                self.seen.append(seen)
            else:
                seen.result = result
            self.changed.notify_all()

    async def _serve(self, reader, writer):
        self.connections.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.connections.discard(writer)
            writer.transport.abort()

    async def _exchange(self, reader, writer):
        """Serves one request. Returns whether the connection stays open."""
        head, content = await read_message(reader)
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        seen = Seen(method, target, headers_of(head), content)
        rule = next((rule for rule in list(self.rules) if rule.takes(seen)), None)
        action = rule.action if rule else None
        self._note(seen)
        gone = asyncio.ensure_future(reader.read(1))  # a library sends nothing before it has its answer
        try:
            if action == "hang":
                await gone
                return False
            if action == "answer":
                answer = made(rule.answer)
            else:
                answer = await self._forward(head, content, gone)
            if action == "hold":
                await asyncio.wait(
                    [asyncio.ensure_future(rule.released.wait()), gone], return_when=asyncio.FIRST_COMPLETED
                )
            if action == "drop_answer":
                self._note(seen, "dropped")
                return False
            # Before the answer: the next request belongs to the next exchange.
            gone.cancel()
            await asyncio.wait({gone})
            writer.write(answer)
            await writer.drain()
            self._note(seen, int(answer.split(b" ", 2)[1]))
            return True
        except OSError:
            self._note(seen, "aborted" if gone.done() else "failed")
            raise
        finally:
            if not gone.done():
                gone.cancel()
                await asyncio.wait({gone})

    async def _forward(self, head, content, gone):
        """Returns the answer of the server, from a connection of its own.

        A library may close its half of the connection and still wait for the answer. So the proxy closes its half too:
        with an abort, jobs that the server has popped meanwhile would be lost until their TTR ends.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, limit=HEAD_BYTES)
        answer = asyncio.ensure_future(read_message(reader))
        try:
            writer.write(head + content)
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                writer.write_eof()
            return b"".join(await answer)
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("the server ended the connection") from error
        finally:
            answer.cancel()
            writer.transport.abort()


def made(answer):
    """Returns an answer of the proxy itself."""
    status, problem, headers = answer
    content = json.dumps(problem).encode() if not isinstance(problem, str) else problem.encode()
    lines = [f"HTTP/1.1 {status} Injected", f"Content-Length: {len(content)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


async def read_message(reader):
    """Reads the head and the content of a request or an answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    headers = headers_of(head)
    if "transfer-encoding" in headers:
        raise ConnectionError("chunked messages are not forwarded")
    return head, await reader.readexactly(int(headers.get("content-length", 0)))


def headers_of(head):
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
