"""horovod.run() and what calls the launcher from Python, for jobs of 1, 2 and 4 ranks; see ranks.py."""
import pytest
from ranks import assert_checked, assert_ended_well, checks_of


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("name", checks_of("runner"))
def test_functions_are_run_as_told(name, n):
    assert_checked("runner", n, name)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_program_of_all_checks_ends_well(n):
    assert_ended_well("runner", n)
