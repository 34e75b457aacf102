"""Tests the metrics, the dashboard and the alerts with a real Prometheus.

Prometheus scrapes a server on files and a server on Redis every second. After a short load, every query of the dashboard must return
data, and no alert may keep firing. Then each fault must raise its alert. tests/prometheus/run starts this program.
"""

import http.client, http.server, json, os, pathlib, re, signal, socket, subprocess, tempfile, threading, time, urllib.parse

ROOT = pathlib.Path(__file__).parent.parent.parent
PROMETHEUS, PROMTOOL, PROGRAM = (os.environ[name] for name in ["PROMETHEUS", "PROMTOOL", "PROGRAM"])
RULES = ROOT / "contrib/prometheus/alerts.yml"
DASHBOARD = ROOT / "contrib/grafana/delay-queue.json"
# Seconds until a condition must hold, long enough for a busy machine.
PATIENCE = 180


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def until(what, holds):
    """Repeats the check until it holds, and returns its value."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if found := holds():
                return found
            why = "no"
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = error
        assert time.monotonic() < end, f"{what}: not within {PATIENCE} s: {why}"
        time.sleep(0.2)


class Processes:
    """Child processes. All of them are stopped by their ids at the end of the `with` block."""

    def __init__(self):
        self.all = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.all:
            process.kill()
        for process in self.all:
            process.wait()

    def start(self, arguments, folder, **environment):
        command = ["setpriv", "--pdeathsig", "KILL", *map(str, arguments)]
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | environment)
        self.all.append(process)
        return process


def call(port, method, path, body=None, timeout=30):
    """Returns the status and the JSON of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None
    finally:
        connection.close()


def ready(port):
    return until("the server is ready", lambda: call(port, "GET", "/readyz")[0] == 200)


def put(port, topic, **fields):
    status, answer = call(port, "POST", "/jobs", {"topic": topic, **fields})
    assert status == 201, answer


class Endpoint(http.server.ThreadingHTTPServer):
    """An endpoint of pushes, which answers each request with `status`."""

    daemon_threads = True

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(self.server.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.status = 200
        self.url = f"http://127.0.0.1:{self.server_port}/hooks"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Files:
    """Runs a server on files, with a movable clock: on a small separate disk if the system lets us mount one."""

    def __init__(self, processes, folder):
        self.folder, self.port = folder, free_port()
        library, self.offset = folder / "shifted_clock.so", folder / "offset"
        source = ROOT / "tests/it/support/shifted_clock.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
        self.set_clock(0)
        (folder / "disk").mkdir()
        # The store's reserve for a full disk, 8 MiB, is less than a tenth of the disk.
        mount = "mount -t tmpfs -o size=128m tmpfs disk"
        self.is_small = subprocess.run(["unshare", "-rm", "sh", "-c", mount], cwd=folder, stderr=subprocess.DEVNULL).returncode == 0
        command = [PROGRAM, "--listen", f"127.0.0.1:{self.port}", "--store", "file:./disk/data"]
        if self.is_small:
            command = ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh", *command]
        environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(self.offset), "DELAY_QUEUE__PUSH__ALLOWED_NETWORKS": "127.0.0.0/8"}
        processes.start(command, folder, **environment)
        ready(self.port)

    def set_clock(self, seconds):
        new = self.folder / "new"
        new.write_text(str(seconds))
        new.rename(self.offset)

    def fill(self):
        for n in range(2000):
            if call(self.port, "POST", "/jobs", {"topic": "large", "delay": "1d", "body": "x" * 250_000})[0] == 507:
                return
        raise AssertionError("the disk does not fill up")


class Redis:
    """Runs a server on a Redis."""

    def __init__(self, processes, folder):
        self.processes, self.folder = processes, folder
        self.port, self.redis_port = free_port(), free_port()
        self.begin()
        self.server = processes.start([PROGRAM, "--listen", f"127.0.0.1:{self.port}", "--store", f"redis://127.0.0.1:{self.redis_port}/"], folder)
        ready(self.port)

    def begin(self):
        """Starts a Redis without data."""
        folder = tempfile.mkdtemp(dir=self.folder)
        self.redis = self.processes.start(["redis-server", "--bind", "127.0.0.1", "--port", self.redis_port, "--save", "", "--appendonly", "yes"], folder)
        until("redis-server answers", lambda: socket.create_connection(("127.0.0.1", self.redis_port)).close() is None)

    def kill_redis(self):
        self.redis.kill()
        self.redis.wait()


