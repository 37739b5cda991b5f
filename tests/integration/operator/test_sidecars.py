"""Containers that run on after the master's own has ended: a real API server, whose Job controller waits for all of them."""
import datetime

import pytest

from kubeapi import until


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def container(name, code=None):
    state = {"running": {"startedAt": now()}} if code is None else {
        "terminated": {"exitCode": code, "startedAt": now(), "finishedAt": now(), "message": "the last line"}}
    return {"name": name, "image": "i", "imageID": "i", "ready": code is None, "restartCount": 0, "state": state}


def write_containers(ns, pod, *containers):
    ns.patch("pods", pod, {"status": {"containerStatuses": list(containers), "conditions": [
        {"type": "Ready", "status": "False"}]}}, "status")


def start(ns, **spec):
    ns.apply_job(**spec)
    ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    return master


@pytest.mark.parametrize("code, state, text", [
    (0, "Succeeded", "pod {} succeeded (attempt 1 of 1); container istio-proxy, which spec.master.template does not have, ran on and is "
                     "stopped"),
    (4, "Failed", "pod {} container master exited with code 4 (attempt 1 of 1): the last line")])
def test_the_masters_exit_code_counts_beside_a_container_that_was_injected(server, ns, run_operator, code, state, text):
    operator = run_operator()
    pod = start(ns)
    write_containers(ns, pod, container("istio-proxy"), container("master", code))
    until("it is reported", lambda: ns.condition("Running")["reason"] == "MasterEnded")
    assert "container istio-proxy runs on" in ns.condition("Running")["message"] and ns.state() == "Running"
    # Another operator carries on with the time that has passed.
    operator.stop()
    run_operator()
    ns.wait_state(state, timeout=45)
    assert ns.condition(state)["message"] == text.format(pod)
    until("the kubelet is to end the pod", lambda: ns.get("pods", pod)["spec"].get("activeDeadlineSeconds") == 1)
    until("the workers go", lambda: not ns.workers())
    assert ns.get("jobs", "digits-master") and ns.status()["attempts"] == 1
    # What the kubelet makes of it changes nothing any more.
    ns.patch("pods", pod, {"status": {"phase": "Failed", "reason": "DeadlineExceeded"}}, "status")
    until("the Job has failed", lambda: ns.get("jobs", "digits-master")["status"].get("failed"))
    assert ns.state() == state


def test_a_container_of_the_template_is_waited_for_and_named(server, ns, operator):
    pods = {"spec": {"containers": [{"name": "worker", "image": "i"}]}}
    both = {"spec": {"containers": [{"name": "master", "image": "i"}, {"name": "upload", "image": "i"}]}}
    ns.create("horovodjobs", {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": "digits"}, "spec": {
        "worker": {"replicas": 2, "template": pods}, "master": {"template": both}}})
    ns.start_workers()
    pod = ns.start_master()
    ns.wait_state("Running")
    write_containers(ns, pod, container("upload"), container("master", 0), container("istio-proxy"))
    text = f"pod {pod} container upload still runs after the master exited with code 0 (attempt 1 of 1)"
    until("it is reported", lambda: ns.condition("Running")["message"].startswith(text), 45)
    until("there is an event", lambda: ("ContainerRunsOn", 1) in ns.events())
    assert ns.state() == "Running" and len(ns.workers()) == 2
    write_containers(ns, pod, container("upload", 0), container("master", 0), container("istio-proxy"))
    ns.wait_state("Succeeded")
