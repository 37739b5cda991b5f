"""The chart on a real cluster: installed, ready, a job from its values, the operator's own pod."""
import re

from conftest import WORKER_IMAGE, wait_for


def test_the_operator_runs_restricted_and_answers_its_probes(cluster):
    deployment = cluster.get("deployment", "-n", "default", "horovod-operator")
    assert deployment["status"]["readyReplicas"] == 1
    pod = next(item for item in cluster.get("pods", "-n", "default", "-l", "app.kubernetes.io/component=operator")["items"]
               if "deletionTimestamp" not in item["metadata"])
    base = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}:8080/proxy"
    assert "ok" in cluster.kubectl("get", "--raw", f"{base}/healthz").stdout
    assert "ok" in cluster.kubectl("get", "--raw", f"{base}/readyz").stdout
    metrics = cluster.kubectl("get", "--raw", f"{base}/metrics").stdout
    assert re.search(r'^horovod_operator_api_requests_total\{.*verb="\w+".*\} \d+', metrics, re.M), metrics[:2000]
    container = pod["spec"]["containers"][0]["securityContext"]
    assert container["readOnlyRootFilesystem"] and container["capabilities"]["drop"] == ["ALL"]
    assert not container["allowPrivilegeEscalation"]


def test_helm_test_asks_the_operator_from_a_pod_and_leaves_nothing(cluster):
    done = cluster.helm("test", "horovod", "--namespace", "default", "--timeout", "120s")
    assert re.search(r"^Phase:\s+Succeeded$", done.stdout, re.M), done.stdout
    wait_for("the end of the test's pod", lambda: not cluster.get("pod", "-n", "default", "horovod-operator-test"))
    assert not cluster.get("service", "-n", "default", "horovod-operator-test")


def test_a_spec_in_the_values_renders_one_job_that_succeeds(cluster, namespace):
    cluster.helm("template", "horovod", "charts/horovod")
    rendered = cluster.helm("template", "digits", "charts/horovod", "--namespace", namespace.name, "--show-only",
                            "templates/job.yaml", "--set", f"job.enabled=true,job.spec.image={WORKER_IMAGE},job.spec.worker.replicas=2",
                            "--set-json", 'job.spec.command=["digits", "--epochs", "2"]').stdout
    namespace.kubectl("apply", "-f", "-", stdin=rendered)
    jobs = wait_for("the job of the chart", lambda: namespace.items("horovodjobs"))
    assert len(jobs) == 1
    namespace.wait_state(jobs[0]["metadata"]["name"], "Succeeded", "Failed", timeout=120)
    assert namespace.state(jobs[0]["metadata"]["name"]) == "Succeeded"
