"""The examples of README.md run as they are printed."""

from __future__ import annotations

import pathlib
import re
import signal
import threading
from typing import Any, List

import pytest
from conftest import StubServer, popped

README = pathlib.Path(__file__).parent.parent / "README.md"
EXAMPLES: List[str] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_worker_of_the_readme_finishes_a_job_and_stops_with_sigterm(
    stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def reply(method: str, path: str, body: Any) -> Any:
        if "/pop" in path:
            first = sum("/pop" in request[1] for request in stub.requests) == 1
            return 200, {"jobs": [popped("o:1", body={"order": 4711})] if first else []}
        if path == "/v1/batch/finish":
            signal.pthread_kill(main, signal.SIGTERM)
            return 200, {"results": [{"id": "o:1", "status": 204}]}
        return 500, {}

    main = threading.main_thread().ident or 0
    stub.reply = reply
    assert len([line for line in EXAMPLES[0].splitlines() if line]) <= 10
    exec(EXAMPLES[0].replace("http://127.0.0.1:9277", stub.url), {})
    assert capsys.readouterr().out == "closing order 4711\n"
    finishes = [request for request in stub.requests if request[1] == "/v1/batch/finish"]
    assert finishes == [("POST", "/v1/batch/finish", {"jobs": [{"id": "o:1", "reservation": "r"}]})]


def test_the_calls_of_the_readme_are_sent(stub: StubServer) -> None:
    def reply(method: str, path: str, body: Any) -> Any:
        if path == "/v1/batch/jobs":
            return 200, {"results": [{"id": job["id"], "status": 201} for job in body["jobs"]]}
        return 200, {"id": "x", "state": "finished"}

    stub.reply = reply
    exec(EXAMPLES[1].replace("http://127.0.0.1:9277", stub.url), {})
    sent = [(method, path.split("wait=")[0]) for method, path, _ in stub.requests]
    assert sent == [
        ("POST", "/v1/jobs"),
        ("POST", "/v1/batch/jobs"),
        ("DELETE", "/v1/jobs/close:4711?state=delayed%2Cready&remember=1h"),
        ("GET", "/v1/jobs/report:1?"),
        ("PUT", "/v1/topics/orders"),
    ]


def test_the_fake_of_the_readme_runs() -> None:
    exec(EXAMPLES[2], {})
