"""What an older or a foreign Job called as a master's Job has left, its Events above all, is no end of a HorovodJob that never ran."""
import time

import pytest

from kubeapi import ApiError, until

LIMIT_S = 60
FOREIGN = {"metadata": {"name": "digits-master"}, "spec": {"backoffLimit": 0, "template": {"spec": {
    "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}


def uid(ns, plural, name):
    return (ns.get(plural, name) or {"metadata": {"uid": None}})["metadata"]["uid"]


def is_conflict(ns):
    return (ns.condition("Running") or {}).get("reason") == "Conflict"


def end_foreign(ns, code):
    """Its pod runs and ends, and the Job controller writes of it."""
    def pod():
        return next((p["metadata"]["name"] for p in ns.list("pods")
                     if (p["metadata"].get("ownerReferences") or [{}])[0].get("name") == "digits-master"), None)
    ns.end_master(until("the foreign Job's pod", pod, LIMIT_S), code)
    until("its end", lambda: end_of(ns, uid(ns, "jobs", "digits-master")), LIMIT_S)


def end_of(ns, job):
    """The Event about the end of the Job of that uid."""
    return next((e for e in ns.list("events") if e["involvedObject"].get("uid") == job
                 and e["reason"] in ("Completed", "BackoffLimitExceeded")), None)


def runs_and_succeeds(ns, attempts):
    """The job has the attempt that it never had, and its own end."""
    assert ns.start_master(timeout=150)
    ns.wait_state("Running")
    assert ns.status()["attempts"] == attempts
    ns.end_master(ns.master())
    ns.wait_state("Succeeded")


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("is_away", [False, True], ids=["in-sight", "out-of-sight"])
def test_the_end_of_a_foreign_job_in_the_way_is_not_the_jobs(server, ns, run_operator, code, is_away):
    """Whether the foreign Job is removed under the operator's eyes, which did not make the workers, or before it starts."""
    operator = run_operator()
    ns.create("jobs", FOREIGN)
    ns.apply_job()
    ns.start_workers()
    until(lambda: f"a conflict: {ns.status()}", lambda: is_conflict(ns), LIMIT_S)
    operator.stop()
    if not is_away:
        run_operator()
    end_foreign(ns, code)
    ns.delete("jobs", "digits-master")
    until("it is gone", lambda: ns.get("jobs", "digits-master") is None, LIMIT_S)
    if is_away:
        run_operator()
    runs_and_succeeds(ns, 1)


def test_the_end_of_a_foreign_job_between_two_attempts_is_not_the_next_ones(server, ns, run_operator):
    operator = run_operator()
    ns.apply_job(backoffLimit=3)
    ns.start_workers()
    ns.end_master(ns.start_master(), 1)

    def is_taken():
        try:
            ns.create("jobs", FOREIGN)
            return True
        except ApiError:
            return False
    until("the name is taken", is_taken, LIMIT_S, 0.005)
    ns.start_workers()

    def is_reported():
        ns.start_new_workers("digits")  # pods of the attempt before may have been among those that were started
        return is_conflict(ns)
    until(lambda: f"a conflict: {ns.status()}", is_reported, LIMIT_S)
    operator.stop()
    run_operator()
    end_foreign(ns, 0)
    ns.delete("jobs", "digits-master")
    runs_and_succeeds(ns, 2)


def test_the_end_of_a_foreign_job_in_the_place_of_a_deleted_master_is_not_the_jobs(server, ns, run_operator):
    """All of it happens while no operator runs: the status has the uid of the master's Job, and no other Job's end counts."""
    operator = run_operator()
    ns.apply_job()
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    assert ns.status()["masterUID"] == uid(ns, "jobs", "digits-master")
    operator.stop()
    ns.delete("jobs", "digits-master")
    until("it is gone with its pod", lambda: not ns.get("jobs", "digits-master") and not ns.master(), LIMIT_S)
    ns.create("jobs", FOREIGN)
    end_foreign(ns, 0)
    ns.delete("jobs", "digits-master")
    until("the foreign one is gone", lambda: not ns.get("jobs", "digits-master"), LIMIT_S)
    run_operator()
    until("it is reported", lambda: "MasterDeleted" in str(ns.status().get("attemptLogs")), LIMIT_S)
    runs_and_succeeds(ns, 2)


def test_a_foreign_job_from_before_the_workers_that_nobody_saw_is_not_the_master(server, ns, run_operator):
    """It was there, ended and went while no operator ran: no status records it."""
    operator = run_operator()
    ns.create("jobs", FOREIGN)
    until("the controller's first event", lambda: any(e["involvedObject"]["name"] == "digits-master" for e in ns.list("events")), LIMIT_S)
    first = int(time.time())
    until("a later second", lambda: int(time.time()) > first)
    ns.apply_job()
    until("the workers", lambda: len(ns.workers()) == 2, LIMIT_S)
    operator.stop()
    assert not is_conflict(ns)
    ns.start_workers()
    end_foreign(ns, 0)
    ns.delete("jobs", "digits-master")
    until("it is gone", lambda: ns.get("jobs", "digits-master") is None, LIMIT_S)
    run_operator()
    runs_and_succeeds(ns, 1)


def wait_for_a_new_second():
    """Most of a second is left then."""
    until("a new second", lambda: time.time() % 1 < .1, pause=.005)


def test_the_success_of_a_job_made_again_in_the_same_second_is_not_the_new_ones(server, ns, run_operator):
    for _ in range(8):
        operator = run_operator()
        ns.apply_job()
        ns.start_workers()
        master = ns.start_master()
        old = uid(ns, "jobs", "digits-master")
        wait_for_a_new_second()
        ns.end_master(master)
        end = until("the event", lambda: end_of(ns, old), LIMIT_S, .01)
        ns.delete("horovodjobs", "digits")
        until("it is gone", lambda: ns.get("horovodjobs", "digits") is None, LIMIT_S, .005)
        made = ns.apply_job()["metadata"]
        new = made["uid"]

        def is_made():
            of = ns.get("statefulsets", "digits-worker")
            return of and any(o["uid"] == new for o in of["metadata"].get("ownerReferences", [])) and len(
                [p for p in ns.pods_of("digits", "worker") if p["metadata"]["ownerReferences"][0]["uid"] == of["metadata"]["uid"]]) == 2
        until("the new workers", is_made, LIMIT_S)
        operator.stop()
        run_operator()
        ns.start_workers()
        runs_and_succeeds(ns, 1)
        is_same = end["lastTimestamp"] == made["creationTimestamp"]
        ns.delete("horovodjobs", "digits")
        until("all is gone", lambda: not ns.list("pods") and not ns.get("jobs", "digits-master"), LIMIT_S)
        if is_same:
            return


LEFTOVERS = [("secrets", "digits-ssh"), ("services", "digits"), ("configmaps", "digits-hosts")]
TAKEN = [("statefulsets", "digits-worker"), ("jobs", "digits-master")]


def orphan(ns, is_patient):
    """Deletes a job with --cascade=orphan as soon as it has its master's Job, or that its pod; returns the Job's metadata.

    The garbage collector takes the owner off those children that it has seen by then. A Job that was made a moment ago, and that it has
    not seen, it removes after the HorovodJob: None then, with nothing left."""
    ns.apply_job()
    until("the workers", lambda: len(ns.workers()) == 2, LIMIT_S)
    wait_for_a_new_second()
    ns.start_workers()
    made = ns.until("the master's Job", lambda: ns.get("jobs", "digits-master"), timeout=LIMIT_S)["metadata"]
    if is_patient:
        ns.until("its pod", ns.master, timeout=LIMIT_S)
    ns.api.request("DELETE", ns.path("horovodjobs", "digits"), {"propagationPolicy": "Orphan"})
    until("it is gone", lambda: ns.get("horovodjobs", "digits") is None, LIMIT_S, .005)
    job = ns.get("jobs", "digits-master")
    if job and not job["metadata"].get("ownerReferences"):
        return made
    until("the Job goes with its owner", lambda: ns.get("jobs", "digits-master") is None, LIMIT_S)
    for item in [*LEFTOVERS, TAKEN[0]]:
        ns.delete(*item)
    until("all is gone", lambda: not ns.list("pods") and not ns.list("statefulsets"), LIMIT_S)
    return None


def test_what_an_orphaned_job_has_left_is_not_taken_by_one_made_in_the_same_second(server, ns, operator):
    """Deleted with --cascade=orphan, and made again, in the second in which its master's Job was made."""
    n_tried = 0
    for n in range(10):
        made = orphan(ns, is_patient=n % 2)
        if not made:
            continue
        n_tried += 1
        new = ns.apply_job()["metadata"]
        until(lambda: f"a conflict: {ns.status()}", lambda: is_conflict(ns), LIMIT_S)
        for item in LEFTOVERS:
            ns.delete(*item)
        until("the others are made anew", lambda: all(new["uid"] in str(ns.get(*item)) for item in LEFTOVERS), LIMIT_S)
        ns.end_master(ns.start_master())
        until("the old master's end", lambda: end_of(ns, made["uid"]), LIMIT_S)
        until(lambda: f"still a conflict: {ns.status()}", lambda: is_conflict(ns), LIMIT_S)
        assert "OwnerRestored" not in dict(ns.events()) and uid(ns, "jobs", "digits-master") == made["uid"]
        assert not any(new["uid"] in str(ns.get(*item)["metadata"].get("ownerReferences")) for item in TAKEN)
        for item in TAKEN:
            ns.delete(*item)
        until("the new set", lambda: new["uid"] in str(ns.get("statefulsets", "digits-worker")), LIMIT_S)
        until("the old pods are gone", lambda: not [p for p in ns.list("pods") if p["status"].get("podIP")], LIMIT_S)
        ns.start_workers()
        runs_and_succeeds(ns, 1)
        ns.delete("horovodjobs", "digits")
        until("all is gone", lambda: not ns.list("pods") and not ns.get("jobs", "digits-master"), LIMIT_S)
        if made["creationTimestamp"] == new["creationTimestamp"]:
            return
    assert n_tried, "the garbage collector took the Job with its owner each time"
