"""The etcd of the API server is restored from a backup: versions go back, and with them objects, under an operator that runs. A
watch from a version that the server has not reached is silent, without events and bookmarks, until it gets there."""
import os
import shutil
import signal
import subprocess
import time

import pytest

from kubeapi import Api, Namespace, until
from real_server import Operator, Server
from operator_process import ROOT
from tenants import WRITES_OF_A_LIFE, bystander_on, finish, start_pods

N_LATER = 600  # versions that the backup lacks: more than what is written after it was restored
LIMIT_S = 45  # a new connection with back-off, and no silence of 90 s
PROGRAMS = ("etcd", "kube-apiserver", "controller-manager")  # in the order in which one needs the other


class Restorable(Server):
    """One that can be stopped, and started again with the data it had. The controllers are restarted with it, as whoever
    restores a backup does: they wait for versions to come as well, and for longer."""

    def _pid(self, name):
        return int((self.directory / f"{name}.pid").read_text().split()[0])

    def stop(self):
        for name in reversed(PROGRAMS):
            os.kill(self._pid(name), signal.SIGKILL)
            until(f"{name} has ended", lambda: not self._is_alive(self._pid(name)))

    @staticmethod
    def _is_alive(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    def start(self, commands):
        started = []
        for name, command in commands.items():
            if name == "controller-manager":  # ends when there is no server
                until("the server is ready", self._is_ready, 120)
            with (self.directory / f"{name}.log").open("ab") as log:
                started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        self.api = Api(self.kubeconfig)  # the connection of the one before is closed
        return started

    def _is_ready(self):
        return self.kubectl("get", "--raw", "/readyz", check=False).stdout == "ok"

    def commands(self):
        """Of all three, as they run."""
        return {name: [arg for arg in open(f"/proc/{self._pid(name)}/cmdline", encoding="utf-8").read().split("\0") if arg]
                for name in PROGRAMS}


@pytest.fixture
def restorable(tmp_path):
    server = Restorable(tmp_path / "apiserver")
    try:
        server.kubectl("apply", "-f", str(ROOT / "crds"))
        until("the CRD is served", lambda: server.kubectl("get", "horovodjobs", "-A", check=False).returncode == 0)
        yield server
    finally:
        server.down()


@pytest.mark.parametrize("args", [[], ["--leader-elect", "--lease-namespace", "default"]])
def test_jobs_are_seen_after_the_server_was_restored_from_a_backup(restorable, tmp_path, args):
    server, etcd, backup = restorable, tmp_path / "apiserver/etcd", tmp_path / "backup"
    ns = Namespace(server.api, "default")
    commands = server.commands()
    operator = Operator(tmp_path, "--kubeconfig", str(server.kubeconfig), *args).wait_ready(60)
    started = []
    try:
        ns.apply_job("kept")
        until("its workers", lambda: ns.get("statefulsets", "kept-worker"), 60)
        server.stop()
        shutil.copytree(etcd, backup)
        started = server.start(commands)
        ns = Namespace(server.api, "default")
        ns.apply_job("lost")
        until("its workers", lambda: ns.get("statefulsets", "lost-worker"), LIMIT_S)
        for _ in range(N_LATER):
            server.api.request("POST", "/api/v1/namespaces/default/configmaps",
                               {"metadata": {"generateName": "later-", "labels": {"app.kubernetes.io/managed-by": "horovod-operator"}}})
        for process in started:
            process.kill()
            process.wait()
        shutil.rmtree(etcd)
        backup.rename(etcd)
        since = server.audit_size()
        started = server.start(commands)
        ns = Namespace(server.api, "default")
        assert ns.get("horovodjobs", "lost") is None
        ns.apply_job("new")
        begin = time.monotonic()
        for job in ("new", "kept"):
            until(f"workers of {job}", lambda: ns.get("statefulsets", f"{job}-worker"), LIMIT_S)
            finish(ns, job, start_pods(ns, job))
        print(f"both succeeded {time.monotonic() - begin:.1f} s after the restoration")
        bystander = bystander_on(server)
        bystander.succeeds()
        bystander.assert_few_writes(server)
        assert "back at an older version" in operator.log.read_text()
        writes = [write for write in server.writes("default", since) if not write[1].startswith("leases")]
        assert len(writes) <= 3 * WRITES_OF_A_LIFE, writes  # new, kept, and what was begun for the one that is lost
        operator.stop()
    finally:
        operator.kill()
        for process in started:
            process.kill()
            process.wait()
