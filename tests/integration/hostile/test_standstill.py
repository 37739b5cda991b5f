"""kube-controller-manager stands still, so that no pod is made and none is removed: each job names a pod, or its StatefulSet, and
what to look at, costs no loop, and goes on when the controllers do."""
import contextlib
import os
import signal

from kubeapi import until
from tenants import LIMIT_S, finish, run_job, start_pods

NAMED_S = 2 * LIMIT_S + 60  # a minute for what is not removed, two for what is not made
WRITES_OF_A_JOB = 16
WRITES_OF_A_WAIT = 8


@contextlib.contextmanager
def standstill(server):
    pid = int((server.directory / "controller-manager.pid").read_text().split()[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def until_told(ns, job, kind, *texts):
    def is_told():
        found = ns.condition(kind, job) or {"message": ""}
        return all(text in found["message"] for text in texts)
    until(lambda: f"{job} tells of {texts}: {ns.status(job)}", is_told, NAMED_S)


def until_over(ns, job):
    until(lambda: f"{job} waits for nothing: {ns.status(job)}",
          lambda: (ns.condition("DeletionBlocked", job) or {}).get("status") == "False", NAMED_S)


def test_what_controllers_leave_undone_is_named(server, ns, bystander, run_operator):
    since = server.audit_size()
    operator = run_operator()
    other = run_job(bystander.ns)
    masters = {job: run_job(ns, job, backoffLimit=1 if job == "fail" else 0) for job in ("suspend", "fail", "end")}
    with standstill(server):
        ns.patch("horovodjobs", "suspend", {"spec": {"suspend": True}})
        for job in ("fail", "end"):
            ns.end_master(masters[job], 1)
        finish(bystander.ns, master=other)
        ns.apply_job("late")
        for job in masters:
            until_told(ns, job, "DeletionBlocked", " is to go, as ", "check kube-controller-manager, or delete the pod")
        assert ns.condition("DeletionBlocked", "suspend")["message"].startswith(f"Pod {ns.name}/suspend-")
        assert [ns.state(job) for job in masters] == ["Suspended", "Restarting", "Failed"]
        assert ns.condition("Suspended", "suspend")["status"] == "False"
        assert "not removed yet" in ns.condition("WorkersReady", "end")["message"]
        until_told(ns, "late", "WorkersReady", "have not been made after 2 minutes", "see whether kube-controller-manager runs")
        operator.stop()
        operator = run_operator()
        ns.apply_job("next")
        until("the restarted operator has looked at all", lambda: ns.get("statefulsets", "next-worker"), LIMIT_S)
        until("rest", operator.is_at_rest, LIMIT_S)
        for job in masters:
            assert [reason for reason, _ in ns.events(job)].count("DeletionBlocked") == 1, ns.events(job)
            assert ns.condition("DeletionBlocked", job)["status"] == "True"
    for job in masters:
        until_over(ns, job)
    until("the suspension", lambda: ns.condition("Suspended", "suspend")["status"] == "True", LIMIT_S)
    until("the removal", lambda: ns.condition("WorkersReady", "end")["message"] == "the workers are removed: the job has finished",
          LIMIT_S)
    for job in ("fail", "late"):
        finish(ns, job, start_pods(ns, job))
    writes = server.writes(ns.name, since)
    assert len(writes) <= 5 * WRITES_OF_A_JOB + WRITES_OF_A_JOB + 4 * WRITES_OF_A_WAIT, writes
    writes = server.writes(bystander.ns.name, since)
    assert len(writes) <= WRITES_OF_A_JOB + WRITES_OF_A_WAIT, writes  # its workers are not removed in time either


def test_controllers_that_stand_still_for_a_moment_are_no_news(server, ns, bystander, operator):
    since = server.audit_size()
    run_job(ns)
    other = run_job(bystander.ns)
    with standstill(server):
        ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
        finish(bystander.ns, master=other)
        until("the set has no replicas", lambda: ns.get("statefulsets", "digits-worker")["spec"]["replicas"] == 0, LIMIT_S)
    until("the suspension", lambda: (ns.condition("Suspended") or {}).get("status") == "True", LIMIT_S)
    assert not ns.condition("DeletionBlocked")
    assert "DeletionBlocked" not in [reason for reason, _ in ns.events()]
    for place in (ns, bystander.ns):
        writes = server.writes(place.name, since)
        assert len(writes) <= WRITES_OF_A_JOB + WRITES_OF_A_WAIT, writes
