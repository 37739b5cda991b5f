"""Labels of ours that somebody edits, against the real API server and its controllers: its watches tell DELETED of what
they no longer select, and the StatefulSet controller lets go of a pod that it no longer selects."""
import pytest

from kubeapi import until

MANAGER, JOB, ROLE = "app.kubernetes.io/managed-by", "horovod.io/job-name", "horovod.io/role"
CHILDREN = {"secrets": "digits-ssh", "services": "digits", "configmaps": "digits-hosts", "statefulsets": "digits-worker",
            "jobs": "digits-master"}
EDITS = [(MANAGER, "argocd"), (MANAGER, None), (JOB, "another"), (JOB, None)]
WRITES_MAX = 4  # of one edit: the labels, an event, the status, and the creation that finds what is there


def run(ns):
    ns.apply_job()
    ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    return master


def uids(ns):
    return {(plural, item["metadata"]["name"]): item["metadata"]["uid"]
            for plural in [*CHILDREN, "pods"] for item in ns.list(plural) if item["metadata"]["name"].startswith("digits")}


def labels(ns, plural, name):
    return ns.get(plural, name)["metadata"].get("labels", {})


def is_let_go(ns, name):
    return not ns.get("pods", name)["metadata"].get("ownerReferences")


def edit(ns, plural, name, label, value):
    ns.patch(plural, name, {"metadata": {"labels": {label: value}}})


def edits_of(plural):
    return EDITS + ([(ROLE, None), (ROLE, "other")] if plural in ("statefulsets", "jobs", "pods") else [])


def check_restored(ns, plural, name, was):
    until(lambda: f"labels of {plural} {name} are restored: {labels(ns, plural, name)}",
          lambda: was.items() <= labels(ns, plural, name).items())
    if plural == "pods":
        until("it has its controller", lambda: not is_let_go(ns, name))


def finish(ns, master):
    assert ns.state() == "Running"
    ns.end_master(master)
    ns.wait_state("Succeeded")
    reasons = [reason for reason, _ in ns.events()]
    assert "Restarting" not in reasons and "Failed" not in reasons
    assert ns.status().get("interruptions", 0) == ns.status().get("failures", 0) == 0


def objects(master):
    return {**CHILDREN, "pods": "digits-worker-1", "masters": master}


@pytest.mark.parametrize("kind", [*CHILDREN, "pods", "masters"])
def test_a_running_job_goes_on_when_labels_are_edited(server, ns, operator, kind):
    master = run(ns)
    plural, name = kind.replace("masters", "pods"), objects(master)[kind]
    was, known = labels(ns, plural, name), uids(ns)
    n_writes = len(server.writes(ns.name))
    for label, value in edits_of(plural):
        edit(ns, plural, name, label, value)
        check_restored(ns, plural, name, was)
    until("the queue is empty", lambda: operator.metric("horovod_operator_queue_depth") == 0)
    assert uids(ns) == known, "every object is the one that it was"
    restored = [e for e in ns.list("events") if e["reason"] == "LabelsRestored"]
    assert restored and all(name in e["message"] for e in restored)
    finish(ns, master)
    assert len(server.writes(ns.name)) - n_writes <= WRITES_MAX * len(edits_of(plural)) + 3  # of the end: status, event, set


@pytest.mark.parametrize("kind", [*CHILDREN, "pods", "masters"])
def test_labels_that_are_edited_while_no_operator_runs_are_restored(server, ns, run_operator, kind):
    operator = run_operator()
    master = run(ns)
    plural, name = kind.replace("masters", "pods"), objects(master)[kind]
    was, known = labels(ns, plural, name), uids(ns)
    n_writes = len(server.writes(ns.name))
    for label, value in edits_of(plural):
        operator.stop()
        edit(ns, plural, name, label, value)
        if kind == "pods":
            until("its set lets it go", lambda: is_let_go(ns, name))
        operator = run_operator()
        check_restored(ns, plural, name, was)
        assert ns.state() == "Running"
    until("the queue is empty", lambda: operator.metric("horovod_operator_queue_depth") == 0)
    assert uids(ns) == known, "every object is the one that it was"
    finish(ns, master)
    assert len(server.writes(ns.name)) - n_writes <= WRITES_MAX * len(edits_of(plural)) + 3


def test_a_job_whose_objects_are_all_hidden_suspends_and_resumes(ns, run_operator):
    operator = run_operator()
    run(ns)
    operator.stop()
    old = uids(ns)
    for plural, name in [*CHILDREN.items(), ("pods", "digits-worker-0")]:
        edit(ns, plural, name, JOB, None)
    until("its set lets it go", lambda: is_let_go(ns, "digits-worker-0"))
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
    run_operator()
    ns.wait_state("Suspended")
    until("no pods are left", lambda: not ns.list("pods"))
    assert ns.get("jobs", "digits-master") is None
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
    ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    for plural in ("secrets", "services", "configmaps", "statefulsets"):
        assert labels(ns, plural, CHILDREN[plural])[JOB] == "digits", plural
        assert ns.get(plural, CHILDREN[plural])["metadata"]["uid"] == old[plural, CHILDREN[plural]], plural
    ns.end_master(master)
    ns.wait_state("Succeeded")


def n_misses(operator):
    return operator.metric("horovod_operator_api_requests_total", verb="get", resource="jobs", code="404")


def test_what_was_deleted_is_found_to_be_gone_by_one_look(ns, operator):
    run(ns)
    old = {ns.get("pods", name)["metadata"]["uid"] for name in ns.workers()}
    n = n_misses(operator)
    ns.delete("jobs", "digits-master")
    until("the job begins anew", lambda: ("Restarting", 1) in ns.events())
    assert n_misses(operator) == n + 1
    until("the workers are others", lambda: len(ns.workers()) == 2 and
          not old & {item["metadata"]["uid"] for item in ns.list("pods")})
    ns.start_workers()
    ns.end_master(ns.start_master())
    ns.wait_state("Succeeded")
