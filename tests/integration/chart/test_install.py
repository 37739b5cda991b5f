"""The chart on a real API server: it installs, its jobs are accepted, and its rights suffice for the operator."""
import json
import os
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
import yaml
from conftest import CHART, TOP, wait_for
from job_specs import LONG, SHORT, SMALL

OPERATOR = Path(os.environ.get("HVD_BUILD_DIR", TOP / "build")) / "operator" / "horovod-operator"
JOB = {"job": {"enabled": True, "spec": SMALL}}


@pytest.fixture
def release(install):
    """The chart with one job, installed in the namespace default."""
    return install(JOB)


def test_an_installation_makes_the_job_and_says_how_to_follow_it(release, kubectl):
    assert kubectl("get", "horovodjobs", "-o", "name").split() == ["horovodjob.horovod.io/horovod"]
    assert kubectl("get", "deployments", "-o", "name").split() == ["deployment.apps/horovod-operator"]
    assert "kubectl -n default logs -f job/horovod-master" in release.stdout


@pytest.mark.parametrize("values,where,image", [
    ({}, "", "localhost/horovod-worker:0.1.0"),
    ({"image": {"registry": "registry.example.org/"}, "operator": {"namespace": "default"}}, "-n default ",
     "registry.example.org/horovod-worker:0.1.0"),
])
def test_the_notes_have_a_job_that_the_operator_of_this_release_runs(install, kubectl, values, where, image):
    notes = install(values).stdout
    manifest = re.search(rf"^  kubectl {where}apply -f - <<EOF\n(.*?)^  EOF$", notes, re.M | re.S).group(1)
    assert yaml.safe_load(manifest)["spec"]["image"] == image
    kubectl("apply", "--dry-run=server", "-f", "-", stdin=textwrap.dedent(manifest))
    assert f"kubectl {where}logs -f job/digits-master" in notes
    assert ("HorovodJobs of namespace default." if where else "HorovodJobs of all namespaces.") in notes
    assert "%!" not in notes and "<no value>" not in notes


def test_the_notes_of_an_empty_release_say_so(install):
    notes = install({"operator": {"enabled": False}}).stdout
    assert "set operator.enabled or job.enabled" in notes and "rollout" not in notes


@pytest.mark.parametrize("spec", [SHORT, LONG], ids=["short form", "long form"])
def test_every_field_of_the_job_is_accepted_by_the_api_server(release, render, kubectl, spec):
    manifest = render({"job": {"enabled": True, "name": "other", "spec": spec}})["HorovodJob"]
    manifest["metadata"]["namespace"] = "default"
    kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(manifest))


@pytest.mark.parametrize("values", [
    {}, {"image": {"registry": "example.org"}, "imagePullSecrets": [{"name": "registry"}],
         "operator": {"podSecurityContext": {"runAsUser": None, "fsGroup": 7}, "securityContext": {"seLinuxOptions": {"level": "s0"}},
                      "metrics": {"tls": {"enabled": True, "secretName": "cert"}}}}], ids=["default", "other contexts"])
