"""The local Kubernetes with images and chart installed, and a namespace for each test.

The cluster is started when it is not up, and stopped afterwards only then. Namespaces enforce Pod
Security "restricted", so every test also shows that the pods it makes are accepted under it.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/support"))
from audit import lines_of  # noqa: E402

VERSION = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
WORKER_IMAGE = f"localhost/horovod-worker:{VERSION}"


def run(*command, check=True, timeout=600, stdin=None, env=None):
    """A finished process with its output as text; a failure shows the output."""
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=timeout, input=stdin,
                          check=False, env={**os.environ, **(env or {})})
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


def wait_for(what, look, timeout=60):
    """Polls look() until it returns something true, which is returned; fails naming what was awaited."""
    end = time.monotonic() + timeout
    while True:
        value = look()
        if value:
            return value
        assert time.monotonic() < end, f"{what}: not within {timeout} s"
        time.sleep(0.1)


class Cluster:
    """kubectl and helm on one kubeconfig."""

    def __init__(self, kubeconfig, programs, audit_log):
        self.kubeconfig, self.programs, self.audit_log = kubeconfig, programs, audit_log
        self.env = {"KUBECONFIG": kubeconfig}

    def kubectl(self, *arguments, check=True, stdin=None, timeout=120):
        return run(f"{self.programs}/kubectl", *arguments, check=check, stdin=stdin, env=self.env, timeout=timeout)

    def helm(self, *arguments, check=True):
        return run(f"{self.programs}/helm", *arguments, check=check, env=self.env)

    def get(self, *arguments):
        """The object or list as a dict; None when it does not exist."""
        out = self.kubectl("get", *arguments, "-o", "json", "--ignore-not-found").stdout
        return json.loads(out) if out.strip() else None

    def write_events(self, since, namespace, user="system:serviceaccount:"):
        """Write requests of the operator's account in a namespace in the audit log, from a byte offset on, in order."""
        found = []
        for line in lines_of(self.audit_log, since):
            event = json.loads(line)
            reference = event.get("objectRef", {})
            if (event["verb"] in ("create", "update", "patch", "delete", "deletecollection")
                    and reference.get("namespace") == namespace and "horovod" in event["user"]["username"]
                    and event["user"]["username"].startswith(user)):
                found.append(event)
        return found

    def writes(self, since, namespace):
        """The same as text: verb, resource, name."""
        return [f"{event['verb']} {event['objectRef'].get('resource')}/{event['objectRef'].get('name')}"
                for event in self.write_events(since, namespace)]

    def audit_position(self):
        return os.path.getsize(self.audit_log)


