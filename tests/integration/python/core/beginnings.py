"""Checks of init and shutdown, one job after the other, and of the process sets that jobs begin with."""
import contextlib
import os
import sys

import numpy as np
from checks import check, raises

import horovod.numpy as hvd

FAILED = "Horovod initialization failed. Please check log messages above for a more descriptive error."


def leave():
    """Leaves the job once every rank is here, as the first one that leaves ends it for all."""
    if hvd.is_initialized():
        hvd.barrier()
    hvd.shutdown()


@contextlib.contextmanager
def another_job(**options):
    """Leaves the job for one that begins otherwise, and returns to one like that of the other checks."""
    leave()
    dynamic = os.environ.pop("HOROVOD_DYNAMIC_PROCESS_SETS", None)
    try:
        hvd.init(**options)
        yield
    finally:
        leave()
        if dynamic is not None:
            os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = dynamic
        hvd.init()


def total(process_set=hvd.global_process_set):
    """How many ranks of a set add a one."""
    return hvd.allreduce(np.ones(1), op=hvd.Sum, process_set=process_set)[0]


@check
def one_job_follows_the_other():
    rank, size = hvd.rank(), hvd.size()
    for options in ({}, {"comm": range(size)}, {"comm": []}):
        with another_job(**options):
            assert (hvd.rank(), hvd.size(), total()) == (rank, size, size)
    assert total() == size


@check
def without_a_job_there_is_neither_rank_nor_size():
    with another_job():
        hvd.shutdown()
        hvd.shutdown()
        assert hvd.is_initialized() is False and hvd.global_process_set.ranks is None
        for call in (hvd.rank, hvd.size, hvd.local_rank, hvd.local_size, hvd.cross_rank, hvd.cross_size, hvd.join,
                     hvd.mpi_threads_supported, hvd.barrier, total, hvd.stop_timeline,
                     lambda: hvd.start_timeline("/tmp/never"), lambda: hvd.add_process_set([0])):
            assert raises(ValueError, call) == "Horovod has not been initialized; use hvd.init().", call


@check
def what_is_pending_at_the_end_of_a_job_fails():
    with another_job():
        handle = hvd.allreduce_async(np.ones(1), name=f"of rank {hvd.rank()}") if hvd.size() > 1 else None
        hvd.barrier()
        hvd.shutdown()
        if handle is not None:
            assert "shut down" in raises(hvd.HorovodInternalError, hvd.synchronize, handle)


@check
def handles_of_a_job_that_has_ended_are_forgotten_with_the_next():
    values = np.ones(3)
    before = sys.getrefcount(values)
    with another_job():
        done = hvd.allreduce_async_(values, name="nobody waits", op=hvd.Sum)
        hvd.barrier()
    assert "was not created or has been cleared" in raises(ValueError, hvd.synchronize, done)
    assert sys.getrefcount(values) == before


@check
def a_job_may_begin_with_process_sets():
    if hvd.size() == 1:
        return
    first, rest = hvd.ProcessSet([0]), hvd.ProcessSet(range(hvd.size() - 1, 0, -1))
    with another_job(process_sets=[first, rest]):
        assert (first.process_set_id, rest.process_set_id) == (1, 2)
        assert (first.ranks, rest.ranks) == ([0], list(range(1, hvd.size())))
        assert [one.included() for one in (first, rest)] == [hvd.rank() == 0, hvd.rank() > 0]
        mine = first if hvd.rank() == 0 else rest
        assert (total(mine), mine.size(), mine.rank()) == (len(mine.ranks),) * 2 + (max(hvd.rank() - 1, 0),)
        assert str(rest) == f"ProcessSet(process_set_id=2, ranks={rest.ranks}, mpi_comm=None)"
        assert first != rest and first == first and first != [0] and hvd.global_process_set != first
        # no others, as the job is not dynamic
        assert "HOROVOD_DYNAMIC_PROCESS_SETS=1" in raises(ValueError, hvd.add_process_set, [1])
        assert hvd.remove_process_set(rest) is False and rest.process_set_id == 2
    assert (first.process_set_id, rest.process_set_id, rest.size()) == (None, None, None)


@check
def a_dynamic_job_takes_process_sets_later():
    if hvd.size() == 1:
        return
    with another_job(process_sets="Dynamic"):
        later = hvd.add_process_set(hvd.ProcessSet([hvd.size() - 1]))
        assert later.process_set_id == 1 and later.included() is (hvd.rank() == hvd.size() - 1)
        assert hvd.remove_process_set(later) is True and later.process_set_id is None
        assert hvd.remove_process_set(hvd.global_process_set) is False and hvd.global_process_set.process_set_id == 0


@check
def process_sets_that_cannot_be_are_refused_and_a_job_may_begin_afterwards():
    one = hvd.ProcessSet([0])
    leave()
    for wrong in ([one, one], [hvd.ProcessSet([0]), hvd.ProcessSet([0])], [[0], [0]]):
        assert "twice" in raises(ValueError, hvd.init, process_sets=wrong)
    assert "dynamic" in raises(ValueError, hvd.init, process_sets="static")
    assert "each rank once" in raises(ValueError, hvd.ProcessSet, [0, 0])
    assert hvd.is_initialized() is False
    for _ in range(2):
        text = raises(ValueError, hvd.init, process_sets=[hvd.ProcessSet([ranks_of_mpirun() + 7])])
        assert text.startswith(FAILED) and hvd.is_initialized() is False, text
    hvd.init()
    assert total() == hvd.size()


def ranks_of_mpirun():
    """How many ranks there are, when there is no job."""
    return int(os.environ["OMPI_COMM_WORLD_SIZE"])


@check
def process_sets_to_add_are_checked():
    for wrong in ([hvd.size()], [-1], []):
        raises(ValueError, hvd.add_process_set, wrong)
    if hvd.size() > 1:
        odd = raises(ValueError, hvd.add_process_set, [hvd.rank()])
        assert "the ranks disagree" in odd, odd
    assert "exists already" in raises(ValueError, hvd.add_process_set, range(hvd.size()))
    assert total() == hvd.size()
