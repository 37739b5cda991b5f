"""Who is in the host list, in which order, and how it follows a job whose size changes."""
import urllib.parse

import pytest
import yaml

from conftest import ROOT
from kubeapi import ApiError, until
from test_manifests import changed
from test_process import Identity, write_token_config

TEMPLATE = {"spec": {"containers": [{"name": "worker", "image": "other"}]}}


def files(ns, name="digits"):
    return (ns.get("configmaps", f"{name}-hosts") or {"data": {}})["data"]


def hosts(ns, name="digits"):
    return files(ns, name).get("hostfile", "").splitlines()


def command(ns, name="digits"):
    return ns.get("jobs", f"{name}-master")["spec"]["template"]["spec"]["containers"][0]["command"]


def scale(ns, replicas, name="digits"):
    return ns.patch("horovodjobs", name, {"spec": {"replicas": replicas}}, "scale")


def lines(indices, slots=1):
    return [f"digits-worker-{i}.digits slots={slots}" for i in indices]


def test_a_running_job_grows_and_shrinks_through_the_scale_subresource(ns, operator):
    ns.apply_job(worker={"replicas": 2, "minReplicas": 1})
    ns.start_workers(2)
    ns.start_master()
    ns.wait_state("Running")
    master = ns.get("jobs", "digits-master")["metadata"]["uid"]
    assert scale(ns, 4)["spec"]["replicas"] == 4
    ns.start_pods(["digits-worker-3"])
    until("the third host is there", lambda: hosts(ns) == lines([0, 1, 3]))
    ns.start_pods(["digits-worker-2"])
    until("all are there", lambda: hosts(ns) == lines([0, 1, 2, 3]))
    until("the status says so", lambda: ns.status().get("ready") == "4/4", 40)
    shown = ns.api.request("GET", ns.path("horovodjobs", "digits", "scale"))
    assert shown["status"]["replicas"] == 4 and "horovod.io/job-name=digits" in shown["status"]["selector"]
    scale(ns, 1)
    until("one is left", lambda: hosts(ns) == lines([0]))
    until("the others are gone", lambda: ns.workers() == {"digits-worker-0"})
    assert ns.get("jobs", "digits-master")["metadata"]["uid"] == master and ns.state() == "Running"


def start_two_groups(ns):
    """An elastic job with two workers and two of a group, which runs."""
    ns.apply_job(worker={"replicas": 2, "minReplicas": 1, "maxReplicas": 4}, workerGroups=[{"name": "b", "replicas": 2}])
    ns.start_pods(["digits-worker-0", "digits-worker-1", "digits-worker-b-0", "digits-worker-b-1"])
    ns.start_master()
    ns.wait_state("Running")


def scaled(ns, name="digits"):
    """(replicas wanted, replicas there, pods that the selector finds), as an autoscaler reads them."""
    shown = ns.api.request("GET", ns.path("horovodjobs", name, "scale"))
    query = urllib.parse.urlencode({"labelSelector": shown["status"]["selector"]})
    pods = ns.api.request("GET", f"{ns.path('pods')}?{query}")["items"]
    return shown["spec"]["replicas"], shown["status"]["replicas"], {pod["metadata"]["name"] for pod in pods}


def test_the_scale_subresource_covers_spec_worker_and_no_group(server, ns, operator):
    start_two_groups(ns)
    until("the status shows all", lambda: ns.status().get("ready") == "4/4", 40)
    assert scaled(ns) == (2, 2, {"digits-worker-0", "digits-worker-1"})
    assert ns.status()["workers"] == {"desired": 4, "ready": 4} and ns.status()["replicas"] == 2
    server.kubectl("scale", "horovodjob", "digits", "--replicas=3", "-n", ns.name)
    ns.start_pods(["digits-worker-2"])
    until(lambda: f"the status follows: {scaled(ns)}", lambda: scaled(ns)[1] == 3, 40)
    assert scaled(ns) == (3, 3, {f"digits-worker-{i}" for i in range(3)})
    ns.set_pod("digits-worker-b-1", ready=False)
    until("the status shows the worker of the group", lambda: ns.status().get("ready") == "4/5", 40)
    assert scaled(ns)[1] == 3
    assert [group["replicas"] for group in ns.get("horovodjobs", "digits")["spec"]["workerGroups"]] == [2]
    ns.end_master(ns.master())
    ns.wait_state("Succeeded")
    assert ns.status()["replicas"] == 0 and ns.status()["workers"] == {"desired": 5, "ready": 0}


