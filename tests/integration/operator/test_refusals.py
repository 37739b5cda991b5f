"""What others refuse: policies and webhooks of the cluster, for children of a job and for their pods."""
import contextlib
import threading

import pytest

import webhook
from kubeapi import ApiError, until

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
TOO_MUCH = {"capabilities": {"add": ["SYS_ADMIN"]}}


def label(server, ns, level):
    server.api.request("PATCH", f"/api/v1/namespaces/{ns.name}",
                       {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}}, "application/merge-patch+json")


def long_form(ns, **contexts):
    """A job whose pods have the security contexts that are given, by role."""
    def template(role):
        return {"spec": {"containers": [{"name": role, "image": "i", "command": ["sleep", "1"],
                                         "securityContext": contexts.get(role)}]}}
    ns.create("horovodjobs", {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": "digits"},
                              "spec": {"worker": {"replicas": 2, "template": template("worker")},
                                       "master": {"template": template("master")}}})


def message(ns, kind):
    return (ns.condition(kind) or {}).get("message", "")


def nudge(ns, plural, name):
    """The controller tries again at once, and not when its own wait is over."""
    ns.patch(plural, name, {"metadata": {"annotations": {"test": "again"}}})


# ---- pods ----

def test_workers_that_pod_security_refuses_are_told_of(server, ns, operator):
    label(server, ns, "restricted")
    long_form(ns, worker=TOO_MUCH)
    start = '0 of 2 workers are ready; pods of StatefulSet digits-worker cannot be made: forbidden: violates PodSecurity ' \
        '"restricted:latest": '
    until(lambda: message(ns, "WorkersReady"), lambda: message(ns, "WorkersReady").startswith(start), 60)
    assert "SYS_ADMIN" in message(ns, "WorkersReady")
    assert ns.state() == "Pending"
    label(server, ns, "privileged")
    nudge(ns, "statefulsets", "digits-worker")
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    assert message(ns, "WorkersReady") == "2 of 2 workers are ready"


def test_a_master_that_pod_security_refuses_is_told_of(server, ns, operator):
    label(server, ns, "restricted")
    long_form(ns, master=TOO_MUCH)
    ns.start_workers()
    start = "the pod of Job digits-master cannot be made: forbidden: violates PodSecurity "
    until(lambda: message(ns, "Running"), lambda: message(ns, "Running").startswith(start), 60)
    assert ns.state() == "Starting"
    label(server, ns, "privileged")
    nudge(ns, "jobs", "digits-master")
    ns.start_master()
    ns.wait_state("Running")


def test_workers_that_a_quota_refuses_are_told_of(ns, operator):
    ns.api.request("POST", f"/api/v1/namespaces/{ns.name}/resourcequotas",
                   {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}})
    until("the quota counts", lambda: ns.api.request(
        "GET", f"/api/v1/namespaces/{ns.name}/resourcequotas/few").get("status", {}).get("used"))
    ns.apply_job()
    reason = "pods of StatefulSet digits-worker cannot be made: forbidden: exceeded quota: few"
    until(lambda: message(ns, "WorkersReady"), lambda: reason in message(ns, "WorkersReady"), 60)
    assert ns.events() == [("PodsNotCreated", 1)]


