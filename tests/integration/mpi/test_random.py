"""Random programs over every real transport: mpi_random runs them, and has the oracle.

HOROVOD_TEST_PROGRAMS of each kind are run, 15 unless told, from seed HOROVOD_TEST_SEED on, 1 unless told.
"""

import os
import subprocess

import pytest
from test_mpi import PROGRAMS, mpirun
from test_two_hosts import hosts, run_on  # noqa: F401

COUNT = int(os.environ.get("HOROVOD_TEST_PROGRAMS", "15"))
SEED = int(os.environ.get("HOROVOD_TEST_SEED", "1"))
AT_ONCE = 300  # programs of a launch, which has two minutes
ALGORITHMS = ["auto", "doubling", "rabenseifner", "ring", "mpi"]


def run_programs(launch, **extra):
    """Runs all of them; launch(command, **environment) starts the ranks."""
    for first in range(SEED, SEED + COUNT, AT_ONCE):
        n = min(AT_ONCE, SEED + COUNT - first)
        try:
            result = launch(PROGRAMS / "mpi_random", str(first), str(n), HOROVOD_DYNAMIC_PROCESS_SETS="1", **extra)
        except subprocess.TimeoutExpired as late:
            pytest.fail(f"the last of these hangs: {(late.stdout or b'')[-200:]!r}")
        assert result.returncode == 0, result.stdout[-200:] + result.stderr[-4000:]
        assert result.stdout.count("seed ") == n, result.stdout[-1000:]


@pytest.mark.parametrize("n", [1, 2, 4])
def test_random_programs_over_shared_memory(n):
    run_programs(lambda *command, **env: mpirun(n, *command, **env))


@pytest.mark.parametrize("n, algorithm", [(2, "auto"), *((3, algorithm) for algorithm in ALGORITHMS), (5, "mpi")])
def test_random_programs_over_mpi_with_every_algorithm(n, algorithm):
    run_programs(lambda *command, **env: mpirun(n, *command, **env), HOROVOD_SHM="0", HOROVOD_MPI_ALLREDUCE=algorithm)


@pytest.mark.parametrize("spread, algorithm", [
    ((2, 2), "auto"), ((2, 2), "mpi"), ((1, 2), "ring"), ((3, 1), "doubling"), ((2, 1), "rabenseifner")])
def test_random_programs_over_two_hosts_with_every_algorithm(hosts, spread, algorithm):  # noqa: F811
    run_programs(lambda *command, **env: run_on(hosts, spread, *command, **env), HOROVOD_MPI_ALLREDUCE=algorithm)
