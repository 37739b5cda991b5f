"""Checks of horovod.common: process sets, joins, identity, threads."""
import os
import threading

import numpy as np
from checks import check, raises

import horovod
import horovod.numpy as hvd


@check
def a_rank_knows_who_it_is():
    assert hvd.is_initialized() and hvd.is_homogeneous() and hvd.mpi_threads_supported()
    assert (hvd.rank(), hvd.size()) == (hvd.local_rank(), hvd.local_size())
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
    assert hvd.size() == int(os.environ["OMPI_COMM_WORLD_SIZE"])
    assert (horovod.__version__, horovod.runtime_version) == ("0.28.1", "0.1.0")


@check
def a_second_init_changes_nothing():
    hvd.init()
    assert hvd.allreduce(np.ones(1), op=hvd.Sum)[0] == hvd.size()


@check
def a_process_set_reduces_among_its_members():
    if hvd.size() == 1:
        return
    members = sorted({1, hvd.size() - 1})
    some = hvd.add_process_set(members[::-1])
    assert some.process_set_id > 0 and some.ranks == members and some.size() == len(members)
    assert some.included() == (hvd.rank() in members)
    if some.included():
        assert some.rank() == members.index(hvd.rank())
        assert hvd.allreduce(np.ones(2), op=hvd.Sum, process_set=some).tolist() == [len(members)] * 2
        hvd.barrier(process_set=some)
    else:
        raises(ValueError, some.rank)
    assert hvd.remove_process_set(some) and some.process_set_id is None and some.size() is None


@check
def a_process_set_that_exists_is_refused():
    one = hvd.add_process_set([0]) if hvd.size() > 1 else None
    if one:
        assert "exists already" in raises(ValueError, hvd.add_process_set, [0])
        hvd.remove_process_set(one)
    raises(ValueError, hvd.add_process_set, [0, 0])
    assert str(hvd.global_process_set) == \
        f"ProcessSet(process_set_id=0, ranks={list(range(hvd.size()))}, mpi_comm=None)"


@check
def threads_submit_and_wait_at_the_same_time():
    sums = {}

    def work(number):
        for turn in range(20):
            sums[number, turn] = hvd.allreduce(np.full(100, turn), op=hvd.Sum, name=f"thread.{number}.{turn}")[0]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == {(number, turn): turn * hvd.size() for number in range(4) for turn in range(20)}


@check
def other_threads_run_while_one_waits():
    """Rank 0 comes late, once a thread of every other rank has run: with the GIL held it could not."""
    ran = threading.Event()
    if hvd.rank() == 0:
        hvd.barrier()
        hvd.allreduce(np.ones(1), name="late")
        return
    thread = threading.Thread(target=lambda: (hvd.barrier(), ran.set()))
    thread.start()
    hvd.allreduce(np.ones(1), name="late")
    thread.join()
    assert ran.is_set()


@check
def a_rank_without_more_data_joins():
    if hvd.rank() == 0:
        result = hvd.allreduce(np.ones(2), op=hvd.Sum, name="last")
        assert result[0] == 1 if hvd.size() > 1 else 1
    last = hvd.join()
    assert 0 <= last < hvd.size()


@check
def a_forked_child_is_no_rank():
    child = os.fork()
    if child == 0:
        try:
            raises(hvd.HorovodInternalError, hvd.allreduce, np.ones(1))
            os._exit(0 if hvd.rank() >= 0 and not hvd.is_initialized() else 2)
        except BaseException:  # pylint: disable=broad-except
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@check
def timelines_need_the_variable():
    assert "HOROVOD_TIMELINE" in raises(ValueError, hvd.start_timeline, "/tmp/never")
