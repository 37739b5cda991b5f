"""Operators whose clock is ten minutes ahead or behind. Each takes over jobs that another one, with the right time, began. All
jobs and both operators run at once, as they wait for grace periods."""
import concurrent.futures
import pathlib
import subprocess
import time

import pytest
import yaml

from kubeapi import Api, Namespace, until
from operator_process import BUILD, PROGRAM
from real_server import Operator
from tenants import LIMIT_S, WRITES_OF_A_LIFE, finish, run_job, start_pods

SKEW_S = 600
FORCE_S = 60  # so long after its grace period a pod is removed by force
SLACK_S = 30  # of a busy machine
NODE = "skewed"
LIBRARY = BUILD / "tests/integration/hostile/hostile_skew.so"


def skewed(seconds):
    """The environment of a program with the wrong time; a sanitizer's library stays first."""
    linked = subprocess.run(["ldd", str(PROGRAM)], text=True, capture_output=True, check=False).stdout
    libraries = [word for line in linked.splitlines() for word in line.split() if "/libasan" in word][:1] + [str(LIBRARY)]
    return {"LD_PRELOAD": " ".join(libraries), "HVD_CLOCK_SKEW_S": str(seconds)}


class Scene:
    """A namespace, its operator, and when what happened."""

    def __init__(self, server, directory, name):
        self.server, self.directory = server, directory
        api = Api(server.kubeconfig)  # each thread has its own
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self.ns, self.operator = Namespace(api, name), None
        until("the service account", lambda: self.ns.get("serviceaccounts", "default"), LIMIT_S)
        directory.mkdir()
        # The server's certificate is a minute old: a clock that is behind would take it for one of the future.
        config = yaml.safe_load(pathlib.Path(server.kubeconfig).read_text(encoding="utf-8"))
        address = config["clusters"][0]["cluster"]["server"]
        config["clusters"][0]["cluster"] = {"server": address, "insecure-skip-tls-verify": True}
        self.kubeconfig = directory / "config"
        self.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")

    def start(self, skew_s):
        self.operator = Operator(self.directory, "--kubeconfig", self.kubeconfig, "--namespace", self.ns.name,
                                 environment=skewed(skew_s))
        self.operator.wait_ready(60)

    def uid(self, plural, name):
        return (self.ns.get(plural, name) or {"metadata": {"uid": None}})["metadata"]["uid"]

    def hold(self, job, grace_s):
        """A job of one worker that runs on a node without a kubelet: its pods never go by themselves."""
        def template(role):
            return {"spec": {"containers": [{"name": role, "image": "i", "command": ["sleep", "1"]}],
                             "terminationGracePeriodSeconds": grace_s, "tolerations": [{"operator": "Exists"}]}}
        self.ns.create("horovodjobs", {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": job}, "spec": {
            "worker": {"replicas": 1, "template": template("worker")}, "master": {"template": template("master")}}})
        pod = f"{job}-worker-0"
        until("the worker's pod", lambda: self.ns.get("pods", pod), LIMIT_S)
        self.ns.api.request("POST", self.ns.path("pods", pod, "binding"), {"metadata": {"name": pod}, "target": {"kind": "Node", "name": NODE}})
        start_pods(self.ns, job, 1)

    def end(self):
        if self.operator and self.operator.process.poll() is None:
            self.operator.kill()
        self.ns.api.request("DELETE", f"/api/v1/namespaces/{self.ns.name}")


def prepare(scene):
    """What an operator with the right time begins: jobs that run, that have ended, and that wait for their next attempt."""
    ns = scene.ns
    scene.start(0)
    for job, spec in (("long", {"activeDeadlineSeconds": 300}), ("short", {"activeDeadlineSeconds": 40}),
                      ("kept", {"ttlSecondsAfterFinished": 300}), ("gone", {"ttlSecondsAfterFinished": 30}),
                      ("again", {"backoffLimit": 5})):
        master = run_job(ns, job, replicas=1, **spec)
        if "ttlSecondsAfterFinished" in spec:
            finish(ns, job, master)
    scene.hold("grace", 30)
    scene.hold("graceless", 1)
    first = scene.uid("pods", "again-worker-0")
    ns.end_master(ns.master("again"), 1)
    until("a new worker", lambda: scene.uid("pods", "again-worker-0") not in (None, first), LIMIT_S)
    ns.end_master(start_pods(ns, "again", 1), 1)
    until("a second failure, after which there is a wait", lambda: ns.status("again").get("failures") == 2, LIMIT_S)
    assert scene.operator.stop() < 10


def follow(scene, begin, pods):
    """When the pods, by name and uid, go, in seconds after begin; until all are gone or should be."""
    gone = {}
    end = begin + 30 + FORCE_S + SLACK_S
    while len(gone) < len(pods) and time.monotonic() < end:
        for name, uid in pods.items():
            if name not in gone and scene.uid("pods", name) != uid:
                gone[name] = time.monotonic() - begin
        time.sleep(0.5)
    return gone


def play(server, directory, name, skew_s):
    """What came of it all."""
    scene = Scene(server, directory / name, f"clock-{name}")
    ns = scene.ns
    try:
        prepare(scene)
        scene.start(skew_s)
        pods = {name: scene.uid("pods", name) for name in ("grace-worker-0", "graceless-worker-0")}
        for job in ("grace", "graceless"):
            ns.patch("horovodjobs", job, {"spec": {"suspend": True}})
        begin = time.monotonic()
        finish(ns, "other", run_job(ns, "other"))
        gone = follow(scene, begin, pods)
        states = {job: ns.state(job) for job in ("long", "short", "kept", "gone", "again", "other")}
        return {"gone": gone, "states": states, "attempts": ns.status("again").get("attempts"),
                "workers": ns.workers("again"), "writes": server.writes(ns.name)}
    finally:
        scene.end()


@pytest.fixture(scope="module")
def played(server, tmp_path_factory):
    assert LIBRARY.exists(), f"{LIBRARY} is not built: cmake --build --preset dev"
    directory = tmp_path_factory.mktemp("clocks")
    server.api.request("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        yield {name: pool.submit(play, server, directory, name, skew_s)
               for name, skew_s in (("right", 0), ("ahead", SKEW_S), ("behind", -SKEW_S))}
    server.api.request("DELETE", f"/api/v1/nodes/{NODE}")


CLOCKS = pytest.mark.parametrize("clock", ["right", "ahead", "behind"])


@CLOCKS
def test_pods_have_their_grace_whatever_the_operators_clock_shows(played, clock):
    gone = played[clock].result()["gone"]
    for pod, grace_s in (("grace-worker-0", 30), ("graceless-worker-0", 1)):
        assert grace_s + FORCE_S - 5 <= gone.get(pod, 9999) <= grace_s + FORCE_S + SLACK_S, gone


@CLOCKS
def test_deadlines_and_times_to_live_are_those_of_the_server(played, clock):
    states = played[clock].result()["states"]
    assert states == {"long": "Running", "short": "Failed", "kept": "Succeeded", "gone": None, "again": states["again"],
                      "other": "Succeeded"}


@CLOCKS
def test_a_wait_before_the_next_attempt_ends(played, clock):
    result = played[clock].result()
    assert result["workers"], result


@CLOCKS
def test_a_wrong_clock_costs_no_writes(played, clock):
    """Nine lives, of which one has three attempts."""
    writes = played[clock].result()["writes"]
    assert len(writes) <= 11 * WRITES_OF_A_LIFE, len(writes)
