"""Labels of ours that somebody edits, against the real API server and its controllers: its watches tell DELETED of what
they no longer select, and the StatefulSet controller lets go of a pod that it no longer selects."""
import signal

import pytest

from kubeapi import until

MANAGER, JOB, ROLE = "app.kubernetes.io/managed-by", "horovod.io/job-name", "horovod.io/role"
CHILDREN = {"secrets": "{}-ssh", "services": "{}", "configmaps": "{}-hosts", "statefulsets": "{}-worker", "jobs": "{}-master"}
KINDS = [*CHILDREN, "workers", "masters"]
EDITS = [(MANAGER, "argocd"), (MANAGER, None), (JOB, "another"), (JOB, None)]
WRITES_MAX = 4  # of one edit: the labels, an event, the status, and the creation that finds what is there


class Edited:
    """A running job, one object of which is about to lose a label."""

    def __init__(self, ns, name, kind, label, value, **spec):
        self.ns, self.name, self.kind, self.label, self.value = ns, name, kind, label, value
        ns.apply_job(name, **spec)

    def start(self):
        ns, name, kind = self.ns, self.name, self.kind
        ns.start_workers(job=name)
        self.master = ns.start_master(name)
        ns.wait_state("Running", name)
        self.plural = "pods" if kind in ("workers", "masters") else kind
        self.object = {"workers": f"{name}-worker-1", "masters": self.master}.get(kind) or CHILDREN[kind].format(name)
        self.was, self.known = self.labels(), self.uids()
        return self

    def meta(self):
        return self.ns.get(self.plural, self.object)["metadata"]

    def labels(self):
        return self.meta().get("labels", {})

    def uids(self):
        return {(plural, item["metadata"]["name"]): item["metadata"]["uid"] for plural in [*CHILDREN, "pods"]
                for item in self.ns.list(plural) if item["metadata"]["name"].startswith(self.name)}

    def edit(self):
        self.ns.patch(self.plural, self.object, {"metadata": {"labels": {self.label: self.value}}})

    def check_restored_labels(self):
        until(lambda: f"labels of {self.object} are restored after {self.label}={self.value}: {self.labels()}",
              lambda: self.was.items() <= self.labels().items())

    def check_restored(self):
        self.check_restored_labels()
        if self.plural == "pods":
            until("it has its controller", lambda: self.meta().get("ownerReferences"))
        assert self.ns.state(self.name) == "Running"
        assert self.uids() == self.known, "every object is the one that it was"

    def finish(self):
        self.ns.end_master(self.master)
        self.ns.wait_state("Succeeded", self.name)
        reasons = [reason for reason, _ in self.ns.events(self.name)]
        assert reasons.count("LabelsRestored") == 1 and "Restarting" not in reasons and "Failed" not in reasons
        status = self.ns.status(self.name)
        assert status.get("interruptions", 0) == status.get("failures", 0) == 0


def edited(ns, kind):
    """A job for each edit, as a label that is edited again is put back late."""
    edits = EDITS + ([(ROLE, None), (ROLE, "other")] if kind not in ("secrets", "services", "configmaps") else [])
    jobs = [Edited(ns, f"j{i}", kind, label, value) for i, (label, value) in enumerate(edits)]
    return [job.start() for job in jobs]


