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
            ns.try_set_pod(name)


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


def is_in_the_way(ns, *pods):
    """The condition and one event name these pods, in their order, and nothing of them is touched."""
    def is_named():
        message = (ns.condition("Running") or {}).get("message", "")
        return is_conflict(ns, "digits") and ns.state() == "Pending" and f" {ns.name}/{', '.join(pods)} ha" in message \
            and "not made by StatefulSet digits-worker of this HorovodJob" in message
    until(lambda: f"{pods} are named: {ns.status()}", is_named, LIMIT_S)
    until("an event", lambda: [reason for reason, _ in ns.events()].count("Conflict") == 1, LIMIT_S)
    assert not [pod for pod in ns.list("pods") if pod["metadata"]["name"] in pods
                and ("deletionTimestamp" in pod["metadata"] or "ownerReferences" in pod["metadata"])]


def names(ns):
    return sorted(pod["metadata"]["name"] for pod in ns.list("pods"))


def test_workers_that_an_earlier_job_left_are_named_and_left_alone(ns, run_operator, attack, bystander):
    """kubectl delete --cascade=orphan of the job and the set, and everything else is cleared away by hand."""
    workers = ["digits-worker-0", "digits-worker-1"]
    with attack(at_most=3 * WRITES_OF_A_JOB):
        operator = run_operator()
        run_job(ns)
        # The job first: it would create the set again, whose owner would be gone and which would be collected with the pods.
        for item in (("horovodjobs", "digits"), ("statefulsets", "digits-worker")):
            ns.api.request("DELETE", ns.path(*item), {"propagationPolicy": "Orphan"})
        until("the job is gone", lambda: ns.get("horovodjobs", "digits") is None, LIMIT_S)
        for item in (("jobs", "digits-master"), ("secrets", "digits-ssh"), ("services", "digits"), ("configmaps", "digits-hosts")):
            ns.delete(*item)
        until(lambda: f"only the workers are left, not {names(ns)}", lambda: names(ns) == workers, LIMIT_S)
        for event in ns.list("events"):
            ns.delete("events", event["metadata"]["name"])
        left = [uid(ns, "pods", name) for name in workers]
        ns.apply_job()
        is_in_the_way(ns, *workers)
        assert not ns.list("statefulsets"), "a set would adopt them, and remove them with its own"
        operator.stop()
        run_operator()
        ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
        until("the suspension", lambda: (ns.condition("Suspended") or {}).get("status") == "True", LIMIT_S)
        ns.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
        until("the conflict again", lambda: is_conflict(ns, "digits"), LIMIT_S)
        bystander.succeeds()
        assert [uid(ns, "pods", name) for name in workers] == left
        for name in workers:
            ns.api.request("DELETE", ns.path("pods", name), {"gracePeriodSeconds": 0})
        finish(ns, master=start_pods(ns))
        assert not set(left) & {uid(ns, "pods", name) for name in workers}


def test_workers_without_a_set_belong_to_the_job_that_they_name_however_young_they_are(ns, operator, attack, bystander):
    """As those of an earlier job of this name do that were made in the second in which the new one was."""
    with attack(at_most=3 * WRITES_OF_A_JOB):
        ns.apply_job(suspend=True)
        until("the suspension", lambda: (ns.condition("Suspended") or {}).get("status") == "True", LIMIT_S)
        ns.create("pods", {"metadata": {"name": "digits-worker-1", "annotations": {"horovod.io/job-uid": "another"}, "labels": {
            "app.kubernetes.io/managed-by": "horovod-operator", "horovod.io/job-name": "digits", "horovod.io/role": "worker"}},
            "spec": {"subdomain": "digits", "containers": [{"name": "worker", "image": "i"}]}})
        old = uid(ns, "pods", "digits-worker-1")
        ns.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
        is_in_the_way(ns, "digits-worker-1")
        assert not ns.list("statefulsets")
        ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
        until("the suspension", lambda: (ns.condition("Suspended") or {}).get("status") == "True", LIMIT_S)
        bystander.succeeds()
        assert uid(ns, "pods", "digits-worker-1") == old
        ns.api.request("DELETE", ns.path("pods", "digits-worker-1"), {"gracePeriodSeconds": 0})
        ns.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
        set_ = until("the set", lambda: ns.get("statefulsets", "digits-worker"), LIMIT_S)
        made = set_["spec"]["template"]["metadata"]["annotations"]
        assert made == {"horovod.io/job-uid": uid(ns, "horovodjobs", "digits")}
        finish(ns, master=start_pods(ns))


@pytest.mark.parametrize("labels", [{}, {"horovod.io/job-name": "digits"}, {"horovod.io/job-name": "another"}])
def test_a_pod_of_somebody_elses_with_the_name_of_a_worker_is_named(ns, operator, attack, bystander, labels):
    """No event of the StatefulSet controller names it, and no watch shows it without our label."""
    with attack(at_most=2 * WRITES_OF_A_JOB):
        ns.create("pods", {"metadata": {"name": "digits-worker-1", "labels": labels},
                           "spec": {"containers": [{"name": "c", "image": "i"}]}})
        old = uid(ns, "pods", "digits-worker-1")
        ns.apply_job()
        is_in_the_way(ns, "digits-worker-1")
        bystander.succeeds()
        assert uid(ns, "pods", "digits-worker-1") == old
        ns.api.request("DELETE", ns.path("pods", "digits-worker-1"), {"gracePeriodSeconds": 0})
        life(ns, "digits", ["digits-worker-0", "digits-worker-1"])
        assert not is_conflict(ns, "digits")


def test_a_worker_let_go_while_no_operator_runs_is_left_and_can_be_found(server, ns, run_operator, attack, bystander):
    """Its job is deleted before an operator runs again: nothing tells it from one that --cascade=orphan was to leave."""
    with attack(at_most=2 * WRITES_OF_A_JOB):
        operator = run_operator()
        run_job(ns)
        operator.stop()
        ns.patch("pods", "digits-worker-0", {"metadata": {"labels": {"horovod.io/job-name": None}}})
        until("its set lets it go", lambda: "ownerReferences" not in ns.get("pods", "digits-worker-0")["metadata"], LIMIT_S)
        ns.delete("horovodjobs", "digits")
        until("the others are gone", lambda: [p["metadata"]["name"] for p in ns.list("pods")] == ["digits-worker-0"], LIMIT_S)
        old = uid(ns, "pods", "digits-worker-0")
        run_operator()
        bystander.succeeds()
        shown = server.kubectl("get", "pods", "-A", "-l", "app.kubernetes.io/managed-by=horovod-operator", "-o",
                               "custom-columns=NS:.metadata.namespace,POD:.metadata.name,"
                               "OWNER:.metadata.ownerReferences[*].name").stdout
        assert [ns.name, "digits-worker-0", "<none>"] in [line.split() for line in shown.splitlines()], shown
        ns.apply_job()
        is_in_the_way(ns, "digits-worker-0")
        assert uid(ns, "pods", "digits-worker-0") == old
        ns.api.request("DELETE", ns.path("pods", "digits-worker-0"), {"gracePeriodSeconds": 0})
        finish(ns, master=start_pods(ns))


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
