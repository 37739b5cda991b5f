"""A plugin of pytest for the suites of script/test.

Past HVD_SUITE_BUDGET_S seconds no further test of the suite is begun. Each of those fails with that reason, and what the others
found is reported, which it would not be if the suite were killed. What a selection takes out is written to the file
HVD_LEFT_OUT, a name in a line. Limits of time for processes and connections, and the budget, grow with the machine (limits.py).
"""
import os
import pathlib
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import limits  # noqa: E402  (the path above)

BEGIN = time.monotonic()
BUDGET_S = float(os.environ.get("HVD_SUITE_BUDGET_S", "inf"))
slowest = 1.0  # that the machine was when a test began


def pytest_runtest_setup(item):
    del item
    global slowest  # pylint: disable=global-statement
    slowest = max(slowest, limits.slowness())
    if time.monotonic() - BEGIN > BUDGET_S * slowest:
        pytest.fail(f"not begun: the suite took longer than {BUDGET_S * slowest:.0f} s", pytrace=False)


def pytest_configure():
    limits.grow_those_of_processes()
    limits.grow_those_of_connections()


def pytest_deselected(items):
    path = os.environ.get("HVD_LEFT_OUT")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.writelines(f"{item.path.stem}: {item.name}\n" for item in items)
