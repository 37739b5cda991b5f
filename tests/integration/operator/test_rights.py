"""The chart's rights against what the operator does with them: none is missing, none is left over.

The operator runs as the chart's ServiceAccount against the API server with RBAC, through the life of jobs, adoptions,
repairs and losses; the audit log tells what it asked for.
"""
import json
import subprocess
import threading

import pytest
import yaml

import gangs
from audit import lines_of
from conftest import ROOT
from kubeapi import Api, ApiError, until

LEASE = "rights-horovod-operator"

# Asked for by admission on the operator's behalf, not by the operator: an ownerReference with blockOwnerDeletion
# needs it where the admission plugin OwnerReferencesPermissionEnforcement is on, which is not so in the test's server.
FOR_ADMISSION = {("horovod.io", "horovodjobs/finalizers", "update")}

# A pod is read again when a patch or a deletion of it meets 404 or 409, within milliseconds of somebody else's
# deletion; the unit tests of the performer provoke that.
FOR_RACES = {("", "pods", "get")}


def rendered(server, ns, *values):
    words = [word for value in values for word in ("--set", value)]
    text = subprocess.run([server.binaries / "helm", "template", "rights", ROOT / "charts/horovod", "-n", ns.name,
                           "--kube-version", "1.34.0", *words], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [d for d in yaml.safe_load_all(text) if d]


def install(server, ns, *values):
    """Applies account and rights; returns the account's name and the rights as (group, resource, verb). Roles that are not
    bound to it are for users."""
    objects = rendered(server, ns, *values)
    bindings = [d for d in objects if d["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    bound = [(d["roleRef"]["kind"], d["roleRef"]["name"]) for d in bindings]
    documents = bindings + [d for d in objects if d["kind"] == "ServiceAccount" or (d["kind"], d["metadata"]["name"]) in bound]
    server.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(documents))
    account, = [d["metadata"]["name"] for d in documents if d["kind"] == "ServiceAccount"]
    rules = [rule for d in documents if d["kind"] in ("Role", "ClusterRole") for rule in d["rules"]]
    return account, {(group, resource, verb) for rule in rules for group in rule["apiGroups"]
                     for resource in rule["resources"] for verb in rule["verbs"]}


def config_of(server, ns, account, path):
    config = yaml.safe_load(open(server.kubeconfig))
    config["users"][0]["user"] = {"token": server.kubectl("create", "token", account, "-n", ns.name).stdout.strip()}
    path.write_text(yaml.safe_dump(config))
    return path


def requests_of(server, ns, account):
    """What the account asked for, as (group, resource, verb), and the requests that were forbidden."""
    used, refused = set(), []
    for line in map(bytes.decode, lines_of(server.directory / "audit.log")):
        if f"system:serviceaccount:{ns.name}:{account}" not in line:
            continue
        event = json.loads(line)
        ref = event.get("objectRef")
        if not ref:
            continue
        resource = ref["resource"] + ("/" + ref["subresource"] if "subresource" in ref else "")
        used.add((ref.get("apiGroup", ""), resource, event["verb"]))
        if event.get("responseStatus", {}).get("code") in (401, 403):
            refused.append(line)
    return used, refused


def whole_life(ns):
    """To success, with the master told of a worker that left, and the job removed in the end."""
    def told():
        return ns.get("pods", master)["metadata"].get("annotations", {}).get("horovod.io/hosts")

    ns.apply_job("life", cleanPodPolicy="All")
    ns.start_workers(2, "life")
    master = ns.start_master("life")
    ns.wait_state("Running", "life")
    first = told()
    ns.set_pod("life-worker-1", ready=False)
    until("the list follows", lambda: "life-worker-1" not in ns.get("configmaps", "life-hosts")["data"]["hostfile"])
    until("the master is told", lambda: told() != first)
    ns.end_master(master)
    until("its pods are removed", lambda: not ns.get("jobs", "life-master") and not ns.get("statefulsets", "life-worker"), 60)
    ns.patch("horovodjobs", "life", {"spec": {"ttlSecondsAfterFinished": 1}})
    until("the job is removed", lambda: ns.get("horovodjobs", "life") is None, 30)


def strip(ns, plural, name):
    """Takes the label by which the operator finds the object, as a careless user does."""
    ns.patch(plural, name, {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}})


def adopts_and_repairs(ns):
    """Every child loses its label, is found by name again and repaired."""
    ns.apply_job("child")
    ns.start_workers(2, "child")
    ns.start_master("child")
    ns.wait_state("Running", "child")
    children = (("secrets", "child-ssh"), ("services", "child"), ("configmaps", "child-hosts"),
                ("statefulsets", "child-worker"))
    for plural, name in children:
        strip(ns, plural, name)
    ns.patch("configmaps", "child-hosts", {"data": {"hostfile": "nonsense\n"}})
    for plural, name in children:
        until(f"{name} has its label again", lambda plural=plural, name=name:
              ns.get(plural, name)["metadata"]["labels"].get("app.kubernetes.io/managed-by"), 30)
    ns.patch("services", "child", {"spec": {"publishNotReadyAddresses": False}})
    until("the Service is repaired", lambda: ns.get("services", "child")["spec"].get("publishNotReadyAddresses"))


def fights(ns):
    """Labels that are changed again and again: the objects are read for the name of the other writer."""
    objects = (("secrets", "child-ssh"), ("services", "child"), ("configmaps", "child-hosts"))

    def all_contested():
        for plural, name in objects:
            ns.patch(plural, name, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "argocd"}}})
        message = (ns.condition("Contested", "child") or {}).get("message", "")
        return all(f"/{name} field" in message for _, name in objects)
    until("the other writer is named", all_contested, 60)