def test_causes_of_pending_are_events_of_the_job_each_once(ns, operator):
    """The kubelet's words change with every try, and each worker has them."""
    def causes():
        return [(event["reason"], event["message"]) for event in ns.list("events")
                if event["involvedObject"]["kind"] == "HorovodJob"]

    def wait(name, reason, text):
        ns.patch("pods", name, {"status": {"phase": "Pending", "containerStatuses": [
            {"name": "worker", "ready": False, "restartCount": 0, "image": "r.example/none:1", "imageID": "",
             "state": {"waiting": {"reason": reason, "message": text}}}]}}, "status")

    ns.apply_job()
    names = ["digits-worker-0", "digits-worker-1"]
    until("the workers' pods", lambda: ns.workers() == set(names))
    for name in names:
        ns.patch("pods", name, {"status": {"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]}}, "status")
    scheduling = ("Unschedulable", "pod digits-worker-0 cannot be scheduled: 0/3 nodes are available")
    until("the scheduler's words", lambda: causes() == [scheduling])
    for name in names:
        ns.patch("pods", name, {"status": {"conditions": [{
            "type": "PodScheduled", "status": "True", "reason": None, "message": None}]}}, "status")
    error = "dial tcp 10.0.0.1:{}: connect: connection refused"
    for port in range(41000, 41006):
        for name in names:
            wait(name, "ImagePullBackOff", 'Back-off pulling image "r.example/none:1"')
        for name in names:
            wait(name, "ErrImagePull", "rpc error: code = Unknown desc = " + error.format(port))
    text = "pod digits-worker-0 image r.example/none:1 cannot be pulled: "
    until(lambda: f"the registry's words, not {message(ns, 'WorkersReady')}", lambda: ("; " + text) in message(ns, "WorkersReady"), 40)
    until("rest", operator.is_at_rest)
    pulling = [found for reason, found in causes() if reason == "ImagePullFailed"]
    assert len(pulling) == 1 and pulling[0].startswith(text + "dial tcp") and len(causes()) == 2


# ---- children ----

def denied(ns):
    condition = ns.condition("Running") or {}
    return condition.get("reason") == "Denied" and condition["message"]


@contextlib.contextmanager
def objects(server, *items):
    """Objects of the cluster that are there for some time."""
    made = []
    try:
        for plural, item in items:
            server.api.request("POST", f"{ADMISSION}/{plural}", item)
            made.append((plural, item["metadata"]["name"]))
        yield
    finally:
        for plural, name in reversed(made):
            server.api.request("DELETE", f"{ADMISSION}/{plural}/{name}")


def is_refused(ns, plural):
    """The code with which a good child is refused: policies take some time to be in force."""
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    item = {"metadata": {"name": "probe"}, "spec": {"template": pod}}
    if plural == "statefulsets":
        item["spec"].update(serviceName="a", selector={"matchLabels": {"a": "b"}})
    else:
        pod["spec"]["restartPolicy"] = "Never"
    try:
        ns.api.request("POST", ns.path(plural) + "?dryRun=All", item)
    except ApiError as error:
        return error.code
    return None


def test_an_admission_policy_that_denies_holds_a_job_up_and_does_not_end_it(server, ns, operator):
    selector = {"matchLabels": {"kubernetes.io/metadata.name": ns.name}}
    rule = {"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["statefulsets"]}
    policy = ("validatingadmissionpolicies", {"metadata": {"name": ns.name}, "spec": {
        "failurePolicy": "Fail", "matchConstraints": {"namespaceSelector": selector, "resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "not on Sundays"}]}})
    binding = ("validatingadmissionpolicybindings", {"metadata": {"name": ns.name}, "spec": {
        "policyName": ns.name, "validationActions": ["Deny"]}})
    with objects(server, policy, binding):
        until("the policy is in force", lambda: is_refused(ns, "statefulsets") == 422, 60)
        ns.apply_job()
        until("the condition", lambda: denied(ns))
        assert denied(ns).startswith("StatefulSet digits-worker cannot be made, will be tried again: ")
        assert denied(ns).endswith("not on Sundays")
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    assert ns.events() == [("Denied", 1), ("MasterStarted", 1)]


def may_delete(ns, plural, name):
    try:
        ns.api.request("DELETE", f"{ns.path(plural, name)}?dryRun=All")
    except ApiError:
        return False
    return True


def test_a_removal_that_a_policy_denies_is_told_of_until_it_is_allowed(server, ns, operator):
    selector = {"matchLabels": {"kubernetes.io/metadata.name": ns.name}}
    rule = {"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["statefulsets"]}
    policy = ("validatingadmissionpolicies", {"metadata": {"name": ns.name}, "spec": {
        "failurePolicy": "Fail", "matchConstraints": {"namespaceSelector": selector, "resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "not on Sundays"}]}})
    binding = ("validatingadmissionpolicybindings", {"metadata": {"name": ns.name}, "spec": {
        "policyName": ns.name, "validationActions": ["Deny"]}})
    ns.apply_job()
    ns.start_workers()
    name = ns.start_master()
    ns.wait_state("Running")
    with objects(server, policy, binding):
        until("the policy is in force", lambda: not may_delete(ns, "statefulsets", "digits-worker"), 60)
        ns.end_master(name)
        ns.wait_state("Succeeded")
        start = "the job has finished; StatefulSet digits-worker cannot be deleted, will be tried again: "
        until(lambda: message(ns, "WorkersReady"), lambda: message(ns, "WorkersReady").startswith(start))
        assert message(ns, "WorkersReady").endswith("not on Sundays")
        assert f"ValidatingAdmissionPolicy '{ns.name}'" in message(ns, "WorkersReady")
        assert ns.get("statefulsets", "digits-worker")
    until("the workers are removed", lambda: ns.get("statefulsets", "digits-worker") is None, 60)
    until("the job tells no more", lambda: message(ns, "WorkersReady") == "the workers are removed: the job has finished")


def test_a_job_that_may_not_be_removed_keeps_its_end_and_no_workers(server, ns, run_operator):
    """Its time is over, and a policy denies its deletion, also to an operator that starts anew."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": ns.name}}
    rule = {"apiGroups": ["horovod.io"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["horovodjobs"]}
    policy = ("validatingadmissionpolicies", {"metadata": {"name": ns.name}, "spec": {
        "failurePolicy": "Fail", "matchConstraints": {"namespaceSelector": selector, "resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "not on Sundays"}]}})
    binding = ("validatingadmissionpolicybindings", {"metadata": {"name": ns.name}, "spec": {
        "policyName": ns.name, "validationActions": ["Deny"]}})
    operator = run_operator()
    ns.apply_job(ttlSecondsAfterFinished=0)
    ns.start_workers()
    name = ns.start_master()
    ns.wait_state("Running")

    def is_told():
        return "HorovodJob digits cannot be deleted, will be tried again: " in message(ns, "WorkersReady") \
            and message(ns, "WorkersReady").endswith("not on Sundays") and ns.status()["ready"] == "-"
    with objects(server, policy, binding):
        until("the policy is in force", lambda: not may_delete(ns, "horovodjobs", "digits"), 60)
        ns.end_master(name)
        until(lambda: f"the denial, not {ns.status()}", is_told, 60)
        assert ns.state() == "Succeeded" and ns.get("statefulsets", "digits-worker") is None
        ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
        until("the edit is seen", lambda: ns.status()["observedGeneration"] == ns.get("horovodjobs", "digits")["metadata"]["generation"])
        operator.stop()
        operator = run_operator()
        until("it is tried again", lambda: operator.metric("horovod_operator_retries_total") > 0)
        assert is_told() and ns.state() == "Succeeded", ns.status()
    until("the job is removed", lambda: ns.get("horovodjobs", "digits") is None, 60)


@pytest.fixture
def hook_server(tmp_path):
    with webhook.serving(tmp_path) as server:
        yield server


@pytest.mark.parametrize("code", [None, 400, 403, 422, 500])
def test_a_webhook_that_denies_holds_a_job_up_and_does_not_end_it(server, ns, operator, hook_server, code):
    hook = ("validatingwebhookconfigurations", {"metadata": {"name": ns.name}, "webhooks": [{
        "name": "policy.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns.name}},
        "rules": [{"apiGroups": ["batch"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["jobs"]}],
        "clientConfig": hook_server.client_config}]})
    status = {"message": "no more budget", **({"code": code} if code else {})}
    hook_server.answer = lambda request: {"allowed": False, "status": status}
    with objects(server, hook):
        until("the webhook is asked", lambda: is_refused(ns, "jobs") == (code or 400), 60)
        ns.apply_job()
        ns.start_workers()
        until("the condition", lambda: denied(ns))
        assert denied(ns) == ('Job digits-master cannot be made, will be tried again: admission webhook '
                              '"policy.example.com" denied the request: no more budget')
        hook_server.answer = webhook.allow
        ns.start_master()
        ns.wait_state("Running")
    assert ns.events() == [("Denied", 1), ("MasterStarted", 1)]


WRONG_CHILDREN = {
    "secrets": ("Secret digits-ssh", [{"op": "add", "path": "/data/a~1b", "value": "eA=="}], "data[a/b]"),
    "services": ("Service digits", [{"op": "add", "path": "/spec/type", "value": "Nonsense"}], "spec.type"),
    "configmaps": ("ConfigMap digits-hosts", [{"op": "add", "path": "/data/a~1b", "value": "x"}], "data[a/b]"),
    "statefulsets": ("StatefulSet digits-worker", [{"op": "add", "path": "/spec/podManagementPolicy", "value": "Nonsense"}],
                     "spec.podManagementPolicy"),
    "jobs": ("Job digits-master", [{"op": "add", "path": "/spec/completionMode", "value": "Nonsense"}], "spec.completionMode"),
}


@pytest.mark.parametrize("plural", WRONG_CHILDREN)
def test_a_child_that_a_webhook_makes_wrong_holds_a_job_up_and_does_not_end_it(server, ns, operator, hook_server, plural):
    """The API server's own rules refuse the child with code 422, and what they refuse is not of the job's template."""
    child, operations, field = WRONG_CHILDREN[plural]
    group = {"statefulsets": "apps", "jobs": "batch"}.get(plural, "")
    hook = ("mutatingwebhookconfigurations", {"metadata": {"name": ns.name}, "webhooks": [{
        "name": "policy.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns.name}},
        "rules": [{"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [plural]}],
        "clientConfig": hook_server.client_config}]})
    asked = threading.Event()

    def answer(request):
        asked.set()
        return webhook.patch(operations) if request["object"]["metadata"]["name"].startswith("digits") else {}

    def is_in_force():
        with contextlib.suppress(ApiError):
            ns.api.request("POST", ns.path(plural) + "?dryRun=All", {"metadata": {"name": "probe"}})
        return asked.is_set()
    hook_server.answer = answer
    with objects(server, hook):
        until("the webhook is asked", is_in_force, 60)
        ns.apply_job()
        if plural == "jobs":
            ns.start_workers()
        until(lambda: f"the condition, not {ns.status()}", lambda: denied(ns))
        assert denied(ns).startswith(f"{child} cannot be made, will be tried again: ")
        assert " is invalid: " in denied(ns) and field in denied(ns)
        hook_server.answer = webhook.allow
        if plural != "jobs":
            ns.start_workers()
        ns.start_master()
        ns.wait_state("Running")
    assert ns.events() == [("Denied", 1), ("MasterStarted", 1)]


def test_what_the_api_server_itself_calls_wrong_ends_the_job(ns, operator):
    long_form(ns, worker={"runAsUser": -1})
    ns.wait_state("Failed")
    assert ns.condition("Failed")["reason"] == "InvalidTemplate"
    assert "runAsUser" in ns.condition("Failed")["message"]
