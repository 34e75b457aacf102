"""A real server on a file store and a free port of loopback."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

PROGRAM = os.environ.get("PROGRAM", "delay-queue")
PATIENCE = 60 * float(os.environ.get("TEST_PATIENCE", "1"))


def reserved_port():
    """Returns a socket that keeps its port from other programs, also while no server listens on it.

    A server that sets SO_REUSEADDR can listen on the port all the same, because this socket does not listen.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def until(what, holds, patience=PATIENCE):
    """Waits for a state of the server that no event reports."""
    end = time.monotonic() + patience
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {patience} seconds")
        time.sleep(0.02)


class Problem(Exception):
    """A refusal of the server."""

    def __init__(self, status, problem):
        super().__init__(f"{status} {problem}")
        self.status, self.problem = status, problem


class Server:
    """Starts, kills and restarts one server, whose store and port stay the same."""

    def __init__(self, token=None, **settings):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="delay-queue-"))
        self.holder = reserved_port()
        self.port = self.holder.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = token
        self.environment = {f"DELAY_QUEUE__{name.upper()}": value for name, value in settings.items()}
        if token:
            self.environment["DELAY_QUEUE__SERVER__BOOTSTRAP_TOKEN"] = token
        self.process = None

    def start(self):
        """Starts the server, and returns when it is ready."""
        command = [PROGRAM, "--listen", f"127.0.0.1:{self.port}", "--store", f"file:{self.folder}/data"]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )
        until("the server is ready", self.is_ready)
        return self

    def is_ready(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"the server has ended:\n{(self.folder / 'log').read_text()}")
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def kill(self):
        """Ends the server without a chance to finish anything."""
        self.process.kill()
        self.process.wait()

    def close(self):
        """Ends the server and deletes its store."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        self.holder.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def call(self, method, path, body=None):
        """Returns the JSON of an answer. Raises Problem for a refusal."""
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/v1{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            raise Problem(error.code, json.loads(error.read() or "null")) from None

    def put(self, topic, body=None, **fields):
        return self.call("POST", "/jobs", {"topic": topic, "body": body, **fields})["id"]

    def job(self, id, wait=None):
        """Returns a job, or None if it is gone."""
        try:
            return self.call("GET", f"/jobs/{id}" + (f"?wait={wait}s" if wait else ""))
        except Problem as problem:
            if problem.status == 404:
                return None
            raise

    def gone(self, id):
        """Waits until the job is gone; fails if it ends in another way."""
        job = self._end(id)
        assert job is None, job

    def ended(self, id):
        """Waits until the job is finished or dead, and returns it."""
        job = self._end(id)
        assert job, f"job {id} is gone"
        return job

    def _end(self, id):
        """Waits for the end of a job, and returns it, or None if it is gone."""

        def ended():
            job = self.job(id, wait=60)
            return (job,) if job is None or job["state"] in ("finished", "dead") else None

        return until(f"job {id} ends", ended)[0]

    def becomes(self, id, state):
        """Waits until the job is in a state, and returns it."""
        return until(f"job {id} becomes {state}", lambda: (job := self.job(id)) and job["state"] == state and job)

    def counts(self, topic):
        return self.call("GET", f"/topics/{topic}")
