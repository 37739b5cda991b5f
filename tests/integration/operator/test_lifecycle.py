"""A job's suspension, failures and end against the real API server; the tests play the kubelet."""
import json
import time

import pytest

import limits
from kubeapi import ApiError, until


def running(ns, replicas=2, job="digits"):
    """Plays the kubelet until the job runs; the name of the master's pod."""
    ns.start_workers(replicas, job)
    master = ns.start_master(job)
    ns.wait_state("Running", job)
    return master


def status(ns, job="digits"):
    return ns.status(job)


def uids(ns):
    return {p["metadata"]["name"]: p["metadata"]["uid"] for p in ns.list("pods")}


def change(ns, spec):
    ns.patch("horovodjobs", "digits", {"spec": spec})


def end_worker(ns, name, code, reason):
    """The kubelet reports that the worker's container ended, and starts it again."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
    ns.patch("pods", name, {"status": {"containerStatuses": [
        {"name": "worker", "ready": False, "restartCount": 1, "image": "i", "imageID": "i",
         "state": {"running": {"startedAt": now}},
         "lastState": {"terminated": {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}}}]}},
        "status")


def evict(ns, name):
    ns.patch("pods", name, {"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory",
                                       "containerStatuses": None}}, "status")


def long_form(ns, replicas=1, job="digits", pod=None, **spec):
    def template(role):
        return {"spec": {"containers": [{"name": role, "image": "i", "command": ["sleep", "1"]}], **(pod or {})}}
    return ns.create("horovodjobs", {
        "apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": job},
        "spec": {"worker": {"replicas": replicas, "template": template("worker")},
                 "master": {"template": template("master")}, **spec}})


# ---- writes ----

@pytest.mark.parametrize("replicas", [1, 4, 16])
def test_a_job_costs_eleven_writes_and_those_of_progress(server, ns, operator, replicas):
    ns.apply_job(replicas=replicas)
    until("all pods", lambda: len(ns.workers()) == replicas)
    ns.end_master(running(ns, replicas))
    ns.wait_state("Succeeded")
    until("the workers are removed", lambda: ns.get("statefulsets", "digits-worker") is None)
    until("the audit log is complete", lambda: len(server.writes(ns.name)) >= operator.settled_writes())
    writes = server.writes(ns.name)
    # On a slow machine the workers may become ready in more steps than one.
    steps = [w for w in writes if w[1] == "horovodjobs/status"]
    assert len(writes) - max(0, len(steps) - 3) <= 11, writes
    assert len(steps) <= 5, writes


# ---- failures ----

def test_a_worker_killed_for_memory_is_named_when_the_master_ends_for_it(ns, operator):
    ns.apply_job(resources={"limits": {"memory": "64Mi"}})
    master = running(ns)
    end_worker(ns, "digits-worker-1", 137, "OOMKilled")
    until("it is noted", lambda: status(ns).get("workerFailure"))
    ns.end_master(master, 1, "first\nrank 1 is gone\n")
    ns.wait_state("Failed")
    condition = ns.condition("Failed")
    assert condition["reason"] == "WorkerFailed"
    assert "worker digits-worker-1: container worker was killed for memory (OOMKilled, exit code 137, limit 64Mi)" in \
        condition["message"]
    assert condition["message"].endswith("exited with code 1: rank 1 is gone")
    assert status(ns)["workerFailure"]["exitCode"] == 137
    assert status(ns)["failureLog"] == "first\nrank 1 is gone"


def test_the_rank_that_failed_leads_the_message_and_its_lines_are_kept(ns, operator):
    rank = "rank 1 on host digits-worker-1.digits raised KeyError: 'learning_rate'"
    lines = f"Traceback (most recent call last):\n  File \"train.py\", line 9\nKeyError: 'learning_rate'\nhorovodrun: {rank}"
    ns.apply_job()
    master = running(ns)
    ns.end_master(master, 1, lines + "\n")
    ns.wait_state("Failed")
    assert ns.condition("Failed")["message"] == f"{rank} (attempt 1 of 1, pod {master})"
    assert status(ns)["message"] == ns.condition("Failed")["message"]
    assert status(ns)["failureLog"] == lines


@pytest.mark.parametrize("message", [
    "horovodrun: rank ", "horovodrun: rank " + "x" * 4000, "\x01\x1b[31m\u2028\uffff", "\n" * 4000, "-" * 4000, "é" * 2000,
    "Traceback (most recent call last):\n" * 100, "horovodrun: rank %s%n%d (attempt 9 of 9)",
])
def test_a_forged_termination_message_is_bounded(ns, operator, message):
    ns.apply_job()
    ns.end_master(running(ns), 1, message)
    ns.wait_state("Failed")
    assert "(attempt 1 of 1" in ns.condition("Failed")["message"]
    assert len(ns.condition("Failed")["message"].encode()) <= 1024
    assert len(status(ns).get("failureLog", "").encode()) <= 1024
    assert set(status(ns)["attemptLogs"]) == {"1"}


def test_the_ends_of_the_last_five_attempts_stay_in_the_status(ns, operator):
    ns.apply_job(backoffLimit=7)
    for attempt in range(1, 7):
        ns.end_master(running(ns), 1, f"words of {attempt}")
        until("its end is recorded", lambda a=attempt: str(a) in status(ns).get("attemptLogs", {}))
        # A suspension takes the wait before the next attempt, and is no attempt while none runs.
        ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
        ns.wait_state("Suspended")
        ns.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
    logs = status(ns)["attemptLogs"]
    assert {number: entry["log"] for number, entry in logs.items()} == {str(n): f"words of {n}" for n in range(2, 7)}
    assert all(entry["reason"] == "MasterFailed" and entry["exitCode"] == 1 and entry["time"] for entry in logs.values())


def test_an_eviction_that_the_policy_ignores_restarts_the_group_without_counting(ns, operator):
    ns.apply_job(failurePolicy={"rules": [{"action": "Ignore", "onDisruption": True}]})
    master = running(ns)
    before = uids(ns)
    evict(ns, "digits-worker-0")
    until("it is noted", lambda: status(ns).get("workerFailure"))
    assert "Evicted: The node was low on memory" in status(ns)["workerFailure"]["message"]
    ns.end_master(master, 1, "lost a rank")
    until("all workers are new", lambda: set(uids(ns)) >= {"digits-worker-0", "digits-worker-1"} and not
          set(uids(ns).values()) & set(before.values()))
    ns.end_master(running(ns))
    ns.wait_state("Succeeded")
    final = status(ns)
    assert (final["attempts"], final["failures"], final["interruptions"]) == (2, 0, 1)
    assert "(attempt 1 of 1 after 1 interruption)" in ns.condition("Succeeded")["message"]


def test_a_rule_on_the_exit_code_ends_the_job_at_once(ns, operator):
    ns.apply_job(backoffLimit=5, failurePolicy={"rules": [
        {"action": "Fail", "role": "Master", "onExitCodes": {"operator": "In", "values": [41, 42]}}]})
    ns.end_master(running(ns), 42, "bad data")
    ns.wait_state("Failed")
    assert "attempt 1 of 6, failurePolicy rule 1: Fail" in ns.condition("Failed")["message"]


def test_a_worker_on_a_lost_node_ends_the_attempt_and_does_not_hold_up_the_next(server, ns, operator):
    node = f"node-{ns.name}"
    server.api.request("POST", "/api/v1/nodes", {"metadata": {"name": node}})
    try:
        long_form(ns, pod={"terminationGracePeriodSeconds": 1, "tolerations": [{"operator": "Exists"}]},
                  backoffLimit=1)
        until("the worker's pod", ns.workers)
        server.api.request("POST", ns.path("pods", "digits-worker-0", "binding"),
                           {"metadata": {"name": "digits-worker-0"}, "target": {"kind": "Node", "name": node}})
        running(ns, 1)
        old = uids(ns)["digits-worker-0"]
        begin = time.monotonic()
        ns.delete("pods", "digits-worker-0")  # no kubelet is there to end it
        until("it is noted", lambda: status(ns).get("workerFailure"))
        ns.wait_state("Restarting", timeout=45)
        assert ns.condition("Running")["reason"] == "WorkerFailed"
        assert f"worker digits-worker-0 on node {node}: its pod is being deleted" in ns.condition("Running")["message"]
        assert 25 < time.monotonic() - begin < limits.seconds(45)
        until("a new worker", lambda: uids(ns).get("digits-worker-0", old) != old, 60)
        running(ns, 1)
        assert status(ns)["attempts"] == 2
    finally:
        server.api.request("DELETE", f"/api/v1/nodes/{node}")


def test_a_master_whose_job_is_deleted_is_made_again_with_clean_workers(ns, operator):
    ns.apply_job()
    running(ns)
    until("the attempt is recorded", lambda: status(ns).get("attempts") == 1)
    before = uids(ns)
    ns.delete("jobs", "digits-master")
    until("new workers", lambda: set(uids(ns)) >= {"digits-worker-0", "digits-worker-1"} and not
          set(uids(ns).values()) & set(before.values()))
    ns.end_master(running(ns))
    ns.wait_state("Succeeded")
    final = status(ns)
    assert (final["attempts"], final["failures"], final["interruptions"]) == (2, 0, 1)


def test_a_secret_deleted_before_the_master_starts_fails_nothing(ns, operator):
    ns.apply_job()
    until("the workers' pods", lambda: len(ns.workers()) == 2)
    before = uids(ns)
    ns.delete("secrets", "digits-ssh")
    until("a new Secret", lambda: ns.get("secrets", "digits-ssh"))
    until("new workers", lambda: len(ns.workers()) == 2 and not set(uids(ns).values()) & set(before.values()))
    ns.end_master(running(ns))
    ns.wait_state("Succeeded")
    assert status(ns)["attempts"] == 1


def test_all_children_may_disappear_while_nobody_looks(ns, run_operator):
    first = run_operator()
    ns.apply_job()
    running(ns)
    until("the attempt is recorded", lambda: status(ns).get("attempts") == 1)
    first.stop()
    for plural, name in (("jobs", "digits-master"), ("statefulsets", "digits-worker"), ("configmaps", "digits-hosts"),
                         ("services", "digits"), ("secrets", "digits-ssh")):
        ns.delete(plural, name)
    until("the pods are gone", lambda: not ns.list("pods"), 60)
    run_operator()
    until("the end of the attempt is recorded", lambda: status(ns)["interruptions"] == 1)
    until("new workers", lambda: len(ns.workers()) == 2, 30)
    ns.end_master(running(ns))
    ns.wait_state("Succeeded")


# ---- suspension ----

def test_a_job_created_suspended_has_nothing_until_it_is_resumed(server, ns, operator):
    ns.apply_job(suspend=True)
    ns.wait_state("Suspended")
    assert not ns.list("statefulsets") and not ns.list("jobs") and not ns.list("secrets") and not ns.list("services")
    assert "startTime" not in status(ns)
    change(ns, {"suspend": False})
    ns.end_master(running(ns))
    ns.wait_state("Succeeded")
    until("the last event", lambda: ("Succeeded", 1) in ns.events())
    reasons = [reason for reason, _ in ns.events()]
    assert reasons == ["Suspended", "Resumed", "MasterStarted", "Succeeded"]


def test_a_suspended_job_takes_new_templates_and_starts_its_time_anew(ns, operator):
    long_form(ns, replicas=2, activeDeadlineSeconds=1000)
    running(ns)
    started = status(ns)["startTime"]
    change(ns, {"suspend": True})
    ns.wait_state("Suspended")
    until("no pods", lambda: not ns.list("pods"))
    assert "startTime" not in status(ns)
    template = {"metadata": {"labels": {"team": "a"}}, "spec": {
        "nodeSelector": {"zone": "b"}, "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "schedulingGates": [{"name": "example.com/gate"}],
        "containers": [{"name": "worker", "image": "j", "command": ["sleep", "2"]}]}}
    change(ns, {"worker": {"template": template}, "master": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}})
    time.sleep(1.1)  # times in the API have whole seconds
    change(ns, {"suspend": False})
    until("new workers", lambda: len(ns.workers()) == 2)
    pod = ns.get("pods", "digits-worker-1")
    assert pod["spec"]["nodeSelector"] == {"zone": "b"} and pod["metadata"]["labels"]["team"] == "a"
    assert pod["spec"]["containers"][0]["image"] == "j"
    assert pod["spec"]["schedulingGates"] == [{"name": "example.com/gate"}]
    master = running(ns)
    assert ns.get("pods", master)["spec"]["nodeSelector"] == {"zone": "b"}
    assert status(ns)["startTime"] > started
    assert status(ns)["attempts"] == 2 and status(ns)["failures"] == 0


def test_what_runs_changes_only_while_suspended(ns, operator):
    ns.apply_job()
    with pytest.raises(ApiError) as refused:
        change(ns, {"image": "other"})
    assert "can change only while spec.suspend is true" in str(refused.value)


def test_a_change_between_a_suspension_and_a_resumption_that_nobody_saw_takes_effect(ns, run_operator):
    first = run_operator()
    ns.apply_job()
    running(ns)
    first.stop()
    change(ns, {"suspend": True, "image": "other"})
    change(ns, {"suspend": False})
    run_operator()
    until("new workers", lambda: {p["spec"]["containers"][0]["image"] for p in ns.list("pods")
                                  if p["metadata"]["name"] in ns.workers()} == {"other"} and len(ns.workers()) == 2)
    master = running(ns)
    assert ns.get("pods", master)["spec"]["containers"][0]["image"] == "other"


def test_suspending_and_resuming_again_and_again_leaves_one_job_that_runs(ns, operator):
    ns.apply_job()
    for _ in range(5):
        change(ns, {"suspend": True})
        change(ns, {"suspend": False})
    change(ns, {"suspend": True})
    ns.wait_state("Suspended")
    until("no pods", lambda: not ns.list("pods"))
    change(ns, {"suspend": False})
    ns.end_master(running(ns))
    ns.wait_state("Succeeded")


def test_a_success_that_came_before_the_suspension_is_kept(ns, run_operator):
    first = run_operator()
    ns.apply_job()
    master = running(ns)
    first.stop()
    ns.end_master(master)
    change(ns, {"suspend": True})
    run_operator()
    ns.wait_state("Succeeded")


# ---- other managers ----

def test_a_job_of_another_manager_gets_no_write_at_all(server, ns, operator):
    ns.apply_job(managedBy="kueue.x-k8s.io/multikueue", ttlSecondsAfterFinished=0)
    ns.apply_job("ours", replicas=1)
    ns.wait_state("Pending", "ours")
    ns.patch("horovodjobs", "digits", {"status": {
        "state": "Succeeded", "conditions": [{
            "type": "Succeeded", "status": "True", "reason": "Remote", "message": "",
            "lastTransitionTime": "2024-01-01T00:00:00Z"}]}}, "status")
    ns.apply_job("also-ours", replicas=1)
    ns.wait_state("Pending", "also-ours")
    assert not [w for w in server.writes(ns.name) if w[2].startswith("digits")]
    assert ns.get("horovodjobs", "digits")["status"]["state"] == "Succeeded"


def test_a_misspelt_manager_and_rules_that_are_none_are_refused(ns, operator):
    def rule(**rule):
        return {"failurePolicy": {"rules": [rule]}}
    wrong = [{"managedBy": "horovod-operator"}, rule(role="Master"), rule(action="Retry"),
             rule(action="Fail", role="Launcher"), rule(action="Fail", onExitCodes={"operator": "In", "values": []}),
             rule(action="Fail", onExitCodes={"operator": "In", "values": [0]}),
             rule(action="Fail", onExitCodes={"operator": "Near", "values": [1]}),
             rule(action="Ignore", onDisruption=False),
             rule(action="Ignore", onDisruption=True, onExitCodes={"operator": "In", "values": [1]})]
    for spec in wrong:
        with pytest.raises(ApiError) as refused:
            ns.apply_job(**spec)
        assert refused.value.code == 422, spec


# ---- ends ----

@pytest.mark.parametrize("policy,workers,master", [("None", True, True), ("Running", False, True),
                                                   ("All", False, False)])
@pytest.mark.parametrize("code", [0, 3])
def test_what_stays_of_a_finished_job_is_what_its_policy_says(ns, operator, policy, workers, master, code):
    ns.apply_job(cleanPodPolicy=policy)
    ns.end_master(running(ns), code)
    ns.wait_state("Failed" if code else "Succeeded")
    if not workers:
        until("the workers are gone", lambda: not ns.workers())
    if not master:
        until("the master is gone", lambda: not ns.get("jobs", "digits-master"))
    until("rest", operator.is_at_rest)
    assert bool(ns.get("statefulsets", "digits-worker")) is workers
    assert bool(ns.get("jobs", "digits-master")) is master
    assert status(ns)["completionTime"]
    assert status(ns)["ready"] == ("2/2" if workers else "-")


def test_an_edit_of_a_finished_job_changes_nothing_but_has_an_event(ns, operator):
    ns.apply_job()
    ns.end_master(running(ns))
    ns.wait_state("Succeeded")
    until("rest", operator.is_at_rest)
    image = status(ns)["image"]
    for n, spec in enumerate([{"worker": {"replicas": 5}}, {"suspend": True, "image": "new"}], 1):
        change(ns, spec)
        until("the edit is observed", lambda: status(ns)["observedGeneration"]
              == ns.get("horovodjobs", "digits")["metadata"]["generation"])
        until("rest", operator.is_at_rest)
        assert ns.events().count(("SpecIgnored", 1)) == n, ns.events()
    assert (status(ns)["image"], status(ns)["state"], ns.workers()) == (image, "Succeeded", set())


def test_a_deadline_stops_the_master_and_is_told(ns, operator):
    ns.apply_job(activeDeadlineSeconds=2, backoffLimit=3)
    until("the workers' pods", lambda: len(ns.workers()) == 2)
    ns.start_workers()
    ns.wait_state("Failed")
    assert ns.condition("Failed")["reason"] == "DeadlineExceeded"
    until("the master is stopped", lambda: not ns.get("jobs", "digits-master"))
    until("the workers are gone", lambda: not ns.workers())


def test_a_finished_job_goes_after_its_time_with_all_that_it_owns(ns, operator):
    ns.apply_job(ttlSecondsAfterFinished=1, cleanPodPolicy="None")
    ns.end_master(running(ns))
    until("the job is gone", lambda: ns.get("horovodjobs", "digits") is None)
    until(lambda: f"all is gone, not {json.dumps(list(uids(ns)))}",
          lambda: not ns.list("pods") and not ns.list("secrets") and not ns.list("statefulsets"), 60)
