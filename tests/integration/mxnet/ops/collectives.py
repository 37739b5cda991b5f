"""Checks of the collectives."""
import mxnet as mx
import numpy
from arrays import ALL, NUMBERS, close, joined, mine, of_rank, same, total
from checks import check, needs_adasum, only_the_last_refuses, raises

import horovod.mxnet as hvd
from horovod.common.exceptions import HorovodInternalError
from horovod.mxnet import mpi_ops


@check
def reductions_are_new_arrays_of_every_type():
    for dtype in NUMBERS:
        sent = mine(dtype)
        same(hvd.allreduce(sent, op=hvd.Sum, name=f"sum.{dtype}", priority=-3), total(dtype))
        same(sent, mine(dtype))
        same(hvd.allreduce(mine(dtype), op=hvd.Max), of_rank(hvd.size() - 1, dtype))
    same(hvd.allreduce(mine()), total() / hvd.size())
    same(hvd.allreduce(mine(), average=False), total())
    same(hvd.allreduce(mine("bool"), op=hvd.Min), mine("bool"))
    same(hvd.allreduce(mine(), op=hvd.Product),
         mx.nd.array(numpy.prod([of_rank(rank).asnumpy() for rank in range(hvd.size())], axis=0)))
    close(hvd.allreduce(mine(), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), 2 * total())


@check
def reductions_in_place_wait_for_the_engine_and_are_seen_by_it():
    array = mine()
    assert hvd.allreduce_(array, average=False, name="in place", priority=2) is array
    same(array, total())
    same(hvd.allreduce_(mine(), op=hvd.Average), total() / hvd.size())
    close(hvd.allreduce_(mine(), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), 2 * total())
    large = mx.nd.ones((600, 600))
    product = mx.nd.dot(large, large)  # the engine writes `product` later
    same(hvd.allreduce_(product, op=hvd.Sum), mx.nd.ones((600, 600)) * (600 * hvd.size()))
    read = [mx.nd.dot(large, large) for _ in range(3)]  # the engine reads `large` later
    same(hvd.allreduce_(large, op=hvd.Sum) * 2, mx.nd.ones((600, 600)) * (2 * hvd.size()))
    for one in read:
        same(one, mx.nd.ones((600, 600)) * 600)


@check
def an_array_in_onednns_layout_and_a_part_of_another_are_reduced():
    weights = mx.nd.ones((16, 16, 3, 3))
    made = mx.nd.Convolution(mx.nd.ones((2, 16, 8, 8)), weights, no_bias=True, kernel=(3, 3), num_filter=16)
    same(hvd.allreduce_(made, op=hvd.Sum), mx.nd.ones((2, 16, 6, 6)) * (144 * hvd.size()))
    rows = mx.nd.zeros((4, 3))
    hvd.allreduce_(rows[1:3], op=hvd.Sum)
    part = rows[1:3]
    part[:] = 1
    hvd.allreduce_(part, op=hvd.Sum)
    same(rows, mx.nd.array([[0] * 3, [hvd.size()] * 3, [hvd.size()] * 3, [0] * 3]))


@check
def groups_complete_together_whatever_their_types():
    tensors = [mine(), mine("int64", (4,)), mine("float16")]
    sums = [total(), total("int64", (4,)), total("float16")]
    results = hvd.grouped_allreduce(tensors, name="group", priority=1, op=hvd.Sum)
    assert isinstance(results, list)
    for result, expected, sent in zip(results, sums, tensors):
        same(result, expected)
        assert result is not sent
    same(hvd.grouped_allreduce([mine()], average=False, prescale_factor=2.0, postscale_factor=2.0)[0], 4 * total())
    assert hvd.grouped_allreduce_(tensors, name="group", priority=1, op=hvd.Sum) is tensors
    for tensor, expected in zip(tensors, sums):
        same(tensor, expected)
    same(hvd.grouped_allreduce_([mine()], average=False, prescale_factor=2.0, postscale_factor=2.0)[0], 4 * total())
    assert hvd.grouped_allreduce([]) == [] and hvd.grouped_allreduce_(()) == ()


@check
def rows_are_gathered_of_every_type_and_of_ranks_without_any():
    for dtype in ALL:
        same(hvd.allgather(mine(dtype, (hvd.rank() + 1, 2)), name=f"rows.{dtype}", priority=1),
             joined(of_rank(rank, dtype, (rank + 1, 2)) for rank in range(hvd.size())))
    if hvd.size() > 1:
        same(hvd.allgather(mine(shape=(hvd.rank(), 2))), joined(of_rank(rank, shape=(rank, 2)) for rank in range(hvd.size())))
    assert hvd.allgather(mx.nd.empty((0, 2))).shape == (0, 2)
    first, second = hvd.grouped_allgather([mine(), mine("int32", (1,))], name="gathered", priority=1)
    same(first, joined(of_rank(rank) for rank in range(hvd.size())))
    same(second, joined(of_rank(rank, "int32", (1,)) for rank in range(hvd.size())))