class Prometheus:
    def __init__(self, processes, folder, jobs):
        """Starts a Prometheus that scrapes `jobs`, ports by name. It uses our alert rules with shorter waits."""
        rules = RULES.read_text()
        rules, waits = re.subn(r"for: \d+m", "for: 1s", rules)
        rules, ages = re.subn(r"_seconds\) > 300", "_seconds) > 3", rules)
        assert waits >= 7 and ages == 1, (waits, ages)
        (folder / "rules.yml").write_text(rules)
        scrapes = "".join(f"  - job_name: {name}\n    static_configs: [{{ targets: ['127.0.0.1:{port}'] }}]\n" for name, port in jobs.items())
        config = f"global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\nrule_files: [rules.yml]\nscrape_configs:\n{scrapes}"
        (folder / "prometheus.yml").write_text(config)
        self.port = free_port()
        processes.start([PROMETHEUS, "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", f"--web.listen-address=127.0.0.1:{self.port}"], folder)
        until("Prometheus is ready", lambda: self.query("up"))

    def query(self, expression):
        status, answer = call(self.port, "GET", "/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        assert status == 200, f"{expression}: {answer}"
        return answer["data"]["result"]

    def firing(self):
        return {(series["metric"]["job"], series["metric"]["alertname"]) for series in self.query('ALERTS{alertstate="firing"}')}


class Load:
    """Producers and consumers that use a server until they are stopped."""

    def __init__(self, port):
        self.port, self.stopping = port, threading.Event()
        self.failed = []
        self.threads = [threading.Thread(target=self.run, args=[part]) for part in [self.produce, self.consume]]
        for thread in self.threads:
            thread.start()

    def run(self, part):
        try:
            while not self.stopping.is_set():
                part()
        except BaseException as error:
            self.failed.append(error)

    def produce(self):
        jobs = [{"topic": topic, "delay": delay / 10, "max_attempts": 0} for topic in ["orders", "mail", "pushed"] for delay in range(5)]
        status, _ = call(self.port, "POST", "/batch/jobs", {"jobs": jobs})
        assert status == 200
        call(self.port, "GET", "/jobs/none")
        time.sleep(0.1)

    def consume(self):
        _, popped = call(self.port, "GET", "/topics/orders,mail/pop?count=100&wait=1s")
        held = [{"id": job["id"], "reservation": job["reservation"]} for job in popped["jobs"]]
        if held:
            call(self.port, "POST", "/batch/release", {"jobs": [held[0] | {"delay": 0.1}]})
            call(self.port, "POST", "/batch/finish", {"jobs": held[1:]})

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        assert not self.failed, self.failed
        drained = lambda: not call(self.port, "POST", "/topics/orders,mail/pop", {"count": 100, "wait": 1})[1]["jobs"]
        until("all jobs are finished", lambda: self.consume() or drained())


def dashboard_queries():
    """Returns the title of each panel and its queries, with each variable replaced by a pattern that matches all values."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    values = {"$__rate_interval": "10s", "$job": "delay-queue", "$instance": ".*", "$topic": ".*"}
    for panel in panels:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in values.items():
                expression = expression.replace(name, value)
            assert "$" not in expression, f"{panel['title']}: {expression}"
            yield panel["title"], expression


def check_dashboard(prometheus):
    queries = list(dashboard_queries())
    assert len(queries) > 30, len(queries)
    for title, expression in queries:
        has_data = lambda: [s for s in prometheus.query(expression) if s["value"][1] != "NaN"]
        until(f"{title!r} has data: {expression}", has_data)
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    for variable in variables:
        if variable["type"] == "query":
            selector = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            query = selector[1].replace("$job", "delay-queue")
            series = until(f"{variable['name']} has data", lambda: prometheus.query(query))
            assert all(selector[2] in s["metric"] for s in series), variable["name"]
    print(f"{len(queries)} queries of the dashboard have data")


def raises(prometheus, job, alerts, what, meanwhile=lambda: None):
    """Waits until a fault has raised its alerts."""
    begin = time.monotonic()

    def all_fire():
        meanwhile()
        return {(job, alert) for alert in alerts} <= prometheus.firing()

    until(f"{what} raises {alerts}", all_fire)
    print(f"{what}: {', '.join(alerts)} after {time.monotonic() - begin:.0f} s")


def check_alerts(prometheus, files, redis, endpoint):
    own, others = "delay-queue", "delay-queue-on-redis"
    put(files.port, "idle")
    raises(prometheus, own, ["DelayQueueOldestReadyTooOld"], "a topic without consumers")

    put(files.port, "bad", id="bad")
    _, popped = call(files.port, "GET", "/topics/bad/pop?wait=5s")
    seen = f'delay_queue_jobs_died_total{{job="{own}",topic="bad"}}'
    until("Prometheus has scraped the topic before its job dies", lambda: prometheus.query(seen))
    assert call(files.port, "POST", "/jobs/bad/bury", {"reservation": popped["jobs"][0]["reservation"]})[0] == 200
    raises(prometheus, own, ["DelayQueueDeadGrowing"], "a job that died")

    assert call(files.port, "PUT", "/topics/moving", {"dead_to": "moved"})[0] == 200
    put(files.port, "moving", id="moving")
    _, popped = call(files.port, "GET", "/topics/moving/pop?wait=5s")
    seen = f'delay_queue_jobs_moved_total{{job="{own}",topic="moving"}}'
    until("Prometheus has scraped the topic before its job moves", lambda: prometheus.query(seen))
    assert call(files.port, "POST", "/jobs/moving/bury", {"reservation": popped["jobs"][0]["reservation"]})[0] == 200
    raises(prometheus, own, ["DelayQueueDeadMoving"], "a job that moved")

    endpoint.status = 503
    for _ in range(10):
        put(files.port, "pushed", max_attempts=0)
    raises(prometheus, own, ["DelayQueuePushTargetFailing"], "an endpoint that answers 503")

    if files.is_small:
        files.fill()
        raises(prometheus, own, ["DelayQueueDiskNearlyFull", "DelayQueueStoreFull"], "a full disk")
    else:
        print("SKIPPED: the alerts on a full disk, since no small disk can be mounted here")

    files.set_clock(3600)
    raises(prometheus, own, ["DelayQueueClockJumped", "DelayQueueDueJobsNotMoving"], "a clock that jumps over due times")

    redis.kill_redis()
    fail = lambda: call(redis.port, "POST", "/jobs", {"topic": "t"})
    alerts = ["DelayQueueStoreUnfit", "DelayQueueBucketsUnavailable", "DelayQueueRequestsFailing"]
    raises(prometheus, others, alerts, "an unavailable Redis", fail)

    redis.begin()
    raises(prometheus, others, ["DelayQueueDataLost"], "a Redis that restarted without its data")

    redis.server.send_signal(signal.SIGTERM)
    raises(prometheus, others, ["DelayQueueDown"], "a server that has ended")
    # The server believes the new clock after a minute. On a full disk, it puts no job either.
    raises(prometheus, own, ["DelayQueueSchedulesMissed"], "a clock that jumps over instants")
    every = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    skipped = set() if files.is_small else {"DelayQueueDiskNearlyFull", "DelayQueueStoreFull"}
    # Alerts that were raised, and have ended meanwhile.
    raised = skipped | set(alerts) | {"DelayQueueDueJobsNotMoving"}

    def all_raised():
        raised.update(alert for _, alert in prometheus.firing())
        return every <= raised

    until("a fault raises each alert", all_raised)


def main():
    subprocess.run([PROMTOOL, "check", "rules", RULES.name], cwd=RULES.parent, check=True)
    subprocess.run([PROMTOOL, "test", "rules", "alerts_test.yml"], cwd=RULES.parent, check=True)
    with tempfile.TemporaryDirectory(prefix="delay-queue-prometheus-") as folder, Processes() as processes:
        folders = [pathlib.Path(folder, name) for name in ["files", "redis", "prometheus"]]
        for each in folders:
            each.mkdir()
        files, redis = Files(processes, folders[0]), Redis(processes, folders[1])
        prometheus = Prometheus(processes, folders[2], {"delay-queue": files.port, "delay-queue-on-redis": redis.port})
        metrics = subprocess.run(["curl", "-sf", f"http://127.0.0.1:{files.port}/metrics"], check=True, stdout=subprocess.PIPE).stdout
        subprocess.run([PROMTOOL, "check", "metrics"], input=metrics, check=True)
        put(redis.port, "t", delay="1d")
        put(files.port, "later", delay="30m")
        put(files.port, "paused")
        assert call(files.port, "POST", "/topics/paused/pause")[0] == 200
        assert call(files.port, "PUT", "/schedules/tick", {"topic": "paused", "every": "1s"})[0] == 201
        endpoint = Endpoint()
        assert call(files.port, "PUT", "/topics/pushed/push", {"url": endpoint.url})[0] == 201
        load = Load(files.port)
        try:
            check_dashboard(prometheus)
            # A machine that stalls raises some for a moment, but not again and again.
            end, quiet = time.monotonic() + 40, time.monotonic()
            while time.monotonic() - quiet < 8:
                if firing := prometheus.firing():
                    print(f"firing without a fault: {firing}")
                    assert time.monotonic() < end, firing
                    quiet = time.monotonic()
                time.sleep(0.5)
        finally:
            load.stop()
        print("no alert keeps firing on servers without faults")
        check_alerts(prometheus, files, redis, endpoint)


main()