def renews_an_immutable_list(ns):
    """A list of hosts that somebody made immutable is made anew while the job has no pods."""
    ns.apply_job("frozen", suspend=True)
    until("it is suspended", lambda: ns.state("frozen") == "Suspended")
    ns.patch("horovodjobs", "frozen", {"spec": {"suspend": False}})
    until("its workers", lambda: len(ns.workers("frozen")) == 2)
    ns.patch("configmaps", "frozen-hosts", {"immutable": True})
    ns.patch("horovodjobs", "frozen", {"spec": {"suspend": True}})
    until("its workers are gone", lambda: not ns.workers("frozen") and ns.state("frozen") == "Suspended", 60)
    ns.patch("horovodjobs", "frozen", {"spec": {"suspend": False}})
    until("the list is made anew", lambda: not (ns.get("configmaps", "frozen-hosts") or {"immutable": True}).get("immutable"), 60)


def renews_a_service_with_an_address(ns):
    """An address cannot be taken back: by way of an ExternalName somebody gave the Service one."""
    first = ns.get("services", "child")["metadata"]["uid"]
    # While the operator repairs the type, the server may be quicker with the address or not.
    def is_renewed():
        service = ns.get("services", "child")
        if service and service["metadata"]["uid"] != first:
            return service["spec"].get("clusterIP") == "None"
        if service and service["spec"].get("clusterIP", "None") not in ("None", ""):
            return False  # it has its address; while the type changes to and fro the operator waits longer and longer
        for spec in ({"type": "ExternalName", "externalName": "else.example", "clusterIP": "", "clusterIPs": None},
                     {"type": "ClusterIP", "externalName": None, "ports": [{"port": 80}]}):
            try:
                ns.patch("services", "child", {"spec": spec})
            except ApiError:
                pass
        return False
    until("the Service is made anew", is_renewed, 60)


