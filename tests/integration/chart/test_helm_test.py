"""`helm test`: the pod that it starts, and the question that this pod asks the operator. Its run in a cluster is in tests/e2e."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import CHART, TOP
from job_specs import SMALL

sys.path.append(str(TOP / "tests/fake"))
from fake import Fake, Operator  # noqa: E402  (the path above)

OPERATOR = Path(os.environ.get("HVD_BUILD_DIR", TOP / "build")) / "operator" / "horovod-operator"
NAME = "horovod-operator-test"
TLS = {"metrics": {"port": 9000, "tls": {"enabled": True, "secretName": "cert"}}}
OTHER = {"image": {"registry": "example.org"}, "imagePullSecrets": [{"name": "registry"}],
         "operator": {"podSecurityContext": {"runAsUser": 7}, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], **TLS}}


@pytest.fixture
def hooks(template):
    """hooks(VALUES): what `helm test` creates, by kind."""
    def run(values=None):
        done = template(values, words=["--show-only", "templates/tests/health.yaml"])
        assert done.returncode == 0, done.stderr
        return {item["kind"]: item for item in yaml.safe_load_all(done.stdout)}

    return run


@pytest.mark.parametrize("values, url", [({}, f"http://{NAME}.training:8080/readyz"), (OTHER, f"https://{NAME}.training:9000/readyz")],
                         ids=["default", "other values"])
def test_a_pod_of_the_operators_image_asks_through_a_service(hooks, render, values, url):
    made, deployment = hooks(values), render(values)["Deployment"]["spec"]["template"]
    service, pod = made["Service"], made["Pod"]
    labels = deployment["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items(), "the test would ask itself"
    assert pod["spec"]["containers"][0]["args"] == ["--probe", url]
    for key in ("image", "imagePullPolicy", "securityContext", "resources"):
        assert pod["spec"]["containers"][0][key] == deployment["spec"]["containers"][0][key]
    for key in ("imagePullSecrets", "nodeSelector", "tolerations"):
        assert pod["spec"].get(key) == deployment["spec"].get(key)
    weights = [int(made[kind]["metadata"]["annotations"]["helm.sh/hook-weight"]) for kind in ("Service", "Pod")]
    assert weights == sorted(set(weights)), "the Service comes first"


def test_a_release_without_an_operator_has_nothing_to_test(template):
    done = template({"operator": {"enabled": False}, "job": {"enabled": True, "spec": SMALL}}, words=[])
    assert done.returncode == 0 and NAME not in done.stdout


@pytest.mark.parametrize("values", [{}, OTHER], ids=["default", "other values"])
def test_the_api_server_takes_them_under_restricted_pod_security(hooks, kubectl, values):
    kubectl("create", "namespace", "tested")
    try:
        kubectl("label", "namespace", "tested", "pod-security.kubernetes.io/enforce=restricted")
        kubectl("-n", "tested", "create", "serviceaccount", "default", check=False)
        for item in hooks(values).values():
            item["metadata"]["namespace"] = "tested"
            kubectl("apply", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(item))
    finally:
        kubectl("delete", "namespace", "tested")


def test_helm_starts_the_pod_which_stays_after_a_failure(install, helm, kubectl):
    """No node is there, so the pod does not run: Helm waits for it, and fails."""
    install()
    done = helm("test", "horovod", "--kubeconfig", kubectl.kubeconfig, "--namespace", "default", "--timeout", "3s")
    try:
        assert done.returncode != 0 and re.search(r"^Phase: +Failed$", done.stdout, re.M), done.stdout
        assert kubectl("get", "services", NAME, check=False).returncode != 0
    finally:
        kubectl("delete", "pod", NAME)


def probe(url, timeout=60):
    return subprocess.run([OPERATOR, "--probe", url], capture_output=True, text=True, timeout=timeout, check=False)


def test_the_probe_succeeds_at_a_ready_operator_and_waits_for_one_that_is_not(tmp_path):
    with Fake(tmp_path) as fake, Operator(fake.kubeconfig(), tmp_path) as operator:
        url = f"http://127.0.0.1:{operator.port}/readyz"
        done = probe(url)  # begins before the operator listens, and waits for it
        assert (done.returncode, done.stdout) == (0, f"{url}: ok\n"), done.stderr
        assert probe(url).returncode == 0


def test_the_probe_takes_any_certificate(tmp_path):
    """As a kubelet does: the certificate names a Service or nothing."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other", "-days", "1",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=60)
    with Fake(tmp_path) as fake, Operator(fake.kubeconfig(), tmp_path, "--tls-cert-file", str(certificate), "--tls-key-file",
                                          str(key)) as operator:
        done = probe(f"https://127.0.0.1:{operator.port}/readyz")
        assert done.returncode == 0, done.stderr


def test_a_probe_of_what_is_no_url_fails_at_once_in_words():
    done = probe("ftp://127.0.0.1/readyz", timeout=5)
    assert done.returncode == 1 and "give an http or https URL" in done.stderr


def test_the_readme_has_the_commands():
    text = (CHART / "README.md").read_text()
    assert "helm test horovod\n" in text and f"kubectl logs {NAME}\n" in text
