"""What the operator adds to a user's pod template, as the real API server sees it."""
import json

from kubeapi import until
from operator_process import ROOT

ROWS = json.loads((ROOT / "tests/data/operator/security.json").read_text())


def with_images(pod):
    for container in pod.get("initContainers", []) + pod["containers"]:
        container["image"] = "localhost/none:1"
    return pod


def test_the_api_server_accepts_whatever_a_template_says_of_its_security(ns, operator):
    """The table that the unit test compares with what is made: no row collides with a default of ours. Each template is that of
    the workers and of the master's Job."""
    for i, row in enumerate(ROWS):
        pod = with_images(row["pod"])
        master = json.loads(json.dumps(pod))
        ns.create("horovodjobs", {
            "apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": f"row-{i}"},
            "spec": {"worker": {"replicas": 1, "template": {"spec": pod}}, "master": {"template": {"spec": master}}}})

    def without(role):
        """Jobs without a pod of the role yet, and what they say."""
        have = {pod["metadata"]["labels"]["horovod.io/job-name"] for pod in ns.list("pods")
                if pod["metadata"]["labels"]["horovod.io/role"] == role}
        return [(row["name"], ns.status(f"row-{i}").get("message")) for i, row in enumerate(ROWS) if f"row-{i}" not in have]

    until(lambda: f"pods of these workers: {without('worker')}", lambda: without("worker") == [], 60)
    for i in range(len(ROWS)):
        ns.start_workers(1, f"row-{i}")

    def have_masters():
        for i in range(len(ROWS)):
            ns.start_new_workers(f"row-{i}")
        return without("master") == []
    until(lambda: f"pods of these masters: {without('master')}", have_masters, 60)


def test_large_numbers_of_a_template_reach_the_children_unchanged(ns, operator):
    """Fields of 64 bits and quantities without a unit, as a user may write them; the API server refuses 1e+15 as an integer. The
    StatefulSet controller itself makes the workers of a patch in which numbers are doubles, so its set is what counts."""
    numbers = [1, 999999999999999, 10**15, 1234567890123456, 2**53 + 1, 2**63 - 1, -2**63]

    def template(number):
        return {"spec": {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": number}],
                         "containers": [{"name": "c", "image": "localhost/none:1", "command": ["sleep"],
                                         "resources": {"limits": {"memory": abs(number) // 1000 + 10**15}}}]}}

    for i, number in enumerate(numbers):
        ns.create("horovodjobs", {
            "apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": f"row-{i}"},
            "spec": {"worker": {"replicas": 1, "template": template(number)}, "master": {"template": template(number)}}})
    for i, number in enumerate(numbers):
        pod = until(f"the set for {number}", lambda i=i: ns.get("statefulsets", f"row-{i}-worker"))["spec"]["template"]
        assert [t["tolerationSeconds"] for t in pod["spec"]["tolerations"]] == [number]
    for i, number in enumerate(numbers[:5]):
        ns.start_workers(1, f"row-{i}")
        job = until(f"the master for {number}",
                    lambda i=i: ns.start_new_workers(f"row-{i}") or ns.get("jobs", f"row-{i}-master"))
        assert [t["tolerationSeconds"] for t in job["spec"]["template"]["spec"]["tolerations"]] == [number]
        assert ns.condition("Failed", f"row-{i}") is None
