"""Objects that cannot be read entirely, or are as large as the API server lets them be: no other job notices."""
import sys

import pytest

from kubeapi import until

LEVELS = 1000
LARGE = "<" * 1_040_000  # six times as much when the API server writes it


@pytest.fixture(autouse=True)
def deep_json():
    """Python's json recurses, too."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20 * LEVELS)
    yield
    sys.setrecursionlimit(limit)


def nest(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def template(name, **more):
    return {"spec": {"containers": [{"name": name, "image": "i", "command": ["c"]}], **more}}


def create_job(ns, name, **more):
    spec = {"master": {"template": template("master")}, "worker": {"replicas": 1, "template": template("worker", **more)}}
    return ns.create("horovodjobs", {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob",
                                     "metadata": {"name": name}, "spec": spec})


def succeed(ns, job):
    ns.apply_job(job, replicas=1)
    ns.start_workers(1, job)
    master = ns.start_master(job)
    ns.wait_state("Running", job)
    ns.end_master(master, 0, "")
    ns.wait_state("Succeeded", job)


def wait_refused(ns, name, text):
    ns.wait_state("Failed", name)
    condition = ns.condition("Failed", name)
    assert condition["reason"] == "InvalidTemplate" and text in condition["message"], condition
    assert ns.get("statefulsets", name + "-worker") is None


def unreadable(operator, plural="horovodjobs"):
    return operator.metric("horovod_operator_unreadable_objects_total", resource=plural)


def test_a_job_that_nests_too_deep_is_refused_by_name_and_hides_no_other(ns, run_operator):
    create_job(ns, "before", x=nest(LEVELS))
    operator = run_operator()
    text = f"spec.worker: nests {LEVELS + 5} levels deep, at most 500 are read"
    wait_refused(ns, "before", text)
    create_job(ns, "after", x=nest(LEVELS))
    wait_refused(ns, "after", text)
    succeed(ns, "digits")
    ns.patch("horovodjobs", "digits", {"metadata": {"annotations": {"a": "b"}}})
    assert unreadable(operator) >= 2
    log = operator.log.read_text()
    assert "cannot read an object entirely" in log and "name=before" in log and "name=after" in log
    before = operator.metric("horovod_operator_api_requests_total", verb="patch")
    operator.stop()
    again = run_operator()
    succeed(ns, "more")
    assert ns.state("before") == ns.state("after") == "Failed" and before >= 2
    assert again.metric("horovod_operator_api_requests_total", verb="patch", resource="horovodjobs") <= 4
    assert again.log.read_text().count("cannot read an object entirely") == 2, "once for each version"


def run_victim(ns):
    ns.apply_job("victim", replicas=1)
    ns.start_workers(1, "victim")
    ns.start_master("victim")
    ns.wait_state("Running", "victim")


def test_a_large_annotation_that_is_not_read_does_no_harm_to_a_running_job(ns, operator):
    run_victim(ns)
    ns.patch("horovodjobs", "victim", {"metadata": {"annotations": {"a": "<" * 200_000}}})
    succeed(ns, "digits")
    assert ns.state("victim") == "Running", "what is not read does no harm"
    assert unreadable(operator) == 0


def test_a_running_job_that_is_made_unreadable_ends_and_another_goes_on(ns, operator):
    run_victim(ns)
    ns.patch("horovodjobs", "victim", {"metadata": {"annotations": {"horovod.io/topology-keys": "<" * 200_000}}})
    ns.wait_state("Failed", "victim")
    condition = ns.condition("Failed", "victim")
    assert condition["reason"] == "InvalidTemplate", condition
    assert "metadata.annotations.horovod.io/topology-keys: makes its part" in condition["message"], condition
    until("its pods are gone", lambda: not ns.workers("victim") and not ns.master("victim"))
    assert unreadable(operator) >= 1
    succeed(ns, "digits")
    assert ns.state("victim") == "Failed"


def test_objects_as_large_as_they_may_be_cost_nothing_and_hide_no_other(ns, run_operator):
    for i in range(12):
        ns.create("configmaps", {"metadata": {"name": f"c{i}", "labels": {
            "app.kubernetes.io/managed-by": "horovod-operator", "horovod.io/job-name": f"c{i}"}}, "data": {"x": LARGE}})
    create_job(ns, "large", x="x" * 600_000)
    operator = run_operator()
    wait_refused(ns, "large", "spec.worker: makes its part of the object larger than the 524288 bytes that are read")
    ns.patch("configmaps", "c1", {"metadata": {"annotations": {"a": "b"}}})
    succeed(ns, "digits")
    until("the change was seen", lambda: operator.metric("horovod_operator_watch_up", resource="configmaps") == 1)
    assert operator.metric("process_resident_memory_bytes") < 24 << 20
    assert unreadable(operator, "configmaps") == 0
    assert "cannot follow a resource" not in operator.log.read_text()
