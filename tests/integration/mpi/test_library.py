"""libhorovod.so as others load it: at run time, from C and from Python."""
import os
import pathlib
import sys

import pytest

from test_mpi import mpirun

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()
LIBRARY = BUILD / "worker" / "libhorovod.so"

PYTHON = f"""
import ctypes
import os
library = ctypes.CDLL({str(LIBRARY)!r})
library.horovod_version.restype = ctypes.c_char_p
library.horovod_init.restype = ctypes.c_bool
assert library.horovod_rank() == -1 and library.horovod_is_initialized() == 0
assert library.horovod_init(None, 0, None, None, 0)
version = library.horovod_version().decode()
os.write(1, f"rank {{library.horovod_rank()}} of {{library.horovod_size()}}: {{version}}\\n".encode())  # ranks share it
library.horovod_shutdown()
"""

pytestmark = pytest.mark.skipif(
    "san" in BUILD.name, reason="a sanitizer must be there before the library is opened, and knows no names after it")


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("mpi", [[], ["libmpi.so.40"]], ids=["", "and_closes_it_before_it_finalises_mpi"])
def test_a_c_program_opens_it_at_run_time(n, mpi):
    done = mpirun(n, BUILD / "tests" / "integration" / "mpi" / "mpi_dlopen", LIBRARY, *mpi)
    assert done.returncode == 0, done.stdout + done.stderr
    total = n * (n + 1) // 2
    assert sorted(done.stdout.split("\n")) == ["", *(f"rank {rank} of {n}: {total}" for rank in range(n))]


@pytest.mark.parametrize("n", [1, 2])
def test_python_opens_it_with_ctypes(n):
    done = mpirun(n, sys.executable, "-c", PYTHON)
    assert done.returncode == 0, done.stdout + done.stderr
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    assert sorted(done.stdout.split("\n")) == ["", *(f"rank {rank} of {n}: {version}" for rank in range(n))]