def test_a_horizontal_pod_autoscaler_scales_spec_worker(ns, operator):
    """Without metrics it enforces its bounds."""
    start_two_groups(ns)
    path = f"/apis/autoscaling/v2/namespaces/{ns.name}/horizontalpodautoscalers"
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    ns.api.request("POST", path, {"metadata": {"name": "digits"}, "spec": {
        "scaleTargetRef": {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "name": "digits"},
        "minReplicas": 3, "maxReplicas": 4, "metrics": [cpu]}})
    until("the autoscaler has scaled the job", lambda: ns.get("horovodjobs", "digits")["spec"]["worker"]["replicas"] == 3, 90)
    ns.start_pods(["digits-worker-2"])

    def status():
        return ns.api.request("GET", f"{path}/digits").get("status", {})
    until(lambda: f"it counts the workers: {status()}", lambda: status().get("currentReplicas") == 3, 90)
    conditions = {c["type"]: (c["status"], c["reason"]) for c in status()["conditions"]}
    assert conditions["AbleToScale"][0] == "True", conditions
    assert ns.state() == "Running" and ns.workers() >= {"digits-worker-b-0", "digits-worker-b-1"}


def test_every_change_of_the_list_is_told_to_the_master_twice(ns, operator):
    def told():
        return (ns.get("pods", master)["metadata"].get("annotations") or {}).get("horovod.io/hosts", "").split("-")

    ns.apply_job(replicas=3)
    ns.start_workers(3)
    master = ns.start_master()
    ns.wait_state("Running")
    seen = {told()[0]}
    for i in range(4):
        ns.set_pod("digits-worker-1", ready=i % 2 == 1)
        until("the list follows", lambda: len(hosts(ns)) == (3 if i % 2 else 2))
        until("the second telling", lambda: told()[0] not in seen and told()[1] == "2" or
              i > 0 and told()[0] in seen and told()[1] == "2" and told()[0] != previous)
        previous = told()[0]
        seen.add(previous)
    assert len(seen) == 2, "the same list has the same hash"


def test_an_elastic_job_starts_with_enough_workers(ns, operator):
    ns.apply_job(worker={"replicas": 4, "minReplicas": 2, "maxReplicas": 5}, slotsPerWorker=2)
    ns.start_pods(["digits-worker-2"])
    until("one is ready", lambda: ns.status().get("ready") == "1/4")
    assert ns.get("jobs", "digits-master") is None
    ns.start_pods(["digits-worker-0"])
    ns.start_master()
    assert hosts(ns) == lines([0, 2], slots=2) and command(ns)[:3] == ["horovodrun", "-np", "4"]
    ns.start_pods(["digits-worker-1", "digits-worker-3"])
    until("the list follows", lambda: hosts(ns) == lines([0, 1, 2, 3], slots=2))
    for replicas in (1, 6):
        with pytest.raises(ApiError, match="must be at most") as refused:
            scale(ns, replicas)
        assert refused.value.code == 422
    scale(ns, 5)
    ns.start_pods(["digits-worker-4"])
    until("the list follows", lambda: hosts(ns) == lines(range(5), slots=2))