@check
def everyone_gets_the_values_of_any_root():
    for root in range(hvd.size()):
        for dtype in ALL:
            sent = mine(dtype)
            same(hvd.broadcast(sent, root, name=f"root.{dtype}", priority=1), of_rank(root, dtype))
            same(sent, mine(dtype))
            assert hvd.broadcast_(sent, root_rank=root, name="in place", priority=1) is sent
            same(sent, of_rank(root, dtype))


@check
def rows_are_exchanged_with_and_without_splits():
    size = hvd.size()
    received = hvd.alltoall(mine(shape=(size, 2)), name="equal", priority=1)
    same(received, joined(of_rank(rank, shape=(size, 2))[hvd.rank():hvd.rank() + 1] for rank in range(size)))
    splits = [rank + 1 for rank in range(size)]  # so many rows to each
    begin = sum(splits[:hvd.rank()])
    for given in (splits, mx.nd.array(splits, dtype="int32"), numpy.array(splits)):
        rows, counts = hvd.alltoall(mine(shape=(sum(splits), 2)), given)
        same(rows, joined(of_rank(rank, shape=(sum(splits), 2))[begin:begin + hvd.rank() + 1] for rank in range(size)))
        same(counts, mx.nd.array([hvd.rank() + 1] * size, dtype="int32"))
    assert "integers" in raises(ValueError, hvd.alltoall, mine(shape=(size, 2)), mx.nd.ones((size,)), name="floats")


@check
def rows_are_reduced_and_scattered():
    size = hvd.size()
    part = slice(2 * hvd.rank(), 2 * hvd.rank() + 2)
    shape = (2 * size, 3)
    same(hvd.reducescatter(mine(shape=shape), op=hvd.Sum, name="scattered", priority=1), total(shape=shape)[part])
    same(hvd.reducescatter(mine(shape=shape)), (total(shape=shape) / size)[part])
    same(hvd.reducescatter(mine(shape=shape), hvd.Sum, prescale_factor=2.0, postscale_factor=2.0), 4 * total(shape=shape)[part])
    results = hvd.grouped_reducescatter([mine(shape=shape), mine("float64", shape)], op=hvd.Sum, name="scattered together",
                                        priority=1, prescale_factor=2.0, postscale_factor=2.0)
    same(results[0], 4 * total(shape=shape)[part])
    same(results[1], 4 * total("float64", shape)[part])
    assert "only supports AVERAGE and SUM" in raises(ValueError, hvd.reducescatter, mine(shape=shape), op=hvd.Max)


@check
def a_set_of_ranks_reduces_among_itself():
    sets = [hvd.add_process_set([rank]) for rank in range(hvd.size())] if hvd.size() > 1 else [hvd.global_process_set]
    own = next(one for one in sets if one.included())
    for function in (hvd.allreduce, hvd.allreduce_, hvd.allgather, hvd.reducescatter):
        same(function(mine(), process_set=own), mine())
    for function in (hvd.grouped_allreduce, hvd.grouped_allreduce_, hvd.grouped_allgather, hvd.grouped_reducescatter):
        same(function([mine()], process_set=own)[0], mine())
    for function in (hvd.broadcast, hvd.broadcast_):
        same(function(mine(), hvd.rank(), process_set=own), mine())
    rows, counts = hvd.alltoall(mine(), [2], process_set=own)
    same(rows, mine())
    assert counts.asnumpy().tolist() == [2]
    for one in sets:
        assert hvd.remove_process_set(one) is (hvd.size() > 1), "the global set stays"


@check
def a_process_set_has_to_be_registered():
    unknown = hvd.ProcessSet([0])
    for function in (hvd.allreduce, hvd.allreduce_, hvd.allgather, hvd.reducescatter, hvd.alltoall):
        assert "is not registered" in raises(ValueError, function, mine(), process_set=unknown)
    for function in (hvd.grouped_allreduce, hvd.grouped_allreduce_, hvd.grouped_allgather, hvd.grouped_reducescatter):
        assert "is not registered" in raises(ValueError, function, [mine()], process_set=unknown)
    for function in (hvd.broadcast, hvd.broadcast_):
        assert "is not registered" in raises(ValueError, function, mine(), 0, process_set=unknown)
    assert "is not registered" in raises(ValueError, hvd.broadcast_object, 1, process_set=unknown)
    assert "is not registered" in raises(ValueError, hvd.remove_process_set, unknown)
    if hvd.size() == 1:
        raises(ValueError, hvd.add_process_set, [0])  # the global set has these ranks


