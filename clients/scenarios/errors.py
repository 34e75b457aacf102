"""Wrong URLs and tokens, signatures and the fake."""

import base64
import hashlib
import hmac
import http.server
import subprocess
import threading

from scenario import scenario
from server import PROGRAM


@scenario
def wrong_url(s):
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            content, id = b"<html>welcome</html>", self.path.rsplit("/", 1)[1]
            self.send_response(int(id) if id.isdigit() else 404)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
    s.stack.callback(other.server_close)
    s.stack.callback(other.shutdown)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{other.server_port}"
    driver = s.another_driver(url)
    for status in ("200", "302", "404"):
        assert url in s.fails("protocol", driver.call, "get", id=status).message
    driver.work(s.topic)
    error = driver.event("worker_ended")["error"]
    assert error["kind"] == "protocol" and url in error["message"], error
    assert driver.terminate() == 0
    for wrong in ("127.0.0.1:9277", "ftp://127.0.0.1", "not a url"):
        driver = s.another_driver(wrong)
        assert wrong in s.fails("usage", driver.put, s.topic, 1).message


@scenario
def wrong_token(s):
    server = secured(s)
    for token, status in ((token_of(), 401), (limited(server), 403)):
        driver = s.another_driver(s.proxy.url, token)
        error = s.fails("refused", driver.put, s.topic, 1)
        assert error.status == status, vars(error)
        driver.work(s.topic)
        error = driver.event("worker_ended")["error"]
        assert error["kind"] == "refused" and error["status"] == status and "token" in error["message"], error


@scenario
def revoked_token_is_logged(s):
    server = secured(s)
    scopes = {"name": "worker", "scopes": {"pop": [s.topic]}}
    token = server.call("POST", "/tokens", scopes)["token"]
    driver = s.another_driver(s.proxy.url, token)
    driver.work(s.topic, wait=1)
    server.gone(server.put(s.topic))
    server.call("DELETE", "/tokens/worker")
    driver.line("unauthenticated")
    s.proxy.wait_for(
        "three refused pops", lambda proxy: [seen.result for seen in proxy.requests("GET", "/pop")].count(401) >= 3
    )
    assert len(driver.lines("unauthenticated")) == 1, driver.log
    assert not driver.all_events("worker_ended")


def secured(s):
    """Starts a server that wants tokens."""
    server = s.own_server(token=token_of())
    scopes = {scope: ["*"] for scope in ("admin", "put", "read")}
    server.token = server.call("POST", "/tokens", {"name": "admin", "scopes": scopes})["token"]
    return server


def limited(server):
    """Returns a token that can neither put nor pop."""
    return server.call("POST", "/tokens", {"name": "reader", "scopes": {"read": ["*"]}})["token"]


def token_of():
    """Returns a new token, which only the server that starts with it knows."""
    text = subprocess.run([PROGRAM, "token", "generate"], check=True, capture_output=True, text=True).stdout
    return next(word for word in text.split() if word.startswith("dq_"))


def signed(secret, id, time, body):
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"{id}.{time}.".encode() + body.encode(), hashlib.sha256)
    return "v1," + base64.b64encode(mac.digest()).decode()


@scenario
def signatures(s):
    old, new, other = ("whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2, 3))
    body, now = '{"text":"é€😀"}', 1_800_000_000
    both = f"v1a,x {signed(new, 'm1', now, body)} {signed(old, 'm1', now, body)}"
    headers = {"Webhook-Id": "m1", "WEBHOOK-TIMESTAMP": str(now), "webhook-signature": both}

    def verify(secrets, headers=headers, body=body, now=now):
        return s.driver.call("verify", secrets=secrets, headers=headers, body=body, now=now)

    for secrets in ([old], [new], [other, new]):
        assert verify(secrets) is True
    for late in (-300, 300):
        assert verify([new], now=now + late) is True
    for late in (-301, 301):
        s.fails("signature", verify, [new], now=now + late)
    s.fails("signature", verify, [other])
    s.fails("signature", verify, [new], body=body + " ")
    s.fails("signature", verify, [new], headers={**headers, "Webhook-Id": "m2"})
    s.fails("signature", verify, [new], headers={**headers, "WEBHOOK-TIMESTAMP": "soon"})
    for name in headers:
        s.fails("signature", verify, [new], headers={key: value for key, value in headers.items() if key != name})
    for secrets in ([], ["abc"], ["whsec_%%%"]):
        s.fails("usage", verify, secrets)


@scenario
def fake(s):
    def put(id, **fields):
        return {"put": {"topic": "t", "id": id, **fields}}

    steps = [
        put("a", delay=5, body={"then": "raise", "text": "no"}, backoff=[1]),
        put("b", body={"then": "snooze", "delay": 2}, max_attempts=1),
        put("c", body={"then": "finish", "value": {"x": 1}}, finished_retention=60),
        put("d", body={"then": "bury", "reason": "never"}, priority=9),
        put("a"),
        {"run": True},
        {"get": "c"}, {"get": "d"}, {"get": "b"},
        {"advance": 2}, {"run": True},
        {"advance": 3}, {"run": True}, {"get": "a"},
        {"advance": 1}, {"run": True}, {"get": "a"},
        {"cancel": "a"}, {"cancel": "zzz"}, {"cancel": "b"},
        {"advance": 60}, {"get": "c"},
    ]  # fmt: skip
    results = iter(s.driver.call("fake", steps=steps))
    assert [next(results)["state"] for _ in range(4)] == ["delayed", "ready", "ready", "ready"]
    assert next(results)["error"]["code"] == "job_exists"
    ran = [("d", 1, "buried"), ("b", 1, "snoozed"), ("c", 1, "finished")]
    assert runs(next(results)) == ran
    c, d, b = (next(results) for _ in range(3))
    assert c["state"] == "finished" and c["result"] == {"x": 1}, c
    assert d["state"] == "dead" and "never" in d["error"], d
    assert b["state"] == "delayed" and b["attempt"] == 0, b
    assert (next(results), runs(next(results))) == (None, [("b", 1, "snoozed")])
    assert (next(results), runs(next(results))) == (None, [("b", 1, "snoozed"), ("a", 1, "released")])
    a = next(results)
    assert a["state"] == "delayed" and a["attempt"] == 1 and "no" in a["error"], a
    assert (next(results), runs(next(results))) == (None, [("a", 2, "released")])
    assert next(results)["state"] == "dead"
    assert next(results)["error"]["code"] == "wrong_state"
    assert next(results) is None
    assert next(results) == {"id": "b", "state": "delayed"}
    assert (next(results), next(results)) == (None, None)


def runs(ran):
    return [(one["id"], one["attempt"], one["outcome"]) for one in ran]
