"""A job's way through the operator, against the real API server; the tests play the kubelet."""
import base64
import itertools
import time

import pytest

from kubeapi import ApiError, until


def finish(ns, job="digits", replicas=2, code=0, message=""):
    ns.start_workers(replicas, job)
    master = ns.start_master(job)
    ns.wait_state("Running", job)
    ns.end_master(master, code, message)


def versions(ns):
    """Versions of all that the operator owns, by kind and name; where controllers of Kubernetes write the status,
    the generation, which counts changes of the spec."""
    fields = {"horovodjobs": "resourceVersion", "secrets": "resourceVersion", "services": "resourceVersion",
              "configmaps": "resourceVersion", "statefulsets": "generation", "jobs": "generation"}
    return {(plural, o["metadata"]["name"]): o["metadata"][field] for plural, field in fields.items()
            for o in ns.list(plural) if o["metadata"]["name"].startswith("digits")}


def test_children_have_the_contracts_names_labels_and_owner(ns, operator):
    job = ns.apply_job()
    ns.wait_state("Pending")
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    children = {"secrets": "digits-ssh", "services": "digits", "statefulsets": "digits-worker",
                "configmaps": "digits-hosts", "jobs": "digits-master"}
    for plural, name in children.items():
        child = ns.get(plural, name)
        assert child, f"{plural} {name} is missing"
        owner, = child["metadata"]["ownerReferences"]
        assert owner["uid"] == job["metadata"]["uid"] and owner["controller"] is True
        assert child["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "horovod-operator"
        assert child["metadata"]["labels"]["horovod.io/job-name"] == "digits"
    secret = ns.get("secrets", "digits-ssh")
    assert secret["immutable"] is True and set(secret["data"]) == {"id", "id.pub", "known_hosts"}
    assert base64.b64decode(secret["data"]["id"]).startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    assert base64.b64decode(secret["data"]["id.pub"]).startswith(b"ecdsa-sha2-nistp256 AAAA")


def test_a_job_succeeds_and_tells_its_story_once(ns, operator):
    ns.apply_job()
    finish(ns)
    ns.wait_state("Succeeded")
    status = ns.get("horovodjobs", "digits")["status"]
    assert ns.condition("Succeeded")["status"] == "True" and status["completionTime"]
    until("the last event", lambda: ("Succeeded", 1) in ns.events())
    assert ns.events() == [("MasterStarted", 1), ("Succeeded", 1)]


def test_a_master_that_fails_gives_its_exit_code_and_last_line(ns, operator):
    ns.apply_job()
    ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    ns.end_master(master, 3, "loading\nno such file: train.csv\n")
    ns.wait_state("Failed", timeout=5)
    condition = ns.condition("Failed")
    assert condition["reason"] == "MasterFailed"
    assert "exited with code 3" in condition["message"] and "attempt 1 of 1" in condition["message"]
    assert condition["message"].endswith("no such file: train.csv")


def test_the_list_of_hosts_is_the_ready_workers_in_numeric_order(ns, operator):
    def hosts():
        lines = ns.get("configmaps", "digits-hosts")["data"]["hostfile"].splitlines()
        assert all(line.endswith(".digits slots=1") for line in lines)
        return [int(line.split(".")[0].rsplit("-", 1)[1]) for line in lines]
    ns.apply_job(replicas=11)
    until("11 worker pods", lambda: len(ns.workers()) == 11)
    ns.start_pods([f"digits-worker-{i}" for i in (10, 2, 0)])
    until("3 are ready", lambda: ns.status().get("ready") == "3/11")
    assert ns.get("jobs", "digits-master") is None, "the master must wait for its workers"
    ns.start_workers(11)
    master = ns.start_master()
    assert hosts() == list(range(11))
    ns.set_pod("digits-worker-2", ready=False)
    until("host 2 is gone", lambda: hosts() == [0, 1, 3, 4, 5, 6, 7, 8, 9, 10])
    until("the master's kubelet is told", lambda: "horovod.io/hosts" in ns.get("pods", master)["metadata"].get(
        "annotations", {}))
    ns.set_pod("digits-worker-2")
    until("host 2 is back", lambda: hosts() == list(range(11)))


def test_the_same_manifest_again_writes_nothing(server, ns, operator):
    ns.apply_job()
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    until("the last event", lambda: ("MasterStarted", 1) in ns.events())
    writes = operator.settled_writes()
    before, audited = versions(ns), server.writes(ns.name)
    seen = operator.metric("horovod_operator_reconcile_seconds_count")
    job = ns.get("horovodjobs", "digits")
    again = {key: job[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": "digits"}}
    ns.patch("horovodjobs", "digits", again)
    assert versions(ns) == before
    ns.patch("horovodjobs", "digits", {"metadata": {"labels": {"team": "a"}}})
    until("it is looked at again", lambda: operator.metric("horovod_operator_reconcile_seconds_count") > seen)
    after = versions(ns)
    assert {k: v for k, v in after.items() if k[0] != "horovodjobs"} == \
        {k: v for k, v in before.items() if k[0] != "horovodjobs"}
    assert operator.settled_writes() == writes
    assert server.writes(ns.name) == audited


@pytest.mark.parametrize("stage", ["workers starting", "running", "finished"])
def test_a_restart_writes_nothing(server, ns, run_operator, stage):
    first = run_operator()
    ns.apply_job()
    ns.wait_state("Pending")
    if stage != "workers starting":
        ns.start_workers()
        master = ns.start_master()
        ns.wait_state("Running")
    if stage == "finished":
        ns.end_master(master)
        ns.wait_state("Succeeded")
        until("the workers are removed", lambda: not ns.workers())
    until("rest", first.is_at_rest)
    first.stop()
    before, audited = versions(ns), server.writes(ns.name)
    second = run_operator()
    until("the job is looked at", lambda: second.metric("horovod_operator_reconcile_seconds_count") >= 1)
    until("rest", second.is_at_rest)
    assert second.n_writes() == 0
    assert versions(ns) == before and server.writes(ns.name) == audited


def test_an_operator_killed_again_and_again_loses_and_repeats_nothing(server, ns, run_operator):
    ns.apply_job()
    delays = itertools.cycle([0.002, 0.01, 0.03, 0.06, 0.1, 0.15])
    steps = iter(range(1000))

    def until_killed(what, check):
        """Kills and restarts the operator until check holds."""
        while not check():
            assert next(steps) < 200, f"not after 200 restarts: {what}"
            operator = run_operator(wait=False)
            until("it has listed", lambda: operator.get("/readyz")[0] == 200)
            time.sleep(next(delays))  # where in its work the kill hits it
            operator.kill()

    until_killed("workers", lambda: len(ns.workers()) == 2)
    ns.start_workers()
    until_killed("master", ns.master)
    master = ns.start_master()
    until_killed("running", lambda: ns.state() == "Running")
    ns.end_master(master)
    until_killed("success", lambda: ns.state() == "Succeeded")
    run_operator()
    until("the last event", lambda: ("Succeeded", 1) in ns.events())
    assert ns.events() == [("MasterStarted", 1), ("Succeeded", 1)]
    created = [w[1:3] for w in server.writes(ns.name) if w[0] == "create" and w[3] == 201 and w[1] != "events/"]
    assert len(created) == len(set(created)), "a child was made twice"
    assert ns.get("horovodjobs", "digits")["status"]["attempts"] == 1


def test_a_foreign_statefulset_is_left_alone_and_named(server, ns, operator):
    labels = {"app": "other"}
    ns.create("statefulsets", {
        "metadata": {"name": "digits-worker"},
        "spec": {"replicas": 0, "serviceName": "x", "selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    ns.apply_job()
    until("the condition", lambda: (ns.condition("Running") or {}).get("reason") == "Conflict")
    assert "digits-worker" in ns.condition("Running")["message"]
    until("the event", lambda: any(reason == "Conflict" for reason, _ in ns.events()))
    touched = [w for w in server.writes(ns.name) if w[1] == "statefulsets/" and w[3] < 300]
    assert touched == []
    ns.delete("statefulsets", "digits-worker")
    ns.patch("horovodjobs", "digits", {"spec": {"backoffLimit": 1}})
    until("ours is made then", lambda: (ns.get("statefulsets", "digits-worker") or {}).get("metadata", {}).get(
        "ownerReferences"))


@pytest.mark.parametrize("plural,name", [("services", "digits"), ("configmaps", "digits-hosts"),
                                         ("statefulsets", "digits-worker")])
def test_a_deleted_child_is_made_again_while_the_job_runs(ns, operator, plural, name):
    ns.apply_job()
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    old = ns.get(plural, name)["metadata"]["uid"]
    ns.delete(plural, name)
    until(f"a new {name}", lambda: (ns.get(plural, name) or {"metadata": {"uid": old}})["metadata"]["uid"] != old)


def test_deleting_the_job_removes_all_its_children(ns, operator):
    ns.apply_job()
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    ns.delete("horovodjobs", "digits")
    until(lambda: f"all is gone, not {versions(ns)}", lambda: not versions(ns) and not ns.list("pods"), 60)
    until("the operator forgets it", lambda: operator.metric("horovod_operator_jobs") == 0)


def test_a_typo_in_a_pod_template_fails_the_job_with_the_servers_text(ns, operator):
    template = {"spec": {"containers": [{"name": "worker", "image": "i", "imagePullPolici": "Never"}]}}
    ns.create("horovodjobs", {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": "digits"},
                              "spec": {"worker": {"replicas": 1, "template": template},
                                       "master": {"template": template}}})
    ns.wait_state("Failed")
    condition = ns.condition("Failed")
    assert condition["reason"] == "InvalidTemplate" and "imagePullPolici" in condition["message"]


@pytest.mark.parametrize("label", ["controller-uid", "batch.kubernetes.io/controller-uid", "job-name",
                                   "batch.kubernetes.io/job-name"])
def test_a_label_that_the_job_controller_sets_is_refused_before_anything_is_made(ns, operator, label):
    """The API server refuses such a Job, which would come when all workers are up."""
    template = {"metadata": {"labels": {label: "mine"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "master", "image": "i"}]}}
    with pytest.raises(ApiError) as refused:
        ns.create("jobs", {"metadata": {"name": "theirs"}, "spec": {"template": template}})
    assert refused.value.code == 422 and label in str(refused.value), refused.value
    ns.create("horovodjobs", {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": "digits"}, "spec": {
        "worker": {"replicas": 1, "template": {"spec": {"containers": [{"name": "worker", "image": "i"}]}}},
        "master": {"template": template}}})
    ns.wait_state("Failed")
    condition = ns.condition("Failed")
    assert condition["reason"] == "InvalidTemplate", condition
    assert f"spec.master.template.metadata.labels: {label} is a label that the Job controller sets" in condition["message"]
    assert not any(ns.list(plural) for plural in ("statefulsets", "jobs", "pods", "secrets", "services"))


def test_a_hundred_jobs_are_served_at_once(ns, operator):
    names = [f"j{i}" for i in range(100)]
    for name in names:
        ns.apply_job(name, replicas=1)
    until("all StatefulSets", lambda: len(ns.list("statefulsets")) == 100, 30)
    until("all are pending", lambda: operator.metric("horovod_operator_jobs", state="Pending") == 100, 30)
    assert len(ns.list("secrets")) == 100 and len(ns.list("configmaps")) >= 100
