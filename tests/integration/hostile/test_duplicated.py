"""Names that two want: jobs whose children have the same names, the same name in two namespaces, and one job after the other
under one name."""
import pytest

from kubeapi import until
from tenants import LIMIT_S, finish, run_job, start_pods

WRITES_OF_A_JOB = 16


def group(name, replicas=1):
    return [{"name": name, "replicas": replicas}]


def uid(ns, plural, name):
    return (ns.get(plural, name) or {"metadata": {"uid": None}})["metadata"]["uid"]


def is_conflict(ns, name):
    return (ns.condition("Running", name) or {}).get("reason") == "Conflict"


def start_all(ns, names):
    """Kubelets that start what there is of these pods."""
    for pod in ns.list("pods"):
        name = pod["metadata"]["name"]
        if name in names and "containerStatuses" not in pod["status"] and "deletionTimestamp" not in pod["metadata"]:
            ns.set_pod(name)


def life(ns, name, workers):
    """The job gets all its workers and its master, and ends."""
    def is_running():
        start_all(ns, workers)
        return ns.master(name)
    until(lambda: f"the master of {name}: {ns.status(name)}", is_running, LIMIT_S)
    finish(ns, name, ns.start_master(name))


def test_two_jobs_that_want_one_set_of_workers_take_turns(ns, operator, attack, bystander):
    """Job x with a group "worker", and job x-worker: both want the StatefulSet x-worker-worker."""
    with attack(at_most=4 * WRITES_OF_A_JOB):
        ns.apply_job("x", replicas=1, workerGroups=group("worker"))
        ns.apply_job("x-worker", replicas=1)
        until("one of them waits", lambda: is_conflict(ns, "x") or is_conflict(ns, "x-worker"), LIMIT_S)
        bystander.succeeds()
        waits = "x" if is_conflict(ns, "x") else "x-worker"
        first = "x-worker" if waits == "x" else "x"
        workers = {"x": ["x-worker-0", "x-worker-worker-0"], "x-worker": ["x-worker-worker-0"]}
        life(ns, first, workers[first])
        ns.delete("horovodjobs", first)
        until("it is gone with its set", lambda: not ns.get("horovodjobs", first), LIMIT_S)
        life(ns, waits, workers[waits])
        assert ns.status(waits)["attempts"] == 1


def test_a_group_whose_set_is_called_like_a_worker_confuses_nobody(ns, operator, attack, bystander):
    """Job y with a group "0": the StatefulSet y-worker-0, beside the pod y-worker-0; and a job y-worker-0."""
    with attack(at_most=4 * WRITES_OF_A_JOB):
        ns.apply_job("y", replicas=1, workerGroups=group("0"))
        ns.apply_job("y-worker-0", replicas=1)
        ns.apply_job("y-worker", replicas=1)
        bystander.succeeds()
        life(ns, "y", ["y-worker-0", "y-worker-0-0"])
        life(ns, "y-worker-0", ["y-worker-0-worker-0"])
        life(ns, "y-worker", ["y-worker-worker-0"])


def test_the_same_name_in_two_namespaces_is_two_jobs(new_namespace, ns, operator, attack, bystander):
    with attack(at_most=WRITES_OF_A_JOB):
        theirs = bystander.ns
        theirs.apply_job("digits")
        master = run_job(ns)
        assert theirs.master() is None and theirs.state() != "Running"
        finish(ns, master=master)
        bystander.succeeds()
        theirs.delete("horovodjobs", "digits")


@pytest.mark.parametrize("way", ["Background", "Foreground"])
def test_a_job_deleted_and_made_again_at_once_is_a_new_one(ns, operator, attack, bystander, way):
    n_times = 5
    with attack(at_most=(n_times + 1) * 24):
        run_job(ns)
        seen = set()
        for _ in range(n_times):
            seen.add(uid(ns, "horovodjobs", "digits"))
            ns.api.request("DELETE", ns.path("horovodjobs", "digits"), {"propagationPolicy": way})
            until("the name is free", lambda: ns.get("horovodjobs", "digits") is None, LIMIT_S)
            ns.apply_job()
        bystander.succeeds()
        new = uid(ns, "horovodjobs", "digits")
        assert new not in seen

        def is_new(item):
            return item and "deletionTimestamp" not in item["metadata"] and any(
                owner["uid"] == new for owner in item["metadata"].get("ownerReferences", []))
        until("the set is the new job's", lambda: is_new(ns.get("statefulsets", "digits-worker")), LIMIT_S)
        owner = uid(ns, "statefulsets", "digits-worker")
        until("so are the pods", lambda: len([p for p in ns.list("pods") if "deletionTimestamp" not in p["metadata"] and any(
            o["uid"] == owner for o in p["metadata"].get("ownerReferences", []))]) == 2, LIMIT_S)
        finish(ns, master=start_pods(ns))
        assert ns.status()["attempts"] == 1


def test_orphans_of_a_job_of_the_same_name_are_a_conflict_until_somebody_removes_them(ns, operator, attack, bystander):
    with attack(at_most=3 * WRITES_OF_A_JOB):
        run_job(ns)
        ns.api.request("DELETE", ns.path("horovodjobs", "digits"), {"propagationPolicy": "Orphan"})
        until("the job is gone", lambda: ns.get("horovodjobs", "digits") is None, LIMIT_S)
        orphans = [("secrets", "digits-ssh"), ("services", "digits"), ("statefulsets", "digits-worker"),
                   ("configmaps", "digits-hosts"), ("jobs", "digits-master")]
        ns.apply_job()
        until(lambda: f"a conflict: {ns.status()}", lambda: is_conflict(ns, "digits"), LIMIT_S)
        bystander.succeeds()
        for item in orphans:
            ns.delete(*item)
        until("the orphans' pods are gone", lambda: not [p for p in ns.list("pods") if "containerStatuses" in p["status"]],
              LIMIT_S)
        life(ns, "digits", ["digits-worker-0", "digits-worker-1"])


def test_many_jobs_of_one_tenant_do_not_hold_up_another(ns, operator, attack, bystander):
    """60 jobs at once, deleted before most have anything."""
    names = [f"j{i}" for i in range(60)]
    with attack(at_most=len(names) * WRITES_OF_A_JOB):
        for name in names:
            ns.apply_job(name)
        bystander.succeeds()
        for name in names:
            ns.delete("horovodjobs", name)
        bystander.succeeds()
        until("all are forgotten", lambda: operator.metric("horovod_operator_jobs") == bystander.lives, LIMIT_S)
