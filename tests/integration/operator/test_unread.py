"""Reads that the API server refuses for long: the job tells of it, waits for that alone, and costs few requests."""
import pytest

import refuser
from kubeapi import until

LIMIT_S = 90
EVENTS = "the job waits for the events about Job digits-master, which show whether it has ended: they cannot be read, will be tried again: boom"
TROUBLE = refuser.status(500, "InternalError", "boom")


@pytest.fixture
def proxy(server, tmp_path):
    with refuser.serve(server, tmp_path) as running:
        yield running


def is_list_of_events(method, path):
    return method == "GET" and "/events" in path and "watch=" not in path


def refuse_events(method, path):
    return TROUBLE if is_list_of_events(method, path) else None


def running(ns):
    return ns.condition("Running") or {}


def test_a_master_whose_job_is_gone_is_told_of_while_events_cannot_be_read(ns, run_operator, proxy):
    run_operator(kubeconfig=proxy.kubeconfig)
    ns.apply_job()
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    proxy.rule = refuse_events
    ns.delete("jobs", "digits-master")
    ns.until(lambda: f"it is told of: {ns.status()}", lambda: running(ns).get("message") == EVENTS, timeout=LIMIT_S)
    assert (running(ns)["status"], running(ns)["reason"]) == ("False", "Denied")
    assert [reason for reason, _ in ns.events() if reason == "Denied"] == ["Denied"]
    assert 8 <= len(proxy.refused) <= 16
    assert ns.status()["attempts"] == 1
    proxy.rule = lambda method, path: None
    ns.start_workers()
    ns.start_master(timeout=150)
    ns.wait_state("Running")
    assert ns.status()["attempts"] == 2 and ns.status()["interruptions"] == 1


def test_a_deadline_of_a_job_that_no_status_tells_of_is_carried_out_while_events_cannot_be_read(ns, run_operator, proxy):
    """The operator that made the workers ends before it has written a status, and the next one may not read whether there was a master."""
    no_status = refuser.status(503, "ServiceUnavailable", "not yet")
    proxy.rule = lambda method, path: no_status if method == "PATCH" and path.split("?")[0].endswith("/status") else None
    first = run_operator(kubeconfig=proxy.kubeconfig)
    ns.apply_job(activeDeadlineSeconds=40)
    until("the workers", lambda: len(ns.workers()) == 2, LIMIT_S)
    first.kill()
    assert not ns.status()
    ns.start_workers()
    proxy.rule, proxy.refused[:] = refuse_events, []
    second = run_operator(kubeconfig=proxy.kubeconfig)
    ns.until(lambda: f"it is told of: {ns.status()}", lambda: running(ns).get("message") == EVENTS, timeout=LIMIT_S)
    assert ns.status()["startTime"] and ns.get("jobs", "digits-master") is None
    ns.wait_state("Failed", timeout=LIMIT_S)
    assert ns.condition("Failed")["reason"] == "DeadlineExceeded"
    assert second.process.poll() is None


def test_an_account_that_is_not_known_for_a_moment_knows_no_less(ns, run_operator, proxy):
    """401 says nothing about rights: the master's success is read later, and it does not run again."""
    first = run_operator(kubeconfig=proxy.kubeconfig)
    ns.apply_job()
    ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    first.stop()
    ns.end_master(master)
    until("the event about its end", lambda: any(e["reason"] == "Completed" for e in ns.list("events")), LIMIT_S)
    ns.delete("jobs", "digits-master")
    until("it is gone", lambda: ns.get("jobs", "digits-master") is None, LIMIT_S)
    unknown = refuser.status(401, "Unauthorized", "who?")
    proxy.rule = lambda method, path: unknown if is_list_of_events(method, path) else None
    run_operator(kubeconfig=proxy.kubeconfig)
    until("some answers", lambda: len(proxy.refused) >= 3, LIMIT_S)
    assert ns.status()["attempts"] == 1 and ns.get("jobs", "digits-master") is None
    proxy.rule = lambda method, path: None
    ns.wait_state("Succeeded", timeout=LIMIT_S)


def test_another_object_than_the_one_asked_for_is_told_of_and_asked_for_ever_later(ns, run_operator, proxy):
    """A proxy that confuses answers says nothing about the pod: it is not taken for gone, nor asked for without a pause."""
    run_operator(kubeconfig=proxy.kubeconfig)
    ns.apply_job()
    ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    other = ns.get("pods", "digits-worker-1")
    path_of_pod = ns.path("pods", "digits-worker-0")
    proxy.rule = lambda method, path: (200, other) if method == "GET" and path.split("?")[0] == path_of_pod else None
    ns.patch("pods", "digits-worker-0", {"metadata": {"labels": {"horovod.io/job-name": None}}})
    text = ("Pod digits-worker-0 cannot be read, will be tried again, and the job waits for that: "
            f"get pods {ns.name}/digits-worker-0: HTTP 200 with another object, Pod {ns.name}/digits-worker-1: ")
    until(lambda: f"it is told of: {ns.status()}", lambda: text in (ns.condition("WorkersReady") or {"message": ""})["message"], LIMIT_S)
    assert [reason for reason, _ in ns.events() if reason == "Denied"] == ["Denied"]
    assert 8 <= len(proxy.refused) <= 16
    assert ns.state() == "Running" and ns.master() == master
    proxy.rule = lambda method, path: None
    until("the label is back", lambda: ("LabelsRestored", 1) in ns.events(), LIMIT_S)
    ns.end_master(master)
    ns.wait_state("Succeeded", timeout=LIMIT_S)
    assert ns.status()["attempts"] == 1
