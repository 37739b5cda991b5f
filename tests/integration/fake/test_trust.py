"""Whose certificate the operator accepts. One authority is trusted by the whole system (otherroots.c), one by nobody;
a front that speaks TLS stands before the fake server, or is the proxy to it."""
import base64
import contextlib
import json
import socket
import ssl
import subprocess
import threading

import pytest

from fake import BUILD, OPERATOR, Operator, until

PRELOAD = BUILD / "tests/integration/fake/fake_otherroots.so"
REFUSED = "SSL certificate problem"


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)


class Authority:
    """An authority and a server's certificate of it for 127.0.0.1."""

    def __init__(self, directory, name):
        def path(suffix):
            return directory / f"{name}-{suffix}"
        self.ca, self.cert, self.key = path("ca.pem"), path("server.pem"), path("server.key")
        ca_key, request, extra = path("ca.key"), path("server.csr"), path("server.ext")
        new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        openssl(*new, "-x509", "-keyout", ca_key, "-out", self.ca, "-days", 2, "-subj", f"/CN={name}")
        openssl(*new, "-keyout", self.key, "-out", request, "-subj", "/CN=server")
        extra.write_text("subjectAltName=IP:127.0.0.1\n")
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", ca_key, "-CAcreateserial", "-out", self.cert,
                "-days", 2, "-extfile", extra)


class World:
    """Two authorities, and the directory in which the whole system finds one of them."""

    def __init__(self, directory):
        self.own, self.system = Authority(directory, "own"), Authority(directory, "system")
        self.roots = directory / "roots"
        self.roots.mkdir()
        (self.roots / "system.pem").write_bytes(self.system.ca.read_bytes())
        (self.roots / "ca-certificates.crt").write_bytes(self.system.ca.read_bytes())
        openssl("rehash", self.roots)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("trust"))


def pump(source, target):
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


class Front:
    """Speaks TLS with an authority's certificate and passes all on to the port; as a proxy it answers CONNECT first."""

    def __init__(self, authority, port, is_proxy=False):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(authority.cert, authority.key)
        self.target, self.is_proxy = port, is_proxy
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError):
            client = self.context.wrap_socket(client, server_side=True)
            head = b""
            while self.is_proxy and b"\r\n\r\n" not in head:
                head += client.recv(65536)
            server = socket.create_connection(("127.0.0.1", self.target))
            if self.is_proxy:
                client.sendall(b"HTTP/1.1 200 connected\r\n\r\n")
            threading.Thread(target=pump, args=(client, server), daemon=True).start()
            pump(server, client)

    def close(self):
        self.listener.close()


@pytest.fixture
def front():
    fronts = []

    def make(*args, **options):
        fronts.append(Front(*args, **options))
        return fronts[-1]
    yield make
    for one in fronts:
        one.close()


def kubeconfig(directory, url, user=None, **cluster):
    path = directory / "kubeconfig"
    path.write_text(json.dumps({
        "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "front", "user": "u"}}],
        "clusters": [{"name": "front", "cluster": {"server": url, **cluster}}],
        "users": [{"name": "u", "user": user or {}}]}))
    return path


def environment(world, **more):
    linked = subprocess.run(["ldd", OPERATOR], text=True, capture_output=True, check=False).stdout
    first = [word for line in linked.splitlines() for word in line.split() if "/libasan" in word][:1]
    return {"HVD_OTHERROOTS": str(world.roots), "LD_PRELOAD": " ".join([*first, str(PRELOAD)]),
            **{key: str(value) for key, value in more.items()}}


def is_accepted(operator):
    """Whether it gets its lists; False once it has refused the certificate."""
    until(lambda: f"it has decided: {operator.log.read_text()[-2000:]}",
          lambda: REFUSED in operator.log.read_text() or operator.get("/readyz")[0] == 200)
    return operator.get("/readyz")[0] == 200


def authority_of(authority, form):
    """The kubeconfig's keys for an authority."""
    if form == "data":
        return {"certificate-authority-data": base64.b64encode(authority.ca.read_bytes()).decode()}
    return {"certificate-authority": str(authority.ca)} if form == "file" else {}


