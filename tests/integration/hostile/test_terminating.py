"""Objects that are being deleted and do not go: the job says which, costs no loop, and goes on when they do."""
import pytest

from kubeapi import ApiError, Namespace, until
from tenants import LIMIT_S, finish, run_job, start_pods

FINALIZER = "example.com/stays"
WRITES_OF_A_JOB = 16
WRITES_OF_A_WAIT = 8  # the condition, its event, progress of the counts, and the end of the condition


def hold(ns, *items):
    for item in items:
        ns.patch(*item, {"metadata": {"finalizers": [FINALIZER]}})


def release(ns, *items):
    for item in items:
        if ns.get(*item):
            ns.patch(*item, {"metadata": {"finalizers": None}})


def uid(ns, item):
    return (ns.get(*item) or {"metadata": {"uid": None}})["metadata"]["uid"]


def until_named(ns, job, kind, name):
    """The condition names the object, since when it is so, and who holds it; one event does."""
    def is_named():
        found = ns.condition("DeletionBlocked", job) or {"status": "False", "message": ""}
        return found["status"] == "True" and found["message"].startswith(f"{kind} {ns.name}/{name} is terminating since 20") \
            and f"held by finalizers [{FINALIZER}]" in found["message"]
    until(lambda: f"{kind} {name} is named: {ns.status(job)}", is_named, LIMIT_S)
    assert [reason for reason, _ in ns.events(job)].count("DeletionBlocked") == 1, ns.events(job)


def until_over(ns, job):
    until(lambda: f"nothing is held: {ns.status(job)}",
          lambda: ns.condition("DeletionBlocked", job)["status"] == "False", LIMIT_S)


CHILDREN = {"secret": ("Secret", "secrets", "secret-ssh"), "service": ("Service", "services", "service"),
            "list": ("ConfigMap", "configmaps", "list-hosts"), "set": ("StatefulSet", "statefulsets", "set-worker")}


def test_children_that_cannot_go_are_named_and_made_again_when_they_go(ns, run_operator, attack, bystander):
    with attack(at_most=len(CHILDREN) * (2 * WRITES_OF_A_JOB + WRITES_OF_A_WAIT)):
        run_operator().stop()
        operator = run_operator()
        for job in CHILDREN:
            ns.apply_job(job, backoffLimit=1)
        old = {}
        for job, (_, plural, name) in CHILDREN.items():
            until("the workers", lambda job=job: len(ns.workers(job)) == 2, LIMIT_S)
            hold(ns, (plural, name))
            old[job] = uid(ns, (plural, name))
            ns.delete(plural, name)
            ns.start_workers(2, job)
        bystander.succeeds()
        for job, (kind, _, name) in CHILDREN.items():
            until_named(ns, job, kind, name)
        operator.stop()
        operator = run_operator()
        bystander.succeeds()
        for job, (kind, plural, name) in CHILDREN.items():
            until_named(ns, job, kind, name)
            assert uid(ns, (plural, name)) == old[job] and ns.state(job) not in ("Succeeded", "Failed")
            release(ns, (plural, name))
        for job, (_, plural, name) in CHILDREN.items():
            until(f"{name} is made again", lambda item=(plural, name), job=job: uid(ns, item) not in (None, old[job]), LIMIT_S)
            until_over(ns, job)
        for job in ("service", "list"):  # the others get new workers, which is no matter of these objects
            finish(ns, job, ns.start_master(job, LIMIT_S))


def test_a_restart_names_what_it_waits_for_and_goes_on_when_that_goes(ns, operator, attack, bystander):
    jobs = {"set": ("StatefulSet", "statefulsets", "set-worker"), "worker": ("Pod", "pods", "worker-worker-1"),
            "job": ("Job", "jobs", "job-master")}
    with attack(at_most=len(jobs) * (2 * WRITES_OF_A_JOB + WRITES_OF_A_WAIT)):
        old = {}
        for job, (_, plural, name) in jobs.items():
            master = run_job(ns, job, backoffLimit=1)
            hold(ns, (plural, name))
            old[job] = uid(ns, (plural, name))
            if job == "set":
                ns.delete(plural, name)
            ns.end_master(master, 1)
        for job, (kind, _, name) in jobs.items():
            until_named(ns, job, kind, name)
            assert ns.state(job) == "Restarting" and name in ns.status(job)["message"]
        bystander.succeeds()
        for job, (_, plural, name) in jobs.items():
            until(f"the other pods of {job} go", lambda job=job: ns.workers(job) <= {"worker-worker-1"}, LIMIT_S)
            assert uid(ns, (plural, name)) == old[job]
            release(ns, (plural, name))
            finish(ns, job, start_pods(ns, job))
            until_over(ns, job)


