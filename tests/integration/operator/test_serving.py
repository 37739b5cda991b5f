"""What the operator serves: metrics and health, over TLS if wanted; and what it logs."""
import re
import shutil
import ssl
import subprocess
import urllib.request

import pytest
import yaml

from kubeapi import until


def make_certificate(directory, name):
    """A self-signed certificate for 127.0.0.1 whose subject is name: the paths of certificate and key."""
    cert, key = directory / f"{name}.crt", directory / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return cert, key


def fetch(operator, cert, path="/metrics"):
    """The page over TLS, trusting that certificate alone; None when it is not the one that is served."""
    context = ssl.create_default_context(cafile=str(cert))
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{operator.port}{path}", context=context, timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return None


@pytest.fixture
def served(run_operator, tmp_path):
    """An operator that serves over TLS, its certificate's files, and the certificate."""
    first, first_key = make_certificate(tmp_path, "first")
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    shutil.copy(first, cert)
    shutil.copy(first_key, key)
    operator = run_operator("--tls-cert-file", cert, "--tls-key-file", key, wait=False)
    until("it serves", lambda: fetch(operator, first, "/readyz") == "ok\n")
    return operator, cert, key, first


def test_metrics_are_served_over_tls_and_not_without(served):
    operator, _, _, first = served
    assert "horovod_operator_build_info" in fetch(operator, first)
    assert operator.get("/metrics")[0] == 0


def test_a_certificate_that_changes_is_read_again(served, tmp_path):
    operator, cert, key, first = served
    second, second_key = make_certificate(tmp_path, "second")
    for source, target in ((second, cert), (second_key, key)):
        shutil.copy(source, tmp_path / "new")
        (tmp_path / "new").rename(target)
    until("the new one is served", lambda: fetch(operator, second, "/healthz") == "ok\n")
    assert fetch(operator, first) is None
    assert "the certificate was read again" in operator.log.read_text()


def test_a_certificate_that_cannot_be_used_leaves_the_old_one(served):
    operator, cert, _, first = served
    cert.write_text("nonsense")
    until("it says so", lambda: fetch(operator, first) and
          "the new certificate cannot be used, the old one stays" in operator.log.read_text())
    cert.unlink()
    for _ in range(3):
        assert "horovod_operator_build_info" in fetch(operator, first)


def test_a_key_that_does_not_fit_is_named_at_the_start(run_operator, tmp_path):
    (tmp_path / "x").write_text("no pem")
    operator = run_operator("--tls-cert-file", tmp_path / "x", "--tls-key-file", tmp_path / "x", wait=False)
    assert operator.process.wait(timeout=10) == 1
    assert "not a certificate and its key" in operator.log.read_text()
    missing = run_operator("--tls-cert-file", tmp_path / "missing", "--tls-key-file", tmp_path / "x", wait=False)
    assert missing.process.wait(timeout=10) == 1 and "/missing" in missing.log.read_text()


def test_metrics_tell_latencies_watches_jobs_and_the_process(ns, operator):
    ns.apply_job()
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    until("it is counted", lambda: operator.metric("horovod_operator_jobs", state="Running") == 1)
    count = "horovod_operator_api_request_seconds_count"
    assert operator.metric(count, verb="create") >= 5 and operator.metric(count, verb="list") >= 7
    assert operator.metric("horovod_operator_api_request_seconds_sum", verb="create") > 0
    assert operator.metric(count, verb="watch") == 0
    assert operator.metric("horovod_operator_watch_up") == 7
    assert operator.metric("horovod_operator_watch_age_seconds", resource="pods") < 60
    assert operator.metric("horovod_operator_leader") == 1
    assert operator.metric("horovod_operator_event_to_write_seconds_count") >= 1
    assert operator.metric("process_resident_memory_bytes") > 1e6
    assert operator.metric("process_cpu_seconds_total") > 0


def test_every_metric_has_help_and_a_type_and_no_series_is_there_twice(ns, operator):
    text = operator.get("/metrics")[1]
    typed = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    helped = set(re.findall(r"^# HELP (\S+) \S", text, re.M))
    series = [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]
    assert set(typed) == helped and len(series) == len(set(series))
    for one in series:
        name = one.split("{")[0]
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        assert name in typed or typed.get(base) == "histogram", one


def test_a_failure_that_repeats_is_logged_a_few_times_and_counted(server, run_operator, tmp_path):
    config = yaml.safe_load(open(server.kubeconfig))
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    operator = run_operator("--leader-elect", "--lease-namespace", "x", kubeconfig=tmp_path / "config", wait=False)
    until("it has failed often", lambda: operator.metric("horovod_operator_api_requests_total", code="0") > 60, 30)
    lines = [line for line in operator.log.read_text().splitlines() if "resource=pods" in line]
    assert 1 <= len(lines) <= 5


def test_a_token_that_is_refused_is_shown_nowhere(server, ns, run_operator, tmp_path):
    """Whatever the API server refuses, the log holds no credentials."""
    config = yaml.safe_load(open(server.kubeconfig))
    secret = "wrong-token-0123456789abcdef"
    config["users"][0]["user"] = {"token": secret}
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    operator = run_operator("--log-level", "debug", kubeconfig=tmp_path / "config", wait=False)
    until("it says why", lambda: "the API server does not know us" in operator.get("/readyz")[1])
    assert secret not in operator.log.read_text() + operator.get("/readyz")[1] + operator.get("/metrics")[1]
