"""Objects as large as the API server takes them: with our labels but of nobody's job, jobs, and our own children that somebody
makes large. What the operator may need for them is bounded; VmHWM is the most that it ever needed."""
import pathlib
import re

import pytest

from kubeapi import until
from tenants import LIMIT_S, finish, run_job, start_pods

MIB = 1024 * 1024
MOST = 64 * MIB
OURS = {"app.kubernetes.io/managed-by": "horovod-operator", "horovod.io/job-name": "nobody"}


def most_memory(operator):
    """Bytes of memory that the process had at the most."""
    status = pathlib.Path(f"/proc/{operator.process.pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024


def assert_memory(operator, most=MOST):
    assert most_memory(operator) <= most, f"{most_memory(operator) / MIB:.0f} MiB, not {most / MIB:.0f}"


def meta(name, **labels):
    return {"metadata": {"name": name, "labels": {**OURS, **labels}}}


def pod_spec(**container):
    return {"containers": [{"name": "c", "image": "i", **container}], "schedulingGates": [{"name": "example.com/never"}]}


def create_foreign(ns):
    """80 MB as 60 ConfigMaps, 6 that JSON makes six times as large, pods, a Service and a StatefulSet."""
    for i in range(60):
        ns.create("configmaps", {**meta(f"plain-{i}"), "data": {"x": "x" * 1_000_000}})
    for i in range(6):
        ns.create("configmaps", {**meta(f"escaped-{i}"), "data": {"x": "<" * 1_000_000}})
    large = [{"name": f"N{i}", "value": "<" * 100_000} for i in range(10)]
    for i in range(6):
        ns.create("pods", {**meta(f"pod-{i}", **{"horovod.io/role": "worker"}), "spec": pod_spec(env=large)})
    ns.create("statefulsets", {**meta("set"), "spec": {
        "replicas": 0, "serviceName": "s", "selector": {"matchLabels": OURS},
        "template": {"metadata": {"labels": OURS}, "spec": pod_spec(env=large)}}})
    ns.create("secrets", {**meta("secret"), "stringData": {"x": "<" * 700_000}})


def test_large_objects_with_our_labels_cost_no_memory_and_delay_nobody(ns, run_operator, attack, bystander):
    first = run_operator()
    with attack(at_most=0):
        create_foreign(ns)
        bystander.succeeds()
        assert_memory(first)
        first.stop()
        second = run_operator()  # which lists what the first one watched
        bystander.succeeds()
        assert_memory(second)


def large_job(name, **spec):
    """1.4 MB in the templates."""
    large = [{"name": f"N{i}", "value": "x" * 100_000} for i in range(14)]
    pods = {role: {"spec": {"containers": [{"name": role, "image": "i", "env": large if role == "worker" else []}]}}
            for role in ("worker", "master")}
    return {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": name}, "spec": {
        "worker": {"replicas": 1, "template": pods["worker"]}, "master": {"template": pods["master"]}, **spec}}


def env_job(name, **spec):
    """480 KB of environment, which the operator reads and may have to make children of."""
    return {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": name}, "spec": {
        "image": "i", "command": ["c"], "worker": {"replicas": 1},
        "env": [{"name": f"N{i}", "value": "x" * 60_000} for i in range(8)], **spec}}


def test_specs_of_many_jobs_are_held_up_to_a_bound(ns, run_operator, attack, bystander):
    """40 at rest, of which none is held, and 40 of which children are made: 38 MB."""
    with attack(at_most=4 * 40 + 12 * 40):
        operator = run_operator()
        for i in range(20):
            ns.create("horovodjobs", env_job(f"suspended-{i}", suspend=True))
            ns.create("horovodjobs", env_job(f"foreign-{i}", managedBy="example.com/other"))
        bystander.succeeds()
        until("no spec is held", lambda: operator.metric("horovod_operator_spec_bytes") == 0)
        for i in range(40):
            ns.create("horovodjobs", env_job(f"active-{i}"))
        until("all have workers", lambda: len(ns.list("statefulsets")) >= 40, 120, 1)
        bystander.succeeds()
        assert 8 * MIB < operator.metric("horovod_operator_spec_bytes") <= 16 * MIB
        assert_memory(operator)