@check
def average_and_op_exclude_each_other():
    choose = mpi_ops.handle_average_backwards_compatibility
    assert (choose(None, None), choose(hvd.Max, None), choose(None, True), choose(None, False)) == (
        hvd.Average, hvd.Max, hvd.Average, hvd.Sum)
    for function, tensors in ((hvd.allreduce, mine()), (hvd.allreduce_, mine()), (hvd.grouped_allreduce, [mine()]),
                              (hvd.grouped_allreduce_, [mine()])):
        assert "supersedes average" in raises(ValueError, function, tensors, average=True, op=hvd.Sum)


@check
def a_set_can_be_all_but_one_rank():
    others = hvd.ProcessSet(range(max(1, hvd.size() - 1)))
    if hvd.size() == 1:
        others = hvd.global_process_set
    else:
        hvd.add_process_set(others)
    if others.included():
        for array in (hvd.allreduce(mine(), op=hvd.Sum, process_set=others), hvd.allreduce_(mine(), op=hvd.Sum, process_set=others)):
            same(array, sum((of_rank(rank) for rank in range(1, others.size())), of_rank(0)))
    hvd.allreduce(mine(), name="meanwhile")
    if hvd.size() > 1:
        hvd.remove_process_set(others)


@check
def arrays_of_mxnets_numpy_interface_give_such_arrays():
    sent = mx.np.ones((2, 2))
    for result in (hvd.allreduce(sent, op=hvd.Sum), hvd.allgather(sent), hvd.broadcast(sent, 0),
                   hvd.alltoall(mx.np.ones((hvd.size(),)))):
        assert type(result) is mx.np.ndarray
    rows, counts = hvd.alltoall(mx.np.ones((hvd.size(),)), [1] * hvd.size())
    assert type(rows) is type(counts) is mx.np.ndarray
    with mx.util.np_shape(True):
        assert float(hvd.allreduce(mx.np.array(3.0), op=hvd.Sum)) == 3 * hvd.size()
        assert hvd.allreduce(mx.np.zeros((0, 2))).shape == (0, 2)


@check
def results_are_in_the_context_of_what_was_sent():
    there = mx.cpu(1)
    for result in (hvd.allreduce(mine().copyto(there), op=hvd.Sum), hvd.allreduce_(mine().copyto(there), op=hvd.Sum)):
        assert result.context == there
        same(result, total())
    assert hvd.allgather(mine().copyto(there)).context == there


@check
def arrays_of_a_device_are_copied_there_and_back():
    """No device is here, so the adapter takes this context for one."""
    from horovod.mxnet import adapter  # pylint: disable=import-outside-toplevel
    kinds, adapter._ON_HOST = adapter._ON_HOST, ()
    try:
        array = mine().copyto(mx.cpu(1))
        assert hvd.allreduce_(array, op=hvd.Sum) is array
        same(array, total())
        same(hvd.allreduce(mine().copyto(mx.cpu(1)), op=hvd.Sum), total())
    finally:
        adapter._ON_HOST = kinds


@check
def adasum_of_equal_arrays_is_that_array():
    needs_adasum()
    close(hvd.allreduce(mx.nd.ones((4,)), op=hvd.Adasum), mx.nd.ones((4,)))


@check
def what_one_rank_refuses_the_others_get_with_its_reason():
    sparse = mine().tostype("row_sparse")
    for bad, words in (("words", "Tensor type str is not supported: an NDArray of MXNet is needed."),
                       (sparse, "Send tensor.tostype('default')")):
        only_the_last_refuses(words, "allreduce.x", lambda bad=bad: hvd.allreduce(bad, name="x"), lambda: hvd.allreduce(mine(), name="x"))
        only_the_last_refuses(words, "allreduce.y", lambda bad=bad: hvd.allreduce_(bad, name="y"), lambda: hvd.allreduce_(mine(), name="y"))
        only_the_last_refuses(words, "broadcast.x", lambda bad=bad: hvd.broadcast_(bad, 0, "x"), lambda: hvd.broadcast_(mine(), 0, "x"))
        only_the_last_refuses(words, "allgather.x", lambda bad=bad: hvd.allgather(bad, "x"), lambda: hvd.allgather(mine(), "x"))
        only_the_last_refuses(words, "grouped_allreduce.x", lambda bad=bad: hvd.grouped_allreduce_([mine(), bad], name="x"),
                              lambda: hvd.grouped_allreduce_([mine(), mine()], name="x"))
    assert "Tensor type numpy.ndarray is not supported" in raises(ValueError, hvd.allreduce, numpy.ones(3))
    if hvd.size() > 1:
        text = raises(HorovodInternalError, hvd.allreduce, mine(shape=(hvd.rank() + 1,)), name="shapes")
        assert "Mismatched" in text, text
    assert "group needs at least one" in raises(ValueError, hvd.grouped_allgather, [])
    assert "factor" in raises(ValueError, hvd.allreduce, mine(), prescale_factor=0.0)
