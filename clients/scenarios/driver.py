"""Starts the driver of a library, sends its commands and collects its events and log lines."""

import contextlib
import json
import os
import pathlib
import queue
import signal
import subprocess
import threading
import time

from server import PATIENCE

CLIENTS = pathlib.Path(__file__).resolve().parent.parent
LANGUAGES = ["python", "typescript", "go", "rust"]


class DriverError(Exception):
    """An error that the library raised."""

    def __init__(self, error):
        super().__init__(str(error))
        self.kind, self.status, self.code = error["kind"], error.get("status"), error.get("code")
        self.field, self.applied, self.message = error.get("field"), error.get("applied"), error["message"]


class Driver:
    """A process with one library."""

    def __init__(self, language, url, token=None, retry_for=None):
        environment = {**os.environ, "DELAY_QUEUE_URL": url}
        for name, value in {"DELAY_QUEUE_TOKEN": token, "DELAY_QUEUE_RETRY_FOR": retry_for}.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = str(value)
        self.process = subprocess.Popen(
            [str(CLIENTS / language / "driver")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=CLIENTS / language,
        )
        self.events, self.log, self.replies = [], [], {}
        self.changed = threading.Condition()
        self.numbers = 0
        self.on_event = None
        self.readers = [
            threading.Thread(target=self._read_output, daemon=True),
            threading.Thread(target=self._read_log, daemon=True),
        ]
        for reader in self.readers:
            reader.start()
        self.pid = self.event("ready")["pid"]

    def begin(self, do, **fields):
        """Sends a command, and returns the function that waits for its reply."""
        with self.changed:
            self.numbers += 1
            number = self.numbers
            reply = self.replies[number] = queue.SimpleQueue()
            line = json.dumps({"n": number, "do": do, **fields}).encode() + b"\n"
            self.process.stdin.write(line)
            self.process.stdin.flush()

        def wait(patience=PATIENCE):
            try:
                answer = reply.get(timeout=patience)
            except queue.Empty:
                raise TimeoutError(f"no reply to {line[:300]!r} within {patience} s\n{self.tail()}") from None
            if "error" in answer:
                raise DriverError(answer["error"])
            return answer["ok"]

        return wait

    def call(self, do, **fields):
        return self.begin(do, **fields)()

    def put(self, topic, body=None, **fields):
        return self.call("put", put={"topic": topic, "body": body, **fields})

    def work(self, *topics, concurrency=4, **options):
        return self.call("work", topics=topics, concurrency=concurrency, **options)

    def all_events(self, kind, **fields):
        with self.changed:
            return [event for event in self.events if event["event"] == kind and fields.items() <= event.items()]

    def event(self, kind, count=1, **fields):
        """Waits for a number of events of a kind with these fields, and returns the last of them."""
        return self._wait(f"{count} × {kind} {fields}", lambda: self.all_events(kind, **fields)[count - 1 : count])[0]

    def lines(self, *texts):
        with self.changed:
            return [line for line in self.log if all(text in line for text in texts)]

    def line(self, *texts):
        """Waits for a log line that contains all texts."""
        return self._wait(f"a log line with {texts}", lambda: self.lines(*texts))[0]

    def terminate(self):
        """Sends SIGTERM, and returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        for reader in self.readers:  # all its events have arrived when they end
            reader.join(PATIENCE)
        return status

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join(10)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def cpu(self):
        """Returns the CPU seconds of the process so far, by all its threads."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def tail(self):
        return "\n".join(["log of the driver:", *self.log[-30:], f"events: {self.events[-20:]}"])

    def _wait(self, what, holds):
        end = time.monotonic() + PATIENCE
        with self.changed:
            while not (value := holds()):
                if not self.changed.wait(end - time.monotonic()):
                    raise TimeoutError(f"the driver did not report {what}\n{self.tail()}")
            return value

    def _read_output(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "event" not in message:
                self.replies.pop(message["n"]).put(message)
                continue
            if self.on_event:
                self.on_event(message)
            with self.changed:
                self.events.append(message)
                self.changed.notify_all()

    def _read_log(self):
        for line in self.process.stderr:
            with self.changed:
                self.log.append(line.decode(errors="replace").rstrip("\n"))
                self.changed.notify_all()
