"""Other writers that undo what the operator writes: few requests, a condition that names them, and jobs that go on."""
import contextlib
import subprocess

import pytest

import webhook
from kubeapi import until

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
FEW = 12  # requests that a fight may cost in its first 10 minutes


def start(ns, name="digits", **spec):
    ns.apply_job(name, **spec)
    ns.start_workers(2, name)
    ns.start_master(name)
    ns.wait_state("Running", name)


def contested(ns):
    condition = ns.condition("Contested") or {}
    return condition.get("status") == "True" and condition["message"]


def patches(server, ns, plural):
    return [name for verb, resource, name, _ in server.writes(ns.name) if verb == "patch" and resource == plural + "/"]


def another_job_succeeds(ns):
    start(ns, "other")
    ns.end_master(ns.master("other"))
    ns.wait_state("Succeeded", "other")


@contextlib.contextmanager
def changed(server, ns, plural, name, patch, is_changed):
    """kubectl changes the object again whenever it is repaired."""
    def change():
        if not is_changed(ns.get(plural, name)):
            server.kubectl("-n", ns.name, "patch", plural, name, "--type=merge", "-p", patch, "--field-manager=their-tool")
        return False
    change()
    yield change


UNOWNED = "spec.publishNotReadyAddresses"
FIGHTS = [
    ("services", "Service", "digits", "spec.selector", '{"spec":{"selector":{"tier":"web"}}}', lambda o: "tier" in o["spec"]["selector"]),
    ("services", "Service", "digits", UNOWNED, '{"spec":{"publishNotReadyAddresses":false}}',
     lambda o: not o["spec"].get("publishNotReadyAddresses")),
    ("configmaps", "ConfigMap", "digits-hosts", "data", '{"data":{"hostfile":"elsewhere"}}', lambda o: o["data"]["hostfile"] == "elsewhere"),
    ("configmaps", "ConfigMap", "digits-hosts", "metadata.labels", '{"metadata":{"labels":{"app.kubernetes.io/managed-by":"argocd"}}}',
     lambda o: o["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "argocd"),
    ("statefulsets", "StatefulSet", "digits-worker", "spec.updateStrategy", '{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}',
     lambda o: o["spec"]["updateStrategy"]["type"] == "RollingUpdate"),
]


@pytest.mark.parametrize("plural, kind, name, field, patch, is_changed", FIGHTS, ids=[f"{f[1]}-{f[3]}" for f in FIGHTS])
def test_a_fight_costs_few_writes_and_names_the_other_writer(server, ns, operator, plural, kind, name, field, patch, is_changed):
    start(ns)
    before = len(server.writes(ns.name))
    with changed(server, ns, plural, name, patch, is_changed) as change:
        until(lambda: f"the condition: {ns.condition('Contested')}", lambda: change() or contested(ns), 60)
        # The API server omits what is false, so that it has no manager.
        writer = "an admission webhook or another program" if field == UNOWNED else 'manager "their-tool"'
        assert contested(ns) == f'{kind} {ns.name}/{name} field {field}: changed again by {writer} after each repair: ' \
            'the next repairs are up to 5 minutes apart; stop the other writer'
        assert len(server.writes(ns.name)) - before <= FEW
        n = len(patches(server, ns, plural))
        until("two repairs more", lambda: change() or len(patches(server, ns, plural)) >= n + 2, 60)
    assert [reason for reason, _ in ns.events()].count("RepairNotKept") == 1
    assert len(server.writes(ns.name)) - before <= FEW
    until("it is repaired", lambda: not is_changed(ns.get(plural, name)), 60)
    another_job_succeeds(ns)
    assert ns.state() == "Running"


def test_a_service_that_is_deleted_again_and_again_is_made_seldom(server, ns, operator):
    start(ns)
    before = len(server.writes(ns.name))

    def delete():
        with contextlib.suppress(subprocess.CalledProcessError):
            server.kubectl("-n", ns.name, "delete", "service", "digits", "--ignore-not-found")
        return False
    until(lambda: f"the condition: {ns.condition('Contested')}", lambda: delete() or contested(ns), 60)
    assert contested(ns).startswith(f"Service {ns.name}/digits: deleted by another program after each creation: ")
    assert len(server.writes(ns.name)) - before <= FEW
    until("it is made again", lambda: ns.get("services", "digits"), 60)
    assert ns.state() == "Running"


@contextlib.contextmanager
def rewriting(server, ns, directory, resource, operations):
    """A webhook that changes the objects of a resource, whoever writes them."""
    group, plural = resource
    with webhook.serving(directory) as hook:
        rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [plural]}
        path = f"{ADMISSION}/mutatingwebhookconfigurations"
        server.api.request("POST", path, {"metadata": {"name": ns.name}, "webhooks": [{
            "name": "rewrite.example.com", "clientConfig": hook.client_config, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns.name}}}]})
        hook.answer = lambda request: webhook.patch(operations) if request["object"]["metadata"]["name"].startswith("digits") else {}
        try:
            yield
        finally:
            server.api.request("DELETE", f"{path}/{ns.name}")


