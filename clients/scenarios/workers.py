"""Pops, handlers and how attempts end."""

import datetime
import threading

from scenario import scenario
from server import PATIENCE, until


@scenario
def handlers_by_topic(s):
    first, second = f"{s.topic}.a", f"{s.topic}.b"
    ids = {s.server.put(topic): topic for topic in (first, second)}
    s.driver.work(first, second)
    for id, topic in ids.items():
        assert s.driver.event("started", id=id)["topic"] == topic
        s.server.gone(id)
    assert {seen.path for seen in s.proxy.requests("GET", "/pop")} == {f"/topics/{first},{second}/pop"}


@scenario
def pops_fill_the_free_slots(s):
    ids = [s.server.put(s.topic, {"gate": f"g{n}"}) for n in range(7)]
    s.driver.work(s.topic, concurrency=3, wait=7)
    s.driver.event("started", count=3)
    first = s.proxy.wait_for_requests("GET", "/pop")[0]
    assert first.query["count"] == "3" and first.query["wait"] in ("7", "7s", "7000ms", "7.000", "7.000s"), first
    for n in range(7):
        assert len(s.driver.all_events("started")) <= 3 + n
        s.driver.call("open", gate=f"g{n}")
        s.server.gone(ids[n])
    assert all(1 <= int(seen.query["count"]) <= 3 for seen in s.proxy.requests("GET", "/pop"))


@scenario
def pop_survives_a_hanging_server(s):
    s.proxy.rule("GET", "/pop", "hang")
    s.driver.work(s.topic, wait=0)
    id = s.server.put(s.topic)
    s.driver.event("started", id=id)
    hung, next_pop = s.proxy.requests("GET", "/pop")[:2]
    assert next_pop.at - hung.at > 2, "the time-out is not above the wait"


@scenario
def consumer_names_the_process(s):
    id = s.server.put(s.topic, {"gate": "g"})
    s.driver.work(s.topic)
    s.driver.event("started", id=id)
    consumer = s.server.job(id)["consumer"]
    assert consumer.endswith(f":{s.driver.pid}") and len(consumer) > len(str(s.driver.pid)) + 1, consumer


@scenario
def traceparent_reaches_the_handler(s):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    id = s.driver.put(s.topic, traceparent=trace, headers={"X-Shop": "7"})["id"]
    s.driver.work(s.topic)
    event = s.driver.event("started", id=id)
    assert event["traceparent"] == trace and event.get("headers") == {"X-Shop": "7"}, event


@scenario
def result_is_kept(s):
    value = {"reached": True, "text": "é€😀", "list": [1, 2.5, None]}
    id = s.server.put(s.topic, {"then": "finish", "value": value}, finished_retention=60)
    s.driver.work(s.topic)
    job = s.server.ended(id)
    assert job["state"] == "finished" and job["result"] == value, job


@scenario
def result_that_is_not_kept(s):
    s.driver.work(s.topic)
    for _ in range(2):
        s.server.gone(s.server.put(s.topic, {"then": "finish", "value": 1}))
    s.driver.line("without its result", s.topic)
    assert len(s.driver.lines("without its result")) == 1, s.driver.log
    large = s.server.put(s.topic, {"then": "finish", "value": "x" * 70_000}, finished_retention=60)
    job = s.server.ended(large)
    assert job["state"] == "finished" and "result" not in job, job


@scenario
def result_that_cannot_be_encoded(s):
    id = s.server.put(s.topic, {"then": "unencodable"}, finished_retention=60)
    s.driver.work(s.topic)
    job = s.server.ended(id)
    assert job["state"] == "finished" and "result" not in job, job
    s.driver.line(id, "result")
    s.server.gone(s.server.put(s.topic))


@scenario
def error_releases_by_backoff(s):
    id = s.server.put(s.topic, {"then": "raise", "text": "the shop does not answer"}, backoff=[1, 3600])
    s.driver.work(s.topic)
    s.driver.event("ended", id=id, attempt=2)
    job = s.server.becomes(id, "delayed")
    assert job["attempt"] == 2 and "the shop does not answer" in job["error"], job
    began, again = (entry["ended_at"] for entry in job["history"])
    waited = datetime.datetime.fromisoformat(job["due_at"]) - datetime.datetime.fromisoformat(again)
    assert datetime.timedelta(minutes=59) < waited < datetime.timedelta(minutes=61), job
    assert began < again


