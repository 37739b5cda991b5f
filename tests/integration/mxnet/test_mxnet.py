"""horovod.mxnet: every check at 1, 2 and 4 ranks, and beside the table of Horovod's interface. One job for each number of ranks."""
import functools
import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import ranks  # noqa: E402  (the path above)

OPS = "../mxnet/ops"  # beside the folders of horovod.torch
TABLE = ranks.ROOT / "tests" / "data" / "horovod_mxnet_api.json"
MXNET_PYTHON = str(ranks.CACHE / "python" / "mxnet-1.9.1" / "bin" / "python")
RANKS = [1, 2, 4]


@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize("name", ranks.checks_of(OPS))
def test_on_every_rank(name, n):
    ranks.assert_checked(OPS, n, name, MXNET_PYTHON)


@pytest.mark.parametrize("n", RANKS)
def test_the_job_of_all_checks_ends_well(n):
    ranks.assert_ended_well(OPS, n, MXNET_PYTHON)


def tool(program, *arguments):
    """What a program of the python suite prints, read as JSON."""
    done = subprocess.run([MXNET_PYTHON, ranks.HERE / program, *arguments], env=ranks.environment(), capture_output=True, text=True,
                          timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@functools.lru_cache(maxsize=1)
def compared():
    return tool("interface.py", TABLE)


@functools.lru_cache(maxsize=1)
def watched():
    return tool("witness.py", TABLE.name)


def entries():
    """What the table lists, as interface.py calls it."""
    kinds = {"exports": "export", "absent": "absent", "constants": "constant", "functions": "function", "classes": "class"}
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    listed = [f"{kind} {module}.{name}" for part, kind in kinds.items() for module, names in table[part].items() for name in names]
    return listed + [f"method {module}.{name}.{method}" for module, classes in table["classes"].items()
                     for name, entry in classes.items() for method in entry["methods"]]


@pytest.mark.parametrize("entry", entries())
def test_the_interface_is_horovods(entry):
    assert compared()[entry] is None, compared()[entry]


@pytest.mark.parametrize("entry", [entry for entry in entries() if entry.split()[0] in ("export", "function", "method")])
def test_checks_use_it_with_every_parameter_at_1_2_and_4_ranks(entry):
    """An entry without code of its own (a class, a constant) has nothing to watch."""
    for n in RANKS if entry in watched() else []:
        called = ranks.called_in(OPS, n, MXNET_PYTHON)
        assert entry in called, f"no check calls it at {n} ranks"
        missing = set(watched()[entry]) - called[entry]
        assert not missing, f"at {n} ranks no check gives another value than the default for {sorted(missing)}"
