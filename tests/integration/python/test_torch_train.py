"""Training with horovod.torch at 1 to 4 ranks: optimizers, SyncBatchNorm, what ranks tell each other, elastic."""
import pytest
import ranks

FOLDER = "torch_train"


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ranks.checks_of(FOLDER))
def test_training(name, n):
    ranks.assert_checked(FOLDER, n, name, ranks.TORCH_PYTHON)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_job_ends_well(n):
    ranks.assert_ended_well(FOLDER, n, ranks.TORCH_PYTHON)
