"""A plugin of pytest: past HVD_SUITE_BUDGET_S seconds no further test of the suite is begun. Each of those fails with that reason,
and what the others found is reported, which it would not be if the suite were killed."""
import os
import time

import pytest

BEGIN = time.monotonic()
BUDGET_S = float(os.environ.get("HVD_SUITE_BUDGET_S", "inf"))


def pytest_runtest_setup(item):
    del item
    if time.monotonic() - BEGIN > BUDGET_S:
        pytest.fail(f"not begun: the suite took longer than {BUDGET_S:.0f} s", pytrace=False)