def test_groups_have_their_own_templates_and_slots_and_stand_in_order(ns, operator):
    groups = [{"name": "zz", "replicas": 1, "slotsPerWorker": 8, "template": TEMPLATE}, {"name": "b", "replicas": 2}]
    ns.apply_job(worker={"replicas": 1, "minReplicas": 1}, slotsPerWorker=2, workerGroups=groups)
    ns.start_pods(["digits-worker-b-1", "digits-worker-zz-0", "digits-worker-0", "digits-worker-b-0"])
    ns.start_master()
    assert hosts(ns) == ["digits-worker-0.digits slots=2", "digits-worker-zz-0.digits slots=8",
                         "digits-worker-b-0.digits slots=2", "digits-worker-b-1.digits slots=2"]
    assert files(ns)["hosts"] == ("digits-worker-0.digits:2,digits-worker-zz-0.digits:8,digits-worker-b-0.digits:2,"
                                  "digits-worker-b-1.digits:2")
    assert command(ns)[2] == "14"
    pod = ns.get("pods", "digits-worker-zz-0")
    assert pod["metadata"]["labels"]["horovod.io/worker-group"] == "zz"
    assert pod["spec"]["containers"][0]["image"] == "other"
    assert ns.get("pods", "digits-worker-b-0")["spec"]["containers"][0]["image"] == "localhost/horovod-worker:0.1.0"
    ns.wait_state("Running")
    groups[1]["replicas"] = 1
    ns.patch("horovodjobs", "digits", {"spec": {"workerGroups": groups}})
    until("a group shrinks", lambda: len(hosts(ns)) == 3 and "digits-worker-b-1" not in ns.workers())
    assert ns.state() == "Running"


@pytest.mark.parametrize("groups", [
    [], [{"name": "a", "replicas": 1}, {"name": "b", "replicas": 1}], [{"name": "b", "replicas": 1}],
    [{"name": "a", "replicas": 1, "slotsPerWorker": 2}], [{"name": "a", "replicas": 1, "template": TEMPLATE}],
], ids=["none", "more", "another", "slots", "template"])
def test_what_groups_are_is_fixed_unless_the_job_is_suspended(ns, operator, groups):
    ns.apply_job(replicas=1, workerGroups=[{"name": "a", "replicas": 1}])
    until("the set", lambda: ns.get("statefulsets", "digits-worker-a"))
    with pytest.raises(ApiError, match="only while spec.suspend is true"):
        ns.patch("horovodjobs", "digits", {"spec": {"workerGroups": groups}})
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
    until("the workers are gone", lambda: ns.state() == "Suspended" and not ns.workers())
    ns.patch("horovodjobs", "digits", {"spec": {"workerGroups": groups, "suspend": False}})
    ns.start_pods(["digits-worker-0"] + [f"digits-worker-{group['name']}-0" for group in groups])
    ns.start_master()
    assert len(hosts(ns)) == 1 + len(groups)
    wanted = {"digits-worker"} | {f"digits-worker-{group['name']}" for group in groups}
    until("groups that left are gone", lambda: {s["metadata"]["name"] for s in ns.list("statefulsets")} == wanted)


def test_a_master_that_runs_ranks_is_the_first_host(ns, operator):
    resources = {"limits": {"memory": "64Mi"}}
    ns.apply_job(replicas=2, slotsPerWorker=3, runMasterAsWorker=True, resources=resources)
    ns.start_workers(2)
    master = ns.start_master()
    assert hosts(ns) == ["digits-master slots=3", *lines([0, 1], slots=3)]
    assert command(ns)[2] == "9"
    pod = ns.get("pods", master)["spec"]
    assert pod["hostname"] == "digits-master"
    assert pod["containers"][0]["resources"]["limits"] == resources["limits"]


def test_the_list_can_hold_addresses_and_follows_them(ns, operator):
    def set_ip(name, ip):
        ns.set_pod(name)
        ns.patch("pods", name, {"status": {"podIP": ip, "podIPs": [{"ip": ip}]}}, "status")

    ns.apply_job(replicas=2, network={"hostNames": "IP"})
    until("its pods", lambda: len(ns.workers()) == 2)
    set_ip("digits-worker-0", "10.0.0.7")
    set_ip("digits-worker-1", "10.0.0.5")
    ns.start_master()
    until("in the order of the workers", lambda: hosts(ns) == ["10.0.0.7 slots=1", "10.0.0.5 slots=1"])
    assert "HostKeyAlias workers.digits\n" in files(ns)["ssh_config"]
    set_ip("digits-worker-0", "10.0.0.9")
    until("a new address", lambda: hosts(ns) == ["10.0.0.9 slots=1", "10.0.0.5 slots=1"])