def adopts_a_job(ns):
    """The master's Job is there already, ours by its owner, but without labels: a create meets it."""
    ns.apply_job("adopt", replicas=1)
    until("the workers", lambda: ns.workers("adopt"))
    owner = {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "name": "adopt", "controller": True,
             "uid": ns.get("horovodjobs", "adopt")["metadata"]["uid"]}
    container = {"name": "master", "image": "i"}
    ns.create("jobs", {"metadata": {"name": "adopt-master", "ownerReferences": [owner],
                                          "annotations": {"horovod.io/attempt": "1"}}, "spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}})
    ns.start_workers(1, "adopt")
    until("the Job has its labels", lambda: "horovod.io/job-name" in
          ns.get("jobs", "adopt-master")["metadata"].get("labels", {}), 30)


def bind(server, ns, pod, node):
    server.api.request("POST", ns.path("pods", pod, "binding"),
                       {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}})


def starts_on_a_node_that_is_lost(server, ns, node):
    """A worker that no kubelet ends; returns a check whether it was removed nevertheless."""
    pod = {"terminationGracePeriodSeconds": 1, "tolerations": [{"operator": "Exists"}]}
    container = {"name": "worker", "image": "i"}
    ns.create("horovodjobs", {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": "lost"}, "spec": {
        "master": {"template": {"spec": {"containers": [{"name": "master", "image": "i", "command": ["x"]}]}}},
        "worker": {"replicas": 1, "template": {"spec": {**pod, "containers": [container]}}}}})
    until("its worker", lambda: ns.workers("lost"))
    bind(server, ns, "lost-worker-0", node)
    uid = ns.get("pods", "lost-worker-0")["metadata"]["uid"]
    ns.delete("pods", "lost-worker-0")
    return lambda: (ns.get("pods", "lost-worker-0") or {}).get("metadata", {}).get("uid") != uid


def looks_at_nodes(server, ns, node):
    ns.apply_job("ranks", replicas=1, topologyKeys=["topology.kubernetes.io/zone"])
    until("the workers", lambda: ns.workers("ranks"))
    bind(server, ns, "ranks-worker-0", node)
    ns.start_workers(1, "ranks")
    ns.until("the master", lambda: ns.master("ranks"), "ranks")


def tells_why_there_are_no_pods(ns):
    """Workers whose pods nobody can make: the reason stands in an event of the StatefulSet alone."""
    def message():
        return (ns.condition("WorkersReady", "refused") or {}).get("message", "")
    container = {"name": "worker", "image": "i", "command": ["x"]}
    template = {"spec": {"serviceAccountName": "not-there", "containers": [container]}}
    ns.create("horovodjobs", {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": "refused"}, "spec": {
        "master": {"template": template}, "worker": {"replicas": 1, "template": template}}})
    until(lambda: f"the reason: {message()}", lambda: "cannot be made" in message(), 60)


def hammer(server, ns, stop):
    """Writes to the Lease and to the jobs without pause, so that some of the operator's writes meet a newer version."""
    api = Api(server.kubeconfig)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{ns.name}/leases/{LEASE}"
    n = 0
    while not stop.is_set():
        n += 1
        for path in (lease, ns.path("horovodjobs", "race")):
            try:
                api.request("PATCH", path, {"metadata": {"annotations": {"n": str(n)}}}, "application/merge-patch+json")
            except ApiError:
                pass


def loses_races(server, ns, n_conflicts):
    """The status of a job and the Lease are written by two; until the operator has lost at both."""
    stop = threading.Event()
    thread = threading.Thread(target=hammer, args=(server, ns, stop))
    ns.apply_job("race", replicas=3)
    until("the workers", lambda: len(ns.workers("race")) == 3)
    thread.start()
    try:
        def lost():
            for i in range(3):
                ns.try_set_pod(f"race-worker-{i}", ready=not lost.ready)
            lost.ready = not lost.ready
            return n_conflicts("leases") and n_conflicts("horovodjobs")
        lost.ready = False
        until("conflicts", lost, 60)
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def node(server, ns):
    name = f"node-{ns.name}"
    server.api.request("POST", "/api/v1/nodes", {"metadata": {"name": name,
                                                              "labels": {"topology.kubernetes.io/zone": "a"}}})
    yield name
    server.api.request("DELETE", f"/api/v1/nodes/{name}")


