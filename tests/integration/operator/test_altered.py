"""Fields that cannot be changed once an object is made, set by a webhook while it is: as docs/operator.md says of each."""
import contextlib
import pathlib

import pytest

import webhook
from kubeapi import until

ROOT = pathlib.Path(__file__).resolve().parents[3]
ADMISSION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
PLURALS = {"Job": ("batch", "jobs"), "StatefulSet": ("apps", "statefulsets")}
CLAIM = {"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}

# What a webhook sets for each field: members of spec, and what else the API server wants with them.
VALUES = {
    ("Job", "spec.completions"): {"completions": 2, "parallelism": 2},
    ("Job", "spec.template.spec.restartPolicy"): {"template/spec/restartPolicy": "OnFailure"},
    ("Job", "spec.backoffLimitPerIndex"): {"completionMode": "Indexed", "backoffLimitPerIndex": 3},
    ("Job", "spec.completionMode"): {"completionMode": "Indexed"},
    ("Job", "spec.podFailurePolicy"): {"podFailurePolicy": {"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}, "podReplacementPolicy": "Failed"},
    ("Job", "spec.managedBy"): {"managedBy": "example.com/queue"},
    ("Job", "spec.manualSelector"): {"manualSelector": True, "selector": {"matchLabels": {"horovod.io/role": "master"}}},
    ("StatefulSet", "spec.serviceName"): {"serviceName": "other"},
    ("StatefulSet", "spec.podManagementPolicy"): {"podManagementPolicy": "OrderedReady"},
    ("StatefulSet", "spec.volumeClaimTemplates"): {"volumeClaimTemplates": [CLAIM]},
}


def table():
    text = (ROOT / "docs/operator.md").read_text(encoding="utf-8").split("\n## Fields that a webhook sets at creation\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")][2:]
    return [(kind, field.strip("`"), then) for kind, field, then, _ in rows if then != "left"]


@contextlib.contextmanager
def altering(server, ns, directory, kind, values):
    """A webhook that sets members of the spec of objects of that kind while they are made."""
    group, plural = PLURALS[kind]
    with webhook.serving(directory) as hook:
        server.api.request("POST", ADMISSION, {"metadata": {"name": ns.name}, "webhooks": [{
            "name": "alter.example.com", "clientConfig": hook.client_config, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "rules": [{"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [plural]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns.name}}}]})
        operations = [{"op": "add", "path": "/spec/" + path, "value": value} for path, value in values.items()]
        asked = []

        def answer(request):
            asked.append(request["object"]["metadata"]["name"])
            return webhook.patch(operations)
        hook.answer = answer
        # It counts as soon as the API server has seen the configuration.
        until("the webhook is asked", lambda: probe(ns, kind) and asked, 60)
        try:
            yield
        finally:
            server.api.request("DELETE", f"{ADMISSION}/{ns.name}")


def probe(ns, kind):
    """A creation that changes nothing."""
    labels = {"horovod.io/role": "master"}
    spec = {"template": {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
    if kind == "StatefulSet":
        spec = {"serviceName": "s", "selector": {"matchLabels": labels}, **spec}
        spec["template"]["spec"].pop("restartPolicy")
    path = ns.path(PLURALS[kind][1]) + "?dryRun=All"
    ns.api.request("POST", path, {"apiVersion": f"{PLURALS[kind][0]}/v1", "kind": kind, "metadata": {"name": "probe"}, "spec": spec})
    return True


def test_every_field_of_the_table_is_tried():
    assert [row[:2] for row in table()] == list(VALUES)


@pytest.mark.parametrize("kind, field, then", [row for row in table() if row[2].startswith("ends")], ids=lambda value: value.split(".")[-1])
def test_what_makes_another_job_of_it_ends_it(server, ns, operator, tmp_path, kind, field, then):
    with altering(server, ns, tmp_path, kind, VALUES[kind, field]):
        ns.apply_job(**({"runMasterAsWorker": True} if "runMasterAsWorker" in then else {}))
        if kind == "Job":
            ns.start_workers()
        ns.wait_state("Failed", timeout=60)
    failed = ns.condition("Failed")
    assert failed["reason"] == "ChildAltered" and f"{kind} digits-" in failed["message"] and f" field {field} is " in failed["message"]
    until("nothing of it is left", lambda: not ns.workers() and not ns.master() and not ns.list("statefulsets") and not ns.list("jobs"), 60)


@pytest.mark.parametrize("kind, field", [row[:2] for row in table() if row[2] == "reported" or row[1] == "spec.completionMode"],
                         ids=lambda value: value.split(".")[-1])
def test_what_changes_the_job_otherwise_is_reported(server, ns, operator, tmp_path, kind, field):
    condition = "Running" if kind == "Job" else "WorkersReady"
    with altering(server, ns, tmp_path, kind, VALUES[kind, field]):
        ns.apply_job()
        if kind == "Job":
            ns.start_workers()
        until("it is reported", lambda: f" field {field} is " in (ns.condition(condition) or {}).get("message", ""), 60)
        until("there is an event", lambda: ("FieldAltered", 1) in ns.events())
    assert ns.state() in ("Pending", "Starting", "Running")
