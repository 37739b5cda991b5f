"""What the tests of horovodrun share: the program, a way to run it, and two emulated hosts."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import limits  # noqa: E402
from emulated_hosts import emulated_hosts, wait_for  # noqa: E402, F401 (tests import wait_for from here)
from processes import own_processes_with, processes_with, uts_space  # noqa: E402, F401 (and these)

BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()
HOROVODRUN = BUILD / "worker" / "horovodrun"
TIMEOUT_S = 60


class Result:
    """How a run of horovodrun ended."""

    def __init__(self, done, seconds):
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr
        self.last = done.stderr.rstrip("\n").rsplit("\n", 1)[-1]
        self.seconds = seconds

    def __repr__(self):
        return f"exit {self.code} after {self.seconds:.1f} s\n{self.out}\n--- stderr\n{self.err}"


@pytest.fixture
def run():
    """run(*arguments, env={}, prefix=[], **kw) runs horovodrun to its end."""
    assert HOROVODRUN.exists(), f"{HOROVODRUN} is not built"

    def call(*arguments, env=None, before=(), **options):
        started = time.monotonic()
        done = subprocess.run(
            [*before, str(HOROVODRUN), *map(str, arguments)],
            env={**os.environ, **(env or {})}, text=True, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=limits.seconds(TIMEOUT_S), check=False, **options)
        return Result(done, time.monotonic() - started)

    return call


@pytest.fixture(scope="session")
def hosts(tmp_path_factory):
    """Two emulated hosts, both up."""
    with emulated_hosts(tmp_path_factory.mktemp("hosts")) as both:
        yield both


@pytest.fixture
def script(tmp_path):
    """script(text) is the path of an executable Python program with that text."""
    def write(text, name="program"):
        path = tmp_path / name
        path.write_text("#!/usr/bin/python3\n" + text)
        path.chmod(0o755)
        return path

    return write
