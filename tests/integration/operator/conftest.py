import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from kubeapi import Namespace, until  # noqa: E402  (the path above)
from operator_process import PROGRAM, ROOT  # noqa: E402
from real_server import Operator, Server  # noqa: E402


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    assert PROGRAM.exists(), f"{PROGRAM} is not built: cmake --build --preset dev"
    server = Server(tmp_path_factory.mktemp("apiserver"))
    try:
        server.kubectl("apply", "-f", str(ROOT / "crds"))
        until("the CRD is served", lambda: server.kubectl("get", "horovodjobs", "-A", check=False).returncode == 0)
        yield server
    finally:
        server.down()


@pytest.fixture
def ns(server, request):
    """A namespace of the test's own, with its service account; deleted without waiting."""
    name = "t-" + request.node.name.split("[")[0].replace("_", "-")[5:50].strip("-") + f"-{next(Operator.numbers)}"
    server.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    namespace = Namespace(server.api, name)
    until("the service account", lambda: namespace.get("serviceaccounts", "default"))
    yield namespace
    server.api.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def run_operator(server, ns, tmp_path):
    """Starts operators for the test's namespace; all are stopped cleanly at its end."""
    started = []

    def run(*args, wait=True, kubeconfig=server.kubeconfig, **options):
        args = (["--kubeconfig", str(kubeconfig)] if kubeconfig else []) + ["--namespace", ns.name, *args]
        operator = Operator(tmp_path, *args, **options)
        started.append(operator)
        return operator.wait_ready() if wait else operator

    yield run
    for operator in started:
        if operator.process.poll() is None:
            operator.stop()
        assert "ERROR: " not in operator.log.read_text(), operator.log.read_text()


@pytest.fixture
def operator(run_operator):
    return run_operator()
