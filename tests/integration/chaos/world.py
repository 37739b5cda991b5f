"""The processes of a run: a fake API server with its controllers, and the real operator; both in fast time."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import program

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from operator_process import BUILD, PROGRAM, SANITIZERS, clean_environment  # noqa: E402  (the path above)
from waiting import until  # noqa: E402, F401  (for the other modules here)

FACTOR = int(os.environ.get("HVD_CHAOS_FACTOR", "50"))  # how much faster than real time
ROOTS = {plural: "/api/v1" for plural in ("secrets", "services", "configmaps", "pods", "events")}
ROOTS.update(statefulsets="/apis/apps/v1", jobs="/apis/batch/v1", horovodjobs="/apis/horovod.io/v1beta1")


class ApiError(Exception):
    def __init__(self, code, body):
        super().__init__(f"HTTP {code}: {body}")
        self.code = code


class Api:
    """What users, kubelets and the test itself send: never struck by a fault."""

    def __init__(self, port, gang=None):
        self.port, self.connection = port, None
        self.roots = {**ROOTS, **({"podgroups": program.GANGS[gang]} if gang else {})}

    def send(self, method, path, body=None, content_type="application/json"):
        for attempt in (1, 2):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
                self.connection.request(method, path, None if body is None else json.dumps(body),
                                        {"Content-Type": content_type, "User-Agent": "chaos"})
                response = self.connection.getresponse()
                text = response.read()
                break
            except (http.client.HTTPException, ConnectionError):
                self.connection = None
                if attempt == 2:
                    raise
        document = json.loads(text) if text.strip() else {}
        if response.status >= 300:
            raise ApiError(response.status, document.get("message", document) if isinstance(document, dict) else document)
        return document

    def path(self, plural, namespace, name=None, sub=None):
        return "/".join([self.roots[plural], "namespaces", namespace, plural, *[part for part in (name, sub) if part]])

    def list(self, plural, namespace):
        return self.send("GET", self.path(plural, namespace))["items"]

    def get(self, plural, namespace, name):
        try:
            return self.send("GET", self.path(plural, namespace, name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def create(self, plural, namespace, body):
        return self.send("POST", self.path(plural, namespace), body)

    def patch(self, plural, namespace, name, body, sub=None):
        return self.send("PATCH", self.path(plural, namespace, name, sub), body, "application/merge-patch+json")

    def delete(self, plural, namespace, name):
        try:
            self.send("DELETE", self.path(plural, namespace, name), {"propagationPolicy": "Background"})
        except ApiError as error:
            if error.code != 404:
                raise


def fast_environment(executable):
    """The environment in which the executable's time is fast; a sanitizer's library stays first."""
    libraries = [str(BUILD / "tests/integration/chaos/chaos_fasttime.so")]
    linked = subprocess.run(["ldd", str(executable)], text=True, capture_output=True, check=False).stdout
    libraries[:0] = [word for line in linked.splitlines() for word in line.split() if "/libasan" in word][:1]
    return {**clean_environment(), **SANITIZERS, "LD_PRELOAD": " ".join(libraries),
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}


class World:
    """A server and, once started, an operator. The operator may be another build of it."""

    def __init__(self, operator=None, setting=program.Setting(None, 0)):
        self.program = pathlib.Path(operator or os.environ.get("HVD_CHAOS_OPERATOR") or PROGRAM)
        self.flags = ["--gang-scheduler", setting.gang] if setting.gang else []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="chaos-"))
        self.began_ns, self.unix_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.time_ns()
        self.environment = {**fast_environment(self.program),
                            "HVD_FASTTIME": f"{FACTOR}:{self.began_ns}:{self.unix_ns}",
                            "HVD_HEAP_FILE": str(self.folder / "heap")}
        self.operator, self.n_operators, self.n_tokens = None, 0, 0
        server = BUILD / "tests/fake/apiserver/fake-apiserver"
        self.server_log = open(self.folder / "server.log", "w", encoding="utf-8")
        self.server = subprocess.Popen([server, "--port", "0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=self.server_log, text=True,
                                       env={**fast_environment(server), "HVD_FASTTIME": self.environment["HVD_FASTTIME"]})
        self.port = int(self.server.stdout.readline())
        self.api = Api(self.port, setting.gang)
        self.seen, self.hits = [], 0
        self.control("POST", "config", {"play": {"run_ms": 10**9,  # masters end when a program says so
                                                 "terminate_ms": setting.terminate_ms}})
        self.control("POST", "objects", [{"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": "node-0", "labels": {program.ZONE: "here"}}}])
        (self.folder / "config").write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "fake", "user": {"tokenFile": str(self.folder / "token")}}]}), encoding="utf-8")
        self.expire_token()

    def now(self):
        """The fast time, as the API writes it."""
        passed_ns = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - self.began_ns) * FACTOR
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((self.unix_ns + passed_ns) // 10**9))

    # ---- the server ----

    def control(self, method, what, body=None):
        return self.api.send(method, f"/-/{what}", body)

    def records(self):
        """All requests of the operator so far."""
        self.seen += self.control("GET", f"requests?after={self.seen[-1]['number'] if self.seen else 0}")
        return [record for record in self.seen if record["agent"].startswith("horovod-operator")]

    def add_fault(self, rule):
        self.control("POST", "faults", [rule])

    def n_hits(self):
        """How many requests and streams were struck by faults."""
        return self.hits + sum(fault["hits"] for fault in self.control("GET", "faults"))

    def heal(self):
        """From here on nothing goes wrong any more."""
        self.hits = self.n_hits()
        self.control("DELETE", "faults")
        if not self.is_alive():
            self.start()

    # ---- blows ----

    def expire_token(self):
        """Only a new token is accepted, which the token's file holds from now on."""
        self.n_tokens += 1
        self.hits += 1
        token = f"{self.folder.name}-{self.n_tokens}"  # an operator of another world, whose port this was, has none
        (self.folder / "token").write_text(token, encoding="utf-8")
        self.control("POST", "config", {"tokens": [token]})

    def forget_versions(self):
        """Watches from older versions get 410, streams that are open too."""
        self.hits += 1
        self.control("POST", "compact", {})
        self.control("POST", "watches", {"action": "gone"})

    def drop_connections(self):
        self.hits += 1
        self.control("POST", "disconnect", {})

    def kill_operator(self):
        """SIGKILL wherever it is, and another one starts at once."""
        self.hits += 1
        self.kill()
        self.start()

    # ---- the operator ----

    @property
    def log(self):
        return self.folder / "operator.log"

    def start(self):
        self.n_operators += 1
        with open(self.log, "a", encoding="utf-8") as log:
            print(f"--- operator {self.n_operators}", file=log, flush=True)
            self.operator = subprocess.Popen(
                [self.program, "--kubeconfig", self.folder / "config", "--listen", ":0", *self.flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment)

    def words(self):
        """The last words of both."""
        server = (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")[-2000:]
        return f"{self.log.read_text(encoding='utf-8', errors='replace')[-3000:]}\nthe server " + (
            "lives" if self.server.poll() is None else f"is dead: {self.server.returncode}") + f": {server}"

    def look(self):
        """Called again and again while a program waits: whether the operator is alive."""
        return self.is_alive()

    def is_alive(self):
        return self.operator is not None and self.operator.poll() is None

    def kill(self):
        self.operator.kill()
        self.operator.wait()

    def is_sanitized(self):
        return "/libasan" in self.environment["LD_PRELOAD"]

    def memory_kib(self):
        """What the operator that rests holds: its resident memory, or what it has allocated where a sanitizer counts."""
        if self.is_sanitized():
            return self.heap_bytes() / 1024
        text = pathlib.Path(f"/proc/{self.operator.pid}/status").read_text(encoding="utf-8")
        return int(text.split("VmRSS:")[1].split()[0])

    def heap_bytes(self):
        """See heap.c."""
        file = self.folder / "heap"
        file.unlink(missing_ok=True)
        self.operator.send_signal(signal.SIGUSR2)
        return int(until("the operator tells", lambda: file.exists() and file.read_text(encoding="utf-8").endswith("\n")
                         and file.read_text(encoding="utf-8")))

    def end(self):
        """Stops both; returns the operator's exit code, 0 after SIGTERM."""
        code = None
        if self.operator:
            self.operator.terminate()
            try:
                code = self.operator.wait(20)
            except subprocess.TimeoutExpired:
                self.operator.kill()
                self.operator.wait()
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()
        self.server_log.close()
        if self.api.connection:
            self.api.connection.close()
        return code

    def forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)
