"""The chart on a real API server: it installs, its jobs are accepted, and its rights suffice for the operator."""
import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import CHART, TOP, wait_for
from job_values import COMPOSED, LONG, SHORT

OPERATOR = Path(os.environ.get("HVD_BUILD_DIR", TOP / "build")) / "operator" / "horovod-operator"
JOB = {"job": {"enabled": True, "command": ["digits"]}}


@pytest.fixture
def release(install):
    """The chart with one job, installed in the namespace default."""
    return install(JOB)


def test_an_installation_makes_the_job_and_says_how_to_follow_it(release, kubectl):
    assert kubectl("get", "horovodjobs", "-o", "name").split() == ["horovodjob.horovod.io/horovod"]
    assert kubectl("get", "deployments", "-o", "name").split() == ["deployment.apps/horovod-operator"]
    assert "kubectl -n default logs -f job/horovod-master" in release.stdout


@pytest.mark.parametrize("values", [
    {"command": ["digits"], "env": {"A": 1}, "resources": {"limits": {"memory": "1Gi"}}, "slotsPerWorker": 2},
    {"command": ["digits"], "volumes": [{"name": "d", "emptyDir": {}}],
     "volumeMounts": [{"name": "d", "mountPath": "/d"}], "network": {"interfaces": ["eth0", "10.0.0.0/8"]}},
    {"master": {"args": ["mpirun", "-np", "2", "digits"], "resources": {"limits": {"cpu": 1}}}, "cleanPodPolicy": "All",
     "ttlSecondsAfterFinished": 0, "backoffLimit": 3, "activeDeadlineSeconds": 9, "suspend": True, "ssh": {"port": 2200}},
    SHORT, LONG, COMPOSED,
], ids=["short form", "long form", "master's command line", "every field, short", "every field, long", "every field, composed"])
def test_every_form_of_the_job_is_accepted_by_the_api_server(release, render, kubectl, values):
    manifest = render({"job": {"enabled": True, **values, "name": "other"}})["HorovodJob"]
    manifest["metadata"]["namespace"] = "default"
    kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(manifest))


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


def test_election_is_switched_on_without_two_operators_at_once_and_rolls_from_then_on(release, helm, kubectl, tmp_path):
    """The installed operator takes no part: it has to end first. The next upgrade rolls."""
    values = tmp_path / "elected.json"
    values.write_text(json.dumps({**JOB, "operator": {"replicas": 2, "leaderElection": {"enabled": True},
                                                      "podDisruptionBudget": {"enabled": True}}}))
    for expected in ("Recreate", "RollingUpdate"):
        done = helm("upgrade", "horovod", str(CHART), "--kubeconfig", kubectl.kubeconfig, "--namespace", "default",
                    "--values", str(values))
        assert done.returncode == 0, done.stderr
        spec = json.loads(kubectl("get", "deployment", "horovod-operator", "-o", "json"))["spec"]
        assert (spec["replicas"], spec["strategy"]["type"]) == (2, expected)
    assert "poddisruptionbudget" in kubectl("get", "poddisruptionbudgets", "-o", "name")
