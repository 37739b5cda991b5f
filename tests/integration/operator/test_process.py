"""The operator as a process: options, signals, identity, health, logs."""
import base64
import os
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest
import yaml

from conftest import PROGRAM, ROOT
from kubeapi import until


@pytest.mark.parametrize("busy", [False, True])
def test_sigterm_ends_it_at_once(ns, run_operator, busy):
    operator = run_operator()
    if busy:
        for i in range(20):
            ns.apply_job(f"j{i}")
    assert operator.stop() < 5  # its grace period is longer; the benchmark tells how fast


def test_sigterm_ends_it_when_the_api_server_is_away(run_operator, tmp_path, server):
    config = yaml.safe_load(open(server.kubeconfig))
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    operator = run_operator(kubeconfig=tmp_path / "config", wait=False)
    until("it says why", lambda: "127.0.0.1:1" in operator.log.read_text())
    assert operator.get("/healthz")[0] == 200
    assert operator.get("/readyz")[0] == 503
    assert operator.stop() < 5  # its grace period is longer; the benchmark tells how fast


def test_health_and_metrics_are_served(operator):
    assert operator.get("/healthz") == (200, "ok\n")
    assert operator.get("/readyz") == (200, "ok\n")
    assert operator.get("/nothing")[0] == 404
    text = operator.get("/metrics")[1]
    for name in ("api_requests_total", "reconcile_seconds", "event_to_write_seconds", "queue_depth", "jobs"):
        assert f"# TYPE horovod_operator_{name} " in text
    assert operator.metric("horovod_operator_api_requests_total", verb="list", resource="pods", code="200") == 1
    assert operator.metric("horovod_operator_watches_synced") == 7


@pytest.mark.parametrize("args,words", [
    (["--log-level", "loud"], "--log-level=loud is not a log level"),
    (["--listen", "8080"], "--listen=8080"),
    (["--namespace", "No_Such"], "--namespace=No_Such"),
    (["--kubeconfig"], "--kubeconfig needs a value"),
    (["--leader"], "unknown argument --leader"),
])
def test_wrong_options_are_named(args, words):
    result = subprocess.run([PROGRAM, *args], stderr=subprocess.PIPE, text=True, timeout=10, check=False)
    assert result.returncode == 2 and words in result.stderr


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path):
    result = subprocess.run([PROGRAM, "--kubeconfig", str(tmp_path / "missing"), "--listen", ":0"], stderr=subprocess.PIPE,
                            text=True, timeout=10, check=False)
    assert result.returncode == 1 and f"{tmp_path}/missing: No such file or directory" in result.stderr


def test_version_and_help_are_printed():
    for flag, words in (("--version", "horovod-operator 0."), ("--help", "HOROVOD_OPERATOR_LISTEN")):
        result = subprocess.run([PROGRAM, flag], stdout=subprocess.PIPE, text=True, timeout=10, check=True)
        assert words in result.stdout


def test_secrets_never_reach_the_log(ns, run_operator):
    operator = run_operator("--log-level", "debug")
    ns.apply_job()
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    log = operator.log.read_text()
    key = base64.b64decode(ns.get("secrets", "digits-ssh")["data"]["id"]).decode()
    assert "Secret" in log and "PRIVATE KEY" not in log
    for line in key.splitlines()[1:-1]:
        assert line not in log


class Identity:
    """A service account with the rights of the chart, and tokens that can be taken back."""

    def __init__(self, server, ns):
        self.server, self.ns = server, ns
        chart = subprocess.run([server.binaries / "helm", "template", "x", ROOT / "charts/horovod", "-n", ns.name,
                                "--kube-version", "1.34.0"],
                               check=True, stdout=subprocess.PIPE, text=True).stdout
        rendered = [d for d in yaml.safe_load_all(chart) if d]
        documents = [d for d in rendered if d["kind"] in ("ClusterRoleBinding", "ServiceAccount")]
        bound = {d["roleRef"]["name"] for d in documents if "roleRef" in d}  # other roles are for users
        documents += [d for d in rendered if d["kind"] == "ClusterRole" and d["metadata"]["name"] in bound]
        self.account, = [d["metadata"]["name"] for d in documents if d["kind"] == "ServiceAccount"]
        for document in documents:  # cluster-wide names of this test's own
            if document["kind"].startswith("ClusterRole"):
                document["metadata"]["name"] += "-" + ns.name
            if "roleRef" in document:
                document["roleRef"]["name"] += "-" + ns.name
        server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump_all(documents))

    def token(self, name):
        """A token that dies with the Secret of that name."""
        self.ns.create("secrets", {"metadata": {"name": name}})
        return self.server.kubectl("create", "token", self.account, "-n", self.ns.name,
                                   "--bound-object-kind", "Secret", "--bound-object-name", name).stdout.strip()


@pytest.fixture
def identity(server, ns):
    return Identity(server, ns)


def write_token_config(path, server, token_file):
    config = yaml.safe_load(open(server.kubeconfig))
    config["users"][0]["user"] = {"tokenFile": str(token_file)}
    path.write_text(yaml.safe_dump(config))


def test_a_rotated_token_is_read_again(server, ns, identity, run_operator, tmp_path):
    token_file = tmp_path / "token"
    first = identity.token("first")
    token_file.write_text(first)
    write_token_config(tmp_path / "config", server, token_file)
    operator = run_operator(kubeconfig=tmp_path / "config")
    ns.apply_job("before")
    ns.wait_state("Pending", "before")
    second = identity.token("second")
    token_file.write_text(second)
    ns.delete("secrets", "first")

    def old_token_is_refused():
        request = urllib.request.Request(server.api.server.geturl() + ns.path("pods"),
                                         headers={"Authorization": "Bearer " + first})
        try:
            urllib.request.urlopen(request, context=ssl.create_default_context(cadata=server.api.ca), timeout=5)
        except urllib.error.HTTPError as error:
            return error.code == 401
        return False
    until("the server refuses the old token", old_token_is_refused, 30)
    ns.apply_job("after")
    ns.wait_state("Pending", "after")
    assert operator.metric("horovod_operator_api_requests_total", verb="create", code="201") >= 8  # children
    log = operator.log.read_text()
    assert first not in log and second not in log


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a mount namespace")
def test_in_a_pod_it_uses_the_service_account_with_the_charts_rights(server, ns, identity, run_operator, tmp_path):
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(identity.token("pod"))
    (account / "ca.crt").write_text(server.api.ca)
    (account / "namespace").write_text(ns.name)
    target = "/run/secrets/kubernetes.io/serviceaccount"
    script = f'mount -t tmpfs none /run && mkdir -p {target} && cp "$0"/* {target} && exec "$@"'
    operator = run_operator(
        kubeconfig=None, command=[shutil.which("unshare"), "-m", "sh", "-c", script, str(account)],
        environment={"KUBERNETES_SERVICE_HOST": server.api.server.hostname,
                     "KUBERNETES_SERVICE_PORT": str(server.api.server.port)})
    assert "config=in-cluster" in operator.log.read_text()
    ns.apply_job()
    ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    ns.end_master(master)
    ns.wait_state("Succeeded")
    until("the workers are removed", lambda: not ns.workers())
    assert operator.metric("horovod_operator_api_requests_total", code="403") == 0


def test_the_way_from_ready_workers_to_the_master_is_short(ns, operator):
    ns.apply_job()
    until("the workers", lambda: len(ns.workers()) == 2)
    ns.start_pods(["digits-worker-0"])
    ns.start_pods(["digits-worker-1"])
    ns.until("the master's Job", lambda: ns.get("jobs", "digits-master"), timeout=2)
