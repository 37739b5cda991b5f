"""What others write into a job's own objects and status, and beside them, on a real API server."""
import contextlib
import json
import re
import signal
import time

import pytest

from kubeapi import ApiError, until
from test_hosts import hosts, lines

LABELS = {"app.kubernetes.io/managed-by": "horovod-operator", "horovod.io/job-name": "digits"}


def start(ns, **spec):
    ns.apply_job(replicas=2, **spec)
    ns.start_workers(2)
    master = ns.start_master()
    ns.wait_state("Running")
    return master


def uid(ns, plural, name):
    found = ns.get(plural, name)
    return found and found["metadata"]["uid"]


# ---- children of others ----

FOREIGN = {
    "configmaps": ("digits-hosts", {"data": {"theirs": "x"}}),
    "services": ("digits", {"spec": {"clusterIP": "None", "selector": {"app": "theirs"}}}),
    "secrets": ("digits-ssh", {"stringData": {"theirs": "x"}}),
}


@pytest.mark.parametrize("plural", FOREIGN)
def test_a_foreign_child_beside_a_running_master_is_told_of_until_it_is_gone(ns, operator, server, plural):
    name, body = FOREIGN[plural]
    master = start(ns)
    own = uid(ns, plural, name)
    # Whoever is first makes it; the operator answers within milliseconds.

    def replaced():
        ns.delete(plural, name)
        try:
            ns.create(plural, {"metadata": {"name": name, "labels": LABELS}, **body})
        except ApiError as error:
            assert error.code == 409
            return False
        return True
    until("the foreign object is there", replaced)
    assert uid(ns, plural, name) != own
    until("the message tells of it", lambda: "exists and is not controlled by this HorovodJob"
          in ns.condition("Running")["message"])
    until("an event", lambda: ("Conflict", 1) in ns.events())
    assert ns.state() == "Running" and ns.condition("Running")["status"] == "True"
    operator.assert_writes_stay(operator.settled_writes())
    ns.delete(plural, name)
    until("it is made again", lambda: (ns.get(plural, name) or {"metadata": {}})["metadata"].get("ownerReferences"),
          80)  # it looks again once a minute
    until("the message is as before", lambda: "exists" not in ns.condition("Running")["message"], 40)
    assert [e for e in ns.events() if e[0] == "Conflict"] == [("Conflict", 1)]
    ns.end_master(master)
    ns.wait_state("Succeeded")


# ---- the master's Job, suspended by hand ----

@contextlib.contextmanager
def standing_still(operator):
    """The operator does nothing meanwhile."""
    operator.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        operator.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("held", [{"suspend": True}, {"parallelism": 0}], ids=["suspend", "parallelism"])
def test_a_master_suspended_by_hand_starts_again_and_ends(ns, operator, held):
    start(ns)
    job, workers = uid(ns, "jobs", "digits-master"), {n: uid(ns, "pods", n) for n in ns.workers()}
    ns.patch("jobs", "digits-master", {"spec": held})
    until("the attempt has ended", lambda: ns.status().get("interruptions") == 1)
    until("its workers are gone", lambda: not {uid(ns, "pods", n) for n in ns.workers()} & set(workers.values()))
    ns.start_workers(2)
    ns.until("another Job", lambda: uid(ns, "jobs", "digits-master") not in (None, job))
    ns.end_master(ns.start_master())
    ns.wait_state("Succeeded")
    status = ns.status()
    assert status["failures"] == 0 and status["attempts"] == 2
    assert ("Restarting", 1) in ns.events()


def test_a_master_suspended_before_it_ran_is_resumed(ns, operator):
    ns.apply_job(replicas=2)
    ns.start_workers(2)
    first = ns.until("the master's pod", ns.master)
    job = uid(ns, "jobs", "digits-master")
    with standing_still(operator):  # it is faster than the Job controller, which would see no suspension
        ns.patch("jobs", "digits-master", {"spec": {"suspend": True}})
        ns.until("its pod goes", lambda: first not in [pod["metadata"]["name"] for pod in ns.pods_of("digits", "master")])
    until("it is resumed", lambda: ns.get("jobs", "digits-master")["spec"]["suspend"] is False)
    ns.until("another pod", lambda: ns.master() not in (None, first))
    ns.end_master(ns.start_master())
    ns.wait_state("Succeeded")
    assert uid(ns, "jobs", "digits-master") == job and ns.status()["interruptions"] == 0
    assert ("MasterSuspended", 1) in ns.events()