class Namespace:
    """What tests do with jobs in their own namespace."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name

    def kubectl(self, *arguments, **options):
        return self.cluster.kubectl("-n", self.name, *arguments, **options)

    def get(self, *arguments):
        return self.cluster.get("-n", self.name, *arguments)

    def items(self, *arguments):
        return (self.get(*arguments) or {}).get("items", [])

    def apply(self, manifest, check=True):
        return self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest), check=check)

    def state(self, job):
        return (self.get("horovodjob", job) or {}).get("status", {}).get("state", "")

    def wait_state(self, job, *states, timeout=90):
        return wait_for(f"HorovodJob {self.name}/{job} in state {' or '.join(states)} (it is "
                        f"{self.state(job) or 'without a state'})", lambda: self.state(job) in states, timeout)

    def condition(self, job, kind):
        conditions = (self.get("horovodjob", job) or {}).get("status", {}).get("conditions", [])
        return next((item for item in conditions if item["type"] == kind), {})

    def master_log(self, job):
        return self.kubectl("logs", f"job/{job}-master", check=False).stdout

    def children(self, job):
        """kind/name of everything that belongs to a job, but events."""
        found = []
        for kind in ("secrets", "services", "configmaps", "statefulsets", "jobs", "pods"):
            found += [f"{kind}/{item['metadata']['name']}" for item in self.items(kind, "-l", f"horovod.io/job-name={job}")]
        return sorted(found)


def short_job(name, command, workers=2, **spec):
    """The manifest of a HorovodJob in its short form."""
    worker = {"replicas": workers}
    return {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": name},
            "spec": {"image": WORKER_IMAGE, "command": command, "worker": worker, **spec}}


def long_job(name, master_script, workers=1, **spec):
    """A HorovodJob in its long form: the master runs a script of its own."""
    def template(role, **more):
        return {"template": {"spec": {"containers": [{"name": role, "image": WORKER_IMAGE, **more}]}}}
    return {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": name},
            "spec": {"master": template("master", command=["sh", "-c", master_script]),
                     "worker": {"replicas": workers, **template("worker")}, **spec}}


def ready_workers(namespace, job):
    """Names of the worker pods that are Ready and not terminating, in numeric order."""
    names = []
    for pod in namespace.items("pods", "-l", f"horovod.io/job-name={job},horovod.io/role=worker"):
        conditions = {item["type"]: item["status"] for item in pod.get("status", {}).get("conditions", [])}
        if conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]:
            names.append(pod["metadata"]["name"])
    return sorted(names, key=lambda name: int(name.rsplit("-", 1)[1]))


def hostfile(namespace, job):
    return ((namespace.get("configmap", f"{job}-hosts") or {}).get("data") or {}).get("hostfile", "")


def metrics(cluster):
    return cluster.kubectl("get", "--raw", "/api/v1/namespaces/default/pods/"
                           f"{operator_pod(cluster)}:8080/proxy/metrics", check=False).stdout


def operator_pod(cluster):
    pods = cluster.get("pods", "-n", "default", "-l", "app.kubernetes.io/component=operator")["items"]
    running = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return running[0]


def audit_log_of(status):
    """The path that tests/cluster/status names."""
    for word in status.split():
        if word.endswith("audit.log"):
            return word
    raise AssertionError(f"tests/cluster/status names no audit log:\n{status}")


@pytest.fixture(scope="session")
def cluster():
    """The cluster with the images loaded and the chart installed."""
    was_up = run("tests/cluster/status", check=False).returncode == 0
    programs = run("tests/cluster/build", timeout=1800).stdout.strip().splitlines()[-1]
    run("images/build", "all", timeout=1800)
    kubeconfig = run("tests/cluster/up", timeout=300).stdout.strip().splitlines()[-1]
    for name in ("operator", "worker"):
        run("tests/cluster/load-image", f"build/images/horovod-{name}.tar")
    made = Cluster(kubeconfig, programs, audit_log_of(run("tests/cluster/status").stdout))
    had_release = made.helm("status", "horovod", check=False).returncode == 0
    made.kubectl("apply", "-f", "crds/")
    made.helm("upgrade", "--install", "horovod", "charts/horovod", "--wait", "--timeout", "120s")
    made.kubectl("rollout", "restart", "deployment/horovod-operator")
    made.kubectl("rollout", "status", "deployment/horovod-operator", "--timeout=120s")
    yield made
    if not had_release:
        made.helm("uninstall", "horovod", "--wait")
    if not was_up:
        run("tests/cluster/down", timeout=300)


@pytest.fixture
def namespace(cluster, request):
    """A namespace of its own under Pod Security "restricted"; a failed test leaves a description."""
    name = "e2e-" + request.node.name.replace("_", "-").replace("[", "-").replace("]", "")[5:50].strip("-").lower()
    cluster.kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=120s")
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    yield Namespace(cluster, name)
    if getattr(request.node, "failed", False):
        print(cluster.kubectl("-n", name, "describe", "horovodjobs", check=False).stdout)
        print(cluster.kubectl("-n", name, "get", "all", "-o", "wide", check=False).stdout)
        print(cluster.kubectl("-n", name, "logs", "-l", "horovod.io/role=master", "--tail=30", check=False).stdout)
        print(cluster.kubectl("logs", "deployment/horovod-operator", "--tail=60", check=False).stdout)
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def operator(cluster):
    """A function that changes the installed chart by --set NAME=VALUE; afterwards it is as it was."""
    def change(*values, chart="charts/horovod"):
        sets = [word for value in values for word in ("--set", value)]
        cluster.helm("upgrade", "horovod", chart, "--reset-values", "--wait", "--timeout", "180s", *sets)

    yield change
    cluster.kubectl("apply", "-f", "crds/")
    change()


@pytest.fixture
def shared_folder(cluster, namespace, tmp_path):
    """A folder of this machine that pods of the namespace mount by the claim "shared"."""
    tmp_path.chmod(0o777)
    size = {"storage": "1Gi"}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": namespace.name},
         "spec": {"capacity": size, "hostPath": {"path": str(tmp_path)}, **common,
                  "claimRef": {"namespace": namespace.name, "name": "shared"}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "shared", "namespace": namespace.name},
         "spec": {"resources": {"requests": size}, "volumeName": namespace.name, **common}}]}))
    yield tmp_path
    cluster.kubectl("delete", "pv", namespace.name, "--wait=false")


def kill_container(pod):
    """Ends all processes of a pod's container at once, as the kernel does when memory is short."""
    uid = pod["metadata"]["uid"]
    names = (f"pod{uid}", f"pod{uid.replace('-', '_')}")
    killed = 0
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            belongs = any(name in (folder / "cgroup").read_text(encoding="utf-8") for name in names)
            if belongs and (folder / "comm").read_text(encoding="utf-8").strip() != "pause":
                os.kill(int(folder.name), 9)
                killed += 1
        except (FileNotFoundError, ProcessLookupError):
            continue
    assert killed, f"no process of pod {pod['metadata']['name']} was found"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call" and outcome.get_result().failed:
        item.failed = True


def tool(name):
    """The path of a program on this machine; fails naming it."""
    path = shutil.which(name)
    assert path, f"{name} is not installed; script/bootstrap installs it"
    return path


@pytest.fixture(scope="module")
def tensorflow_image(cluster):
    """The image, built and loaded; the first time its base takes minutes."""
    run("images/build", "worker-tensorflow", timeout=1800)
    run("tests/cluster/load-image", "build/images/horovod-worker-tensorflow.tar")
    return cluster
