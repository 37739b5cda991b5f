"""Connections that die without a reset: packets are dropped, and every watch has to be alive again in time.

The API server and the operator run in a network namespace of the test's own, where iptables drops packets of the
operator alone: it runs as another user.
"""
import contextlib
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import pytest
import yaml

import limits
from conftest import ROOT, Operator, Server
from kubeapi import Namespace, until

USER = 65532
WATCHES = ("horovodjobs", "secrets", "services", "statefulsets", "configmaps", "jobs", "pods")
CLONE_NEWNET = 0x40000000
LIMIT = 40  # seconds

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a network namespace")


def run(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def enter(path):
    with open(path, "rb") as handle:
        if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {path}")


@pytest.fixture(scope="module")
def lonely_server(tmp_path_factory):
    """A server in a network namespace, in which the test is too, until the module's end."""
    name = f"hvd-silence-{os.getpid()}"
    own = f"/proc/{os.getpid()}/task/{os.gettid()}/ns/net" if hasattr(os, "gettid") else "/proc/self/ns/net"
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(open(own, "rb"))
        run("ip", "netns", "add", name)
        stack.callback(run, "ip", "netns", "delete", name)
        enter(f"/run/netns/{name}")
        stack.callback(enter, f"/proc/self/fd/{home.fileno()}")
        run("ip", "link", "set", "lo", "up")
        server = Server(tmp_path_factory.mktemp("lonely"))
        stack.callback(server.down)
        server.kubectl("apply", "-f", str(ROOT / "crds"))
        until("the CRD is served", lambda: server.kubectl("get", "horovodjobs", "-A", check=False).returncode == 0)
        yield server


@pytest.fixture
def lonely_ns(lonely_server):
    name = f"t-{next(Operator.numbers)}"
    lonely_server.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    namespace = Namespace(lonely_server.api, name)
    until("the service account", lambda: namespace.get("serviceaccounts", "default"))
    return namespace


@pytest.fixture
def run_lonely(lonely_server, lonely_ns):
    """Starts the operator as USER; its files are where that user may read them."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="hvd-silence-"))
    directory.chmod(0o755)
    text = yaml.safe_load(open(lonely_server.kubeconfig))
    for section, keys in (("clusters", ("certificate-authority",)), ("users", ("client-certificate", "client-key"))):
        entry = text[section][0][section[:-1]]
        for key in keys:
            if key in entry:
                shutil.copy(entry[key], directory / key)
                (directory / key).chmod(0o644)
                entry[key] = str(directory / key)
    config = directory / "config"
    config.write_text(yaml.safe_dump(text))
    config.chmod(0o644)
    started = []

    def start(*args):
        started.append(Operator(directory, "--kubeconfig", config, "--namespace", lonely_ns.name, *args,
                                command=["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]))
        return started[-1].wait_ready()

    yield start
    for operator in started:
        operator.stop()
    shutil.rmtree(directory)


@contextlib.contextmanager
def dropped(chain, *match):
    """Packets that match vanish."""
    rule = (chain, "-p", "tcp", *match, "-j", "DROP")
    run("iptables", "-w", "-A", *rule)
    try:
        yield
    finally:
        run("iptables", "-w", "-D", *rule)


@contextlib.contextmanager
def silenced(ports, both_ways=True):
    """The connections with these local ports of the operator die without a word; new ones are not concerned."""
    with contextlib.ExitStack() as stack:
        for port in ports:
            stack.enter_context(dropped("OUTPUT", "--sport", port))
            if both_ways:
                stack.enter_context(dropped("INPUT", "--dport", port))
        yield time.monotonic()


def connections(server):
    """The local ports of the operator's connections to the API server."""
    text = run("ss", "-Htne", "state", "established", f"dport = :{server.api.server.port}")
    return {line.split()[2].rsplit(":", 1)[1] for line in text.splitlines() if f"uid:{USER}" in line}


def all_alive(operator):
    return all(operator.metric("horovod_operator_watch_up", resource=r) == 1 for r in WATCHES)


def wait_until_it_works(ns, name, begin):
    """Everything that has to be seen is seen: the job, its pods; seconds since begin."""
    until("the job's workers", lambda: ns.workers(name), LIMIT + 20)
    ns.start_workers(1, name)
    ns.until("its master", lambda: ns.master(name), name, LIMIT + 20)
    return time.monotonic() - begin


@pytest.mark.parametrize("both_ways", [True, False], ids=["both ways", "what we send"])
def test_a_connection_that_dies_silently_is_replaced_within_forty_seconds(lonely_server, lonely_ns, run_lonely,
                                                                          both_ways):
    operator = run_lonely()
    until("all watches", lambda: all_alive(operator))
    old = connections(lonely_server)
    before = operator.metric("horovod_operator_api_requests_total", verb="watch")
    assert old
    with silenced(old, both_ways) as begin:
        lonely_ns.apply_job("silent", replicas=1)
        took = wait_until_it_works(lonely_ns, "silent", begin)
        until("all watches", lambda: all_alive(operator), LIMIT)
        alive = time.monotonic() - begin
        assert operator.metric("horovod_operator_api_requests_total", verb="watch") >= before + len(WATCHES)
        assert not old & connections(lonely_server)
    print(f"silent connection: job served after {took:.1f} s, all watches after {alive:.1f} s")
    assert max(alive, took) <= limits.seconds(LIMIT)


def test_a_server_that_is_away_for_a_while_is_followed_again(lonely_server, lonely_ns, run_lonely):
    operator = run_lonely()
    with dropped("OUTPUT", "--dport", str(lonely_server.api.server.port), "-m", "owner", "--uid-owner", str(USER)):
        lonely_ns.apply_job("away", replicas=1)
        text = until("readyz says which watch is not alive",
                     lambda: operator.get("/readyz")[0] == 503 and operator.get("/readyz")[1], LIMIT + 20)
        assert re.search(r"^watch of horovodjobs: down for \d+ s", text, re.M), text
        assert operator.get("/healthz") == (200, "ok\n")
    begin = time.monotonic()
    until("readyz", lambda: operator.get("/readyz") == (200, "ok\n"), LIMIT)
    took = wait_until_it_works(lonely_ns, "away", begin)
    print(f"server away: works {took:.1f} s after it is back")
    assert all_alive(operator) and took <= limits.seconds(LIMIT)


def test_a_leader_whose_connection_dies_silently_goes_on_leading(lonely_server, lonely_ns, run_lonely):
    args = ("--leader-elect", "--lease-namespace", lonely_ns.name)
    operator = run_lonely(*args)
    until("it leads", lambda: operator.metric("horovod_operator_leader") == 1)
    with silenced(connections(lonely_server)) as begin:
        lonely_ns.apply_job("led", replicas=1)
        took = wait_until_it_works(lonely_ns, "led", begin)
    print(f"leader's connection: works after {took:.1f} s")
    assert took <= limits.seconds(20)
    assert "not leading any more" not in operator.log.read_text()


