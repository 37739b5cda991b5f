"""Pods that do not start or do not become Ready: what a user reads, with statuses and events as a kubelet writes them."""
import datetime

import pytest

from waiting import until

POD = "digits-worker-0"


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def message(ns):
    return (ns.condition("WorkersReady") or {}).get("message", "")


def bind(ns, name):
    ns.api.request("POST", f"/api/v1/namespaces/{ns.name}/pods/{name}/binding",
                   {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-1"}})


def write_status(ns, name, **status):
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now()}
    ns.patch("pods", name, {"status": {"phase": "Pending", "conditions": [scheduled], **status}}, "status")


def write_event(ns, name, reason, text):
    uid = ns.get("pods", name)["metadata"]["uid"]
    ns.api.request("POST", f"/api/v1/namespaces/{ns.name}/events", {
        "metadata": {"generateName": name, "namespace": ns.name}, "type": "Warning", "reason": reason, "message": text, "count": 3,
        "involvedObject": {"kind": "Pod", "namespace": ns.name, "name": name, "uid": uid}, "lastTimestamp": now(),
        "source": {"component": "kubelet", "host": "node-1"}})


def container(name, state, **more):
    return {"name": name, "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state, **more}


def jobs_events(ns, reason):
    return [e["message"] for e in ns.list("events") if e["involvedObject"]["kind"] == "HorovodJob" and e["reason"] == reason]


CREATING = {"containerStatuses": [container("worker", {"waiting": {"reason": "ContainerCreating"}})]}


@pytest.mark.parametrize("status, event, text, reason", [
    (lambda: CREATING, ("FailedMount", 'MountVolume.SetUp failed for volume "data" : secret "none" not found'),
     f'pod {POD} cannot start: MountVolume.SetUp failed for volume "data" : secret "none" not found', "ContainerNotStarted"),
    (lambda: CREATING, ("FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error: no free address"),
     f"pod {POD} cannot start: Failed to create pod sandbox: rpc error: no free address", "ContainerNotStarted"),
    (lambda: {"phase": "Running", "containerStatuses": [container("worker", {"running": {"startedAt": now()}}, started=True)]},
     ("Unhealthy", "Readiness probe failed: dial tcp 10.0.0.7:2222: connect: connection refused"),
     f"pod {POD} container worker is not ready: Readiness probe failed: dial tcp 10.0.0.7:2222: connect: connection refused",
     "ContainerNotReady"),
    (lambda: {"initContainerStatuses": [container("fetch", {"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=3, lastState={
        "terminated": {"exitCode": 6, "reason": "Error", "message": "curl: no such host\n"}})]}, None,
     f"pod {POD} init container fetch keeps ending with exit code 6: curl: no such host", "ContainerKeepsEnding"),
])
def test_a_pod_that_does_not_start_is_told_of_with_the_words_of_its_events(ns, operator, status, event, text, reason):
    ns.apply_job()
    until("the workers' pods", lambda: POD in ns.workers())
    bind(ns, POD)
    write_status(ns, POD, **status())
    if event:
        write_event(ns, POD, *event)
    until(lambda: f"the cause, not {message(ns)}", lambda: message(ns) == f"0 of 2 workers are ready; {text}", 60)
    assert jobs_events(ns, reason) == [text] and ns.state() == "Pending"
    ns.patch("pods", POD, {"status": {"phase": "Running", "initContainerStatuses": None, "containerStatuses": [
        {**container("worker", {"running": {"startedAt": now()}}), "ready": True}],
        "conditions": [{"type": "Ready", "status": "True"}]}}, "status")
    until(lambda: f"the cause is gone, not {message(ns)}", lambda: message(ns) == "1 of 2 workers are ready")
    assert operator.metric("horovod_operator_api_requests_total", verb="list", resource="events") <= 4
