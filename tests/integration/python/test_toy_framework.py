"""A third framework is one folder: its adapter is all that the operations need, and nothing else names a framework."""
import re

import pytest
from ranks import PYTHON, ROOT, assert_checked, assert_ended_well, checks_of

FRAMEWORKS = re.compile(r"\b(torch|numpy|tensorflow|keras|mxnet|jax)\b")  # as modules are named; texts may say PyTorch
SHARED = [ROOT / "worker" / "python" / "core", ROOT / "worker" / "python" / "horovod" / "common"]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", checks_of("toy_framework"))
def test_a_framework_that_nobody_knows(name, n):
    assert_checked("toy_framework", n, name, PYTHON)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_job_ends_well(n):
    assert_ended_well("toy_framework", n, PYTHON)


def test_what_frameworks_share_names_none():
    named = [f"{path.name}:{number}: {line.strip()}" for folder in SHARED for path in sorted(folder.glob("*.*"))
             for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if FRAMEWORKS.search(line)]
    assert not named, "\n".join(named)
