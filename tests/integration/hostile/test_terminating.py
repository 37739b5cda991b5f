"""Objects that are being deleted and do not go: the job says which, costs no loop, and goes on when they do."""
import pytest

from kubeapi import until
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
