"""Puts, cancels, gets and topic settings."""

import datetime
import re
import time

from scenario import scenario

OVERLOADED = {"type": "about:blank", "title": "x", "status": 503, "code": "overloaded", "detail": "x", "applied": "no"}


@scenario
def put_makes_an_id(s):
    ids = [s.driver.put(s.topic, {"n": n}, delay=3600)["id"] for n in range(3)]
    assert len(set(ids)) == 3, ids
    for id in ids:
        assert re.fullmatch(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", id), id
    assert [s.server.job(id)["body"] for id in ids] == [{"n": 0}, {"n": 1}, {"n": 2}]


@scenario
def put_has_every_field(s):
    due = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    text = due.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    id = s.driver.put(
        s.topic, ["é", None, 1.5], id="every:1", due_at=text, ttr=90, max_attempts=7, backoff=[1, 60], priority=9,
        headers={"X-Shop": "7"}, traceparent=trace, finished_retention=3600, expires_after=7200,
    )["id"]  # fmt: skip
    job = s.server.job(id)
    assert id == "every:1" and job["due_at"] == text, job
    assert job["body"] == ["é", None, 1.5] and job["ttr"] == 90 and job["max_attempts"] == 7, job
    assert job["backoff"] == [1, 60] and job["priority"] == 9 and job["headers"] == {"X-Shop": "7"}, job
    assert job["traceparent"] == trace and job["finished_retention"] == 3600 and job["expires_after"] == 7200, job


def repeated(s, **fields):
    """Puts with a lost answer; the repetition must find the job of the first request."""
    s.proxy.rule("POST", "/jobs", "drop_answer")
    answer = s.driver.put(s.topic, {"a": 1}, delay=3600, **fields)
    first, second = s.proxy.requests("POST", "/jobs")
    assert first.json["id"] == second.json["id"] == answer["id"], (first, second, answer)
    assert answer["state"] == "delayed" and answer["topic"] == s.topic and answer["due_at"], answer
    assert s.server.counts(s.topic)["delayed"] == 1
    assert s.server.job(answer["id"])["body"] == {"a": 1}


@scenario
def put_is_repeated_after_a_lost_answer(s):
    repeated(s)


@scenario
def put_with_own_id_is_repeated_after_a_lost_answer(s):
    repeated(s, id="own:1")


@scenario
def put_refuses_a_taken_id(s):
    s.server.put(s.topic, id="taken:1", delay=3600)
    error = s.fails("refused", s.driver.put, s.topic, 1, id="taken:1")
    assert error.status == 409 and error.code == "job_exists" and error.applied == "no", vars(error)
    assert len(s.proxy.requests("POST", "/jobs")) == 1
    answer = s.driver.put(s.topic, 1, id="taken:1", on_conflict="keep")
    assert answer["state"] == "delayed", answer


@scenario
def put_names_the_wrong_field(s):
    error = s.fails("refused", s.driver.put, s.topic, 1, priority=11)
    assert error.status == 422 and error.code == "invalid_field" and error.field == "priority", vars(error)


@scenario
def put_waits_while_the_server_is_overloaded(s):
    s.proxy.rule("POST", "/jobs", "answer", 2, (503, OVERLOADED, {"Retry-After": "1"}))
    answer = s.driver.put(s.topic, delay=3600)
    first, second, third = s.proxy.requests("POST", "/jobs")
    assert second.at - first.at >= 1 and third.at - second.at >= 1, "Retry-After was ignored"
    assert third.json.get("on_conflict") is None, third
    assert s.server.job(answer["id"])


@scenario
def put_waits_for_the_server(s):
    s.proxy.refuse()
    wait = s.driver.begin("put", put={"topic": s.topic, "delay": 3600})
    s.proxy.accept()
    assert s.server.job(wait()["id"])


@scenario
def put_gives_up_after_retry_for(s):
    s.proxy.rule("POST", "/jobs", "drop_answer", 1000)
    driver = s.another_driver(retry_for=10)
    error = s.fails("unavailable", driver.put, s.topic, delay=3600)
    assert error.applied == "unknown", vars(error)
    assert len(s.proxy.requests("POST", "/jobs")) >= 2
    s.proxy.refuse()
    error = s.fails("unavailable", driver.put, s.topic)
    assert error.applied == "no", vars(error)


def gathered(s, puts, fault=None):
    """Begins puts while the answer to another put is held back. Returns the functions that wait for their replies.

    The fault is an action and an answer for the first request with several puts.
    """
    rule = s.proxy.rule("POST", "/jobs", "hold")
    waits = [s.driver.begin("put", put={"topic": s.topic, "delay": 3600})]
    s.proxy.wait_for("the first put", lambda proxy: proxy.requests("POST", "/jobs"))
    if fault:
        s.proxy.rule("POST", "/batch/jobs", fault[0], 1, fault[1])
    waits += [s.driver.begin("put", put={"topic": s.topic, "delay": 3600, **put}) for put in puts]
    assert s.driver.call("get", id="nothing:1") is None  # the driver has begun the puts before this command
    assert len(s.proxy.requests("POST", "/jobs")) == 1, "a second request is under way"
    s.proxy.lift(rule)
    return waits


@scenario
def a_lone_put_is_one_request_at_once(s):
    waits = []
    for n in range(10):
        began = time.monotonic()
        s.driver.put(s.topic, n, delay=3600)
        waits.append(s.proxy.requests("POST", "/jobs")[-1].at - began)
    seen = s.proxy.requests("POST", "/jobs")
    assert [one.path for one in seen] == ["/jobs"] * 10, seen
    assert min(waits) < 0.02, waits


@scenario
def concurrent_puts_share_requests(s):
    waits = gathered(s, [{"body": [n, "x" * 30_000]} for n in range(99)])
    answers = [wait() for wait in waits]
    assert len({answer["id"] for answer in answers}) == 100, answers
    assert [s.server.job(answer["id"])["body"][0] for answer in answers[1:]] == list(range(99))
    seen = s.proxy.requests("POST", "/jobs")
    assert len(seen) <= 10, f"{len(seen)} requests"
    assert seen[0].path == "/jobs" and seen[1].path == "/batch/jobs", seen
    for one in seen:
        assert len(one.content) < 1.1 * 2**20, len(one.content)
    assert s.server.counts(s.topic)["delayed"] == 100


@scenario
def gathered_puts_survive_a_lost_answer(s):
    waits = gathered(
        s, [{"body": n, "id": f"g:{n}"} if n % 2 else {"body": n} for n in range(50)], ("drop_answer", None)
    )
    answers = [wait() for wait in waits][1:]
    assert len({answer["id"] for answer in answers}) == 50, answers
    assert [s.server.job(answer["id"])["body"] for answer in answers] == list(range(50))
    assert s.server.counts(s.topic)["delayed"] == 51
    lost = s.proxy.requests("POST", "/batch/jobs")[0]
    assert lost.result == "dropped" and len(lost.json["jobs"]) > 1, lost


@scenario
def gathered_puts_have_their_own_refusals(s):
    s.server.put(s.topic, id="gathered:taken", delay=3600)
    puts = [{"id": f"gathered:{n}"} for n in range(20)]
    puts[7]["id"] = "gathered:taken"
    puts[13]["priority"] = 11
    waits = gathered(s, puts)[1:]
    assert s.proxy.wait_for("several puts", lambda proxy: proxy.requests("POST", "/batch/jobs"))
    taken, wrong = s.fails("refused", waits[7]), s.fails("refused", waits[13])
    assert taken.status == 409 and taken.code == "job_exists" and taken.applied == "no", vars(taken)
    assert wrong.status == 422 and wrong.code == "invalid_field" and wrong.field == "priority", vars(wrong)
    assert "`priority`" in wrong.message and "jobs[" not in wrong.message, wrong
    for n in set(range(20)) - {7, 13}:
        assert waits[n]()["id"] == f"gathered:{n}"
    assert s.server.counts(s.topic)["delayed"] == 20


@scenario
def gathered_puts_are_sent_alone_after_a_refusal(s):
    problem = {"type": "about:blank", "title": "x", "status": 413, "code": "body_too_large", "detail": "x"}
    answer = (413, {**problem, "applied": "no"}, {})
    waits = gathered(s, [{"id": f"alone:{n}"} for n in range(10)], ("answer", answer))[1:]
    assert [wait()["id"] for wait in waits] == [f"alone:{n}" for n in range(10)]
    refused = s.proxy.requests("POST", "/batch/jobs")[0]
    assert refused.result == 413, refused
    alone = [one.json.get("id") for one in s.proxy.seen if one.at > refused.at and one.path == "/jobs"]
    assert alone[: len(refused.json["jobs"])] == [job["id"] for job in refused.json["jobs"]], alone


@scenario
def batches_have_a_result_for_each_put(s):
    s.server.put(s.topic, id="batch:taken", delay=3600)
    puts = [{"topic": s.topic, "body": n, "delay": 3600} for n in range(1200)]
    puts[3]["id"] = "batch:taken"
    puts[1100]["priority"] = 11
    results = s.driver.call("put_many", puts=puts)
    assert len(results) == 1200
    errors = {n: result["error"] for n, result in enumerate(results) if "error" in result}
    assert errors.keys() == {3, 1100}, errors
    assert errors[3]["code"] == "job_exists" and errors[3]["kind"] == "refused", errors
    assert errors[1100]["status"] == 422 and errors[1100]["code"] == "invalid_field", errors
    assert len(s.proxy.requests("POST", "/batch/jobs")) == 2
    assert s.server.job(results[1199]["ok"]["id"])["body"] == 1199
    assert s.server.counts(s.topic)["delayed"] == 1199


@scenario
def batch_is_repeated_after_a_lost_answer(s):
    s.proxy.rule("POST", "/batch/jobs", "drop_answer")
    puts = [{"topic": s.topic, "delay": 3600}, {"topic": s.topic, "delay": 3600, "id": "lost:1"}]
    results = s.driver.call("put_many", puts=puts)
    assert all("ok" in result for result in results), results
    assert results[1]["ok"]["id"] == "lost:1"
    assert s.server.counts(s.topic)["delayed"] == 2


@scenario
def cancel_takes_waiting_jobs_only(s):
    s.server.put(s.topic, id="cancel:1", delay=3600)
    assert s.driver.call("cancel", id="cancel:1") == {"id": "cancel:1", "state": "delayed"}
    assert s.driver.call("cancel", id="cancel:1") is None
    s.server.put(s.topic, id="cancel:2")
    s.server.call("GET", f"/topics/{s.topic}/pop")
    error = s.fails("refused", s.driver.call, "cancel", id="cancel:2")
    assert error.status == 409 and error.code == "wrong_state", vars(error)
    assert s.server.job("cancel:2")["state"] == "reserved"
    s.server.put(s.topic, id="cancel:3")
    assert s.driver.call("cancel", id="cancel:3", remember=60) == {"id": "cancel:3", "state": "ready"}
    job = s.server.job("cancel:3")
    assert job["outcome"] == "deleted" and job["finished_retention"] == 60, job


@scenario
def cancel_is_repeated_after_a_lost_answer(s):
    for id, remember in (("gone:1", None), ("gone:2", 60)):
        s.server.put(s.topic, id=id, delay=3600)
        s.proxy.rule("DELETE", f"/jobs/{id}", "drop_answer")
        fields = {} if remember is None else {"remember": remember}
        answer = s.driver.call("cancel", id=id, **fields)
        assert answer == {"id": id, "state": None}, answer


@scenario
def get_waits_for_the_result(s):
    assert s.driver.call("get", id="nothing:1") is None
    id = s.server.put(s.topic, finished_retention=3600)
    assert s.driver.call("get", id=id)["state"] == "ready"
    wait = s.driver.begin("get", id=id, wait=100)
    s.proxy.wait_for("the waiting request", lambda proxy: len(proxy.requests("GET", id)) == 2)
    popped = s.server.call("GET", f"/topics/{s.topic}/pop")["jobs"][0]
    body = {"reservation": popped["reservation"], "result": {"reached": True}}
    s.server.call("POST", f"/jobs/{id}/finish", body)
    job = wait()
    assert job["state"] == "finished" and job["result"] == {"reached": True}, job
    other = s.server.put(s.topic, delay=3600)
    assert s.driver.call("get", id=other, wait=0.2)["state"] == "delayed"


@scenario
def topic_settings_are_read_and_replaced(s):
    s.driver.call("topic_set", topic=s.topic, settings={"ttr": 300, "backoff": [1, 60], "finished_retention": 60})
    topic = s.driver.call("topic_get", topic=s.topic)
    assert s.server.counts(s.topic)["defaults"]["ttr"] == 300, s.server.counts(s.topic)
    assert topic["defaults"]["ttr"] == 300 and topic["defaults"]["backoff"] == [1, 60], topic
    assert topic["topic"] == s.topic and topic["delayed"] == 0, topic
    s.driver.call("topic_set", topic=s.topic, settings={"ttr": 30})
    defaults = s.driver.call("topic_get", topic=s.topic)["defaults"]
    assert defaults["ttr"] == 30 and not defaults.get("backoff"), defaults
