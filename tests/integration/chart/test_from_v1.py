"""The way from horovod.io/v1, as docs/operator.md describes it: its commands move a cluster whose jobs run on."""
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from conftest import CHART, TOP

sys.path.append(str(TOP / "tests/support"))
from kubeapi import CONTROLLERS_S, Namespace, until  # noqa: E402  (the path above)
from operator_process import PROGRAM  # noqa: E402
from real_server import Operator, Server  # noqa: E402
from tenants import LIMIT_S, start_pods  # noqa: E402

OLD, NEW = "horovod.io/v1", "horovod.io/v1beta1"
CHILDREN = ("secrets", "services", "configmaps", "statefulsets", "jobs")
JOBS = ("digits", "finished", "train")  # the last one is of a release
SMALL = {"image": "localhost/horovod-worker:0.1.0", "command": ["digits"], "worker": {"replicas": 2}}


def section():
    return (TOP / "docs/operator.md").read_text(encoding="utf-8").split(f"\n### From {OLD}\n")[1].split("\n## ")[0]


def steps():
    """The commands of the page: by the number of the step, one after the other."""
    parts = re.split(r"^(\d+)\. ", section(), flags=re.M)
    return {int(number): "\n".join(re.findall(r"^ {7}(.*)$", text, re.M)) for number, text in zip(parts[1::2], parts[2::2])}


@pytest.fixture
def server(tmp_path):
    """One of the test's own: the definition is there for all namespaces."""
    server = Server(tmp_path / "apiserver", "--v=2")
    yield server
    server.down()


