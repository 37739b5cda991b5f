"""The package beside Horovod's interface, as tables list it: names, parameters and defaults, and that each is used, with
every parameter, by checks at 1, 2 and 4 ranks; and the errors that Horovod documents, which checks must have got."""
import functools
import json
import re

import pytest

from ranks import PYTHON, ROOT, TORCH_PYTHON, assert_used, called_in, entries, errors_in, tool, used_entries

TABLE = ROOT / "tests" / "data" / "horovod_torch_api.json"
ERRORS = ROOT / "tests" / "data" / "horovod_errors.json"
JOBS = (("core", PYTHON), ("runner", PYTHON), ("torch_ops", TORCH_PYTHON), ("torch_train", TORCH_PYTHON))
RANKS = [1, 2, 4]


@functools.lru_cache(maxsize=1)
def compared():
    return tool(TORCH_PYTHON, "interface.py", TABLE)


@functools.lru_cache(maxsize=1)
def watched():
    return tool(TORCH_PYTHON, "witness.py", TABLE.name)


@functools.lru_cache(maxsize=None)
def called(n):
    """{entry: parameters} of what checks called in jobs of n ranks."""
    union = {}
    for folder, python in JOBS:
        for entry, parameters in called_in(folder, n, python).items():
            union.setdefault(entry, set()).update(parameters)
    return union


@pytest.mark.parametrize("entry", entries(TABLE))
def test_the_interface_is_horovods(entry):
    assert compared()[entry] is None, compared()[entry]


@pytest.mark.parametrize("entry", used_entries(TABLE))
def test_checks_use_it_with_every_parameter_at_1_2_and_4_ranks(entry):
    for n in RANKS:
        assert_used(entry, called(n), watched(), n)


def errors():
    return [pytest.param(row, id=f"{row['type']}: {row['text'][:60]}") for row in json.loads(ERRORS.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("row", errors())
def test_checks_get_every_documented_error_and_their_jobs_go_on(row):
    """After each check the ranks reduce something, else it has failed; see checks.py."""
    text = ".*".join(map(re.escape, row["text"].split("…")))
    for n in (n for n in RANKS if n >= row.get("ranks", 1)):
        got = {error for folder, python in JOBS for error in errors_in(folder, n, python)}
        assert any(kind == row["type"] and re.fullmatch(text, said, re.S) for kind, said in got), f"no check got it at {n} ranks"