REWRITES = [
    (("", "services"), "services", "digits", {"metadata": {"annotations": {"touch": "1"}}},
     [{"op": "add", "path": "/spec/publishNotReadyAddresses", "value": False}], "field spec.publishNotReadyAddresses"),
    (("", "configmaps"), "configmaps", "digits-hosts", {"metadata": {"annotations": {"touch": "1"}}},
     [{"op": "add", "path": "/metadata/labels/app.kubernetes.io~1managed-by", "value": "policy"}], "field metadata.labels"),
]


@pytest.mark.parametrize("resource, plural, name, touch, operations, field", REWRITES, ids=[r[5] for r in REWRITES])
def test_a_webhook_that_rewrites_costs_few_writes(server, ns, operator, tmp_path, resource, plural, name, touch, operations, field):
    start(ns)
    before = len(server.writes(ns.name))
    with rewriting(server, ns, tmp_path, resource, operations):
        def touched():
            ns.patch(plural, name, touch)
            return contested(ns)
        until(lambda: f"the condition: {ns.condition('Contested')}", touched, 60)
        assert f"{name} {field}: changed again by an admission webhook or another program after each repair" in contested(ns)
        n = len(patches(server, ns, plural))
        until("two repairs more", lambda: len(patches(server, ns, plural)) >= n + 2, 60)
        assert len(server.writes(ns.name)) - before <= FEW
        another_job_succeeds(ns)
    assert ns.state() == "Running"


def test_a_list_made_immutable_under_a_running_master_ends_no_job(server, ns, operator):
    start(ns, worker={"replicas": 2, "minReplicas": 1})
    ns.patch("configmaps", "digits-hosts", {"immutable": True})
    ns.patch("horovodjobs", "digits", {"spec": {"worker": {"replicas": 3}}})
    ns.start_workers(3)
    message = "ConfigMap digits-hosts was made immutable and the master keeps the list of hosts that is in it"
    until("the job reports it", lambda: message in (ns.condition("WorkersReady") or {}).get("message", ""))
    assert ns.state() == "Running"
    assert not [w for w in server.writes(ns.name) if w[3] == 422]
    ns.end_master(ns.master())
    ns.wait_state("Succeeded")


def test_what_the_api_server_refuses_of_an_existing_child_ends_no_job(server, ns, operator):
    """Room in the list that others have taken: the patch is too large, and the template is not to blame."""
    start(ns, worker={"replicas": 2, "minReplicas": 1})
    ns.patch("configmaps", "digits-hosts", {"data": {"theirs": "x" * (1048576 - 1500)}})
    ns.patch("horovodjobs", "digits", {"spec": {"worker": {"replicas": 40}}})
    ns.start_workers(40)
    until(lambda: f"the job reports it: {ns.condition('WorkersReady')}",
          lambda: "ConfigMap digits-hosts cannot be changed" in (ns.condition("WorkersReady") or {}).get("message", ""), 60)
    assert ns.state() == "Running"
    ns.patch("configmaps", "digits-hosts", {"data": {"theirs": None}})
    until("it is changed", lambda: "digits-worker-39" in ns.get("configmaps", "digits-hosts")["data"]["hostfile"], 90)
    assert ns.state() == "Running"


def test_the_template_of_running_workers_that_was_changed_is_reported_and_repaired_at_the_next_start(server, ns, operator):
    def image():
        return ns.get("statefulsets", "digits-worker")["spec"]["template"]["spec"]["containers"][0]["image"]
    start(ns)
    mine = image()
    server.kubectl("-n", ns.name, "set", "image", "statefulset/digits-worker", "worker=elsewhere")
    message = "2 of 2 workers are ready; the template of StatefulSet digits-worker was changed: workers that run keep theirs"
    until(lambda: f"the job reports it: {ns.condition('WorkersReady')}",
          lambda: (ns.condition("WorkersReady") or {}).get("message", "").startswith(message), 90)
    assert image() == "elsewhere"
    assert ns.state() == "Running"
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
    until("it is suspended", lambda: ns.state() == "Suspended" and not ns.workers())
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
    ns.start_workers()
    assert image() == mine
    ns.start_master()
    ns.wait_state("Running")
    until("nothing is reported", lambda: (ns.condition("WorkersReady") or {}).get("message") == "2 of 2 workers are ready")
