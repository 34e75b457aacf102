"""SIGTERM and stop."""

import threading

from scenario import scenario
from server import PATIENCE, until


@scenario
def stop_waits_for_handlers(s):
    id = s.server.put(s.topic, {"gate": "g"}, ttr=9)
    s.driver.work(s.topic, grace=50)
    s.driver.event("started", id=id)
    stopped = s.driver.begin("stop")
    s.proxy.wait_for("the end of the pop", lambda proxy: proxy.requests("GET", "/pop")[-1].result is not None)
    touches = len(s.proxy.requests("POST", "/touch"))
    s.proxy.wait_for_requests("POST", "/touch", touches + 4)  # longer than the TTR
    s.driver.call("open", gate="g")
    stopped()
    s.driver.event("worker_ended")
    assert s.server.job(id) is None
    assert not s.driver.all_events("cancelled")
    other = s.server.put(s.topic)
    assert s.server.job(other)["state"] == "ready"


@scenario
def stop_gives_back_after_the_grace(s):
    ids = [s.server.put(s.topic, {"gate": "never"}, ttr=3600, max_attempts=1, backoff=[3600]) for _ in range(3)]
    s.driver.work(s.topic, grace=0.2)
    s.driver.event("started", count=3)
    assert s.driver.terminate() == 0
    s.driver.event("cancelled", count=3)
    for id in ids:
        job = s.server.job(id)
        assert job["state"] == "ready" and job["attempt"] == 0, job


@scenario
def stop_aborts_the_pop(s):
    s.driver.work(s.topic, wait=20)
    s.proxy.wait_for("a pop", lambda proxy: proxy.requests("GET", "/pop"))
    assert s.driver.terminate() == 0
    s.proxy.wait_for("the aborted pop", lambda proxy: proxy.requests("GET", "/pop")[-1].result == "aborted")
    assert s.driver.all_events("worker_ended")


@scenario
def stop_without_a_server(s):
    s.own_server()
    id = s.server.put(s.topic, {"gate": "g"})
    s.driver.work(s.topic, grace=0.5)
    s.driver.event("started", id=id)
    s.server.kill()
    s.driver.call("open", gate="g")
    s.driver.line("is unavailable")
    assert s.driver.terminate() == 0


@scenario
def sigterm_under_load(s):
    """Workers are stopped one after another under load: each job runs, and none waits for its TTR of an hour."""
    s.own_server()
    puts = [{"topic": s.topic, "body": {"after": 0.02}, "ttr": 3600} for _ in range(600)]
    ids = {result["ok"]["id"] for result in s.driver.call("put_many", puts=puts)}
    ended, enough, lock = set(), threading.Event(), threading.Lock()

    def note(event):
        with lock:
            if event["event"] == "ended":
                ended.add(event["id"])
            if len(ended) == len(ids):
                enough.set()

    # Without the proxy, which could stall with an answer while its worker ends.
    workers = [s.another_driver(s.server.url) for _ in range(4)]
    for worker in workers:
        worker.on_event = note
        worker.work(s.topic, concurrency=10, grace=0.005)
    for worker in workers[:3]:
        until("the worker is busy", lambda worker=worker: len(worker.all_events("started")) >= 30 or enough.is_set())
        assert worker.terminate() == 0, worker.tail()
    assert enough.wait(PATIENCE), f"{len(ids - ended)} jobs did not run: {s.server.counts(s.topic)}"

    def left():
        counts = s.server.counts(s.topic)
        return [counts[state] for state in ("delayed", "ready", "reserved", "dead")]

    # A job whose handler ended at the stop of its worker may run once more.
    until("all jobs are finished", lambda: not any(left()))
    workers[3].call("stop")