@pytest.fixture
def bash(server, tmp_path):
    """Runs commands of the page as an administrator who stands in the project's folder; the finished process."""
    home = tmp_path / "helm"
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "PATH": f"{server.binaries}:{os.environ['PATH']}",
                   "HELM_CACHE_HOME": str(home), "HELM_CONFIG_HOME": str(home), "HELM_DATA_HOME": str(home)}

    def run(text, check=True):
        done = subprocess.run(["bash", "-o", "pipefail", "-ec", text], cwd=TOP, env=environment, text=True, timeout=300, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(text, done.stdout, sep="\n")
        assert not check or done.returncode == 0, done.stdout
        return done

    return run


@pytest.fixture
def old_chart(tmp_path):
    """The chart of an early build."""
    chart = tmp_path / "old-chart"
    shutil.copytree(CHART, chart)
    for file in (chart / "crds/horovodjobs.yaml", chart / "templates/job.yaml"):
        text = file.read_text()
        assert NEW in text
        file.write_text(text.replace(NEW, OLD).replace("name: v1beta1", "name: v1"))
    return chart


@pytest.fixture
def old_operator(tmp_path):
    """The program of an early build: this one, which serves v1."""
    program, new = tmp_path / "old-operator", PROGRAM.read_bytes()
    old = new.replace(f"{NEW}\0".encode(), f"{OLD}\0beta1".encode())
    assert old != new and len(old) == len(new) and f"{NEW}\0".encode() not in old
    program.write_bytes(old)
    program.chmod(0o755)
    return program


def manifest(name, version=OLD, **spec):
    return yaml.safe_dump({"apiVersion": version, "kind": "HorovodJob", "metadata": {"name": name}, "spec": {**SMALL, **spec}})


@pytest.fixture
def ns(server, bash, old_chart, old_operator, tmp_path):
    """The namespace in which an old operator ran: two jobs run, one of them of a release, and one has succeeded."""
    bash(f"helm install horovod {old_chart} && helm install train {old_chart} --set operator.enabled=false,job.enabled=true"
         f" --set job.name=train --set-json 'job.spec={json.dumps(SMALL)}'")
    ns = Namespace(server.api, "default")
    wait_for_collector(server, OLD)
    operator = Operator(tmp_path, "--kubeconfig", str(server.kubeconfig), program=old_operator).wait_ready(LIMIT_S)
    for name in ("digits", "finished"):
        server.kubectl("apply", "-f", "-", text=manifest(name, cleanPodPolicy="None"))
    for name in JOBS:
        start_old_pods(server, ns, name)
    ns.end_master(ns.master("finished"))
    until("a job has succeeded", lambda: old_jobs(server)["finished"]["status"]["state"] == "Succeeded", LIMIT_S)
    operator.settled_writes(LIMIT_S)
    operator.stop()
    assert versions_of(server) == (["v1"], ["v1"])
    assert owners(ns) == {OLD}
    return ns


def wait_for_collector(server, version):
    """Returns once the garbage collector follows jobs of this version.

    A cluster that has had jobs for minutes is so. Before that, the collector asks for a job whose children it sees until it gets an
    answer, with longer and longer pauses. If v1 goes in such a pause, the next answer is that there is no such job, and it forgets whose
    children they are.
    """
    def follows():
        log = (server.directory / "controller-manager.log").read_text(encoding="utf-8", errors="replace")
        before, added, rest = log.rpartition(f"{version}, Resource=horovodjobs")
        return added and "removed: [" not in before.splitlines()[-1] and '"synced garbage collector"' in rest
    until(f"the garbage collector follows {version}", follows, CONTROLLERS_S)


def old_jobs(server):
    return {job["metadata"]["name"]: job for job in server.api.request("GET", f"/apis/{OLD}/horovodjobs")["items"]}


def start_old_pods(server, ns, name):
    """The kubelets start them."""
    ns.start_workers(2, name, LIMIT_S)
    ns.start_master(name, LIMIT_S)
    until(f"{name} runs", lambda: old_jobs(server)[name]["status"]["state"] == "Running", LIMIT_S)


def versions_of(server):
    """The versions that the definition has, and those that it ever stored."""
    found = server.api.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/horovodjobs.horovod.io")
    return [version["name"] for version in found["spec"]["versions"]], found["status"]["storedVersions"]


def made(ns, *plurals):
    """The objects of these kinds that jobs have."""
    return [item for plural in plurals for item in ns.list(plural)
            if item["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "horovod-operator"]


def owners(ns):
    """The versions that the owner references of all children name."""
    return {owner["apiVersion"] for child in made(ns, *CHILDREN) for owner in child["metadata"]["ownerReferences"]}


def uids(ns):
    """Of all children and pods, and what their specs are."""
    return {(item["metadata"]["uid"], json.dumps(item.get("spec"), sort_keys=True)) for item in made(ns, *CHILDREN, "pods")}


def what_keeps(items):
    """The names, owners and finalizers of objects, and since when they go."""
    return [[item["metadata"].get(key) for key in ("name", "deletionTimestamp", "finalizers", "ownerReferences")] for item in items]


def test_the_commands_of_the_page_move_a_cluster_whose_jobs_run_on(server, ns, bash, tmp_path):
    before, jobs = uids(ns), old_jobs(server)
    for number, text in sorted(steps().items()):
        if number == 5:
            for command in text.split("\nkubectl"):
                done = bash(command if command.startswith("kubectl") else f"kubectl{command}", check=False)
                assert (done.returncode, done.stdout) == (1, ""), "something is left"
        else:
            bash(text)
    assert sorted(steps()) == [1, 2, 3, 4, 5, 6, 7]
    assert versions_of(server) == (["v1beta1"], ["v1beta1"])
    assert owners(ns) == {NEW}
    assert server.kubectl("get", "deployment", "horovod-operator", "-o", "jsonpath={.spec.replicas}").stdout == "1"
    wait_for_collector(server, NEW)

    operator = Operator(tmp_path, "--kubeconfig", str(server.kubeconfig)).wait_ready(LIMIT_S)
    operator.settled_writes(LIMIT_S)
    operator.assert_writes_stay(0)
    assert uids(ns) == before
    for name in JOBS:
        found = ns.get("horovodjobs", name)
        assert found["status"] == jobs[name]["status"] and found["spec"] == jobs[name]["spec"]
        assert all(found["metadata"][key] == jobs[name]["metadata"][key] for key in ("uid", "generation"))

    people_use(server, ns, bash)
    ns.end_master(ns.master("digits"))
    ns.wait_state("Succeeded", "digits", LIMIT_S)
    assert ns.status("digits")["attempts"] == 1
    for name in JOBS:
        bash("helm uninstall train" if name == "train" else f"kubectl delete hvj {name}")
    until(lambda: f"no children: {what_keeps(made(ns, *CHILDREN, 'pods'))}", lambda: not uids(ns), CONTROLLERS_S)
    ns.create("configmaps", {"metadata": {"name": "left", "labels": {"horovod.io/job-name": "digits"}}})
    bash("\n".join(re.findall(r"^ {4}(kubectl delete .*)$", section(), re.M)))
    assert not ns.get("configmaps", "left")
    operator.stop()


def people_use(server, ns, bash):
    """kubectl and Helm change the jobs that were there, without a warning and without a restart."""
    shown = bash("kubectl get hvj && kubectl get all && kubectl explain hvj").stdout
    assert "Warning" not in shown and re.search(r"VERSION: +v1beta1\n", shown)
    for words in (("--server-side", "--force-conflicts"), ()):
        server.kubectl("apply", *words, "-f", "-", text=manifest("digits", NEW, cleanPodPolicy="None", backoffLimit=len(words)))
        assert ns.get("horovodjobs", "digits")["spec"]["backoffLimit"] == len(words)
    uid = ns.get("horovodjobs", "train")["metadata"]["uid"]
    bash("helm upgrade train charts/horovod --reuse-values --set job.spec.backoffLimit=1")
    train = ns.get("horovodjobs", "train")
    assert train["metadata"]["uid"] == uid and train["spec"]["backoffLimit"] == 1
