"""Servers and Redis as separate processes, on free ports of loopback."""

import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(command, folder):
    # If this process is killed, its servers are killed too.
    log = open(os.path.join(folder, "log"), "ab")
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], cwd=folder, stdout=log, stderr=log)


@contextmanager
def stopping(process):
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def until(what, holds):
    end = time.monotonic() + 30
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within 30 seconds")
        time.sleep(0.02)  # no event reports it


def call(method, url, body=None, token=None):
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or "null")


def answers(url):
    try:
        return bool(call("GET", url))
    except OSError:
        return False


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def started(kind, **settings):
    """Runs a server on a store of this kind ("file" or "redis"); yields its address and a token with all scopes."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="delay-queue-openapi-"))
        store = f"file:{folder}/data"
        if kind == "redis":
            port = free_port()
            options = ["--port", str(port), "--bind", "127.0.0.1", "--appendonly", "yes", "--loglevel", "warning"]
            stack.enter_context(stopping(run(["redis-server", *options], folder)))
            until("redis-server answers", lambda: accepts(port))
            store = f"redis://127.0.0.1:{port}/0"
        base = f"http://127.0.0.1:{free_port()}"
        options = [f"DELAY_QUEUE__{name.upper()}={value}" for name, value in settings.items()]
        command = [os.environ["PROGRAM"], "--listen", base.removeprefix("http://"), "--store", store]
        stack.enter_context(stopping(run(["env", *options, *command], folder)))
        until("the server is ready", lambda: answers(f"{base}/readyz"))
        scopes = {scope: ["*"] for scope in ["put", "pop", "read", "manage", "push", "admin"]}
        made = call("POST", f"{base}/tokens", {"name": "everything", "scopes": scopes})
        yield base, made["token"]
