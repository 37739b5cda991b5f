"""What several files of tests share: the packages, which are made once."""
import os

import pytest
from packages import TOOLS, call
from ranks import ROOT


@pytest.fixture(scope="session", name="made")
def fixture_made(tmp_path_factory):
    """The folder with the source distribution, the wheel that was built from it, and the repaired one."""
    folder = tmp_path_factory.mktemp("dist")
    call(TOOLS / "bin" / "python", "-m", "build", "--no-isolation", "--outdir", folder, ROOT / "worker" / "python")
    wheel, = folder.glob("*.whl")
    call(TOOLS / "bin" / "auditwheel", "repair", "--exclude", "libmpi.so.40", "-w", folder / "repaired", wheel,
         PATH=f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return folder
