"""What webhooks of the cluster do to a job's objects: the job tells, and goes on when they let it."""
import contextlib

import pytest

from fake import Operator, until

FAILURES = ['admission webhook "policy.example.com" denied the request: its database is down',
            'Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: Post '
            '"https://policy.default.svc:443/": connection refused']


@pytest.fixture
def operator(fake, tmp_path):
    with Operator(fake.kubeconfig(), tmp_path) as process:
        yield process.wait_ready()
        assert process.stop() == 0


def told(fake, kind):
    """The message of a condition of the job; "" when there is none."""
    conditions = fake.get("horovodjobs", "digits").get("status", {}).get("conditions", [])
    return next((c["message"] for c in conditions if c["type"] == kind), "")


@pytest.mark.parametrize("message", FAILURES)
@pytest.mark.parametrize("plural, kind, name", [("services", "Service", "digits"), ("statefulsets", "StatefulSet", "digits-worker"),
                                                ("jobs", "Job", "digits-master")])
def test_a_webhook_that_fails_is_told_of_and_holds_the_job_up(fake, operator, plural, kind, name, message):
    fake.play(run_ms=-1)
    fake.fault("answer", verb="create", resource=plural, times=-1, code=500, reason="InternalError", message=message)
    fake.apply_job(replicas=2)
    until("the job tells", lambda: told(fake, "Running") == f"{kind} {name} cannot be made, will be tried again: {message}")
    fake.clear_faults()
    fake.wait_state("Running")


@pytest.mark.parametrize("verb, plural, what", [("patch", "statefulsets", "StatefulSet digits-worker cannot be changed"),
                                                ("delete", "jobs", "Job digits-master cannot be deleted")])
def test_a_suspension_that_a_webhook_denies_is_told_of(fake, operator, verb, plural, what):
    fake.play(run_ms=-1)
    fake.apply_job(replicas=2)
    fake.wait_state("Running")
    fake.fault("answer", verb=verb, resource=plural, times=-1, code=403, message=FAILURES[0])
    fake.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
    until("the job tells", lambda: told(fake, "WorkersReady") ==
          f"the job is suspended by spec.suspend; {what}, will be tried again: {FAILURES[0]}")
    assert fake.job_state() == "Suspended"
    fake.clear_faults()
    until("no pods are left", lambda: fake.state()["objects"]["pods"] == 0)
    until("the job tells no more", lambda: told(fake, "WorkersReady") == "the job is suspended by spec.suspend")
    fake.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
    fake.wait_state("Running")
    assert not told(fake, "Running").startswith("Job digits-master cannot")


RBAC = 'statefulsets.apps "digits-worker" is forbidden: User "system:serviceaccount:default:operator" cannot delete ' \
    'resource "statefulsets" in API group "apps" in the namespace "default"'


@pytest.mark.parametrize("plural, what, policy, code, message", [
    ("statefulsets", "StatefulSet digits-worker", "Running", 403, FAILURES[0]),
    ("statefulsets", "StatefulSet digits-worker", "Running", 422, FAILURES[0]),
    ("statefulsets", "StatefulSet digits-worker", "Running", 500, FAILURES[1]),
    ("statefulsets", "StatefulSet digits-worker", "Running", 403, RBAC),
    ("jobs", "Job digits-master", "All", 403, FAILURES[0])])
def test_a_removal_after_the_end_that_is_denied_is_told_of_and_tried_again(fake, operator, plural, what, policy, code, message):
    reason = "InternalError" if code == 500 else "Forbidden"
    rule = fake.fault("answer", verb="delete", resource=plural, times=-1, code=code, reason=reason, message=message)
    fake.play(run_ms=50)
    fake.apply_job(replicas=2, cleanPodPolicy=policy)
    fake.wait_state("Succeeded")
    until("the job tells", lambda: told(fake, "WorkersReady") ==
          f"the job has finished; {what} cannot be deleted, will be tried again: {message}")

    def times():
        return [r["ms"] for r in fake.requests() if r["verb"] == "delete" and r["resource"] == plural]
    until("it is tried again and again", lambda: len(times()) >= 5)
    waits = [later - earlier for earlier, later in zip(times(), times()[1:])]
    assert max(waits) > 2 * min(waits), f"the waits do not grow: {waits}"
    assert fake.job_state() == "Succeeded"
    assert fake.get(plural, what.split()[1])
    fake.clear_faults(rule)
    until("it is removed", lambda: fake.get(plural, what.split()[1]) is None)
    until("the job tells no more", lambda: told(fake, "WorkersReady") == "the workers are removed: the job has finished")
    assert fake.job_state() == "Succeeded"