@pytest.mark.parametrize("form, signer, accepted", [
    ("none", "system", True), ("none", "own", False), ("file", "own", True), ("data", "own", True),
    ("file", "system", False), ("data", "system", False)])
def test_an_authority_that_is_named_is_the_only_one(fake, tmp_path, world, front, form, signer, accepted):
    server = front(getattr(world, signer), fake.port)
    config = kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", **authority_of(world.own, form))
    with Operator(config, tmp_path, environment=environment(world)) as operator:
        assert is_accepted(operator) == accepted
        assert operator.stop() == 0
    assert bool(fake.requests()) == accepted


def test_a_file_of_authorities_that_is_replaced_is_read_again(fake, tmp_path, world, front):
    server, authorities = front(world.own, fake.port), tmp_path / "authorities.pem"
    authorities.write_bytes(world.system.ca.read_bytes())
    config = kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", **{"certificate-authority": str(authorities)})
    with Operator(config, tmp_path, environment=environment(world)) as operator:
        assert not is_accepted(operator)
        authorities.write_bytes(world.own.ca.read_bytes())
        until("the new authority counts", lambda: operator.get("/readyz")[0] == 200, 90)
        assert operator.stop() == 0


@pytest.mark.parametrize("variable", ["SSL_CERT_DIR", "SSL_CERT_FILE", "CURL_CA_BUNDLE"])
@pytest.mark.parametrize("form", ["file", "data"])
def test_no_variable_of_the_environment_adds_an_authority(fake, tmp_path, world, front, form, variable):
    server = front(world.system, fake.port)
    config = kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", **authority_of(world.own, form))
    value = world.roots if variable == "SSL_CERT_DIR" else world.system.ca
    with Operator(config, tmp_path, environment=environment(world, **{variable: value})) as operator:
        assert not is_accepted(operator)


@pytest.mark.parametrize("signer, accepted", [("own", True), ("system", False)])
@pytest.mark.parametrize("place", ["kubeconfig", "environment"])
def test_a_proxy_is_verified_like_the_server(fake, tmp_path, world, front, place, signer, accepted):
    server = front(world.own, fake.port)
    proxy = f"https://127.0.0.1:{front(getattr(world, signer), server.port, is_proxy=True).port}"
    config = kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", **authority_of(world.own, "file"),
                        **({"proxy-url": proxy} if place == "kubeconfig" else {}))
    variables = {"HTTPS_PROXY": proxy, "NO_PROXY": ""} if place == "environment" else {}
    with Operator(config, tmp_path, environment=environment(world, **variables)) as operator:
        assert is_accepted(operator) == accepted


def test_a_server_that_is_not_verified_is_warned_of(fake, tmp_path, world, front):
    server = front(world.own, fake.port)
    config = kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", **{"insecure-skip-tls-verify": True})
    with Operator(config, tmp_path, environment=environment(world)) as operator:
        assert is_accepted(operator)
        warnings = [line for line in operator.log.read_text().splitlines() if "level=warn" in line]
        assert len(warnings) == 1 and "certificate is not verified" in warnings[0]
        assert f"config={config}" in warnings[0] and "cluster=front" in warnings[0]
        assert "certificate-authority" in warnings[0]


def test_an_authority_and_no_verification_contradict_each_other(tmp_path, world):
    config = kubeconfig(tmp_path, "https://127.0.0.1:1", **authority_of(world.own, "file"),
                        **{"insecure-skip-tls-verify": True})
    with Operator(config, tmp_path) as operator:
        assert operator.process.wait(timeout=20) == 1
        assert "contradict each other" in operator.log.read_text()


def test_a_token_that_leaves_unencrypted_is_warned_of(fake, tmp_path):
    for token, n_warnings in (("secret-token", 1), (None, 0)):
        with Operator(fake.kubeconfig(token=token), tmp_path) as operator:
            operator.wait_ready()
            text = operator.log.read_text()
            assert text.count("the token is sent to the API server unencrypted") == n_warnings
            assert "secret-token" not in text
            assert operator.stop() == 0
