"""What a denied write holds up: nothing but itself, and what cannot be right without it."""
import contextlib
import time

import pytest

from kubeapi import ApiError, until

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
GROUPS = {"configmaps": "", "jobs": "batch", "horovodjobs": "horovod.io", "horovodjobs/status": "horovod.io"}


@contextlib.contextmanager
def denying(server, ns, resource, operation, probe):
    """A policy of the namespace denies the operation until the end; probe() is such a write."""
    rule = {"apiGroups": [GROUPS[resource]], "apiVersions": ["*"], "operations": [operation], "resources": [resource]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": ns.name}}
    items = [("validatingadmissionpolicies", {"metadata": {"name": ns.name}, "spec": {
        "failurePolicy": "Fail", "matchConstraints": {"namespaceSelector": selector, "resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "not on Sundays"}]}}),
        ("validatingadmissionpolicybindings", {"metadata": {"name": ns.name}, "spec": {
            "policyName": ns.name, "validationActions": ["Deny"]}})]

    def is_in_force():
        try:
            probe()
        except ApiError as error:
            return error.code == 422
        return False
    for plural, item in items:
        server.api.request("POST", f"{ADMISSION}/{plural}", item)
    try:
        until("the policy is in force", is_in_force, 60)
        yield
    finally:
        for plural, item in reversed(items):
            server.api.request("DELETE", f"{ADMISSION}/{plural}/{ns.name}")


def dry(ns, plural, name, patch):
    ns.api.request("PATCH", f"{ns.path(plural, name)}?dryRun=All", patch, "application/merge-patch+json")


def patch_status(ns, name="digits"):
    ns.api.request("PATCH", f"{ns.path('horovodjobs', name)}/status?dryRun=All", {"status": {"ready": "7/7"}},
                   "application/merge-patch+json")


def start(ns, **spec):
    ns.apply_job(**spec)
    ns.start_workers()
    name = ns.start_master()
    ns.wait_state("Running")
    return name


def denied_writes(operator, resource):
    return sum(operator.metric(f'horovod_operator_api_requests_total{{verb="patch",resource="{resource}",code="{code}"}}') or 0
               for code in (403, 422))


def wanted(ns):
    workers = ns.get("statefulsets", "digits-worker")
    return workers["spec"]["replicas"] if workers else 0


def test_a_job_is_suspended_resumed_and_scaled_while_its_list_may_not_change(server, ns, operator):
    start(ns)
    with denying(server, ns, "configmaps", "UPDATE", lambda: dry(ns, "configmaps", "digits-hosts", {"data": {"a": "b"}})):
        ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
        ns.wait_state("Suspended")
        until("it is denied several times", lambda: denied_writes(operator, "configmaps") >= 5, 60)
        for replicas in (3, 4):
            before = denied_writes(operator, "configmaps")
            ns.patch("horovodjobs", "digits", {"spec": {"suspend": False, "worker": {"replicas": replicas}}})
            until(f"{replicas} workers are wanted", lambda: wanted(ns) == replicas)
            # Those that were due meanwhile, and one for the spec that has changed: none is sent without a pause.
            assert denied_writes(operator, "configmaps") - before <= 4
            ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
            until("it is suspended again", lambda: wanted(ns) == 0 and ns.state() == "Suspended")
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
    ns.start_workers(4)
    ns.start_master()
    ns.wait_state("Running", timeout=60)


def test_a_tenant_cannot_have_a_denied_write_repeated_without_bound(server, ns, operator):
    """Each change of the spec lifts the wait, at most once a second."""
    start(ns)
    with denying(server, ns, "horovodjobs/status", "UPDATE", lambda: patch_status(ns)):
        before = denied_writes(operator, "horovodjobs/status") + denied_writes(operator, "horovodjobs")
        for n in range(200):
            ns.patch("horovodjobs", "digits", {"spec": {"ttlSecondsAfterFinished": 1000 + n}})
        written = denied_writes(operator, "horovodjobs/status") + denied_writes(operator, "horovodjobs") - before
        assert written < 100, written
    until("the status is written", lambda: ns.status()["observedGeneration"] == ns.get("horovodjobs", "digits")["metadata"]["generation"], 60)
    assert ns.state() == "Running"


def test_a_suspension_is_carried_out_while_the_status_is_denied(server, ns, operator):
    start(ns)
    with denying(server, ns, "horovodjobs/status", "UPDATE", lambda: patch_status(ns)):
        ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
        until("the master's Job is removed", lambda: ns.get("jobs", "digits-master") is None, 60)
        until("no worker is wanted", lambda: wanted(ns) == 0)
        assert ns.state() == "Running"  # as it was written last
        until("both events", lambda: {("StatusNotWritten", 1), ("Suspended", 1)} <= set(ns.events()), 60)
        assert ns.events().count(("Suspended", 1)) == 1
    ns.wait_state("Suspended", timeout=60)
    assert ns.status()["failures"] == 0
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")


@pytest.mark.parametrize("is_one_set_down", [False, True])
def test_a_job_whose_suspension_no_status_tells_of_is_resumed_without_its_old_workers(server, ns, run_operator, is_one_set_down):
    """An operator ends while it takes down what a suspended job has, and the job is resumed before the next one starts."""
    pods = ["digits-worker-0", "digits-worker-big-0"]
    operator = run_operator()
    ns.apply_job("probe", suspend=True)
    with denying(server, ns, "horovodjobs/status", "UPDATE", lambda: patch_status(ns, "probe")):
        ns.apply_job(replicas=1, workerGroups=[{"name": "big", "replicas": 1}])
        ns.start_pods(pods)
        ns.start_master()
        old = {name: ns.get("pods", name)["metadata"]["uid"] for name in pods}
        operator.stop()
        for suspend in (True, False):
            ns.patch("horovodjobs", "digits", {"spec": {"suspend": suspend}})
        ns.delete("jobs", "digits-master")
        if is_one_set_down:
            ns.patch("statefulsets", "digits-worker", {"spec": {"replicas": 0}})
            until("its worker is gone", lambda: ns.get("pods", pods[0]) is None)
        run_operator()
        until("other workers", lambda: not set(old.values()) & {pod["metadata"]["uid"] for pod in ns.pods_of("digits", "worker")}
              and set(pods) == {pod["metadata"]["name"] for pod in ns.pods_of("digits", "worker")}, 60)
        ns.start_pods(pods)
        ns.start_master()
        assert ns.status() == {}
    ns.wait_state("Running", timeout=60)


def test_a_master_that_events_alone_tell_of_takes_its_workers_with_it(server, ns, run_operator):
    """Its Job is removed while no operator runs, and the last status is from before it was made."""
    name = "digits-worker-0"
    operator = run_operator()
    ns.apply_job(replicas=1)
    until("a status", lambda: ns.status().get("ready") == "0/1", 60)
    with denying(server, ns, "horovodjobs/status", "UPDATE", lambda: patch_status(ns)):
        ns.set_pod(name, ready=False)
        old = ns.get("pods", name)
        second = int(time.time())
        until("a later second", lambda: time.time() >= second + 1)  # as with the first probe of a kubelet
        ns.patch("pods", name, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "status")
        ns.start_master()
        until("the event of its pod", lambda: [event for event in ns.list("events") if event["reason"] == "SuccessfulCreate"
                                               and event["involvedObject"]["name"] == "digits-master"])
        operator.stop()
        assert ns.status().get("attempts", 0) == 0 and ns.get("pods", name)["metadata"]["uid"] == old["metadata"]["uid"]
        ns.delete("jobs", "digits-master")
        run_operator()
        until("another worker", lambda: [pod for pod in ns.pods_of("digits", "worker")
                                         if pod["metadata"]["uid"] != old["metadata"]["uid"]], 60)
        ns.start_workers(1)
        ns.start_master()
    ns.wait_state("Running", timeout=60)
    assert ns.status()["attempts"] == 1


def test_a_deadline_is_kept_while_the_status_is_denied(server, ns, operator):
    start(ns, activeDeadlineSeconds=20)
    with denying(server, ns, "horovodjobs/status", "UPDATE", lambda: patch_status(ns)):
        until("the master's Job is removed", lambda: ns.get("jobs", "digits-master") is None, 90)
        until("the workers are removed", lambda: ns.get("statefulsets", "digits-worker") is None)
        until("the event", lambda: ("Failed", 1) in ns.events())
    ns.wait_state("Failed", timeout=60)
    assert ns.condition("Failed")["reason"] == "DeadlineExceeded"


def test_a_job_that_failed_for_good_stays_failed_whatever_happens_to_its_workers_then(server, ns, run_operator):
    """An operator looks at it late: the workers that it misses were removed by others, or by the operator before it."""
    ignore = {"rules": [{"action": "Ignore", "onDisruption": True}]}
    jobs = ("digits", "replaced", "cleared")
    operator = run_operator()
    masters = {}
    for job in jobs:
        ns.apply_job(job, failurePolicy=ignore)
        ns.start_workers(job=job)
        masters[job] = ns.start_master(job)
        ns.wait_state("Running", job)
    with denying(server, ns, "horovodjobs/status", "UPDATE", lambda: patch_status(ns)):
        ns.end_master(masters["cleared"], code=3)
        until("its workers are removed", lambda: not ns.get("statefulsets", "cleared-worker") and not ns.workers("cleared"), 60)
        operator.stop()
        for job in ("digits", "replaced"):
            ns.end_master(masters[job], code=3)
        time.sleep(6)  # what happens within five seconds of the master's end may be its cause
        ns.delete("statefulsets", "digits-worker")
        old = ns.get("pods", "replaced-worker-1")["metadata"]["uid"]
        ns.delete("pods", "replaced-worker-1")
        until("it is replaced", lambda: (ns.get("pods", "replaced-worker-1") or {"metadata": {"uid": old}})["metadata"]["uid"] != old, 60)
        until("the others are gone", lambda: not ns.workers(), 60)
        run_operator()
        for job in jobs:
            until(f"the end of {job} is told", lambda name=job: ("Failed", 1) in ns.events(name), 60)
    for job in jobs:
        ns.wait_state("Failed", job, timeout=60)
        assert ns.condition("Failed", job)["reason"] == "MasterFailed", ns.status(job)
        assert "workerFailure" not in ns.status(job) and ns.status(job).get("interruptions", 0) == 0
        assert ns.master(job) == masters[job]


@pytest.mark.parametrize("code", [0, 1])
def test_an_end_is_counted_before_the_next_attempt(server, ns, operator, code):
    """The Job of a failed attempt stays, as it tells of the failure; one that succeeded needs its workers no more."""
    name = start(ns, backoffLimit=2)
    with denying(server, ns, "horovodjobs/status", "UPDATE", lambda: patch_status(ns)):
        ns.patch("horovodjobs", "digits", {"spec": {"ttlSecondsAfterFinished": 1000}})
        until("the status is refused", lambda: ("StatusNotWritten", 1) in ns.events(), 60)
        ns.end_master(name, code=code)
        if code == 0:
            until("the workers are removed", lambda: ns.get("statefulsets", "digits-worker") is None)
        else:
            refused = operator.metric("horovod_operator_retries_total")
            until("it is refused again", lambda: operator.metric("horovod_operator_retries_total") > refused, 60)
            assert ("Restarting", 1) not in ns.events()
        assert ns.get("jobs", "digits-master")
    if code == 0:
        ns.wait_state("Succeeded", timeout=60)
        return
    until("the failure is counted", lambda: ns.status()["failures"] == 1, 60)
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    assert ns.events().count(("Restarting", 1)) == 1


def is_over(ns, state, masters):
    """The end is told once, and nothing has run but those masters."""
    ns.wait_state(state, timeout=60)
    until("nothing is left of the workers", lambda: not ns.get("statefulsets", "digits-worker") and not ns.workers(), 60)
    started = [event for event in ns.list("events") if event["reason"] == "MasterStarted" and event["involvedObject"]["name"] == "digits"]
    assert {event["message"].split()[1] for event in started} == set(masters), started
    assert [event for event, _ in ns.events() if event in ("Succeeded", "Failed")] == [state]


@pytest.mark.parametrize("code", [0, 1])
def test_an_end_that_no_status_tells_of_outlives_the_operator_and_the_job(server, ns, run_operator, code):
    """The status was never written, the workers are gone, and then the master's Job: a new operator runs nothing again."""
    operator = run_operator()
    ns.apply_job("probe", suspend=True)
    with denying(server, ns, "horovodjobs/status", "UPDATE", lambda: patch_status(ns, "probe")):
        ns.apply_job()
        ns.start_workers()
        master = ns.start_master()
        until("the event", lambda: ("MasterStarted", 1) in ns.events(), 60)
        ns.end_master(master, code=code)
        until("the workers are removed", lambda: ns.get("statefulsets", "digits-worker") is None, 60)
        operator.stop()
        ns.delete("jobs", "digits-master")
        until("its pod is removed", lambda: ns.get("pods", master) is None, 60)
        operator = run_operator()
        until("the status is refused again", lambda: sum(denied_writes(operator, name) for name in ("horovodjobs/status", "horovodjobs")), 60)
        assert ns.status() == {}
    is_over(ns, "Failed" if code else "Succeeded", [master])


def test_a_deadline_that_was_carried_out_is_kept_whatever_it_is_then(server, ns, run_operator):
    operator = run_operator()
    master = start(ns, activeDeadlineSeconds=20)
    with denying(server, ns, "horovodjobs/status", "UPDATE", lambda: patch_status(ns)):
        until("the workers are removed", lambda: ns.get("statefulsets", "digits-worker") is None, 90)
        until("the master is removed", lambda: ns.get("jobs", "digits-master") is None, 60)
        ns.patch("horovodjobs", "digits", {"spec": {"activeDeadlineSeconds": 100000}})
        operator.stop()
        run_operator()
    is_over(ns, "Failed", [master])
    assert ns.condition("Failed")["reason"] == "DeadlineExceeded"


@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_master_that_succeeds_before_it_can_be_suspended_has_succeeded(server, ns, operator, is_resumed):
    master = start(ns)

    def remove():
        ns.api.request("DELETE", f"{ns.path('jobs', 'digits-master')}?dryRun=All")
    with denying(server, ns, "jobs", "DELETE", remove):
        ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
        ns.wait_state("Suspended", timeout=60)
        if is_resumed:
            ns.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
        ns.end_master(master)
        ns.wait_state("Succeeded", timeout=60)
    is_over(ns, "Succeeded", [master])
    assert ns.get("jobs", "digits-master")
