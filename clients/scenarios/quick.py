"""The scenario of tests/run: workers and the server are killed and stopped under load."""

import collections
import datetime
import threading

from scenario import scenario
from server import PATIENCE, until

JOBS = 400
TTR = 10
UNFINISHED = ("delayed", "ready", "reserved", "dead")


@scenario
def workers_survive_kills_and_stops(s):
    """Each job runs, none before it is due; a second run needs a kill. No job waits for its TTR after SIGTERM."""
    server = s.own_server()
    puts = [
        {
            "topic": s.topic,
            "id": f"q:{n}",
            "body": {"after": 0.05},
            "delay": n % 10 * 0.2,
            "ttr": TTR,
            "max_attempts": 0,
            "finished_retention": 3600,
        }
        for n in range(JOBS)
    ]
    results = s.driver.call("put_many", puts=puts)
    assert all("ok" in result for result in results), results
    runs, changed = collections.Counter(), threading.Condition()

    def note(event):
        if event["event"] == "ended":
            with changed:
                runs[event["id"]] += 1
                changed.notify_all()

    def wait_for(count):
        with changed:
            assert changed.wait_for(lambda: len(runs) >= count, PATIENCE), f"{len(runs)} of {count} jobs have run"

    def worker():
        driver = s.another_driver(server.url)  # without the proxy, which could stall with an answer
        driver.on_event = note
        driver.work(s.topic, concurrency=8)
        return driver

    stopped, killed, last = worker(), worker(), worker()
    wait_for(JOBS // 8)
    assert stopped.terminate() == 0, stopped.tail()

    def held():
        reserved = server.call("GET", f"/topics/{s.topic}/jobs?state=reserved")["jobs"]
        return [job["id"] for job in reserved if job["consumer"].endswith(f":{stopped.pid}")]

    # The server may still be giving back what the worker did not take.
    until("the stopped worker holds no job", lambda: not held())
    wait_for(JOBS // 4)
    killed.process.kill()
    wait_for(JOBS // 3)
    server.kill()
    server.start()
    wait_for(JOBS)
    # The jobs of the killed worker that ended without a finish run again after their TTR.
    until("all jobs are finished", lambda: not any(server.counts(s.topic)[state] for state in UNFINISHED))
    last.call("stop")
    history = [run for n in range(JOBS) for run in server.job(f"q:{n}")["history"]]
    of_stopped = [run for run in history if run.get("consumer", "").endswith(f":{stopped.pid}")]
    assert {run["outcome"] for run in of_stopped} <= {"finished", "released"}, of_stopped
    # Only jobs in hand at a kill may run again: those of the killed worker, and those of all workers at the server's.
    twice = [id for id, count in runs.items() if count > 1]
    assert len(twice) <= 24 and max(runs.values()) <= 3, runs
    events = [event for driver in (stopped, killed, last) for event in driver.all_events("started")]
    early = [event for event in events if event["at"] < milliseconds(event["due_at"])]
    assert not early, early


def milliseconds(text):
    """Returns a time of the API in Unix milliseconds."""
    return datetime.datetime.fromisoformat(text).timestamp() * 1000