def test_a_job_is_suspended_once_its_pods_are_gone(ns, run_operator, attack, bystander):
    held = {"worker": ("pods", "worker-worker-0"), "set": ("statefulsets", "set-worker")}
    with attack(at_most=len(held) * (2 * WRITES_OF_A_JOB + WRITES_OF_A_WAIT)):
        operator = run_operator()
        for job, item in held.items():
            run_job(ns, job)
            hold(ns, item)
        ns.delete(*held["set"])
        for job in held:
            ns.patch("horovodjobs", job, {"spec": {"suspend": True}})
        until_named(ns, "worker", "Pod", "worker-worker-0")
        until("a job without pods is suspended", lambda: ns.condition("Suspended", "set")["status"] == "True", LIMIT_S)
        operator.stop()
        run_operator()
        bystander.succeeds()
        assert not ns.workers("set") and ns.workers("worker") == {"worker-worker-0"}
        assert [ns.condition("Suspended", "worker")[key] for key in ("status", "reason")] == ["False", "Suspending"]
        assert "worker-worker-0" in ns.status("worker")["message"]
        for job, item in held.items():
            ns.patch("horovodjobs", job, {"spec": {"suspend": False}})
            until("the job tells what it waits for", lambda item=item, job=job: item[1] in ns.status(job)["message"], LIMIT_S)
            release(ns, item)
            finish(ns, job, start_pods(ns, job))


def test_pods_of_a_set_that_cannot_go_end_with_the_job(ns, operator, attack, bystander):
    with attack(at_most=WRITES_OF_A_JOB + WRITES_OF_A_WAIT):
        master = run_job(ns)
        hold(ns, ("statefulsets", "digits-worker"))
        finish(ns, master=master)
        bystander.succeeds()
        until("the workers go", lambda: not ns.workers(), LIMIT_S)
        until_named(ns, "digits", "StatefulSet", "digits-worker")
        release(ns, ("statefulsets", "digits-worker"))
        until_over(ns, "digits")


@pytest.mark.parametrize("kind, plural, name", [("Secret", "secrets", "digits-ssh"), ("Pod", "pods", "digits-worker-0")])
def test_a_job_made_again_names_what_is_left_of_the_old_one(ns, operator, attack, bystander, kind, plural, name):
    with attack(at_most=2 * WRITES_OF_A_JOB + WRITES_OF_A_WAIT):
        run_job(ns)
        hold(ns, (plural, name))
        ns.delete("horovodjobs", "digits")
        until("all else goes", lambda: not ns.get("statefulsets", "digits-worker") and ns.workers() <= {name}, LIMIT_S)
        ns.apply_job()
        until_named(ns, "digits", kind, name)
        bystander.succeeds()
        release(ns, (plural, name))
        finish(ns, master=start_pods(ns))
        until_over(ns, "digits")


# ---- HorovodJobs that are being deleted ----

def delete(ns, plural, name, policy):
    ns.api.request("DELETE", ns.path(plural, name), {"propagationPolicy": policy})


def until_failed(ns, job, reason):
    until(lambda: f"{job} has failed: {ns.status(job)}",
          lambda: (ns.condition("Failed", job) or {}).get("reason") == reason, LIMIT_S)
    assert ns.state(job) == "Failed" and ns.condition("Running", job)["status"] == "False"


def test_a_deleted_job_that_is_held_keeps_a_true_status_and_starts_nothing(ns, run_operator, attack, bystander):
    jobs = ("ends", "fails", "late", "waits")
    with attack(at_most=len(jobs) * (WRITES_OF_A_JOB + WRITES_OF_A_WAIT)):
        operator = run_operator()
        masters = {job: run_job(ns, job, backoffLimit=3, **({"activeDeadlineSeconds": 30} if job == "late" else {}))
                   for job in jobs[:3]}
        ns.apply_job("waits")
        until("its workers", lambda: len(ns.workers("waits")) == 2, LIMIT_S)
        for job in jobs:
            hold(ns, ("horovodjobs", job))
            ns.delete("horovodjobs", job)
        until_failed(ns, "waits", "Deleted")
        assert [ns.state(job) for job in jobs[:2]] == ["Running"] * 2
        operator.stop()
        ns.end_master(masters["fails"], 1)
        run_operator()
        until_failed(ns, "fails", "MasterFailed")
        assert ns.condition("Running", "ends")["status"] == "True"
        ns.end_master(masters["ends"])
        ns.wait_state("Succeeded", "ends", LIMIT_S)
        until_failed(ns, "late", "DeadlineExceeded")
        bystander.succeeds()
        for job in jobs:
            until(f"the workers of {job} go", lambda job=job: not ns.workers(job), LIMIT_S)
            until_named(ns, job, "HorovodJob", job)
        assert not ns.master("late") and not ns.get("jobs", "waits-master")
    for job in jobs:
        release(ns, ("horovodjobs", job))
        until(f"{job} goes", lambda job=job: not ns.get("horovodjobs", job), LIMIT_S)