@pytest.mark.parametrize("rights", ["of the chart", "but none on nodes"])
def test_hosts_of_one_rack_stand_together(server, ns, run_operator, tmp_path, rights):
    identity = Identity(server, ns)
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    role, = [role for role in ns.api.request("GET", roles)["items"] if role["metadata"]["name"].endswith(f"-{ns.name}")]
    if "none" in rights:
        role["rules"] = [rule for rule in role["rules"] if "nodes" not in rule["resources"]]
        ns.api.request("PUT", f"{roles}/{role['metadata']['name']}", role)
    (tmp_path / "token").write_text(identity.token("rights"))
    write_token_config(tmp_path / "config", server, tmp_path / "token")
    operator = run_operator(kubeconfig=tmp_path / "config")
    racks = {f"{ns.name}-n0": "b", f"{ns.name}-n1": "a", f"{ns.name}-n2": "b"}
    for node, rack in racks.items():
        ns.api.request("POST", "/api/v1/nodes", {"metadata": {"name": node, "labels": {"example.com/rack": rack}}})
    try:
        ns.apply_job(replicas=4, topologyKeys=["example.com/rack"])
        until("its pods", lambda: len(ns.workers()) == 4)
        for i, node in enumerate([*racks, list(racks)[1]]):
            name = f"digits-worker-{i}"
            ns.api.request("POST", ns.path("pods", name, "binding"),
                           {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
        ns.patch("pods", "digits-worker-2", {"metadata": {"labels": {"example.com/rack": "0"}}})
        ns.start_workers(4)
        ns.start_master()
        assert hosts(ns) == lines([2, 0, 1, 3] if "none" in rights else [1, 3, 0, 2])
        until("rest", operator.is_at_rest)
        assert operator.metric("horovod_operator_api_requests_total", resource="nodes", verb="get") == 3
    finally:
        for node in racks:
            ns.api.request("DELETE", f"/api/v1/nodes/{node}")


def test_ten_thousand_hosts_are_listed_or_refused_in_words(server, ns, operator):
    name = "a" * 45
    ns.apply_job(name, replicas=10000, slotsPerWorker=8)
    until("the condition", lambda: (ns.condition("WorkersReady", name) or {}).get("reason") == "HostListTooLong")
    assert "a ConfigMap holds 1048576" in ns.condition("WorkersReady", name)["message"]
    until("the event", lambda: ("HostListTooLong", 1) in ns.events(name))
    assert ns.list("statefulsets") == [] and ns.get("configmaps", f"{name}-hosts") is None
    ns.delete("horovodjobs", name)
    name = "a" * 39
    ns.apply_job(name, replicas=10000, slotsPerWorker=8)
    until("the list", lambda: len(hosts(ns, name)) == 10000)
    ns.delete("horovodjobs", name)  # before ten thousand pods are made
    until("nothing is left", lambda: not ns.list("statefulsets"), 60)


def test_the_manifests_of_the_page_are_accepted_and_give_so_many_ranks(server, ns, operator):
    blocks = (ROOT / "docs/hostlist.md").read_text().split("```yaml\n")[1:]
    manifests = [yaml.safe_load(block.split("```")[0]) for block in blocks]
    assert len(manifests) == 3
    server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump_all(manifests))
    until("the lists", lambda: all(hosts(ns, m["metadata"]["name"]) for m in manifests))
    slots = {m["metadata"]["name"]: sum(int(line.split("=")[1]) for line in hosts(ns, m["metadata"]["name"]))
             for m in manifests}
    assert slots == {"elastic": 4, "mixed": 17, "racks": 8}


@pytest.mark.parametrize("path,value,words", [
    ("spec.worker.minReplicas", 3, "spec.worker.minReplicas must be at most spec.worker.replicas"),
    ("spec.worker.maxReplicas", 1, "spec.worker.replicas must be at most spec.worker.maxReplicas"),
    ("spec.workerGroups", [{"name": "a", "replicas": 1}, {"name": "a", "replicas": 1}], "Duplicate value"),
    ("spec.workerGroups", [{"name": "A", "replicas": 1}], "spec.workerGroups[0].name"),
    ("spec.workerGroups", [{"name": "a" * 40, "replicas": 1}], "at most 44 characters together"),
    ("spec.workerGroups", [{"name": "a", "replicas": 0}], "spec.workerGroups[0].replicas"),
    ("spec.workerGroups", [{"name": "a", "replicas": 9999}], "at most 10000 workers together"),
    ("spec.workerGroups", [{"name": "a", "replicas": 1, "slotsPerWorker": "many"}], "integer from 1 to 65536, or auto"),
    ("spec.network.hostNames", "Short", "spec.network.hostNames"),
    ("spec.topologyKeys", ["a,b"], "spec.topologyKeys[0]"),
])
def test_a_wrong_manifest_is_refused_with_its_reason(server, ns, path, value, words):
    result = server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump(changed(path, value)), check=False)
    assert result.returncode != 0 and words in result.stdout, result.stdout
    assert ns.list("horovodjobs") == []


