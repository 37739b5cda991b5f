"""The bits that factors and averages give, against NumPy, by every way that data takes."""
import pytest
from ranks import TORCH_PYTHON, assert_checked, checks_of

FOLDER = "torch_factors"
WAYS = {"shared": {}, "mpi": {"HOROVOD_SHM": 0},
        "halving": {"HOROVOD_SHM": 0, "HOROVOD_MPI_ALLREDUCE": "rabenseifner"},
        "library": {"HOROVOD_SHM": 0, "HOROVOD_MPI_ALLREDUCE": "mpi"}}
JOBS = [("shared", n) for n in (1, 2, 3, 4)] + [("mpi", 3), ("halving", 4), ("library", 2)]


@pytest.mark.parametrize("way, n", JOBS)
@pytest.mark.parametrize("name", checks_of(FOLDER))
def test_bits(name, way, n):
    assert_checked(FOLDER, n, name, TORCH_PYTHON, **WAYS[way])
