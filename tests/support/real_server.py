"""A real API server of the tests' own, and the operators that they run against it."""
import json
import pathlib
import re
import subprocess
import time

from audit import lines_of
from kubeapi import Api
from operator_process import OperatorProcess, ROOT
from waiting import until


class Server:
    """etcd, kube-apiserver and kube-controller-manager: real, but without a node."""

    def __init__(self, directory, *flags):
        """flags: of kube-controller-manager."""
        self.directory = directory
        result = subprocess.run([ROOT / "tests/cluster/apiserver", "up", directory, "--with-controllers", *(("--", *flags) if flags else ())],
                                check=True, stdout=subprocess.PIPE, text=True, timeout=1500)
        self.kubeconfig = result.stdout.strip().splitlines()[-1]
        self.api = Api(self.kubeconfig)
        paths = subprocess.run(["pgrep", "-a", "-f", f"kube-apiserver.*{directory}/"], check=True,
                               stdout=subprocess.PIPE, text=True).stdout
        self.binaries = pathlib.Path(paths.split()[1]).parent

    def kubectl(self, *args, text=None, check=True):
        return subprocess.run([self.binaries / "kubectl", f"--kubeconfig={self.kubeconfig}", *args], input=text,
                              check=check, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)

    def audit_size(self):
        """How much has been written to the audit log: a point in time for writes()."""
        return (self.directory / "audit.log").stat().st_size

    def all_writes(self, since=0):
        """What programs called horovod-operator wrote since then, from the audit log: (namespace, write) of each."""
        found = []
        for line in lines_of(self.directory / "audit.log", since):
            event = json.loads(line) if b"horovod-operator/" in line else {"verb": "get"}
            if event["verb"] not in ("get", "list", "watch") and event["stage"] == "ResponseComplete":
                ref = event["objectRef"]
                found.append((ref.get("namespace", ""), (event["verb"], ref["resource"] + "/" + ref.get("subresource", ""),
                                                         ref.get("name", ""), event["responseStatus"]["code"])))
        return found

    def writes(self, namespace, since=0):
        """Those in one namespace."""
        return [write for place, write in self.all_writes(since) if place == namespace]

    def down(self):
        subprocess.run([ROOT / "tests/cluster/apiserver", "down", self.directory], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)


class Operator(OperatorProcess):
    """One that is to end well."""

    def n_writes(self, page=None):
        """Its writes that were answered, but those of the Lease; from one look, as they go on."""
        series = re.findall(r'^horovod_operator_api_requests_total\{verb="(create|patch|delete)",resource="(\w+)".*\} (\d+)$',
                            page or self.get("/metrics")[1], re.M)
        return sum(int(count) for _, resource, count in series if resource != "leases")

    def settled_writes(self, timeout=20):
        """n_writes() once no job waits and no answer is outstanding. Anybody sees a write before the operator has the answer, and
        counts it: a number that was read then is one too low."""
        def settled():
            page = self.get("/metrics")[1]
            return (self.n_writes(page),) if self.is_at_rest(page) else None
        return until("the operator rests", settled, timeout)[0]

    def is_at_rest(self, page=None):
        """Whether no job waits and no answer is outstanding, from one look."""
        page = page or self.get("/metrics")[1]
        return all(f"\nhorovod_operator_{gauge} 0\n" in page for gauge in ("queue_depth", "plans_active"))

    def assert_writes_stay(self, expected, seconds=3):
        """Nothing is to happen, so there is nothing to wait for: the number of writes, answered and under way, is this one
        for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            n_writes = self.settled_writes()
            assert n_writes == expected, f"{n_writes} writes, {expected} were expected"
            time.sleep(0.1)

    def stop(self):
        """Seconds from SIGTERM to the end."""
        begin = time.monotonic()
        code = super().stop()
        took = time.monotonic() - begin
        assert code == 0, f"exit code {code}: {self.log.read_text()}"
        return took