@pytest.mark.parametrize("mode", ["all namespaces", "one namespace"])
def test_no_right_is_missing_and_none_is_left_over(server, ns, node, run_operator, tmp_path, mode):
    values = ["operator.leaderElection.enabled=true"]
    if mode == "one namespace":
        values.append(f"operator.namespace={ns.name}")
    account, granted = install(server, ns, *values)
    config = config_of(server, ns, account, tmp_path / "config")
    operator = run_operator("--leader-elect", "--lease-namespace", ns.name, "--lease-name", LEASE, "--lease-duration",
                            "3", kubeconfig=config)
    until("it leads", lambda: operator.metric("horovod_operator_leader") == 1)
    is_everywhere = mode == "all namespaces"
    if is_everywhere:
        is_removed = starts_on_a_node_that_is_lost(server, ns, node)
    whole_life(ns)
    adopts_and_repairs(ns)
    renews_a_service_with_an_address(ns)
    fights(ns)
    renews_an_immutable_list(ns)
    adopts_a_job(ns)
    if is_everywhere:
        looks_at_nodes(server, ns, node)
    tells_why_there_are_no_pods(ns)
    loses_races(server, ns, lambda resource: operator.metric("horovod_operator_api_requests_total", verb="get",
                                                             resource=resource))
    if is_everywhere:
        until("the lost worker is removed", is_removed, 100)
    operator.stop()
    used, refused = requests_of(server, ns, account)
    assert refused == []
    assert used <= granted
    slow = set() if is_everywhere else {("", "pods", "delete")}  # takes a minute, once is enough
    assert granted - used - FOR_RACES - slow == FOR_ADMISSION


def life_of_a_group(ns, gang):
    """Made, found again without its label, grown, repaired, removed."""
    ns.apply_job()
    until("the PodGroup", lambda: gangs.group(ns, gang))
    gangs.patch_group(ns, gang, {"metadata": {"labels": {"horovod.io/job-name": None}}})
    until("it has its label again", lambda: gangs.group(ns, gang)["metadata"]["labels"].get("horovod.io/job-name"), 30)
    ns.patch("horovodjobs", "digits", {"spec": {"worker": {"replicas": 3}}})
    until("it grows with its job", lambda: gangs.group(ns, gang)["spec"]["minMember"] == 3)
    gangs.patch_group(ns, gang, {"spec": {"minMember": 1}})
    until("it is repaired", lambda: gangs.group(ns, gang)["spec"]["minMember"] == 3)
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
    until("it goes with the workers", lambda: gangs.group(ns, gang) is None)


@pytest.mark.parametrize("gang", sorted(gangs.GANGS))
@pytest.mark.parametrize("mode", ["all namespaces", "one namespace"])
def test_a_gang_scheduler_brings_the_rights_to_its_groups_and_no_other(server, ns, run_operator, tmp_path, mode, gang):
    gangs.install(server, gang)
    values = [f"operator.gangScheduler.type={gang}"] + ([f"operator.namespace={ns.name}"] if mode == "one namespace" else [])
    account, granted = install(server, ns, *values)
    operator = run_operator("--gang-scheduler", gang, kubeconfig=config_of(server, ns, account, tmp_path / "config"))
    life_of_a_group(ns, gang)
    operator.stop()
    used, refused = requests_of(server, ns, account)
    assert refused == []
    assert used <= granted
    group = gangs.GANGS[gang]["api"].split("/")[0]
    assert {right for right in granted if right[1] == "podgroups"} == {
        right for right in used if right[1] == "podgroups" and right[0] == group}


def test_groups_need_the_right_that_the_chart_gives_for_them(server, ns, run_operator, tmp_path):
    """Rights for the one scheduler are none for the other: the operator is refused, and says so."""
    gangs.install(server, "volcano")
    account, _ = install(server, ns, "operator.gangScheduler.type=scheduler-plugins")
    operator = run_operator("--gang-scheduler", "volcano", wait=False,
                            kubeconfig=config_of(server, ns, account, tmp_path / "config"))
    until("it is refused", lambda: operator.metric("horovod_operator_api_requests_total", resource="podgroups", code="403"))
    until("readiness says why", lambda: "podgroups" in operator.get("/readyz")[1])
    refused = until("the audit log has it", lambda: requests_of(server, ns, account)[1])
    assert all('"resource":"podgroups"' in line for line in refused)