N_JOBS = 80


@pytest.mark.parametrize("spec,most_writes", [({"managedBy": "example.com/other"}, 0), ({"suspend": True}, 4 * N_JOBS)],
                         ids=["of another manager", "suspended"])
def test_eighty_large_jobs_are_listed_and_delay_nobody(ns, run_operator, attack, bystander, spec, most_writes):
    for i in range(N_JOBS):
        ns.create("horovodjobs", large_job(f"large-{i}", **spec))
    with attack(at_most=most_writes):
        operator = run_operator()
        bystander.succeeds()
        if most_writes:
            until("all have a state", lambda: sum(operator.metric("horovod_operator_jobs", state=state) for state in (
                "Suspended", "Failed")) == N_JOBS, LIMIT_S)
        assert_memory(operator)


def test_a_job_whose_children_are_too_large_is_told_so_and_does_not_try_for_ever(ns, operator, attack, bystander):
    job = large_job("huge")
    job["spec"]["worker"]["template"]["spec"]["containers"][0]["env"][0]["value"] = "x" * 165_000
    with attack(at_most=16):
        ns.create("horovodjobs", job)
        for _ in range(3):
            bystander.succeeds()
        until(lambda: f"the reason: {ns.status('huge')}", lambda: any(
            "large" in c["message"] or "size" in c["message"] for c in ns.status("huge").get("conditions", [])), LIMIT_S)


def enlarge(server, ns, plural, name):
    """A label set of 0.3 MB, annotations of 0.2 MB, and five managers with many fields each."""
    labels = {f"example.com/{i:04}-{'l' * 50}": "v" * 63 for i in range(2000)}
    ns.patch(plural, name, {"metadata": {"labels": labels, "annotations": {"example.com/large": "<" * 200_000}}})
    for i in range(5):
        path = f"{ns.path(plural, name)}?fieldManager=stranger-{i}"
        server.api.request("PATCH", path, {"metadata": {"annotations": {f"example.com/{i}-{j}": "" for j in range(100)}}},
                           "application/merge-patch+json")


def test_children_that_a_stranger_makes_large_stay_what_they_are(server, ns, run_operator, attack, bystander):
    first = run_operator()
    master = run_job(ns)
    children = (("services", "digits"), ("configmaps", "digits-hosts"), ("statefulsets", "digits-worker"),
                ("jobs", "digits-master"), ("secrets", "digits-ssh"), ("pods", "digits-worker-0"), ("pods", master))
    uids = {child: ns.get(*child)["metadata"]["uid"] for child in children}
    with attack(at_most=24):
        for plural, name in children:
            enlarge(server, ns, plural, name)
        bystander.succeeds()
        assert_memory(first)
        first.stop()
        second = run_operator()
        bystander.succeeds()
        assert {child: ns.get(*child)["metadata"]["uid"] for child in children} == uids
        finish(ns, master=master)
        assert_memory(second)


def test_a_large_last_message_of_a_master_is_cut(ns, operator, attack, bystander):
    """Kubelets cut it, but whoever may write the status of pods need not."""
    with attack(at_most=30):
        ns.apply_job()
        master = start_pods(ns)
        ns.end_master(master, 1, "first\n" + "<\u0000\u001b\ud83d\ude00" * 100_000 + "\nlast")
        ns.wait_state("Failed", timeout=LIMIT_S)
        assert len(ns.status()["failureLog"].encode()) <= 1024
        assert ns.status()["failureLog"].endswith("last")
        assert "code 1" in ns.condition("Failed")["message"], ns.condition("Failed")
        assert all(len(c["message"]) <= 4096 for c in ns.status()["conditions"])
        bystander.succeeds()
    assert_memory(operator)
