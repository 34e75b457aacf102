"""Parts that several tests use."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import pytest

Reply = Tuple[int, Any]


class StubServer:
    """A server whose answers a test decides. It records the requests."""

    def __init__(self) -> None:
        self.requests: List[Tuple[str, str, Any]] = []
        self.reply: Callable[[str, str, Any], Optional[Reply]] = lambda method, path, body: (200, {})
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"null")
                stub.requests.append((self.command, self.path, body))
                reply = stub.reply(self.command, self.path, body)
                if reply is None:
                    self.close_connection = True
                    return
                content = json.dumps(reply[1]).encode()
                with contextlib.suppress(OSError):  # the client may have closed the connection
                    self.send_response(reply[0])
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            do_POST = do_PUT = do_DELETE = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def stub() -> Iterator[StubServer]:
    server = StubServer()
    yield server
    server.server.shutdown()
    server.server.server_close()


def popped(id: str, topic: str = "orders", body: Any = None, **fields: Any) -> Dict[str, Any]:
    """Returns a job as a pop returns it."""
    time = "2026-01-31T12:00:00.000Z"
    job = {"id": id, "topic": topic, "body": body, "attempt": 1, "max_attempts": 20, "due_at": time}
    return {**job, "created_at": time, "ttr": 60, "reservation": "r", "reserved_until": time, **fields}
