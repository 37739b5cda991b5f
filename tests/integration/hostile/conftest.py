"""What a hostile tenant may do to the others: nothing. Each test attacks the operator on a real API server, and asserts with
`attack` that another tenant's job reaches Succeeded meanwhile and that the operator's writes stay below a bound."""
import collections
import contextlib
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from kubeapi import Namespace, until  # noqa: E402  (the path above)
from operator_process import PROGRAM, ROOT  # noqa: E402
from real_server import Operator, Server  # noqa: E402
from tenants import Bystander, WRITES_OF_A_LIFE  # noqa: E402


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
def new_namespace(server):
    """Makes namespaces of the test's own; deleted without waiting."""
    made = []

    def make(word):
        name = f"{word}-{next(Operator.numbers)}"
        server.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        made.append(name)
        namespace = Namespace(server.api, name)
        until("the service account", lambda: namespace.get("serviceaccounts", "default"), 60)
        return namespace

    yield make
    for name in made:
        server.api.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def ns(new_namespace):
    """The namespace of the hostile tenant."""
    return new_namespace("hostile")


@pytest.fixture
def bystander(new_namespace):
    """The other tenant."""
    return Bystander(new_namespace("bystander"))


@pytest.fixture
def run_operator(server, tmp_path):
    """Starts an operator for all namespaces; each is stopped cleanly at the end."""
    started = []

    def run(*args, wait=True, kubeconfig=server.kubeconfig, **options):
        operator = Operator(tmp_path, "--kubeconfig", str(kubeconfig), *args, **options)
        started.append(operator)
        return operator.wait_ready(60) if wait else operator

    yield run
    for operator in started:
        if operator.process.poll() is None:
            operator.stop()
        assert "ERROR: " not in operator.log.read_text(), operator.log.read_text()[-8000:]


@pytest.fixture
def operator(run_operator):
    return run_operator()


@pytest.fixture
def attack(server, ns, bystander):
    """A context in which the tenant attacks: at its end a job of the bystander must have succeeded in it, and the operator
    must have written at most so often in the tenant's namespace, and nowhere else but for the bystander."""
    used = []

    @contextlib.contextmanager
    def begin(at_most):
        since, lives = server.audit_size(), bystander.lives
        used.append(at_most)
        yield
        assert bystander.lives > lives, "no job of the bystander was run during the attack"
        most = {ns.name: at_most, bystander.ns.name: WRITES_OF_A_LIFE * (bystander.lives - lives)}
        writes = collections.defaultdict(list)
        for place, write in server.all_writes(since):
            writes[place].append(write)
        for place, limit in most.items():
            assert len(writes[place]) <= limit, f"{len(writes[place])} writes in {place}: {collections.Counter(writes[place])}"

    yield begin
    assert used, "the test attacked nothing"
