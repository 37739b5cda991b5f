"""Checks of horovod.numpy: every collective, for arrays of several libraries."""
import array
import gc
import signal
import sys

import numpy as np
from checks import check, only_the_last_refuses, raises

import horovod.numpy as hvd

DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64", "float16", "float32", "float64")


def mine(dtype="float32", shape=(3, 2)):
    """Another array on every rank."""
    return np.full(shape, hvd.rank() + 1, dtype)


def total():
    """The sum of all ranks' numbers."""
    return hvd.size() * (hvd.size() + 1) // 2


@check
def arrays_of_every_type_are_added():
    for dtype in DTYPES:
        result = hvd.allreduce(mine(dtype), op=hvd.Sum)
        assert result.dtype == dtype and result.shape == (3, 2) and (result == total()).all(), (dtype, result)
    assert (hvd.allreduce(np.array([hvd.rank() == 0, False]), op=hvd.Sum) == [True, False]).all()


@check
def the_reduction_is_an_average_unless_something_else_is_asked_for():
    assert (hvd.allreduce(mine()) == total() / hvd.size()).all()
    assert (hvd.allreduce(mine(), op=hvd.Min) == 1).all()
    assert (hvd.allreduce(mine(), op=hvd.Max) == hvd.size()).all()
    assert (hvd.allreduce(mine(), op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5) == total()).all()


@check
def in_place_forms_change_the_array_that_was_given():
    values = mine()
    assert hvd.allreduce_(values, op=hvd.Sum) is values and (values == total()).all()
    values = mine()
    assert hvd.broadcast_(values, hvd.size() - 1) is values and (values == hvd.size()).all()


@check
def memory_of_the_standard_library_is_an_array_too():
    values = array.array("d", [hvd.rank() + 1] * 4)
    hvd.allreduce_(values, op=hvd.Sum)
    assert list(values) == [total()] * 4
    raw = bytearray([hvd.rank() + 1] * 3)
    hvd.allreduce_(memoryview(raw), op=hvd.Max)
    assert raw == bytearray([hvd.size()] * 3)


@check
def a_group_completes_together():
    results = hvd.grouped_allreduce([mine("int64", (2,)), mine("float64", ())], op=hvd.Sum, name="group")
    assert results[0].tolist() == [total()] * 2 and float(results[1]) == total()
    gathered = hvd.grouped_allgather([mine("int8", (1,)), mine("int16", (2,))])
    assert [len(one) for one in gathered] == [hvd.size(), 2 * hvd.size()]
    for nothing in ([], (), iter(())):
        for function in (hvd.grouped_allreduce, hvd.grouped_allreduce_async, hvd.grouped_allgather):
            assert raises(ValueError, function, nothing) == "A group needs at least one array."


@check
def an_allgather_has_the_rows_of_all_ranks_in_order():
    result = hvd.allgather(mine("int32", (hvd.rank() + 1, 2)))
    assert result.shape == (total(), 2)
    assert result[:, 0].tolist() == [rank + 1 for rank in range(hvd.size()) for _ in range(rank + 1)]


@check
def an_allgather_of_nothing_is_an_empty_array():
    assert hvd.allgather(np.empty((0, 3), "float32")).shape == (0, 3)
    assert hvd.allreduce(np.empty((0,), "float32")).shape == (0,)


@check
def gathered_memory_lives_as_long_as_an_array_shows_it():
    result = hvd.allgather(mine("int64", (1000,)))
    part = result[500:600]
    del result
    gc.collect()
    for _ in range(20):
        hvd.allgather(np.zeros(1000, "int64"))
    assert (part == 1).all()


@check
def an_alltoall_sends_rows_to_every_rank():
    n = hvd.size()
    result = hvd.alltoall(np.arange(n, dtype="int32") + 10 * hvd.rank())
    assert result.tolist() == [10 * rank + hvd.rank() for rank in range(n)]
    rows = np.full((total(),), hvd.rank(), "int64")
    for splits in ([rank + 1 for rank in range(n)], np.arange(1, n + 1, dtype="int32"), np.arange(1, n + 1)):
        result, received = hvd.alltoall(rows, splits)
        assert received == [hvd.rank() + 1] * n
        assert result.tolist() == [rank for rank in range(n) for _ in range(hvd.rank() + 1)]


