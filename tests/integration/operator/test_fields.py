"""Each field of a child that others can change is repaired, reported, or left: as docs/operator.md says, and no field is missing there."""
import contextlib
import pathlib

import pytest

from kubeapi import ApiError, until

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCHEMAS = {"StatefulSet": ("apps/v1", "apps.v1.StatefulSetSpec"), "Job": ("batch/v1", "batch.v1.JobSpec"),
           "Service": ("v1", "core.v1.ServiceSpec"), "ConfigMap": ("v1", "core.v1.ConfigMap"), "Secret": ("v1", "core.v1.Secret"),
           "all": ("v1", "apimachinery.pkg.apis.meta.v1.ObjectMeta")}
IDENTITY = {"apiVersion", "kind", "metadata", "name", "namespace", "generateName", "uid", "resourceVersion", "generation", "selfLink",
            "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"}  # the API server's
NAMES = {"StatefulSet": ("statefulsets", "digits-worker"), "Job": ("jobs", "digits-master"), "Service": ("services", "digits"),
         "ConfigMap": ("configmaps", "digits-hosts"), "Secret": ("secrets", "digits-ssh")}

# Another value for each field; with a text before it where the merge patch needs more than that field.
VALUES = {
    "StatefulSet": {
        "spec.replicas": 1, "spec.updateStrategy": {"type": "RollingUpdate"}, "spec.ordinals": {"start": 3}, "spec.minReadySeconds": 7,
        "spec.revisionHistoryLimit": 3, "spec.persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
        "spec.selector": {"matchLabels": {"a": "b"}}, "spec.serviceName": "other", "spec.podManagementPolicy": "OrderedReady",
        "spec.volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        "spec.template": {"metadata": {"annotations": {"a": "b"}}}},
    "Job": {
        "spec.suspend": True, "spec.parallelism": 0, "spec.ttlSecondsAfterFinished": 0, "spec.activeDeadlineSeconds": 10000,
        "spec.backoffLimit": 6, "spec.manualSelector": True, "spec.podReplacementPolicy": "Failed", "spec.maxFailedIndexes": 1,
        "spec.template": {"metadata": {"annotations": {"a": "b"}}}, "spec.completions": 2, "spec.completionMode": "Indexed",
        "spec.selector": {"matchLabels": {"a": "b"}}, "spec.podFailurePolicy": {"rules": [
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]},
        "spec.successPolicy": {"rules": [{"succeededCount": 1}]}, "spec.backoffLimitPerIndex": 1, "spec.managedBy": "example.com/other"},
    "Service": {
        "spec.selector": {"tier": "web"}, "spec.publishNotReadyAddresses": False, "spec.ports": [{"port": 80}],
        "spec.externalIPs": ["192.0.2.1"], "spec.sessionAffinity": "ClientIP",
        "spec.sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}, "spec.internalTrafficPolicy": "Local",
        "spec.externalTrafficPolicy": "Local", "spec.trafficDistribution": "PreferClose", "spec.ipFamilyPolicy": "PreferDualStack",
        "spec.ipFamilies": ["IPv6"], "spec.loadBalancerIP": "192.0.2.1", "spec.loadBalancerSourceRanges": ["192.0.2.0/24"],
        "spec.loadBalancerClass": "example.com/a", "spec.allocateLoadBalancerNodePorts": True, "spec.healthCheckNodePort": 30999},
    "ConfigMap": {"data": {"hostfile": "elsewhere"}, "binaryData": {"hostfile": "eA=="}, "immutable": True},
    "Secret": {"data": {"id": "eA=="}, "stringData": {"id": "x"}, "type": "other", "immutable": False},
}
WITH = {"binaryData": {"data": {"hostfile": None}}}
BEFORE_IT_RUNS = {"spec.suspend", "spec.parallelism", "spec.ordinals"}
WHOLE = {"spec.type", "spec.externalName", "spec.clusterIP", "spec.clusterIPs"}  # a test of their own


def table():
    text = (ROOT / "docs/operator.md").read_text(encoding="utf-8").split("\n## Fields of children that others set\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")][2:]
    assert all(len(row) == 4 for row in rows)
    return [(kind, field.strip("`"), then) for kind, fields, then, _ in rows for field in fields.split(", ")]


TABLE = table()


def rows(*answers, kinds=tuple(NAMES)):
    return [(kind, field) for kind, field, then in TABLE if kind in kinds and then in answers and field not in WHOLE]


def patch_of(path, value):
    body = value
    for key in reversed(path.split(".")):
        body = {key: body}
    return {**body, **WITH.get(path, {})}


def at(document, path):
    for key in path.split("."):
        document = (document or {}).get(key)
    return document


def change(ns, kind, field):
    plural, name = NAMES[kind]
    return ns.patch(plural, name, patch_of(field, VALUES[kind][field]))


def start(ns, name="digits"):
    ns.apply_job(name)
    ns.start_workers(2, name)
    ns.start_master(name)
    ns.wait_state("Running", name)


