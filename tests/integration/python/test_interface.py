"""The package beside Horovod's interface, as tables list it: names, parameters and defaults, and that each is used, with
every parameter, by checks at 1, 2 and 4 ranks; and the errors that Horovod documents, which checks must have got."""
import functools
import json
import re
import subprocess

import pytest

from ranks import HERE, PYTHON, ROOT, TORCH_PYTHON, called_in, environment, errors_in

TABLE = ROOT / "tests" / "data" / "horovod_torch_api.json"
ERRORS = ROOT / "tests" / "data" / "horovod_errors.json"
JOBS = (("core", PYTHON), ("runner", PYTHON), ("torch_ops", TORCH_PYTHON), ("torch_train", TORCH_PYTHON))
RANKS = [1, 2, 4]


def table():
    return json.loads(TABLE.read_text(encoding="utf-8"))


def entries():
    """What the table of Horovod's interface lists, as interface.py calls it."""
    kinds = {"exports": "export", "absent": "absent", "constants": "constant", "functions": "function",
             "classes": "class"}
    listed = [f"{kind} {module}.{name}" for part, kind in kinds.items()
              for module, names in table()[part].items() for name in names]
    return listed + [f"method {module}.{name}.{method}" for module, classes in table()["classes"].items()
                     for name, entry in classes.items() for method in entry["methods"]]


def tool(program, *arguments):
    """What a program of this folder prints, read as JSON."""
    done = subprocess.run([TORCH_PYTHON, HERE / program, *arguments], env=environment(), capture_output=True, text=True,
                          timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@functools.lru_cache(maxsize=1)
def compared():
    return tool("interface.py", TABLE)


@functools.lru_cache(maxsize=1)
def watched():
    return tool("witness.py")


@functools.lru_cache(maxsize=None)
def called(n):
    """{entry: parameters} of what checks called in jobs of n ranks."""
    union = {}
    for folder, python in JOBS:
        for entry, parameters in called_in(folder, n, python).items():
            union.setdefault(entry, set()).update(parameters)
    return union


@pytest.mark.parametrize("entry", entries())
def test_the_interface_is_horovods(entry):
    assert compared()[entry] is None, compared()[entry]


@pytest.mark.parametrize("entry", [entry for entry in entries() if entry.split()[0] in ("export", "function", "method")])
def test_checks_use_it_with_every_parameter_at_1_2_and_4_ranks(entry):
    """An entry without code of its own (a class, a constant, a method that is inherited) has nothing to watch."""
    for n in RANKS if entry in watched() else []:
        assert entry in called(n), f"no check calls it at {n} ranks"
        missing = set(watched()[entry]) - called(n)[entry]
        assert not missing, f"at {n} ranks no check gives another value than the default for {sorted(missing)}"


def errors():
    return [pytest.param(row, id=f"{row['type']}: {row['text'][:60]}") for row in json.loads(ERRORS.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("row", errors())
def test_checks_get_every_documented_error_and_their_jobs_go_on(row):
    """After each check the ranks reduce something, else it has failed; see checks.py."""
    text = ".*".join(map(re.escape, row["text"].split("…")))
    for n in (n for n in RANKS if n >= row.get("ranks", 1)):
        got = {error for folder, python in JOBS for error in errors_in(folder, n, python)}
        assert any(kind == row["type"] and re.fullmatch(text, said, re.S) for kind, said in got), f"no check got it at {n} ranks"