@check
def a_reducescatter_gives_every_rank_its_rows():
    rows = hvd.size() + 1
    result = hvd.reducescatter(np.arange(rows, dtype="float64"), op=hvd.Sum)
    first = 0 if hvd.rank() == 0 else hvd.rank() + 1
    assert result.tolist() == [hvd.size() * row for row in range(first, hvd.rank() + 2)]
    raises(ValueError, hvd.reducescatter, np.float32(1))


@check
def handles_are_polled_and_end_once():
    handle = hvd.allreduce_async(mine(), op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    assert (hvd.synchronize(handle) == total()).all()
    assert "was not created or has been cleared" in raises(ValueError, hvd.synchronize, handle)
    assert "was not created" in raises(ValueError, hvd.poll, 12345)


@check
def what_is_submitted_lives_until_it_was_waited_for():
    handles = []
    for i in range(200):
        handles.append(hvd.allreduce_async(np.full(512, i, "float32"), op=hvd.Sum, name=f"alive.{i}"))
        if i % 20 == 0:
            gc.collect()
    for i, handle in enumerate(handles):
        assert (hvd.synchronize(handle) == i * hvd.size()).all()


@check
def references_are_given_back():
    values = mine()
    before = sys.getrefcount(values)
    for _ in range(50):
        hvd.allreduce_(values, name="references")
        raises(ValueError, hvd.allreduce_, values, prescale_factor=0.0)
        raises(ValueError, hvd.allreduce_, values, name="x" * 2000)
        raises(TypeError, hvd.allreduce_, values, name=7)
    assert sys.getrefcount(values) == before, (sys.getrefcount(values), before)


@check
def arrays_that_do_not_lie_in_one_piece_are_copied_or_refused():
    wide = np.arange(6, dtype="float32").reshape(2, 3)
    assert (hvd.allreduce(wide.T, op=hvd.Average) == wide.T).all()
    assert "not contiguous" in raises(ValueError, hvd.allreduce_, wide.T)


@check
def what_cannot_be_reduced_is_refused_with_its_reason():
    assert "read-only" in raises(ValueError, hvd.allreduce_, b"bytes")
    assert "the format Zf cannot be reduced" in raises(ValueError, hvd.allreduce_, np.zeros(2, "complex64"))
    assert "expected a tensor" in raises(TypeError, hvd.allreduce_, 5)
    assert "Process set" in raises(ValueError, hvd.broadcast, mine(), 0, process_set=_unknown_set())


# By the collective: its calls of an array and a name.
CALLS = {"allreduce": (hvd.allreduce, hvd.allreduce_, lambda x, name: hvd.synchronize(hvd.allreduce_async(x, name)),
                       lambda x, name: hvd.synchronize(hvd.allreduce_async_(x, name))),
         "allgather": (hvd.allgather,),
         "broadcast": tuple(lambda x, name, f=f: f(x, 0, name) for f in (
             hvd.broadcast, hvd.broadcast_, lambda *given: hvd.synchronize(hvd.broadcast_async(*given)),
             lambda *given: hvd.synchronize(hvd.broadcast_async_(*given)))),
         "alltoall": (lambda x, name: hvd.alltoall(x, None, name),),
         "reducescatter": (hvd.reducescatter, lambda x, name: hvd.synchronize(hvd.reducescatter_async(x, name)))}
GROUPED = {"allreduce": hvd.grouped_allreduce, "allgather": hvd.grouped_allgather}
NOT_SENT = {"the format Zf cannot be reduced": np.zeros((4, 2), "complex64"), "cannot be reduced": np.array([None] * 4)}


@check
def what_one_rank_refuses_the_others_hear_with_its_reason():
    good = np.zeros((4 * hvd.size(), 2), "float32")
    for words, bad in NOT_SENT.items():
        for word, calls in CALLS.items():
            for call in calls:
                for name in ("bad", None):
                    only_the_last_refuses(words, f"{word}.{name or 'noname'}", lambda c=call, b=bad, n=name: c(b, n),
                                          lambda c=call, n=name: c(good, n))
        for word, call in GROUPED.items():
            for name in ("bad", None):
                only_the_last_refuses("tensor 2 of 3: ", f"grouped_{word}.{name or 'noname'}",
                                      lambda c=call, b=bad, n=name: c([good, b, good], n),
                                      lambda c=call, n=name: c([good] * 3, n))
    only_the_last_refuses("must be real number, not str", "allreduce.factor",
                          lambda: hvd.allreduce(good, "factor", prescale_factor="2"), lambda: hvd.allreduce(good, "factor"))
    only_the_last_refuses("without dimensions", "reducescatter.rows",
                          lambda: hvd.reducescatter(np.float32(1), "rows"), lambda: hvd.reducescatter(good, "rows"))
    assert (hvd.allreduce(mine(), op=hvd.Sum) == total()).all()


@check
def a_name_that_is_cut_within_a_character_is_told_all_the_same():
    name = "x" + "ü" * 300
    only_the_last_refuses("cannot be reduced", "allreduce.xü", lambda: hvd.allreduce_(np.zeros(2, "complex64"), name),
                          lambda: hvd.allreduce_(np.zeros(2), name))


@check
def what_ends_a_wait_is_no_refusal():
    def late(*_):
        raise TimeoutError("late")

    before = signal.signal(signal.SIGALRM, late)
    values = [mine() for _ in range(2)]
    try:
        if hvd.rank() == 0 and hvd.size() > 1:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            raises(TimeoutError, hvd.allreduce_, values[0], op=hvd.Sum)
        hvd.barrier()
        if hvd.rank() != 0:
            assert (hvd.allreduce_(values[0], op=hvd.Sum) == total()).all()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert (hvd.allreduce_(values[1], op=hvd.Sum) == total()).all()


def _unknown_set():
    one = hvd.ProcessSet([0])
    one.process_set_id = 999
    return one


@check
def ranks_that_disagree_get_an_error_and_the_job_goes_on():
    if hvd.size() > 1:
        text = raises(hvd.HorovodInternalError, hvd.allreduce, np.zeros(hvd.rank() + 1), name="bad")
        assert "Mismatched ALLREDUCE tensor shapes" in text, text
    assert (hvd.allreduce(mine(), op=hvd.Sum) == total()).all()


@check
def an_error_has_the_number_of_its_kind():
    if hvd.size() == 1:
        return
    try:
        hvd.allreduce(np.zeros(hvd.rank() + 1), name="bad")
        raise AssertionError("no error")
    except hvd.HorovodInternalError as error:
        assert error.status == 2, error.status


@check
def a_name_may_come_again_with_other_arguments():
    name, before = "again", sys.getrefcount("again")
    for _ in range(3):
        for factor in (1.0, 2.0, 1, 0.5):
            for _ in range(3):
                assert (hvd.allreduce(mine(), name, hvd.Sum, factor) == total() * factor).all()
                assert (hvd.allreduce(mine(), name, hvd.Sum, 1.0, factor) == total() * factor).all()
        assert (hvd.allreduce(mine("float64"), name, hvd.Sum) == total()).all()
        assert (hvd.allreduce(mine()[:2], name, hvd.Sum) == total()).all()
        for root in range(hvd.size()):
            assert (hvd.broadcast(np.full(3, hvd.rank()), root, name) == root).all()
            assert (hvd.broadcast(np.full(3, hvd.rank()), root, name) == root).all()
        for _ in range(3):
            assert hvd.allgather(mine(), name).shape[0] == mine().shape[0] * hvd.size()
            sent = hvd.alltoall(np.arange(hvd.size()), [1] * hvd.size(), name)
            assert (sent[0] == hvd.rank()).all() and (hvd.alltoall(np.arange(hvd.size()), None, name) == hvd.rank()).all()
    assert sys.getrefcount("again") < before + 10


@check
def a_factor_that_changes_is_asked_each_time():
    class Growing:
        value = 0

        def __float__(self):
            self.value += 1
            return float(self.value)

    factor = Growing()
    for i in range(1, 6):
        assert (hvd.allreduce(mine(), "growing", hvd.Sum, factor) == total() * i).all()


@check
def names_that_share_their_place_in_memory_are_told_apart():
    names = [f"one of many.{i}" for i in range(1500)]
    for order in (names, names, names[::-1]):
        for i, name in enumerate(order):
            ones = np.full(1, int(name.split(".")[1]), "int64")
            assert hvd.allreduce(ones, name, hvd.Sum)[0] == ones[0] * hvd.size(), (i, name)


@check
def a_name_that_is_pending_is_refused():
    values = mine()
    handle = hvd.allreduce_async(values, name="twice")
    text = raises(ValueError, hvd.allreduce_async, values, name="twice")
    assert "same name" in text, text
    hvd.synchronize(handle)