def test_removals_that_are_denied_together_are_all_named(fake, operator):
    def deny(plural, message):
        return fake.fault("answer", verb="delete", resource=plural, times=-1, code=403, reason="Forbidden", message=message)

    def tells(words):
        return told(fake, "WorkersReady") == f"the job has finished; {words}"
    deny("statefulsets", FAILURES[0])
    of_jobs = deny("jobs", FAILURES[0])
    fake.play(run_ms=50)
    fake.apply_job(replicas=2, cleanPodPolicy="All")
    fake.wait_state("Succeeded")
    until(lambda: f"both are named: {told(fake, 'WorkersReady')}", lambda: tells(
        f"StatefulSet digits-worker and Job digits-master cannot be deleted, will be tried again: {FAILURES[0]}"), 60)
    fake.clear_faults(of_jobs)
    until(lambda: f"one is named: {told(fake, 'WorkersReady')}", lambda: tells(
        f"StatefulSet digits-worker cannot be deleted, will be tried again: {FAILURES[0]}"), 60)
    assert fake.get("jobs", "digits-master") is None
    fake.clear_faults()
    until("the job tells no more", lambda: told(fake, "WorkersReady") == "the workers are removed: the job has finished", 60)


def test_a_webhook_that_keeps_one_namespace_waiting_does_not_hold_up_the_others(fake, operator):
    """More jobs than may have plans under way wait for answers that do not come; each would ask again after half a minute."""
    for resource in ("secrets", "services", "configmaps", "statefulsets"):
        fake.fault("hang", verb="create", resource=resource, namespace="hostile", times=-1)
    for number in range(120):
        fake.apply_job(f"slow-{number}", ns="hostile")
    until("the webhook is asked", lambda: any(w["namespace"] == "hostile" for w in fake.writes()))
    for number in range(3):
        fake.apply_job(f"sound-{number}", ns="other")
        fake.wait_state("Succeeded", f"sound-{number}", "other", timeout=60)
    asked = [(w["resource"], w["name"]) for w in fake.writes() if w["namespace"] == "hostile" and w["verb"] == "create"]
    assert len(asked) == len(set(asked)), "the others waited until requests had been given up"
    assert len({name.split("-")[1] for _, name in asked}) <= 64, "slow plans of a namespace are bounded"


@pytest.mark.parametrize("code, reason", [(403, "Forbidden"), (422, "Invalid")])
def test_a_status_that_may_not_be_written_is_an_event_and_keeps_no_workers(fake, operator, code, reason):
    message = 'horovodjobs.horovod.io "digits" is forbidden: admission webhook "policy.example.com" denied the request: no status'
    fake.fault("answer", verb="patch", resource="horovodjobs", subresource="status", times=-1, code=code, reason=reason,
               message=message)
    fake.play(run_ms=50)
    fake.apply_job(replicas=2)
    until("the workers go", lambda: fake.get("jobs", "digits-master") and not fake.get("statefulsets", "digits-worker")
          and all(any(event["reason"] == reason for event in fake.objects("events")) for reason in ("Succeeded", "StatusNotWritten")))
    told_of = [event for event in fake.objects("events") if event["reason"] == "StatusNotWritten"]
    assert len(told_of) == 1 and message in told_of[0]["message"], told_of
    fake.clear_faults()
    fake.wait_state("Succeeded", timeout=60)
    assert len([w for w in fake.writes() if w["verb"] == "create" and w["resource"] == "jobs"]) == 1, "one master, once"


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_suspension_that_no_status_tells_of_is_no_deletion_by_somebody_else(fake, tmp_path, is_restarted):
    """The operator deletes the master's Job for it, may be another one when the job is resumed, and accuses nobody."""
    def seen(reason):
        return [event for event in fake.objects("events") if event["reason"] == reason]
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(Operator(fake.kubeconfig(), tmp_path)).wait_ready()
        fake.play(run_ms=-1)
        fake.apply_job(replicas=2)
        fake.wait_state("Running")
        fake.fault("answer", verb="patch", resource="horovodjobs", subresource="status", times=-1, code=403, reason="Forbidden",
                   message=FAILURES[0])
        fake.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
        until("it is carried out", lambda: not fake.get("jobs", "digits-master") and fake.state()["objects"]["pods"] == 0)
        if is_restarted:
            first.stop()
            stack.enter_context(Operator(fake.kubeconfig(), tmp_path)).wait_ready()
        fake.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
        generation = fake.get("horovodjobs", "digits")["metadata"]["generation"]
        fake.clear_faults()
        until("it runs again", lambda: seen("Resumed") and fake.job_state() == "Running", 60)
        status = fake.get("horovodjobs", "digits")["status"]
        assert status["observedGeneration"] == generation
        assert (status["attempts"], status["failures"], status["interruptions"]) == (2, 0, 1), status
        assert status["attemptLogs"]["1"]["reason"] == "Suspended", status
        assert not seen("Restarting") and len(seen("Resumed")) == 1