def test_the_operators_pods_pass_restricted_pod_security(render, kubectl, values):
    """The namespace warns of pods that would not pass; the server knows every field."""
    kubectl("create", "namespace", "safe")
    try:
        kubectl("label", "namespace", "safe", "pod-security.kubernetes.io/warn=restricted")
        deployment = render(values)["Deployment"]
        words = ("apply", "--dry-run=server", "--validate=strict", "-n", "safe", "-f", "-")
        deployment["metadata"]["namespace"] = "safe"
        done = kubectl(*words, stdin=yaml.safe_dump(deployment), check=False)
        assert (done.returncode, done.stderr) == (0, "")
        deployment["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] = False
        assert "would violate PodSecurity" in kubectl(*words, stdin=yaml.safe_dump(deployment), check=False).stderr
    finally:
        kubectl("delete", "namespace", "safe")


def test_the_operator_makes_a_jobs_children_with_the_charts_rights_alone(release, kubectl, tmp_path):
    admin = yaml.safe_load(Path(kubectl.kubeconfig).read_text())
    token = kubectl("create", "token", "horovod-operator").strip()
    admin["users"] = [{"name": user["name"], "user": {"token": token}} for user in admin["users"]]
    config, log = tmp_path / "kubeconfig", tmp_path / "log"
    config.write_text(yaml.safe_dump(admin))
    with log.open("w") as out, subprocess.Popen(
            [OPERATOR, "--kubeconfig", config, "--listen", ":0", "--log-level", "debug"], stderr=out, stdout=out) as child:
        try:
            wait_for("the children of the job", lambda: set(kubectl(
                "get", "secrets,services,configmaps,statefulsets", "-l", "horovod.io/job-name=horovod", "-o", "name").split()) == {
                    "secret/horovod-ssh", "service/horovod", "configmap/horovod-hosts", "statefulset.apps/horovod-worker"})
            wait_for("the job's status", lambda: kubectl(
                "get", "horovodjob", "horovod", "-o", "jsonpath={.status.state}") not in ("",))
            kubectl("patch", "horovodjob", "horovod", "--type=merge", "-p", '{"spec":{"suspend":true}}')
            wait_for("the event", lambda: "Suspended" in kubectl("get", "events", "-o", "jsonpath={.items[*].reason}"))
            kubectl("patch", "horovodjob", "horovod", "--type=merge", "-p", '{"spec":{"suspend":null}}')
        finally:
            child.terminate()
    assert child.returncode == 0
    text = log.read_text()
    assert "forbidden" not in text.lower() and "HTTP 403" not in text, text


ELECTED = {"replicas": 2, "leaderElection": {"enabled": True}, "podDisruptionBudget": {"enabled": True}}


def test_election_is_switched_on_without_two_operators_at_once_and_rolls_when_asked_to(release, helm, kubectl, tmp_path):
    """The installed operator takes no part: it has to end first. An upgrade that rolls is one further, and can be taken back."""
    values = tmp_path / "elected.json"
    for expected in ("Recreate", "RollingUpdate", "Recreate"):
        values.write_text(json.dumps({**JOB, "operator": {**ELECTED, "updateStrategy": expected}}))
        done = helm("upgrade", "horovod", str(CHART), "--kubeconfig", kubectl.kubeconfig, "--namespace", "default",
                    "--values", str(values))
        assert done.returncode == 0, done.stderr
        spec = json.loads(kubectl("get", "deployment", "horovod-operator", "-o", "json"))["spec"]
        assert (spec["replicas"], spec["strategy"]["type"]) == (2, expected)
    assert "poddisruptionbudget" in kubectl("get", "poddisruptionbudgets", "-o", "name")


EVERYTHING = {**ELECTED, "updateStrategy": "RollingUpdate", "networkPolicy": {"enabled": True}, "gangScheduler": {"type": "volcano"},
              "metrics": {"service": {"enabled": True}, "dashboard": {"enabled": True},
                          "tls": {"enabled": True, "secretName": "cert"}}}


@pytest.mark.parametrize("values", [{}, JOB, {"operator": ELECTED}, {**JOB, "operator": EVERYTHING},
                                    {"operator": {"namespace": "team"}}, {"operator": {"enabled": False}, **JOB}],
                         ids=["default", "job", "election", "everything", "one namespace", "job alone"])
@pytest.mark.parametrize("verb", ["install", "upgrade"])
def test_the_chart_renders_the_same_with_and_without_a_cluster(request, helm, kubectl, tmp_path, values, verb):
    """Whatever is installed: `helm template`, which asks no cluster, renders what `helm install` and `upgrade` apply."""
    if verb == "upgrade":
        request.getfixturevalue("release")
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values))
    words = ["horovod", str(CHART), "--namespace", "default", "--values", str(file)]
    version = json.loads(kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    offline = helm("template", *words, "--no-hooks", "--kube-version", version)
    assert offline.returncode == 0, offline.stderr
    fresh = ["--reset-values"] if verb == "upgrade" else []
    online = helm(verb, *words, *fresh, "--dry-run=server", "--output", "json", "--kubeconfig", kubectl.kubeconfig)
    assert online.returncode == 0, online.stderr
    assert json.loads(online.stdout)["manifest"].strip() == offline.stdout.strip()


def test_a_chart_that_asks_the_cluster_would_be_noticed(release, helm, kubectl, chart_copy):
    file = chart_copy / "templates" / "serviceaccount.yaml"
    file.write_text(file.read_text().replace("automountServiceAccountToken: false", "automountServiceAccountToken: "
                                             '{{ not (lookup "v1" "Namespace" "" "default") }}'))
    words = ["horovod", str(chart_copy), "--namespace", "default"]
    online = helm("upgrade", *words, "--dry-run=server", "--output", "json", "--kubeconfig", kubectl.kubeconfig)
    assert "automountServiceAccountToken: false" in json.loads(online.stdout)["manifest"]
    assert "automountServiceAccountToken: true" in helm("template", *words).stdout