def test_a_job_of_fixed_size_is_scaled_with_its_next_attempt(server, ns, operator):
    def message(kind):
        return (ns.condition(kind) or {}).get("message", "")

    waits = "spec.worker.replicas changed from 3 to {}: takes effect with the next attempt; suspend and resume the job to apply it now"
    ns.apply_job(replicas=3, backoffLimit=1)
    ns.start_workers(3)
    master = ns.start_master()
    ns.wait_state("Running")
    for replicas in (2, 5):
        server.kubectl("scale", "horovodjob", "digits", f"--replicas={replicas}", "-n", ns.name)
        until("it is told", lambda: message("Running").endswith(waits.format(replicas)))
        assert message("WorkersReady") == "3 of 3 workers are ready; " + waits.format(replicas)
    until("rest", operator.is_at_rest)
    assert ns.events().count(("ScalingDeferred", 1)) == 2
    assert ns.workers() == {f"digits-worker-{i}" for i in range(3)} and hosts(ns) == lines(range(3))
    assert ns.api.request("GET", ns.path("horovodjobs", "digits", "scale"))["status"]["replicas"] == 3
    scale(ns, 2)
    ns.end_master(master, 1, "boom")
    until("the next attempt has two workers", lambda: ns.get("statefulsets", "digits-worker")["spec"]["replicas"] == 2 and
          ns.status().get("attempts") == 1 and ns.workers() == {"digits-worker-0", "digits-worker-1"})
    ns.start_workers(2)
    ns.start_master()
    ns.wait_state("Running")
    assert message("WorkersReady") == "2 of 2 workers are ready" and hosts(ns) == lines(range(2))


def test_a_worker_removed_by_scaling_is_named_when_the_program_fails_for_it(ns, operator):
    ns.apply_job(worker={"replicas": 3, "minReplicas": 1})
    ns.start_workers(3)
    master = ns.start_master()
    ns.wait_state("Running")
    scale(ns, 2)
    until("the others are gone", lambda: ns.workers() == {"digits-worker-0", "digits-worker-1"})
    ns.end_master(master, 143, "rank 0 killed by signal 15")
    ns.wait_state("Failed")
    failed = ns.condition("Failed")
    assert failed["reason"] == "WorkerFailed"
    assert failed["message"] == "worker digits-worker-2 was removed by scaling from 3 to 2 (spec.worker.replicas) (attempt 1 of 1); " \
        f"pod {master} container master exited with code 143: rank 0 killed by signal 15"
    assert [e["message"] for e in ns.list("events") if e["reason"] == "Failed" and e["involvedObject"]["kind"] == "HorovodJob"] == \
        [failed["message"]]