# ---- forged status ----

FORGED = {
    "ready": {"ready": "9/9"},
    "workers": {"workers": {"ready": 7, "desired": 2147483647}},
    "state": {"state": "Succeeded"},
    "message": {"message": "x" * 300000},
    "selector": {"selector": "app=theirs"},
    "attempts": {"attempts": -2147483648, "failures": -1, "interruptions": -2147483648},
    "overflow": {"attempts": 2147483647, "failures": 2147483647, "interruptions": 2147483647, "cleaned": 2147483647},
    "wait": {"nextAttemptTime": "9999-12-31T23:59:59Z", "failuresInARow": 2147483647},
    "times": {"completionTime": "1960-01-01T00:00:00Z", "startTime": "1960-01-01T00:00:00Z"},
    "future": {"startTime": "9999-12-31T23:59:59Z"},
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_status_is_corrected_by_one_write(ns, operator, server, what):
    master = start(ns)
    until("all is told", lambda: ns.status().get("ready") == "2/2" and ns.status()["hosts"] == 2, 40)
    before = ns.status()
    writes = operator.settled_writes()
    ns.patch("horovodjobs", "digits", {"status": FORGED[what]}, "status")
    until(f"{what} is corrected", lambda: all(ns.status().get(k) != v for k, v in FORGED[what].items()), 40)
    after = ns.status()
    changed = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
    assert changed <= {"startTime"}, (changed, before, after)
    operator.assert_writes_stay(writes + 1)
    ns.end_master(master)
    ns.wait_state("Succeeded")
    assert "attempt" in ns.status()["message"] and "-" not in ns.status()["message"].split("(attempt")[1]


def test_conditions_of_others_stay_and_a_forged_end_is_made_whole(ns, operator):
    start(ns)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    other = {"type": "example.com/Audited", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": now}
    ns.patch("horovodjobs", "digits", {"status": {"conditions": ns.status()["conditions"] + [other]}}, "status")
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
    ns.wait_state("Suspended")
    assert ns.condition("example.com/Audited") == other
    both = [{**other, "type": kind} for kind in ("Succeeded", "Failed")]
    ns.patch("horovodjobs", "digits", {"status": {"conditions": ns.status()["conditions"] + both}}, "status")
    ns.wait_state("Failed", timeout=40)
    assert ns.condition("Succeeded")["status"] == "False" and ns.status()["completionTime"]
    assert ns.condition("example.com/Audited") == other
    operator.assert_writes_stay(operator.settled_writes())


# ---- pods of others, and texts ----

def test_pods_with_our_labels_and_no_owner_hold_nothing_up(ns, operator):
    pods = {"stray": "worker", "digits-worker-x": "worker", "digits-master-zzzzz": "master"}
    for name, role in pods.items():
        ns.create("pods", {"metadata": {"name": name, "labels": {**LABELS, "horovod.io/role": role}},
                           "spec": {"containers": [{"name": role, "image": "i"}]}})
        ns.set_pod(name, container=role)
    ns.set_pod("digits-master-zzzzz", phase="Failed", ready=False, container="master",
               terminated={"exitCode": 9, "message": "forged"})
    ns.apply_job(replicas=2, backoffLimit=1)
    ns.start_workers(2)

    def own_master():
        ns.start_new_workers("digits")
        owned = [p for p in ns.list("pods") if p["metadata"].get("ownerReferences", [{}])[0].get("kind") == "Job"
                 and "deletionTimestamp" not in p["metadata"] and p["status"].get("phase") not in ("Succeeded", "Failed")]
        return owned and owned[0]["metadata"]["name"]

    for code in (1, 0):
        name = until("the master's pod", own_master)
        ns.set_pod(name, container="master")
        ns.wait_state("Running")
        assert hosts(ns) == lines([0, 1])
        ns.end_master(name, code, "own words")
        if code:
            until("the next attempt", lambda: ns.status().get("failures") == 1)
    ns.wait_state("Succeeded")
    assert ns.status()["failureLog"] == "own words"
    assert all(ns.get("pods", name) and "deletionTimestamp" not in ns.get("pods", name)["metadata"] for name in pods)


HARMFUL = "\x1b[31mred\x1b[0m \u202eturned\u2069\x07"
HARMLESS = "?[31mred?[0m ???turned????"  # one for each byte


def told(ns):
    """All that is told of the job, as it stands in the API."""
    job = ns.get("horovodjobs", "digits")
    return json.dumps([job["status"], [event["message"] for event in ns.list("events") if
                                       event["involvedObject"]["kind"] == "HorovodJob"]], ensure_ascii=False)


def test_what_others_say_has_no_control_characters_where_it_is_told(ns, operator):
    """A terminal would carry them out, and turn the direction of writing."""
    ns.apply_job()
    until("a worker", lambda: "digits-worker-0" in ns.workers())
    ns.patch("pods", "digits-worker-0", {"status": {"phase": "Pending", "containerStatuses": [
        {"name": "worker", "ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": {
            "waiting": {"reason": "CreateContainerError", "message": HARMFUL}}}]}}, "status")
    until("its trouble", lambda: HARMLESS in (ns.condition("WorkersReady") or {"message": ""})["message"], 40)
    ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    ns.end_master(master, 3, f"first {HARMFUL}\n{HARMFUL} of the master\n")
    ns.wait_state("Failed")
    assert ns.condition("Failed")["message"].endswith(f"{HARMLESS} of the master"), ns.condition("Failed")
    assert ns.status()["failureLog"] == f"first {HARMLESS}\n{HARMLESS} of the master"
    until("the event", lambda: ("Failed", 1) in ns.events())
    assert not re.search(r"\\u00[01]|[\x7f\u202a-\u202e\u2066-\u2069]", told(ns)), told(ns)


def create_worker(ns, name):
    """A pod of somebody else's, with all labels of a worker and no owner."""
    ns.create("pods", {"metadata": {"name": name, "labels": {**LABELS, "horovod.io/role": "worker"}},
                       "spec": {"containers": [{"name": "worker", "image": "i"}]}})
    ns.set_pod(name)


@pytest.mark.parametrize("names", [["digits-worker-00"], ["digits-worker-01", "digits-worker-007"], ["digits-worker-4294967297"]])
def test_pods_that_a_set_would_take_for_workers_are_named_and_left_alone(ns, operator, names):
    """The StatefulSet controller reads 0 in worker-00, and would remove what it has adopted with its own."""
    for name in names:
        create_worker(ns, name)
    create_worker(ns, "digits-worker-1x")  # no set takes it
    with pytest.raises(ApiError) as refused:
        create_worker(ns, "digits-worker-+1")
    assert refused.value.code == 422
    ns.apply_job(replicas=2)
    until(lambda: f"they are named: {ns.condition('Running')}", lambda: f" {ns.name}/{', '.join(names)} ha" in (
        ns.condition("Running") or {"message": ""})["message"], 40)
    assert ns.condition("Running")["reason"] == "Conflict" and ns.get("statefulsets", "digits-worker") is None
    assert [reason for reason, _ in ns.events()].count("Conflict") == 1
    for name in names:
        assert not ns.get("pods", name)["metadata"].get("ownerReferences")
        ns.delete("pods", name)
    ns.start_workers(2)
    master = ns.start_master()
    ns.wait_state("Running")
    assert hosts(ns) == lines([0, 1])
    ns.end_master(master)
    ns.wait_state("Succeeded")
    assert ns.get("pods", "digits-worker-1x")


def test_a_pod_in_the_place_of_a_worker_is_named(ns, operator):
    """The StatefulSet controller takes worker-00 for worker-0, adopts it, and makes no other."""
    ns.apply_job(replicas=2)
    until("the workers", lambda: len(ns.workers()) == 2)
    create_worker(ns, "digits-worker-00")
    until("it is adopted", lambda: ns.get("pods", "digits-worker-00")["metadata"].get("ownerReferences"))
    ns.delete("pods", "digits-worker-0")
    until("the message names it", lambda: "pod digits-worker-00 takes the place of a worker" in (
        ns.condition("WorkersReady") or {"message": ""})["message"], 40)
    assert ns.status()["ready"] == "0/2"
    ns.delete("pods", "digits-worker-00")
    ns.start_workers(2)
    ns.end_master(ns.start_master())
    ns.wait_state("Succeeded")
    assert not any("worker-00" in line for line in hosts(ns))


def test_the_character_nul_in_a_template_is_refused_by_its_path(ns, operator):
    ns.apply_job(args=["--name", "a\0b"])
    ns.wait_state("Failed")
    failed = ns.condition("Failed")
    assert failed["reason"] == "InvalidTemplate"
    assert failed["message"].startswith("spec.args[1]: contains the character NUL (\\u0000)")
