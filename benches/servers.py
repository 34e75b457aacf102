"""Servers for measurements, on free ports of loopback and stopped by process id, and runs of `delay-queue bench`."""

import http.client, json, os, pathlib, resource, shutil, socket, subprocess, tempfile, threading, time

ROOT = pathlib.Path(__file__).parent.parent
BINARY = ROOT / "target/release/delay-queue"
# The built benches/peers, with which delay-queue is compared.
PEERS = ROOT / "target/dist/examples/peers"


def install_missing(program, package):
    """Installs a Debian package if its program is missing."""
    if shutil.which(program) is None:
        print(f"installing {package} for {program}", flush=True)
        sudo = [] if os.getuid() == 0 else ["sudo"]
        subprocess.run([*sudo, "apt-get", "update", "-qq"], check=True)
        subprocess.run([*sudo, "apt-get", "install", "-y", "-qq", "--no-install-recommends", package], check=True, stdout=subprocess.DEVNULL)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Running:
    """A process that listens on a port."""

    def __init__(self, arguments, port, cwd):
        self.port = port
        self.process = subprocess.Popen(arguments, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    return
                except OSError:
                    assert time.monotonic() < end and self.process.poll() is None, arguments
                    time.sleep(0.01)
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.kill()
        self.process.wait()

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """Returns the resident memory in bytes."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def redis(cwd, *options):
    """Starts a Redis with an append-only file, which it syncs every second by default."""
    port = free_port()
    return Running(["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--appendonly", "yes", "--save", "", "--dir", cwd, *options], port, cwd)


def redis_cli(running, *words):
    return subprocess.run(["redis-cli", "-p", str(running.port), *words], capture_output=True, text=True, check=True).stdout


def redis_info(running, section):
    """Returns the fields of a section of INFO."""
    lines = redis_cli(running, "info", section).splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def beanstalkd(cwd):
    """Starts a beanstalkd with a log, which it syncs at most every 50 ms by default."""
    port = free_port()
    return Running(["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", cwd], port, cwd)


def server(cwd, store, binary=None):
    port = free_port()
    return Running([str(binary or BINARY), "--listen", f"127.0.0.1:{port}", "--store", store], port, cwd)


class FreshServer:
    """A fresh server on one kind of store (`redis`, `cluster` or `file`), with the Redis that it needs."""

    def __init__(self, store, binary=None):
        self.folder = tempfile.TemporaryDirectory()
        self.cwd = self.folder.name
        self.nodes, self.server = [], None
        try:
            self.store = {"redis": self.single_redis, "cluster": self.cluster, "file": lambda: "file:./data"}[store]()
            self.server = server(self.cwd, self.store, binary)
        except BaseException:
            self.__exit__()
            raise

    def single_redis(self):
        self.nodes = [redis(self.cwd)]
        return f"redis://127.0.0.1:{self.redis.port}/"

    def cluster(self):
        """Starts a cluster of three masters; returns its URL."""
        for number in range(3):
            folder = pathlib.Path(self.cwd, f"node-{number}")
            folder.mkdir()
            self.nodes.append(redis(str(folder), "--cluster-enabled", "yes", "--cluster-port", str(free_port())))
        hosts = [f"127.0.0.1:{node.port}" for node in self.nodes]
        # Calls CLUSTER MEET itself, since `redis-cli --cluster create` passes the bus ports only since 7.2.
        for number, node in enumerate(self.nodes):
            first, last = 16384 * number // 3, 16384 * (number + 1) // 3 - 1
            redis_cli(node, "cluster", "addslotsrange", str(first), str(last))
            redis_cli(node, "config", "set", "cluster-node-timeout", "5000")
            bus = redis_cli(self.redis, "config", "get", "cluster-port").split()[1]
            redis_cli(node, "cluster", "meet", "127.0.0.1", str(self.redis.port), bus)
        end = time.monotonic() + 60
        while not all("cluster_state:ok" in redis_cli(node, "cluster", "info") and redis_cli(node, "cluster", "nodes").count("connected") == 3 for node in self.nodes):
            assert time.monotonic() < end, "the cluster is not complete after 60 s"
            time.sleep(0.1)
        return "redis+cluster://" + ",".join(hosts)

    @property
    def redis(self):
        return self.nodes[0] if self.nodes else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for running in [self.server, *self.nodes]:
            if running:
                running.stop()
        self.folder.cleanup()

    def disk(self):
        return sum(file.stat().st_size for file in pathlib.Path(self.cwd, "data").iterdir())


def bench(running, *options, binary=None):
    """Runs `delay-queue bench`; returns its figures by phase."""
    return figures(binary or BINARY, "bench", "--url", f"http://127.0.0.1:{running.port}", *options)


def bench_noop(*options):
    """Measures the no-op handler. Returns its requests per second, and its CPU time per request in microseconds."""
    port = free_port()
    with Running([str(PEERS), "noop", "--listen", f"127.0.0.1:{port}"], port, cwd=".") as noop:
        figures, cost = with_cpu({"server": noop}, lambda: bench(noop, *options, "--phases", "put"))
        return rate(figures, "put"), cost["server"]


class Sampled:
    """Samples of counters over time: calls `read`, which returns counters by name, every `pause` seconds within a `with` block."""

    def __init__(self, read, pause=0.02):
        self.read, self.pause = read, pause
        self.samples, self.ended = [], threading.Event()
        self.thread = threading.Thread(target=self.sample)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def sample(self):
        last = False
        while not last:
            last = self.ended.is_set()
            self.samples.append((time.time(), self.read()))
            self.ended.wait(self.pause)

    def between(self, start, end=None):
        """Returns the increase of each counter from `start` to `end`, by default to the last sample."""
        near = lambda time: min(self.samples, key=lambda sample: abs(sample[0] - time))[1]
        then, later = near(start), self.samples[-1][1] if end is None else near(end)
        return {name: count - then.get(name, 0) for name, count in later.items()}


def cpu_of_phases(processes, run):
    """Returns the CPU time per job of each process in microseconds, by phase, from the phase's first request to its last answer."""
    with Sampled(lambda: {name: running.cpu_seconds() for name, running in processes.items()}) as cpu:
        figures = run()
    used = {}
    for phase, figure in figures.items():
        seconds = cpu.between(figure["began"], figure["began"] + figure["jobs"] / figure["jobs_per_second"])
        used[phase] = {name: spent * 1e6 / figure["jobs"] for name, spent in seconds.items()}
    return used


def with_cpu(processes, run):
    """Returns the figures by phase that `run` returns, and the CPU time per job in microseconds of each process and the generator."""
    own = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    used = lambda: {"generator": own()} | {name: running.cpu_seconds() for name, running in processes.items()}
    before = used()
    figures = run()
    jobs = max(figure["jobs"] for figure in figures.values())
    return figures, {name: (seconds - before[name]) * 1e6 / jobs for name, seconds in used().items()}


def bench_beanstalkd(running, *options):
    """Runs the load on beanstalkd; returns its figures by phase."""
    return figures(PEERS, "beanstalkd", "--url", f"beanstalkd://127.0.0.1:{running.port}", *options)


def figures(program, *arguments):
    done = subprocess.run([str(program), *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {f["phase"]: f for f in json.loads(done.stdout)["figures"]}


def rate(figures, phase):
    return figures[phase]["jobs_per_second"]


class Client:
    def __init__(self, running):
        self.http = http.client.HTTPConnection("127.0.0.1", running.port, timeout=90)

    def call(self, method, path, body=None):
        self.http.request(method, path, None if body is None else json.dumps(body))
        answer = self.http.getresponse()
        text = answer.read()
        assert answer.status < 300, text
        return json.loads(text) if text else None

    def text(self, path):
        self.http.request("GET", path)
        answer = self.http.getresponse()
        assert answer.status == 200, answer.status
        return answer.read().decode()
