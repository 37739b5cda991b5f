import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "tests/fake"), str(ROOT / "tests/support")]

from fake import Fake, PROGRAM  # noqa: E402  (the path above)


@pytest.fixture
def fake(tmp_path):
    """A fake API server of the test's own."""
    assert PROGRAM.exists(), f"{PROGRAM} is not built: cmake --build --preset dev"
    server = Fake(tmp_path)
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="session")
def real(tmp_path_factory):
    """The kubeconfig of a real kube-apiserver with controllers, without nodes."""
    directory = tmp_path_factory.mktemp("apiserver")
    program = ROOT / "tests/cluster/apiserver"
    done = subprocess.run([program, "up", directory, "--with-controllers"], check=True, stdout=subprocess.PIPE, text=True,
                          timeout=1500)
    yield done.stdout.strip().splitlines()[-1]
    subprocess.run([program, "down", directory], check=True, timeout=60, stdout=subprocess.DEVNULL)