@scenario
def long_error_is_cut(s):
    id = s.server.put(s.topic, {"then": "raise", "text": "€" * 3000}, max_attempts=1)
    s.driver.work(s.topic)
    job = s.server.ended(id)
    assert job["state"] == "dead" and "€€€" in job["error"], job
    assert 4000 < len(job["error"].encode()) <= 4096 and "�" not in job["error"], len(job["error"].encode())


@scenario
def bury_makes_dead(s):
    id = s.server.put(s.topic, {"then": "bury", "reason": "no such order"})
    s.driver.work(s.topic)
    job = s.server.ended(id)
    assert job["state"] == "dead" and "no such order" in job["error"] and job["attempt"] == 1, job


@scenario
def snooze_costs_no_attempt(s):
    id = s.server.put(s.topic, {"then": "snooze", "delay": 1800}, max_attempts=1)
    s.driver.work(s.topic)
    s.driver.event("ended", id=id)
    job = s.server.becomes(id, "delayed")
    assert job["attempt"] == 0 and job["history"][0]["counted"] is False, job
    ended, due = (datetime.datetime.fromisoformat(text) for text in (job["history"][0]["ended_at"], job["due_at"]))
    assert datetime.timedelta(minutes=29) < due - ended < datetime.timedelta(minutes=31), job


@scenario
def handler_throws_anything(s):
    id = s.server.put(s.topic, {"then": "throw"}, max_attempts=1)
    s.driver.work(s.topic)
    job = s.server.ended(id)
    assert job["state"] == "dead" and job["error"], job
    s.server.gone(s.server.put(s.topic))


@scenario
def body_that_does_not_fit_is_buried(s):
    good = s.server.put(s.topic, {"order": "o1", "amount": 3})
    bad = [s.server.put(s.topic, {"order": 5, "amount": 3}), s.server.put(s.topic, {"order": "o1", "amount": "x"})]
    nothing = s.server.put(s.topic, None)
    s.driver.work(s.topic, types=True)
    s.server.gone(good)
    for id, field in zip(bad, ("order", "amount"), strict=True):
        job = s.server.ended(id)
        assert job["state"] == "dead" and field in job["error"], job
    assert s.server.ended(nothing)["state"] == "dead"
    s.driver.event("started", id=good)
    assert {event["id"] for event in s.driver.all_events("started")} == {good}


@scenario
def finishes_are_gathered(s):
    ids = [s.server.put(s.topic, {"gate": "g"}) for _ in range(20)]
    s.driver.work(s.topic, concurrency=20)
    s.driver.event("started", count=20)
    held = s.proxy.rule("POST", "/batch/finish", "hold")
    s.driver.call("open", gate="g")
    s.driver.event("ended", count=20)
    s.proxy.wait_for("a finish", lambda proxy: proxy.requests("POST", "/batch/finish"))
    s.proxy.lift(held)
    for id in ids:
        s.server.gone(id)
    sizes = [len(seen.json["jobs"]) for seen in s.proxy.requests("POST", "/batch/finish")]
    assert sum(sizes) == 20 and len(sizes) <= 10, sizes  # the last handlers may return after the first answer


@scenario
def many_jobs_in_order_of_a_busy_worker(s):
    """A thousand jobs with a few slots: each runs once."""
    puts = [{"topic": s.topic, "body": n} for n in range(1000)]
    ids = {result["ok"]["id"] for result in s.driver.call("put_many", puts=puts)}
    ended, done = [], threading.Event()

    def note(event):
        if event["event"] == "ended":
            ended.append(event["id"])
            if len(ended) == 1000:
                done.set()

    s.driver.on_event = note
    s.driver.work(s.topic, concurrency=8)
    assert done.wait(PATIENCE), len(ended)
    assert set(ended) == ids
    until("all are finished", lambda: not any(s.server.counts(s.topic)[state] for state in ("ready", "reserved")))
