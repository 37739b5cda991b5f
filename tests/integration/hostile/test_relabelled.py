"""Labels of the operator's that a tenant changes or removes on the children and the pods of a running job, as `kubectl label`
does: nothing is lost, nothing is made anew, and the labels come back."""
from kubeapi import until
from tenants import LIMIT_S, finish, run_job

MANAGED, JOB, ROLE = "app.kubernetes.io/managed-by", "horovod.io/job-name", "horovod.io/role"
CHILDREN = (("secrets", "{}-ssh"), ("services", "{}"), ("statefulsets", "{}-worker"), ("configmaps", "{}-hosts"),
            ("jobs", "{}-master"))
# What is done to one label of all objects of a job; each job gets one, so that no repair is needed twice.
EDITS = {
    "managed-changed": {MANAGED: "argocd"},
    "managed-removed": {MANAGED: None},
    "job-changed": {JOB: "other"},
    "job-removed": {JOB: None},
    "job-of-next": {JOB: "managed-changed"},
    "all-removed": {MANAGED: None, JOB: None},
}
POD_EDITS = {
    "role-changed": {ROLE: "master"},
    "role-removed": {ROLE: None},
    "managed-changed": {MANAGED: "argocd"},
    "managed-removed": {MANAGED: None},
    "job-changed": {JOB: "other"},
    "job-removed": {JOB: None},
}
# A patch for each of five children or three pods, a condition and an event about each at the most, and the rest of a life.
WRITES_OF_AN_EDITED_JOB = 3 * 5 + 12


def children(job):
    return [(plural, name.format(job)) for plural, name in CHILDREN]


def pods(masters, job):
    return [("pods", f"{job}-worker-0"), ("pods", f"{job}-worker-1"), ("pods", masters[job])]


def uid(ns, item):
    return (ns.get(*item) or {"metadata": {"uid": None}})["metadata"]["uid"]


def labels(ns, item):
    """Those of the operator's."""
    found = (ns.get(*item) or {"metadata": {}})["metadata"].get("labels", {})
    return {key: found.get(key) for key in (MANAGED, JOB, ROLE)}


def run_all(ns, edits):
    return {job: run_job(ns, job) for job in edits}


def edit(ns, item, change):
    ns.patch(*item, {"metadata": {"labels": change}})


def assert_restored(ns, items, before):
    for item in items:
        until(lambda i=item: f"the labels of {i} are back: {labels(ns, i)}", lambda i=item: labels(ns, i) == before[item][1],
              LIMIT_S)
        assert uid(ns, item) == before[item][0], f"{item} was made anew"


def remember(ns, items):
    return {item: (uid(ns, item), labels(ns, item)) for item in items}


def finish_all(ns, masters):
    for job, master in masters.items():
        finish(ns, job, master)
        assert ns.status(job)["attempts"] == 1 and ns.status(job).get("interruptions", 0) == 0, ns.status(job)


def test_labels_of_one_child_after_the_other_come_back_and_the_job_goes_on(ns, operator, attack, bystander):
    with attack(at_most=WRITES_OF_AN_EDITED_JOB * len(EDITS)):
        masters = run_all(ns, EDITS)
        for kind in range(len(CHILDREN)):
            items = {job: children(job)[kind] for job in EDITS}
            before = remember(ns, items.values())
            for job, change in EDITS.items():
                edit(ns, items[job], change)
            assert_restored(ns, items.values(), before)
        bystander.succeeds()
        finish_all(ns, masters)


def test_labels_of_pods_come_back_and_the_job_goes_on(ns, operator, attack, bystander):
    with attack(at_most=WRITES_OF_AN_EDITED_JOB * len(POD_EDITS)):
        masters = run_all(ns, POD_EDITS)
        items = [item for job in POD_EDITS for item in pods(masters, job)]
        before = remember(ns, items)
        for job, change in POD_EDITS.items():
            for item in pods(masters, job):
                edit(ns, item, change)
        bystander.succeeds()
        assert_restored(ns, items, before)
        finish_all(ns, masters)


def test_labels_that_change_while_no_operator_runs_come_back(ns, run_operator, attack, bystander):
    """The lists of a new operator do not hold what has lost its label."""
    with attack(at_most=WRITES_OF_AN_EDITED_JOB * 2 * len(EDITS)):
        first = run_operator()
        masters = run_all(ns, EDITS)
        items = [item for job in EDITS for item in children(job) + pods(masters, job)]
        before = remember(ns, items)
        first.stop()
        for job, change in EDITS.items():
            for item in children(job) + pods(masters, job):
                edit(ns, item, change)
        run_operator()
        bystander.succeeds()
        assert_restored(ns, items, before)
        finish_all(ns, masters)


def test_labels_of_all_objects_of_a_suspended_and_of_a_finished_job_lock_neither(ns, operator, attack, bystander):
    change = {MANAGED: "argocd", JOB: "other"}
    with attack(at_most=120):
        finished = run_job(ns, "finished", cleanPodPolicy="None")
        run_job(ns, "suspended")
        finish(ns, "finished", finished)
        ns.patch("horovodjobs", "suspended", {"spec": {"suspend": True}})
        ns.wait_state("Suspended", "suspended", LIMIT_S)
        for item in children("finished") + [child for child in children("suspended") if ns.get(*child)]:
            edit(ns, item, change)
        bystander.succeeds()
        assert ns.state("finished") == "Succeeded"
        ns.patch("horovodjobs", "suspended", {"spec": {"suspend": False}})
        ns.start_workers(2, "suspended", LIMIT_S)
        finish(ns, "suspended", ns.start_master("suspended", LIMIT_S))
        ns.delete("horovodjobs", "finished")
        until("its children go with it", lambda: not any(ns.get(*item) for item in children("finished")), LIMIT_S)
