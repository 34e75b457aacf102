"""Lost reservations, lost answers and outages."""

from scenario import scenario


@scenario
def touch_holds_a_long_job(s):
    id = s.server.put(s.topic, {"gate": "g"}, ttr=9)
    s.driver.work(s.topic)
    s.driver.event("started", id=id)
    touches = s.proxy.wait_for_requests("POST", "/touch", 4)  # longer than the TTR
    assert {touch.result for touch in touches} == {200}, touches
    assert [event["attempt"] for event in s.driver.all_events("started")] == [1]
    s.driver.call("open", gate="g")
    s.server.gone(id)
    assert s.server.counts(s.topic)["ready"] == 0


def cancelled(s, id):
    """Waits until the handler is cancelled, and shows that nothing is acknowledged and the worker goes on."""
    s.driver.event("cancelled", id=id, attempt=1)
    other = s.server.put(s.topic)
    s.server.gone(other)
    sent = [seen for kind in ("finish", "release", "bury") for seen in s.proxy.requests("POST", kind)]
    assert not any(id.encode() in seen.content or id in seen.path for seen in sent), sent


@scenario
def deleted_job_cancels_its_handler(s):
    id = s.server.put(s.topic, {"gate": "g"}, ttr=3)
    s.driver.work(s.topic)
    s.driver.event("started", id=id)
    s.server.call("DELETE", f"/jobs/{id}")
    cancelled(s, id)


@scenario
def lost_reservation_cancels_its_handler(s):
    id = s.server.put(s.topic, {"gate": "g"}, ttr=9)
    s.driver.work(s.topic, concurrency=1)  # the next job needs its slot
    s.driver.event("started", id=id)
    s.server.call("POST", f"/jobs/{id}/release", {"delay": 3600})
    cancelled(s, id)
    assert s.server.job(id)["state"] == "delayed"


@scenario
def ttr_without_touch_cancels_the_handler(s):
    id = s.server.put(s.topic, {"gate": "g"}, ttr=2, max_attempts=1)
    s.driver.work(s.topic)
    s.driver.event("started", id=id)
    rule = s.proxy.rule("POST", "/touch", "hang", 1000)
    cancelled(s, id)
    s.proxy.lift(rule)


@scenario
def touch_is_repeated(s):
    id = s.server.put(s.topic, {"gate": "g"}, ttr=15)
    s.proxy.rule("POST", "/touch", "drop_answer", 2)
    s.driver.work(s.topic)
    s.driver.event("started", id=id)
    s.proxy.wait_for("a touch", lambda proxy: any(one.result == 200 for one in proxy.requests("POST", "/touch")))
    assert len(s.proxy.requests("POST", "/touch")) >= 3
    s.driver.call("open", gate="g")
    s.server.gone(id)
    assert not s.driver.all_events("cancelled")


@scenario
def finish_is_repeated_after_a_lost_answer(s):
    s.driver.work(s.topic)
    s.proxy.rule("POST", "/batch/finish", "drop_answer", 2)
    id = s.server.put(s.topic)
    s.driver.event("ended", id=id)
    seen = s.proxy.wait_for_requests("POST", "/batch/finish", 3)
    assert [one.result for one in seen] == ["dropped", "dropped", 200], seen
    s.server.gone(s.server.put(s.topic))
    assert not s.driver.lines("lost its reservation"), s.driver.log


@scenario
def late_finish_is_logged_as_lost(s):
    deleted, released = (s.server.put(s.topic, {"gate": "g"}, ttr=3600) for _ in range(2))
    s.driver.work(s.topic)
    s.driver.event("started", count=2)
    s.server.call("DELETE", f"/jobs/{deleted}")
    s.server.call("POST", f"/jobs/{released}/release", {"delay": 3600})
    s.driver.call("open", gate="g")
    for id in (deleted, released):
        s.driver.line(id, "lost its reservation")
    s.server.gone(s.server.put(s.topic))


@scenario
def server_goes_and_returns(s):
    s.own_server()
    s.driver.work(s.topic, wait=20)
    held = s.server.put(s.topic, {"gate": "g"}, ttr=60)
    s.driver.event("started", id=held)
    s.server.kill()
    s.driver.line("is unavailable")
    s.driver.call("open", gate="g")
    tried = len(s.proxy.seen)
    s.proxy.wait_for("more requests", lambda proxy: len(proxy.seen) >= tried + 5)
    s.server.start()
    s.driver.line("is available again")
    s.server.gone(held)
    s.server.gone(s.server.put(s.topic))
    assert len(s.driver.lines("is unavailable")) == len(s.driver.lines("is available again")) == 1, s.driver.log


@scenario
def nobody_listens(s):
    """No connection at the start is an outage, not an error."""
    s.proxy.refuse()
    s.driver.work(s.topic)
    s.driver.line("is unavailable", s.proxy.url)
    s.proxy.accept()
    s.server.gone(s.server.put(s.topic))
    assert not s.driver.all_events("worker_ended")


@scenario
def pops_wait_while_the_server_is_overloaded(s):
    problem = {"type": "about:blank", "title": "x", "status": 503, "code": "store_unavailable", "applied": "no"}
    rule = s.proxy.rule("GET", "/pop", "answer", 1000, (503, {**problem, "detail": "x"}, {"Retry-After": "1"}))
    s.driver.work(s.topic)
    first, _, third = s.proxy.wait_for_requests("GET", "/pop", 3)[:3]
    assert third.at - first.at >= 2, "Retry-After was ignored"
    s.proxy.lift(rule)
    s.server.gone(s.server.put(s.topic))
    s.driver.line("is available again")
    assert len(s.driver.lines("is unavailable")) == 1, s.driver.log