def check_writes(server, ns, jobs, before):
    """Of each job those of its edit, and of its end: the status, an event, and the set."""
    assert len(server.writes(ns.name)) - before <= (WRITES_MAX + 3) * len(jobs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_running_job_goes_on_when_labels_are_edited(server, ns, operator, kind):
    jobs = edited(ns, kind)
    before = len(server.writes(ns.name))
    for job in jobs:
        job.edit()
    for job in jobs:
        job.check_restored()
    for job in jobs:
        job.finish()
    check_writes(server, ns, jobs, before)
    for event in ns.list("events"):
        assert event["reason"] != "LabelsRestored" or "the label" in event["message"]


@pytest.mark.parametrize("kind", KINDS)
def test_labels_that_are_edited_while_no_operator_runs_are_restored(server, ns, run_operator, kind):
    operator = run_operator()
    jobs = edited(ns, kind)
    operator.stop()
    before = len(server.writes(ns.name))
    for job in jobs:
        job.edit()
    for job in jobs:
        if kind == "workers":
            until("its set lets it go", lambda job=job: not job.meta().get("ownerReferences"))
    run_operator()
    for job in jobs:
        job.check_restored()
    for job in jobs:
        job.finish()
    check_writes(server, ns, jobs, before)


@pytest.mark.parametrize("kind", ["statefulsets", "jobs", "workers", "masters"])
def test_an_owner_reference_that_is_edited_away_is_restored(ns, operator, kind):
    job = Edited(ns, "digits", kind, None, None).start()
    ns.patch(job.plural, job.object, {"metadata": {"ownerReferences": None}})
    until("it has its owner again", lambda: job.meta().get("ownerReferences"))
    assert job.meta()["ownerReferences"][0]["controller"]
    assert ns.state() == "Running" and job.uids() == job.known
    ns.end_master(job.master)
    ns.wait_state("Succeeded")
    reasons = [reason for reason, _ in ns.events()]
    assert "Restarting" not in reasons and "Conflict" not in reasons
    assert ("OwnerRestored" in reasons) == (job.plural != "pods"), "pods are their controllers' to adopt"


@pytest.mark.parametrize("away", [None, "frozen", "stopped"])
def test_an_owner_reference_and_a_label_that_are_edited_away_together_are_restored(ns, run_operator, away):
    """In one write, in two that the operator sees at once, and while none runs."""
    operator = run_operator()
    jobs = [Edited(ns, f"j{i}", kind, JOB, value) for i, (kind, value) in enumerate(
        (kind, value) for kind in ("statefulsets", "jobs") for value in (None, "another"))]
    for job in jobs:
        job.start()
    if away == "frozen":
        operator.process.send_signal(signal.SIGSTOP)
    elif away:
        operator.stop()
    for job in jobs:
        edits = [{"labels": {job.label: job.value}}, {"ownerReferences": None}]
        for edit in edits if away == "frozen" else [{**edits[0], **edits[1]}]:
            ns.patch(job.plural, job.object, {"metadata": edit})
    if away == "frozen":
        operator.process.send_signal(signal.SIGCONT)
    elif away:
        run_operator()
    for job in jobs:
        job.check_restored()
        until("it has its owner again", lambda job=job: job.meta().get("ownerReferences"))
        assert job.meta()["ownerReferences"][0]["controller"]
    for job in jobs:
        job.finish()
        reasons = [reason for reason, _ in ns.events(job.name)]
        assert reasons.count("OwnerRestored") == 1 and "Conflict" not in reasons


def test_a_master_that_loses_its_owner_reference_and_a_label_together_gets_both_back(ns, operator):
    job = Edited(ns, "digits", "masters", JOB, None).start()
    ns.patch("pods", job.master, {"metadata": {"labels": {JOB: None}, "ownerReferences": None}})
    job.check_restored_labels()
    until("its Job has adopted it", lambda: job.meta().get("ownerReferences"))
    ns.wait_state("Running")
    assert job.uids() == job.known
    job.finish()


OF_JOB_CONTROLLER = ["batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name", "job-name"]


def master_names(ns):
    return [pod["metadata"]["name"] for pod in ns.list("pods") if "-master-" in pod["metadata"]["name"]]


def event_texts(ns, reason):
    return [event["message"] for event in ns.list("events") if event["reason"] == reason]


@pytest.mark.parametrize("n_labels", [1, 4])
@pytest.mark.parametrize("away", [False, True], ids=["seen", "unseen"])
def test_an_attempt_whose_master_is_let_go_by_its_job_has_ended_and_counts(ns, run_operator, n_labels, away):
    """The Job controller makes another master beside the workers of the first. Unseen, the first one is gone as well."""
    def let_go(master):
        ns.patch("pods", master, {"metadata": {"labels": dict.fromkeys(OF_JOB_CONTROLLER[:n_labels])}})

    def uid(plural, name):
        return (ns.get(plural, name) or {}).get("metadata", {}).get("uid")

    operator = run_operator()
    job = Edited(ns, "digits", "masters", None, None, backoffLimit=1).start()
    if away:
        operator.stop()
    let_go(job.master)
    if away:
        until("the Job has made another", lambda: len(master_names(ns)) == 2)
        ns.delete("pods", job.master)
        until("the first one is gone", lambda: len(master_names(ns)) == 1)
        run_operator()
    until(lambda: f"the attempt has ended: {ns.status()}", lambda: ns.status()["failures"] == 1)
    [text] = until("its event", lambda: event_texts(ns, "Restarting"))
    assert f"pod {job.master} " in text and OF_JOB_CONTROLLER[0] in text and "(attempt 1 of 2)" in text

    def has_new_job():
        ns.start_new_workers("digits")
        return uid("jobs", "digits-master") not in (None, job.known["jobs", "digits-master"])
    until("the next attempt", has_new_job, 60)
    master = ns.start_master()
    ns.wait_state("Running")
    assert master_names(ns) == [master] != [job.master]
    for plural, name in job.known:
        if plural == "pods":
            assert uid(plural, name) != job.known[plural, name], name
    let_go(master)
    ns.wait_state("Failed")
    assert f"pod {master} " in ns.condition("Failed")["message"] and OF_JOB_CONTROLLER[0] in ns.condition("Failed")["message"]
    until("nothing runs", lambda: not ns.list("pods"))


OURS = [MANAGER, JOB, ROLE, "horovod.io/group"]


def lose(ns, operator, run_operator, pod, labels, is_seen):
    """Somebody removes these labels of a pod while the operator is frozen, and sees it then, or while none runs."""
    if is_seen:
        operator.process.send_signal(signal.SIGSTOP)
    else:
        operator.stop()
    try:
        was = ns.get("pods", pod)["metadata"]
        ns.patch("pods", pod, {"metadata": {"labels": dict.fromkeys(labels)}})
    finally:
        if is_seen:
            operator.process.send_signal(signal.SIGCONT)
    if not is_seen:
        run_operator()
    return was


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "unseen"])
@pytest.mark.parametrize("kind", ["worker", "master"])
def test_a_pod_that_loses_all_our_labels_before_the_first_status_gets_them_back(ns, run_operator, kind, is_seen):
    operator = run_operator()
    ns.apply_job()
    until("the workers", lambda: len(ns.workers()) == 2)
    if kind == "master":
        ns.start_workers()
    pod = "digits-worker-1" if kind == "worker" else ns.until("the master's pod", ns.master)
    was = lose(ns, operator, run_operator, pod, OURS, is_seen)
    until(lambda: f"labels are back: {ns.get('pods', pod)['metadata']} {ns.status()}",
          lambda: was["labels"].items() <= ns.get("pods", pod)["metadata"].get("labels", {}).items(), 60)
    until("its controller has it", lambda: ns.get("pods", pod)["metadata"].get("ownerReferences"), 60)
    if kind == "worker":
        ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    assert ns.get("pods", pod)["metadata"]["uid"] == was["uid"] and len(ns.list("pods")) == 3
    ns.end_master(master)
    ns.wait_state("Succeeded")
    assert [reason for reason, _ in ns.events()].count("LabelsRestored") == 1


