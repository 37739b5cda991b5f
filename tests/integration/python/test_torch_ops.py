"""The collectives of horovod.torch, and its interface beside Horovod's."""
import functools
import json
import subprocess

import pytest

from ranks import HERE, ROOT, TORCH_PYTHON, assert_checked, assert_ended_well, checks_of, environment, mpirun

TABLE = ROOT / "tests" / "data" / "horovod_torch_api.json"


def entries():
    """What the table of Horovod's interface lists, as interface.py calls it."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    kinds = {"exports": "export", "absent": "absent", "constants": "constant", "functions": "function",
             "classes": "class"}
    listed = [f"{kind} {module}.{name}" for part, kind in kinds.items()
              for module, names in table[part].items() for name in names]
    return listed + [f"method {module}.{name}.{method}" for module, classes in table["classes"].items()
                     for name, entry in classes.items() for method in entry["methods"]]


@functools.lru_cache(maxsize=1)
def compared():
    done = subprocess.run([TORCH_PYTHON, HERE / "torch_ops" / "interface.py", TABLE], env=environment(),
                          capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("entry", entries())
def test_the_interface_is_horovods(entry):
    assert compared()[entry] is None, compared()[entry]


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("name", checks_of("torch_ops"))
def test_on_every_rank(name, n):
    assert_checked("torch_ops", n, name, TORCH_PYTHON)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_job_of_all_checks_ends_well(n):
    assert_ended_well("torch_ops", n, TORCH_PYTHON)


def ending(way, n):
    return mpirun(n, TORCH_PYTHON, HERE / "torch_ops" / "endings.py", way)


def test_functions_say_when_there_is_no_job():
    done = ending("before", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    said = {" ".join(words[:2]): words[2] for words in (line.split(" ", 2) for line in done.stdout.splitlines())}
    text = "Horovod has not been initialized; use hvd.init()."
    for time in ("before", "after"):
        for name in ("size", "rank"):
            assert said[f"{time} {name}"] == f"ValueError {text}"
        for name in ("allreduce", "allreduce_", "allgather", "broadcast", "alltoall", "join", "barrier"):
            kind, _, rest = said[f"{time} {name}"].partition(" ")
            assert kind in ("HorovodInternalError", "ValueError") and rest == text, said


@pytest.mark.parametrize("n", [1, 2])
def test_a_script_may_end_with_operations_that_nobody_waits_for(n):
    done = ending("pending", n)
    assert done.returncode == 0 and done.stdout.count("ends") == n, done.stdout + done.stderr


def test_an_exception_on_one_rank_ends_the_wait_of_the_others():
    done = ending("exception", 2)
    assert done.returncode != 0
    assert "KeyError: 'a mistake of the script'" in done.stderr, done.stderr