def test_a_job_whose_children_the_garbage_collector_removes_first_has_failed(ns, operator, attack, bystander):
    with attack(at_most=WRITES_OF_A_JOB + 2 * WRITES_OF_A_WAIT):
        run_job(ns, backoffLimit=3)
        hold(ns, ("horovodjobs", "digits"))
        delete(ns, "horovodjobs", "digits", "Foreground")
        until_failed(ns, "digits", "Deleted")
        bystander.succeeds()
        assert not ns.list("pods") and not ns.get("jobs", "digits-master")
        release(ns, ("horovodjobs", "digits"))
        until("the job goes", lambda: not ns.get("horovodjobs", "digits"), LIMIT_S)


def test_children_that_are_orphaned_are_left_alone(ns, run_operator, attack, bystander):
    with attack(at_most=WRITES_OF_A_JOB):
        operator = run_operator()
        master = run_job(ns, activeDeadlineSeconds=40)
        children = [*CHILDREN_OF_DIGITS, ("pods", master), ("pods", "digits-worker-0"), ("pods", "digits-worker-1")]
        before = [uid(ns, child) for child in children]
        assert all(before)
        hold(ns, ("horovodjobs", "digits"))
        delete(ns, "horovodjobs", "digits", "Orphan")
        until("the children are orphaned", lambda: not any(
            ns.get(*child)["metadata"].get("ownerReferences") for child in CHILDREN_OF_DIGITS), LIMIT_S)
        bystander.succeeds()
        operator.stop()
        run_operator()
        bystander.succeeds()
        release(ns, ("horovodjobs", "digits"))
        until("the job goes", lambda: not ns.get("horovodjobs", "digits"), LIMIT_S)
        bystander.succeeds()
        assert [uid(ns, child) for child in children] == before


CHILDREN_OF_DIGITS = [("secrets", "digits-ssh"), ("services", "digits"), ("statefulsets", "digits-worker"),
                      ("configmaps", "digits-hosts"), ("jobs", "digits-master")]


# ---- siblings ----

def test_a_namespace_that_does_not_go_costs_no_loop(ns, operator, attack, bystander, server):
    leaving = Namespace(server.api, f"{ns.name}-leaving")
    server.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": leaving.name}})
    since = server.audit_size()
    with attack(at_most=0):
        until("the service account", lambda: leaving.get("serviceaccounts", "default"), LIMIT_S)
        run_job(leaving, "held", backoffLimit=3)
        run_job(leaving, "child", backoffLimit=3)
        items = [("horovodjobs", "held"), ("secrets", "child-ssh"), ("pods", "child-worker-0")]
        hold(leaving, *items)
        server.api.request("DELETE", f"/api/v1/namespaces/{leaving.name}")
        for job in ("held", "child"):  # while a pod is held the API server deletes nothing else of a namespace
            until(lambda job=job: f"{job} names its namespace: {leaving.status(job)}", lambda job=job: (
                f"namespace {leaving.name} is being deleted" in leaving.condition("WorkersReady", job)["message"]), LIMIT_S)
        for _ in range(3):
            bystander.succeeds()
        release(leaving, items[2])
        until_failed(leaving, "held", "Deleted")
        bystander.succeeds()
    writes = server.writes(leaving.name, since)
    assert len(writes) <= 2 * (WRITES_OF_A_JOB + 2 * WRITES_OF_A_WAIT), writes
    release(leaving, *items)


