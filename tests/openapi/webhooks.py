"""Sends pushes of one job and of a batch, and verifies their signatures with standardwebhooks."""

import base64
import http.server
import os
import queue
import threading

from server import call, started
from standardwebhooks import Webhook, WebhookVerificationError

SECRETS = ["whsec_" + base64.b64encode(os.urandom(size)).decode() for size in (24, 64)]
OTHER = "whsec_" + base64.b64encode(bytes(32)).decode()
requests = queue.Queue()


class Endpoint(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        requests.put((dict(self.headers.items()), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def verified(expected):
    headers, body = requests.get(timeout=60)
    for secret in SECRETS:
        assert Webhook(secret).verify(body, headers) == expected, body
    for secret, text in [(OTHER, body), (SECRETS[0], body + b" ")]:
        try:
            Webhook(secret).verify(text, headers)
        except WebhookVerificationError:
            continue
        raise AssertionError("another secret or body was accepted")
    return {name.lower(): value for name, value in headers.items()}


endpoint = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
threading.Thread(target=endpoint.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{endpoint.server_port}/hook"
with started("file", push__allowed_networks="127.0.0.0/8") as (base, token):
    call("PUT", f"{base}/topics/one/push", {"url": url, "secrets": SECRETS}, token)
    put = {"topic": "one", "id": "o:1", "body": {"text": "é€😀"}, "max_attempts": 0}
    call("POST", f"{base}/jobs", put, token)
    first = verified({"text": "é€😀"})
    assert first["webhook-id"] != "o:1", first

    call("PUT", f"{base}/topics/many/push", {"url": url, "secrets": SECRETS, "batch": {"max": 2, "linger": 10}}, token)
    call("POST", f"{base}/batch/jobs", {"jobs": [{"topic": "many", "id": "m", "body": 1.5}, {"topic": "other"}]}, token)
    call("POST", f"{base}/jobs", {"topic": "many", "id": "n", "body": "x", "delay": 1}, token)
    headers, body = requests.get(timeout=60)
    jobs = Webhook(SECRETS[0]).verify(body, headers)["jobs"]
    assert [(job["id"], job["body"]) for job in jobs] == [("m", 1.5), ("n", "x")], jobs

    # Without secrets there is no signature.
    call("PUT", f"{base}/topics/one/push", {"url": url, "secrets": []}, token)
    call("POST", f"{base}/jobs", {"topic": "one"}, token)
    headers, _ = requests.get(timeout=60)
    assert "webhook-signature" not in {name.lower() for name in headers}, headers
print("standardwebhooks verified the signatures of pushes")