def holds(is_value, wanted):
    """Whether what was set is there, among what the API server has added."""
    if isinstance(wanted, dict):
        return isinstance(is_value, dict) and all(holds(is_value.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(is_value, list) and len(is_value) == len(wanted) and all(map(holds, is_value, wanted))
    return is_value == wanted or (wanted is False and not is_value)


def test_the_table_has_every_field_of_the_api(server):
    known = {kind: {field.removeprefix("spec.").removeprefix("metadata.") for of, field, _ in TABLE if of == kind} for kind in SCHEMAS}
    for kind, (version, schema) in SCHEMAS.items():
        path = "/openapi/v3/" + ("api/" if version == "v1" else "apis/") + version
        schemas = server.api.request("GET", path)["components"]["schemas"]
        found = next(value for name, value in schemas.items() if name.endswith(schema))["properties"]
        assert set(found) - IDENTITY == known[kind], kind
    assert {(kind, field) for kind, field in rows("repaired", "reported", "left", "immutable")} == \
        {(kind, field) for kind, fields in VALUES.items() for field in fields}


def test_what_is_immutable_is_refused_by_the_api_server(server, ns, operator):
    start(ns)
    changed = []
    for kind, field in rows("immutable"):
        plural, name = NAMES[kind]
        before = at(ns.get(plural, name), field)
        try:
            change(ns, kind, field)
        except ApiError as error:
            assert error.code in (400, 422), (field, error)
            continue
        if at(ns.get(plural, name), field) != before:
            changed.append((kind, field))
    assert not changed
    assert ns.state() == "Running"


def test_what_is_repaired_is_as_it_was_and_the_job_goes_on(server, ns, operator):
    start(ns)
    for kind, field in rows("repaired"):
        if field in BEFORE_IT_RUNS:
            continue
        plural, name = NAMES[kind]
        before = at(ns.get(plural, name), field)
        change(ns, kind, field)
        until(lambda: f"{kind} {field} is repaired: {at(ns.get(plural, name), field)}", lambda: at(ns.get(plural, name), field) == before)
    assert len(ns.get("configmaps", "digits-hosts")["data"]) == 4
    assert not [write for write in server.writes(ns.name) if write[3] == 422]
    assert ns.state() == "Running"
    ns.end_master(ns.master())
    ns.wait_state("Succeeded")


@pytest.mark.parametrize("field", ["spec.suspend", "spec.parallelism"])
def test_a_master_that_is_held_before_it_runs_is_released(server, ns, operator, field):
    ns.apply_job()
    ns.start_workers()
    ns.until("the master's Job", lambda: ns.get("jobs", "digits-master"))
    change(ns, "Job", field)
    until("it is released", lambda: not holds(at(ns.get("jobs", "digits-master"), field), VALUES["Job"][field]))

    def runs():
        """The Job's controller may remove the pod of before while it is made to run."""
        with contextlib.suppress(ApiError):
            ns.start_master()
        return ns.state() == "Running"
    until("the master runs", runs, 60)


def test_the_numbers_of_workers_begin_at_0_again(server, ns, operator):
    ns.apply_job()
    until("the workers' set", lambda: ns.get("statefulsets", "digits-worker"))
    change(ns, "StatefulSet", "spec.ordinals")
    until("it is repaired", lambda: not at(ns.get("statefulsets", "digits-worker"), "spec.ordinals"))
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")


def leave_trace(ns, code):
    """The master ends, its Job is removed at once, and the event of the Job's controller, which may be late, stays."""
    reasons = ("BackoffLimitExceeded", "PodFailurePolicy") if code else ("Completed",)
    ns.patch("jobs", "digits-master", {"spec": {"ttlSecondsAfterFinished": 0}})
    ns.end_master(ns.master(), code)
    until("the Job is removed", lambda: ns.get("jobs", "digits-master") is None, 60)
    until("the event of its end", lambda: [event for event in ns.list("events") if event["reason"] in reasons], 60)


@pytest.mark.parametrize("code, state", [(0, "Succeeded"), (1, "Failed")])
def test_a_master_that_ended_and_is_gone_before_anybody_looked_has_its_end(server, ns, run_operator, code, state):
    operator = run_operator()
    start(ns)
    operator.stop()
    leave_trace(ns, code)
    run_operator()
    ns.wait_state(state)
    assert "was deleted before its end was read" in ns.condition(state)["message"]
    assert ns.status()["attempts"] == 1


@pytest.mark.parametrize("code, state", [(0, "Succeeded"), (1, "Failed")])
def test_a_master_that_ended_before_the_first_status_has_its_end(server, ns, run_operator, code, state):
    """The first status may come some seconds after the master's Job; this operator does not live to write it."""
    operator = run_operator()
    ns.apply_job()
    ns.start_workers()
    ns.until("the master's Job", lambda: ns.get("jobs", "digits-master"))
    operator.process.kill()
    operator.process.wait()
    ns.start_master()
    leave_trace(ns, code)
    run_operator()
    ns.wait_state(state)
    assert "was deleted before its end was read" in ns.condition(state)["message"]
    assert ns.status()["attempts"] == 1 and not ns.get("jobs", "digits-master")


def test_a_master_that_left_no_trace_of_its_end_is_made_again(server, ns, run_operator):
    operator = run_operator()
    start(ns)
    operator.stop()
    ns.delete("jobs", "digits-master")
    until("the Job is removed", lambda: ns.get("jobs", "digits-master") is None)
    run_operator()
    until("it is reported", lambda: "MasterDeleted" in str(ns.status().get("attemptLogs")))
    assert ns.status()["interruptions"] == 1 and ns.status().get("failures", 0) == 0


SERVICES = [
    {"type": "ExternalName", "externalName": "elsewhere.example"},
    [{"type": "ExternalName", "externalName": "elsewhere.example", "clusterIP": None, "clusterIPs": None},
     {"type": "ClusterIP", "externalName": None, "ports": [{"port": 80}]}],
    [{"type": "ExternalName", "externalName": "elsewhere.example", "clusterIP": None, "clusterIPs": None},
     {"type": "NodePort", "externalName": None, "ports": [{"port": 80}]}],
]


@pytest.mark.parametrize("specs", SERVICES, ids=["external", "address", "node-port"])
def test_a_service_that_names_no_pods_is_headless_again(server, ns, run_operator, specs):
    operator = run_operator()
    start(ns)
    operator.stop()
    for spec in specs if isinstance(specs, list) else [specs]:
        ns.patch("services", "digits", {"spec": spec})
    assert ns.get("services", "digits")["spec"].get("clusterIP") != "None"
    run_operator()

    def is_headless():
        spec = (ns.get("services", "digits") or {"spec": {}})["spec"]
        return spec.get("type") == "ClusterIP" and spec.get("clusterIP") == "None" and spec.get("clusterIPs") == ["None"] \
            and spec["publishNotReadyAddresses"] and not spec.get("externalName") and len(spec["selector"]) == 2
    until(lambda: f"the Service is headless: {ns.get('services', 'digits')}", is_headless)
    assert ns.state() == "Running"


def test_what_is_left_to_others_stays_and_harms_no_job(server, ns, operator):
    start(ns)
    values = {}
    for kind, field in rows("left"):
        plural, name = NAMES[kind]
        change(ns, kind, field)
        values[kind, field] = at(ns.get(plural, name), field)
        assert holds(values[kind, field], VALUES[kind][field]), field
    for plural, name in NAMES.values():
        ns.patch(plural, name, {"metadata": {"annotations": {"theirs": "1"}, "finalizers": ["example.com/theirs"]}})
    patched = [write for write in server.writes(ns.name) if write[0] == "patch" and write[2] in {name for _, name in NAMES.values()}]
    # What is repaired after all that shows that the operator has seen it.
    change(ns, "Service", "spec.selector")
    until("the selector is repaired", lambda: "tier" not in at(ns.get("services", "digits"), "spec.selector"))
    for (kind, field), value in values.items():
        assert at(ns.get(*NAMES[kind]), field) == value, field
    writes = [write for write in server.writes(ns.name) if write[0] == "patch" and write[2] in {name for _, name in NAMES.values()}]
    for plural, name in NAMES.values():
        metadata = ns.get(plural, name)["metadata"]
        assert metadata["annotations"]["theirs"] == "1" and "example.com/theirs" in metadata["finalizers"]
        ns.patch(plural, name, {"metadata": {"finalizers": None}})
    assert len(writes) <= len(patched) + 1
    ns.end_master(ns.master())
    ns.wait_state("Succeeded")


POD_FIELDS = {
    "spec.containers[].image": {"op": "replace", "path": "/spec/containers/0/image", "value": "elsewhere"},
    "spec.tolerations": {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "a", "operator": "Exists"}},
    "spec.activeDeadlineSeconds": {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 9999},
    "spec.terminationGracePeriodSeconds": {"op": "replace", "path": "/spec/terminationGracePeriodSeconds", "value": 5},
    "any other of `spec": {"op": "add", "path": "/spec/hostname", "value": "other"},
}


def test_what_a_pod_lets_others_change_costs_its_attempt_at_most(server, ns, operator):
    assert {field for kind, field, _ in TABLE if kind == "Pod"} == set(POD_FIELDS) | {"spec.initContainers[].image"}
    start(ns)
    for kind, field, then in TABLE:
        if kind != "Pod" or field not in POD_FIELDS:
            continue
        path = ns.path("pods", "digits-worker-0")
        if then == "immutable":
            with pytest.raises(ApiError):
                ns.api.request("PATCH", path, [POD_FIELDS[field]], "application/json-patch+json")
        else:
            ns.api.request("PATCH", path, [POD_FIELDS[field]], "application/json-patch+json")
    assert ns.state() == "Running"
    # The kubelet ends the pod, whose deadline has passed.
    ns.patch("pods", "digits-worker-0", {"status": {"phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active too long",
                                                    "conditions": [{"type": "Ready", "status": "False"}]}}, "status")
    until(lambda: f"the loss is reported: {ns.status()}", lambda: "DeadlineExceeded" in str(ns.status().get("workerFailure")))