def test_a_job_that_waits_in_a_leaving_namespace_is_left_alone(ns, run_operator, attack, bystander, server):
    """Nothing can be made there any more: the first answers are the last ones. Of a restarted operator, too."""
    leaving = Namespace(server.api, f"{ns.name}-leaving")
    server.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": leaving.name}})
    until("the service account", lambda: leaving.get("serviceaccounts", "default"), LIMIT_S)
    jobs = ["first", "second"]
    for job in jobs:
        leaving.apply_job(job)
    leaving.create("pods", {"metadata": {"name": "held", "finalizers": [FINALIZER]},  # nothing else is deleted while it is there
                            "spec": {"containers": [{"name": "c", "image": "i"}]}})
    server.api.request("DELETE", f"/api/v1/namespaces/{leaving.name}")
    until("nothing can be made there", lambda: leaving_answer(leaving) == 403, LIMIT_S)
    with attack(at_most=0):
        for _ in range(2):
            since = server.audit_size()
            operator = run_operator()
            for job in jobs:
                until(lambda job=job: f"{job} names its namespace: {leaving.status(job)}", lambda job=job: (
                    f"namespace {leaving.name} is being deleted" in (leaving.condition("Running", job) or {}).get("message", "")
                    and leaving.condition("Running", job)["reason"] == "NamespaceTerminating"), LIMIT_S)
            bystander.succeeds()
            writes = server.writes(leaving.name, since)
            assert len(writes) <= 5 * len(jobs), writes  # three children on which no other waits, an event and the status
            for _ in range(3):
                bystander.succeeds()
            assert server.writes(leaving.name, since) == writes
            operator.stop()
    release(leaving, ("pods", "held"))
    until("the namespace goes", lambda: leaving_answer(leaving) == 404, LIMIT_S)


def leaving_answer(ns):
    """The code that answers a creation in the namespace."""
    try:
        ns.api.request("POST", ns.path("secrets") + "?dryRun=All", {"metadata": {"name": "probe"}})
    except ApiError as error:
        return error.code
    return None


def test_a_lease_that_does_not_go_changes_no_leader(run_operator, attack, bystander, server):
    place, item = Namespace(server.api, "default"), ("leases", "held")
    with attack(at_most=0):
        run_operator("--leader-elect", "--lease-namespace", place.name, "--lease-name", "held", "--lease-duration", "6")
        bystander.succeeds()
        hold(place, item)
        old, holder = uid(place, item), place.get(*item)["spec"]["holderIdentity"]
        place.delete(*item)
        bystander.succeeds()
        assert uid(place, item) == old
        release(place, item)
        until("another Lease", lambda: uid(place, item) not in (None, old), LIMIT_S)
        assert place.get(*item)["spec"]["holderIdentity"] == holder
        bystander.succeeds()


# ---- children that users delete in other ways ----

@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
def test_a_set_that_is_deleted_under_the_master_is_made_again(ns, operator, attack, bystander, policy):
    with attack(at_most=2 * WRITES_OF_A_JOB + WRITES_OF_A_WAIT):
        master = run_job(ns, backoffLimit=1)
        old, pods = uid(ns, ("statefulsets", "digits-worker")), [uid(ns, ("pods", f"digits-worker-{i}")) for i in range(2)]
        delete(ns, "statefulsets", "digits-worker", policy)
        until("another set", lambda: uid(ns, ("statefulsets", "digits-worker")) not in (None, old), LIMIT_S)
        bystander.succeeds()
        if policy == "Orphan":  # its pods are taken by the new one, and nothing has happened to the job
            for _ in range(4):
                bystander.succeeds()
            assert [uid(ns, ("pods", f"digits-worker-{i}")) for i in range(2)] == pods
            assert ns.state() == "Running" and "workerFailure" not in ns.status(), ns.status()
        else:
            until("the restart", lambda: ns.state() == "Restarting" or ns.status()["attempts"] == 2, LIMIT_S)
            until("the old master goes", lambda: ns.master() != master, LIMIT_S)
            master = start_pods(ns)
        finish(ns, master=master)


def test_a_master_that_its_job_has_let_go_runs_beside_no_other_one(ns, operator, attack, bystander):
    """kubectl delete job --cascade=orphan: nobody but the operator removes the pod."""
    def masters():
        return [pod["metadata"]["name"] for pod in ns.list("pods") if "-master-" in pod["metadata"]["name"]]

    with attack(at_most=2 * WRITES_OF_A_JOB + WRITES_OF_A_WAIT):
        old = run_job(ns, backoffLimit=1)
        delete(ns, "jobs", "digits-master", "Orphan")

        def is_replaced():
            seen = masters()
            assert len(seen) <= 1, seen
            ns.start_new_workers("digits")
            return seen and seen != [old]
        until("another master, alone", is_replaced, 3 * LIMIT_S)
        bystander.succeeds()
        finish(ns, master=start_pods(ns))
        assert ns.status()["interruptions"] == 1 and not ns.status().get("failures")
    # What has ended stays with its logs, whoever removes its Job.
    last = masters()
    delete(ns, "jobs", "digits-master", "Orphan")
    bystander.succeeds()
    assert masters() == last
