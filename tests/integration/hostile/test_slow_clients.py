"""Clients of the operator's own port that are slow, silent or many: the kubelet's probes are answered all the same."""
import contextlib
import http.client
import select
import socket
import ssl
import subprocess
import threading
import time

import pytest

import limits
from kubeapi import until
from tenants import LIMIT_S

N_PROBES = 12
PROBE_S = 1  # a kubelet's timeout on an idle machine, unless a probe sets another
N_SLOW = 40


def probe(operator):
    """Whether a probe with a kubelet's patience is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", operator.port, timeout=limits.seconds(PROBE_S))
    try:
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        return response.status == 200 and response.read() == b"ok\n"
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def connect(operator):
    """A connection, or None when the operator takes no more."""
    try:
        return socket.create_connection(("127.0.0.1", operator.port), timeout=1)
    except OSError:
        return None


class Clients(threading.Thread):
    """N clients that each do one step every period, and connect again when they are cut off, until stop()."""

    def __init__(self, operator, count, step, period_s):
        super().__init__()
        self.operator, self.step, self.period_s = operator, step, period_s
        self.sockets, self.turns, self.is_over = [None] * count, 0, threading.Event()

    def run(self):
        while not self.is_over.is_set():
            for i, client in enumerate(self.sockets):
                self.sockets[i] = self.one(client, self.turns)
            self.turns += 1
            self.is_over.wait(self.period_s)
        for client in filter(None, self.sockets):
            client.close()

    def one(self, client, turn):
        try:
            client = client or connect(self.operator)
            if client:
                client.settimeout(0.05)
                self.step(client, turn)
        except (BlockingIOError, TimeoutError):
            pass
        except OSError:
            client.close()
            client = None
        return client

    def __enter__(self):
        self.start()
        until("all are connected", lambda: self.turns >= 1, LIMIT_S)
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.join()


REQUEST = b"GET /metrics HTTP/1.1\r\nHost: operator\r\n" + b"X: y\r\n" * 1000


def one_byte(client, turn):
    client.sendall(REQUEST[turn % len(REQUEST):][:1])


def nothing(client, _):
    readable, _, _ = select.select([client], [], [], 0)
    if readable and not client.recv(1):
        raise ConnectionError("cut off")


def asks_and_never_reads(client, _):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: o\r\n\r\n" * 20)


def long_header(client, _):
    client.sendall(b"GET /" + b"a" * 100_000)


def garbage(client, _):
    client.sendall(b"\x16\x03\x01\xff\xff\x00\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")


def large_body(client, _):
    client.sendall(b"POST /healthz HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n" + b"x" * 50_000)


def half_closed(client, _):
    client.shutdown(socket.SHUT_WR)


CLIENTS = {"one byte at a time": (N_SLOW, one_byte, 3), "nothing": (400, nothing, 3), "never read": (N_SLOW, asks_and_never_reads, 1),
           "long headers": (N_SLOW, long_header, 0.5), "garbage": (N_SLOW, garbage, 0.2), "large bodies": (N_SLOW, large_body, 0.5),
           "half closed": (N_SLOW, half_closed, 0.2)}


def assert_probes(operator, pause_s=0.25):
    answers = []
    for _ in range(N_PROBES):
        answers.append(probe(operator))
        time.sleep(pause_s)  # a kubelet's period, shortened: the clients have time to be slow
    assert all(answers), f"{answers.count(True)} of {N_PROBES} probes were answered"


@pytest.fixture
def certificate(tmp_path):
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                    "-out", cert, "-days", "2", "-subj", "/CN=operator", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    return cert, key


@pytest.mark.parametrize("kind", CLIENTS)
def test_every_probe_is_answered_whatever_other_clients_do(operator, attack, bystander, kind):
    count, step, period_s = CLIENTS[kind]
    with attack(at_most=0):
        with Clients(operator, count, step, period_s):
            assert_probes(operator)
            bystander.succeeds()
        until("metrics are served again", lambda: operator.get("/metrics")[0] == 200, LIMIT_S)


def test_clients_of_all_kinds_at_once_for_a_while(operator, attack, bystander):
    with attack(at_most=0), contextlib.ExitStack() as stack:
        for count, step, period_s in CLIENTS.values():
            stack.enter_context(Clients(operator, count, step, period_s))
        assert_probes(operator, 1)
        bystander.succeeds()
        assert operator.metric("horovod_operator_watch_up") in (0, 7)  # 0: metrics have no room of their own


def test_handshakes_that_never_end_do_not_stop_probes_over_tls(run_operator, attack, bystander, certificate):
    cert, key = certificate
    operator = run_operator("--tls-cert-file", cert, "--tls-key-file", key, wait=False)
    context = ssl.create_default_context(cafile=str(cert))

    def is_answered():
        connection = http.client.HTTPSConnection("127.0.0.1", operator.port, timeout=PROBE_S, context=context)
        with contextlib.closing(connection):
            try:
                connection.request("GET", "/healthz")
                return connection.getresponse().status == 200
            except OSError:
                return False
    until("it serves", is_answered, LIMIT_S)
    with attack(at_most=0), Clients(operator, N_SLOW, one_byte, 3), Clients(operator, N_SLOW, nothing, 3):
        answers = []
        for _ in range(N_PROBES):
            answers.append(is_answered())
            time.sleep(0.25)
        assert all(answers), f"{answers.count(True)} of {N_PROBES} probes were answered"
        bystander.succeeds()
