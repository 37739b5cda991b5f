"""Every kind of tensor in every collective of horovod.torch."""
import pytest
from ranks import TORCH_PYTHON, assert_checked, assert_ended_well, checks_of


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("name", checks_of("torch_kinds"))
def test_kinds(name, n):
    assert_checked("torch_kinds", n, name, TORCH_PYTHON)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_job_ends_well(n):
    assert_ended_well("torch_kinds", n, TORCH_PYTHON)