def test_a_master_that_loses_every_label_before_the_first_status_ends_its_attempt(ns, run_operator):
    """Its Job lets it go, and makes another one."""
    operator = run_operator()
    ns.apply_job()
    ns.start_workers()
    master = ns.until("the master's pod", ns.master)
    lose(ns, operator, run_operator, master, OURS + OF_JOB_CONTROLLER, True)
    ns.wait_state("Failed", timeout=60)
    assert f"pod {master} was let go by Job digits-master" in ns.condition("Failed")["message"], ns.status()
    until("nothing runs", lambda: not ns.list("pods"), 60)


def test_what_the_job_controller_puts_back_or_does_not_read_costs_no_write(server, ns, operator):
    """The owner reference of the master's pod, again and again, and the labels by which no Job selects."""
    job = Edited(ns, "digits", "masters", None, None).start()
    ns.apply_job("last")
    ns.start_workers(job="last")
    ns.start_master("last")
    ns.wait_state("Running", "last")
    before = len(server.writes(ns.name))
    for _ in range(10):
        ns.patch("pods", job.master, {"metadata": {"ownerReferences": None}})
        until("its Job has adopted it", lambda: job.meta().get("ownerReferences"))
    ns.patch("pods", job.master, {"metadata": {"labels": dict.fromkeys(OF_JOB_CONTROLLER[1:])}})
    ns.patch("horovodjobs", "last", {"spec": {"suspend": True}})
    ns.wait_state("Suspended", "last")  # what came before it was seen before it
    assert [name for *_, name, _ in server.writes(ns.name)[before:] if name.startswith("digits")] == []
    assert job.uids() == job.known and ns.state() == "Running"
    ns.end_master(job.master)
    ns.wait_state("Succeeded")


def test_a_job_whose_objects_are_all_hidden_suspends_and_resumes(ns, run_operator):
    operator = run_operator()
    job = Edited(ns, "digits", "workers", JOB, None).start()
    operator.stop()
    job.edit()
    for plural, name in CHILDREN.items():
        ns.patch(plural, name.format("digits"), {"metadata": {"labels": {JOB: None}}})
    until("its set lets it go", lambda: not job.meta().get("ownerReferences"))
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
    run_operator()
    ns.wait_state("Suspended")
    until("no pods are left", lambda: not ns.list("pods"))
    assert ns.get("jobs", "digits-master") is None
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
    ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    for plural, name in CHILDREN.items():
        meta = ns.get(plural, name.format("digits"))["metadata"]
        assert meta["labels"][JOB] == "digits", plural
        assert plural == "jobs" or meta["uid"] == job.known[plural, name.format("digits")], plural
    ns.end_master(master)
    ns.wait_state("Succeeded")


def n_misses(operator):
    return operator.metric("horovod_operator_api_requests_total", verb="get", resource="jobs", code="404")


def test_what_was_deleted_is_found_to_be_gone_by_one_look(ns, operator):
    job = Edited(ns, "digits", "jobs", None, None).start()
    n = n_misses(operator)
    ns.delete("jobs", "digits-master")
    until("the job begins anew", lambda: ("Restarting", 1) in ns.events())
    assert n_misses(operator) == n + 1
    until("the workers are others", lambda: len(ns.workers()) == 2 and not set(job.known.values()) &
          {item["metadata"]["uid"] for item in ns.list("pods")})
    ns.start_workers()
    ns.end_master(ns.start_master())
    ns.wait_state("Succeeded")
