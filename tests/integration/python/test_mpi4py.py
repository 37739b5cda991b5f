"""Programs that use MPI themselves, through mpi4py, and say who is in the job: init(comm=...) and process sets."""
import sys

import pytest
from ranks import PYTHON, ROOT, environment, mpirun

sys.path.insert(0, str(ROOT / "tests" / "support"))

import openmpi  # noqa: E402

BEGIN = """
import numpy as np
from mpi4py import MPI
import horovod.numpy as hvd

world = MPI.COMM_WORLD


def tell(*words):
    for line in world.gather(" ".join(map(str, words))) or ():
        print(line)
    world.barrier()  # the first rank that ends its job ends it for all


"""


def lines(program, n):
    """What the ranks told, in their order; every one ended well."""
    done = mpirun(n, PYTHON, "-c", BEGIN + program)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_a_program_that_began_mpi_goes_on_with_it_during_the_job_and_afterwards():
    assert lines("""
before = world.allreduce(world.rank)
hvd.init(comm=world)
assert (hvd.rank(), hvd.size()) == (world.rank, world.size)
handle = hvd.allreduce_async(np.ones(2), op=hvd.Sum)
during = world.allgather(hvd.rank())
reduced = hvd.synchronize(handle).tolist()
hvd.shutdown()
assert not MPI.Is_finalized()
tell(before, during, reduced, world.allreduce(1))
""", 3) == ["3 [0, 1, 2] [3.0, 3.0] 3"] * 3


def test_a_program_that_began_mpi_need_not_name_a_communicator():
    assert lines("hvd.init()\ntell(hvd.rank() == world.rank, hvd.allreduce(np.ones(1), op=hvd.Sum)[0])", 2) == ["True 2.0"] * 2


def test_the_members_of_a_communicator_are_a_job():
    """Two jobs side by side, whose ranks count from 0; one of them numbers its ranks from the end."""
    assert lines("""
half = world.Split(world.rank % 2, world.rank if world.rank % 2 else -world.rank)
hvd.init(comm=half)
half.Free()
tell(world.rank, hvd.rank(), hvd.size(), hvd.allreduce(np.full(1, world.rank), op=hvd.Sum)[0])
""", 4) == ["0 1 2 2", "1 0 2 4", "2 0 2 2", "3 1 2 4"]


def test_a_list_of_ranks_is_a_job_of_them_and_the_others_are_told():
    assert lines("""
try:
    hvd.init(comm=[0, 2])
    tell(world.rank, hvd.rank(), hvd.size(), hvd.allreduce(np.full(1, world.rank), op=hvd.Sum)[0])
    hvd.shutdown()
except ValueError as error:
    tell(world.rank, "none of the 2 ranks" in str(error), hvd.is_initialized())
world.barrier()
hvd.init()
tell("all", hvd.size())
""", 3) == ["0 0 2 2", "1 True False", "2 1 2 2", "all 3", "all 3", "all 3"]


def test_communicators_are_process_sets():
    assert lines("""
pair = hvd.ProcessSet(world.Split(world.rank // 2, world.rank))
first = hvd.ProcessSet([0, 3])
hvd.init(comm=world, process_sets=[pair, first])
total = hvd.allreduce(np.full(1, world.rank), op=hvd.Sum, process_set=pair)[0]
tell(world.rank, pair.ranks, pair.rank(), total, first.ranks, first.included())
""", 4) == ["0 [0, 1] 0 1 [0, 3] True", "1 [0, 1] 1 1 [0, 3] False", "2 [2, 3] 0 5 [0, 3] False", "3 [2, 3] 1 5 [0, 3] True"]


def test_a_communicator_without_a_job_is_refused():
    assert lines("""
for bad in (MPI.COMM_NULL, [0, 7], [0, 0]):
    try:
        hvd.init(comm=bad)
        raise AssertionError(bad)
    except ValueError as error:
        assert str(error).startswith("Horovod initialization failed."), error
try:
    hvd.init(process_sets=[hvd.ProcessSet(world)])
except NotImplementedError as error:
    tell("communicator" in str(error))
""", 2) == ["True"] * 2


@pytest.mark.skipif(not openmpi.is_available(), reason="no Open MPI 5 for this processor")
def test_the_mpi_that_the_program_has_loaded_is_the_one_that_is_used(tmp_path):
    """Another Open MPI's mpirun is first in PATH, as where mpi4py is the distribution's and Open MPI was added with pip."""
    program = tmp_path / "program.py"
    program.write_text(BEGIN + "hvd.init()\ntell(hvd.size(), len({line.split()[-1] for line in open('/proc/self/maps')"
                       " if '/libmpi.so.40' in line}))\n", encoding="utf-8")
    other = openmpi.environment()["PATH"].split(":", 1)[0]
    done = mpirun(2, "env", f"PATH={other}:{environment()['PATH']}", PYTHON, program)
    assert done.returncode == 0 and done.stdout.splitlines() == ["2 1"] * 2, done.stdout + done.stderr
