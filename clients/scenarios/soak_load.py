"""The producer of the soak: orders that may be cancelled, webhooks that may fail, reminders with results."""

import datetime
import random
import threading
import time

from driver import DriverError

TOPICS = ["orders", "webhooks", "reminders"]
ATTEMPTS = 3


class Load:
    """Puts and cancels jobs, and records which of them the library reported as done."""

    def __init__(self, driver, seed):
        self.driver, self.seed = driver, seed
        self.stop, self.lock = threading.Event(), threading.Lock()
        #: By id: the topic and whether the handler always fails; when the put began and was answered, in Unix ms.
        self.put, self.calls = {}, {}
        self.cancelled, self.unknown, self.refused_cancels = {}, set(), 0
        self.failed_puts = []

    def produce(self, number):
        """Puts jobs until it is stopped."""
        random_ = random.Random(f"{self.seed}:{number}")
        while not self.stop.is_set():
            topic = random_.choice(TOPICS)
            put, fails = getattr(self, topic)(random_)
            began = time.time() * 1000
            try:
                id = self.driver.put(topic, **put)["id"]
            except DriverError as error:
                self.failed_puts.append(str(error))
                continue
            with self.lock:
                self.put[id] = (topic, fails)
                self.calls[id] = (began, time.time() * 1000)
            if topic == "orders" and random_.random() < 0.25:
                time.sleep(random_.uniform(0, 2))
                self.cancel(id)
            self.stop.wait(random_.uniform(0.05, 0.3))

    def cancel(self, id):
        try:
            answer = self.driver.call("cancel", id=id)
        except DriverError as error:
            if error.code == "wrong_state":
                self.refused_cancels += 1
            else:
                self.unknown.add(id)
            return
        with self.lock:
            if answer and answer["state"]:
                self.cancelled[id] = time.time() * 1000
            elif answer:
                self.unknown.add(id)

    def orders(self, random_):
        body = {"after": random_.uniform(0, 0.1)}
        return {"body": body, "delay": round(random_.uniform(0, 15), 3), "ttr": 5, "max_attempts": 0}, False

    def webhooks(self, random_):
        fails = random_.random() < 0.2
        body = {"then": "raise", "text": "502"} if fails else {"then": "finish"}
        # An attempt that a kill ends counts too, so only failing jobs have a limit.
        return {"body": body, "ttr": 5, "max_attempts": ATTEMPTS if fails else 0, "backoff": [0.5, 1]}, fails

    def reminders(self, random_):
        due = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=random_.uniform(0, 20))
        body = {"then": "finish", "value": {"sent": True}, "after": random_.uniform(0, 0.5)}
        text = due.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"body": body, "due_at": text, "ttr": 5, "max_attempts": 0, "finished_retention": 7200}, False
