"""A definition of HorovodJob in the cluster that is not the operator's: one of an older version, whose status lacks fields or whose spec
lacks defaults, and one without the status subresource."""
import pytest
import yaml

from kubeapi import Namespace, until
from operator_process import ROOT
from real_server import Operator, Server
from tenants import LIMIT_S, bystander_on, finish, run_job

LATER_FIELDS = ["replicas", "failuresInARow", "nextAttemptTime", "attemptLogs", "failureLog", "cleaned", "interruptions", "sshPort",
                "image", "masterUID"]
MOST_WRITES = 40  # of a job with two attempts, and a fight


def definition():
    return yaml.safe_load((ROOT / "crds/horovodjobs.yaml").read_text())


def older():
    """That of an older version: it knows fewer fields of the status."""
    found = definition()
    status = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    for field in LATER_FIELDS:
        del status[field]
    return found


def without_defaults():
    """That of an older version, of which jobs are stored."""
    def strip(schema):
        schema.pop("default", None)
        for sub in schema.get("properties", {}).values():
            strip(sub)

    found = definition()
    strip(found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return found


def without_status():
    """One that somebody wrote by hand."""
    found = definition()
    del found["spec"]["versions"][0]["subresources"]
    return found


@pytest.fixture
def server(tmp_path):
    """One of the test's own: a definition is there for all namespaces."""
    server = Server(tmp_path / "apiserver")
    yield server
    server.down()


def apply(server, manifest):
    server.kubectl("apply", "-f", "-", text=yaml.safe_dump(manifest))
    until("the definition is served", lambda: server.kubectl("get", "horovodjobs", "-A", check=False).returncode == 0, LIMIT_S)


@pytest.fixture
def run(server, tmp_path):
    """Starts an operator with a definition; the namespace of the tenant."""
    started = []

    def begin(manifest):
        apply(server, manifest)
        started.append(Operator(tmp_path, "--kubeconfig", str(server.kubeconfig)).wait_ready(60))
        return Namespace(server.api, "default")

    yield begin
    for operator in started:
        operator.stop()


def next_master(ns, before):
    """Kubelets start the pods that are there; the name of the next attempt's master once it is made."""
    for pod in ns.list("pods"):
        if "-worker-" in pod["metadata"]["name"] and "deletionTimestamp" not in pod["metadata"] and \
                "containerStatuses" not in pod["status"]:
            ns.try_set_pod(pod["metadata"]["name"])
    return ns.master() if ns.master() != before else None


def test_a_job_fails_restarts_and_succeeds_with_a_definition_of_an_older_version(server, run):
    ns = run(older())
    master = run_job(ns, backoffLimit=2)
    ns.end_master(master, code=1)
    master = until(lambda: f"another attempt: {ns.status()}", lambda: next_master(ns, master), LIMIT_S)
    ns.set_pod(master, container="master")
    ns.wait_state("Running", timeout=LIMIT_S)
    assert ns.condition("Contested")["reason"] == "StatusNotKept", ns.status()
    assert "status.cleaned" in ns.condition("Contested")["message"]
    assert [event for event in ns.events() if event[0] == "StatusNotKept"] == [("StatusNotKept", 1)]
    bystander = bystander_on(server)
    bystander.succeeds()
    bystander.assert_few_writes(server, MOST_WRITES)
    finish(ns, master=master)
    assert ns.status()["attempts"] == 2 and ns.status()["failures"] == 1
    writes = server.writes("default")
    assert len(writes) <= MOST_WRITES, writes


def test_a_definition_without_the_status_subresource_is_reported_and_ends_nothing(server, run):
    ns = run(without_status())
    ns.apply_job()
    until(lambda: f"an event: {ns.events()}", lambda: "StatusNotWritten" in dict(ns.events()), LIMIT_S)
    ns.start_workers(timeout=LIMIT_S)
    master = ns.start_master(timeout=LIMIT_S)
    apply(server, definition())
    ns.wait_state("Running", timeout=LIMIT_S)
    bystander = bystander_on(server)
    bystander.succeeds()
    bystander.assert_few_writes(server)
    finish(ns, master=master)
    writes = server.writes("default")
    assert len(writes) <= MOST_WRITES, writes
    assert len([write for write in writes if write[:1] == ("create",) and write[1] == "jobs/"]) == 1, writes


def test_defaults_of_a_newer_definition_change_nothing_of_a_job_that_was_stored_without(server, run):
    """Neither do they count as a change of the spec, nor as one of what runs when the job is scaled later."""
    ns = run(without_defaults())
    master = run_job(ns, worker={"replicas": 2, "minReplicas": 1}, network={"interfaces": ["eth0"]})
    assert "suspend" not in ns.get("horovodjobs", "digits")["spec"]
    pods = {pod["metadata"]["uid"] for pod in ns.list("pods")}
    apply(server, definition())
    shown = until("the defaults are shown", lambda: (job := ns.get("horovodjobs", "digits")) and "suspend" in job["spec"] and job, LIMIT_S)
    assert shown["metadata"]["generation"] == 1 and shown["spec"]["suspend"] is False
    assert shown["spec"]["network"] == {"interfaces": ["eth0"], "hostNames": "DNS", "hostNetwork": False}
    ns.patch("horovodjobs", "digits", {"spec": {"replicas": 3}}, "scale")
    ns.start_pods(["digits-worker-2"])
    until(lambda: f"three workers: {ns.status()}", lambda: ns.status().get("ready") == "3/3", LIMIT_S)
    for field, value in (("backoffLimit", 1), ("cleanPodPolicy", "All")):
        ns.patch("horovodjobs", "digits", {"spec": {field: value}})
    until("the operator has seen that", lambda: ns.status()["observedGeneration"] == 4, LIMIT_S)
    assert ns.state() == "Running" and ns.master() == master and ns.status()["interruptions"] == 0, ns.status()
    assert pods < {pod["metadata"]["uid"] for pod in ns.list("pods")}
    finish(ns, master=master)
    assert ns.status()["attempts"] == 1
