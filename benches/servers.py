"""Private servers for measurements: on free ports of loopback, stopped by their process id."""

import http.client, json, os, pathlib, shutil, socket, subprocess, time

BINARY = pathlib.Path(__file__).parent.parent / "target/release/delay-queue"


def need(program, package):
    """Installs a Debian package if its program is not there."""
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
    """A process on a port, stopped by its id."""

    def __init__(self, arguments, port, cwd):
        self.port = port
        self.process = subprocess.Popen(arguments, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except OSError:
                assert time.monotonic() < end and self.process.poll() is None, arguments
                time.sleep(0.01)

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
        """Resident bytes."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def redis(cwd):
    """With an append-only file that is synced every second, its default."""
    port = free_port()
    return Running(["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--appendonly", "yes", "--save", "", "--dir", cwd], port, cwd)


def beanstalkd(cwd):
    """With its log, synced every 50 ms at most, its default."""
    port = free_port()
    return Running(["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", cwd], port, cwd)


def server(cwd, store):
    port = free_port()
    return Running([str(BINARY), "--listen", f"127.0.0.1:{port}", "--store", store], port, cwd)


class Client:
    def __init__(self, running):
        self.http = http.client.HTTPConnection("127.0.0.1", running.port, timeout=90)

    def call(self, method, path, body=None):
        self.http.request(method, path, None if body is None else json.dumps(body))
        answer = self.http.getresponse()
        text = answer.read()
        assert answer.status < 300, text
        return json.loads(text) if text else None
