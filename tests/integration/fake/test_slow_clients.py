"""Clients of the health server that are slow, silent, greedy or many: probes are answered, nothing is left behind."""
import os
import socket
import ssl
import subprocess

import pytest

from fake import Operator, until
from slow_clients import HEADER, SlowClients, allow_descriptors, probe

PROBES = 12
MOST = 512 + 128  # and what is just being accepted and closed


def n_clients(operator):
    """The descriptors that the operator has open for clients, whatever their state is."""
    inodes = set()
    for line in open("/proc/net/tcp", encoding="utf-8").read().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].split(":")[1], 16) == operator.port and fields[3] != "0A":
            inodes.add(f"socket:[{fields[9]}]")
    directory = f"/proc/{operator.process.pid}/fd"
    n = 0
    for name in os.listdir(directory):
        try:
            n += os.readlink(f"{directory}/{name}") in inodes
        except FileNotFoundError:
            pass  # closed meanwhile
    return n


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    cert, key = directory / "tls.crt", directory / "tls.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=operator",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return cert, key


@pytest.fixture(params=["http", "https"])
def served(request, fake, tmp_path):
    """An operator that is ready, and the TLS context of its clients, None without TLS."""
    args, context = [], None
    if request.param == "https":
        cert, key = request.getfixturevalue("certificate")
        args = ["--tls-cert-file", str(cert), "--tls-key-file", str(key)]
        context = ssl.create_default_context(cafile=str(cert))
    with Operator(fake.kubeconfig(), tmp_path, *args) as operator:
        until("it is ready", lambda: probe(operator.port, "/readyz", context) == 200)
        yield operator, context
        assert operator.stop() == 0


def kinds_of(context):
    return ("silent", "header", "handshake") if context else ("silent", "header", "reader", "idle")


@pytest.mark.parametrize("count", [40, 200, 2000])
def test_every_probe_is_answered_while_clients_are_slow(fake, served, count):
    operator, context = served
    if not allow_descriptors(count + 200):
        pytest.skip(f"this machine does not let a process have {count + 200} descriptors")
    for kind in kinds_of(context):
        with SlowClients(operator.port, kind, count) as clients:
            answers = [probe(operator.port, "/healthz", context) for _ in range(PROBES)]
            assert answers == [200] * PROBES, f"{kind}: {answers}"
            assert n_clients(operator) <= MOST
            fake.apply_job(f"beside-{kind}", replicas=2)
            fake.wait_state("Succeeded", f"beside-{kind}")
            assert clients.made >= count, "the test itself must have made them"
    until(lambda: f"its descriptors are closed, {n_clients(operator)} are not", lambda: n_clients(operator) == 0)


@pytest.mark.parametrize("served, kind", [("http", "header"), ("http", "reader"), ("http", "idle"), ("https", "silent"),
                                          ("https", "handshake")], indirect=["served"])
def test_a_connection_that_gets_nowhere_is_closed_however_busy_it_looks(served, kind):
    operator, context = served
    with SlowClients(operator.port, kind, 1) as clients:
        until("it was closed", lambda: clients.made > 1 or n_clients(operator) == 0, 40)
    assert probe(operator.port, "/healthz", context) == 200


def test_probes_are_answered_with_few_descriptors(fake, tmp_path):
    few = ("sh", "-c", 'ulimit -n 64; exec "$@"', "sh")
    with Operator(fake.kubeconfig(), tmp_path, command=few) as operator:
        operator.wait_ready()
        with SlowClients(operator.port, "silent", 300):
            answers = [probe(operator.port) for _ in range(PROBES)]
            assert answers == [200] * PROBES
            fake.apply_job()
            fake.wait_state("Succeeded")
        assert operator.stop() == 0


def test_endless_headers_and_bodies_are_refused(fake, tmp_path):
    with Operator(fake.kubeconfig(), tmp_path) as operator:
        operator.wait_ready()
        for head, codes in ((HEADER, (b"431", b"413", b"400")),
                            (b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n", (b"413",)),
                            (b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", (b"413",))):
            with socket.create_connection(("127.0.0.1", operator.port), timeout=20) as client:
                client.sendall(head)
                n_sent, answer = 0, b""
                with pytest.raises(OSError):
                    while n_sent < 1 << 30:
                        n_sent += client.send(b"x" * 65536)
                assert n_sent < 1 << 26
                try:
                    answer = client.recv(65536)
                except OSError:
                    pass  # the reset overtook it
                assert not answer or answer.split(b" ", 2)[1] in codes
        assert operator.get("/healthz") == (200, "ok\n")
        assert operator.stop() == 0


def test_requests_one_behind_the_other_are_all_answered(fake, tmp_path):
    with Operator(fake.kubeconfig(), tmp_path) as operator:
        operator.wait_ready()
        with socket.create_connection(("127.0.0.1", operator.port), timeout=20) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 50 +
                           b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answers = b""
            while piece := client.recv(65536):
                answers += piece
        assert answers.count(b"HTTP/1.1 200") == 51
        assert operator.stop() == 0


def test_connections_that_were_closed_are_counted(fake, tmp_path):
    with Operator(fake.kubeconfig(), tmp_path) as operator:
        operator.wait_ready()
        name = "horovod_operator_http_connections_closed_total"
        with SlowClients(operator.port, "silent", 600):
            until("it made room", lambda: operator.metric(name, reason="room") > 0)
            assert 0 < operator.metric("horovod_operator_http_connections") <= 512
        with SlowClients(operator.port, "silent", 1):
            until("one was overdue", lambda: operator.metric(name, reason="deadline") > 0, 30)
        assert "too many clients are connected" in operator.log.read_text()
        assert operator.stop() == 0
