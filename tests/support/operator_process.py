"""The operator as a process of the test: its log in a file, its own pages, its end."""
import http.client
import itertools
import os
import pathlib
import socket
import subprocess

from waiting import until

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()
PROGRAM = BUILD / "operator/horovod-operator"
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:exitcode=99",
    "LSAN_OPTIONS": f"suppressions={ROOT}/tests/sanitizers/lsan.supp:print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def clean_environment():
    """Ours, without what would configure an operator."""
    return {key: value for key, value in os.environ.items() if key != "KUBECONFIG" and not key.startswith("HOROVOD_")}


class OperatorProcess:
    """One process of the operator, begun at once; what its log says is in the file `log`. In a `with` statement it is
    killed at the end of it, if it still runs."""

    numbers = itertools.count(1)

    def __init__(self, directory, *args, command=(), environment=None, program=PROGRAM):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = pathlib.Path(directory) / f"operator-{next(self.numbers)}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, str(program), "--listen", f"127.0.0.1:{self.port}", *args], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env={**clean_environment(), **SANITIZERS, **(environment or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()

    def get(self, path):
        """(code, text) of one of its own pages; (0, "") when it does not answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def wait_ready(self, timeout=30):
        def ready():
            assert self.process.poll() is None, f"the operator ended: {self.log.read_text()}"
            return self.get("/readyz")[0] == 200
        until(lambda: f"the operator is ready: {self.log.read_text()[-4000:]}", ready, timeout, 0.005)
        return self

    def metric(self, name, **labels):
        """The sum of all series of that name that carry the labels."""
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith((name + "{", name + " ")) and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGTERM; its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=20)
