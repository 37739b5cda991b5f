"""Checks of allgather, broadcast, alltoall, reducescatter, sparse tensors, join, barrier and process sets."""
import torch
from checks import check, raises
from inputs import ALL, NUMBERS, mine, of_rank, reduced, same

import horovod.torch as hvd


def gathered(dtype=torch.float32, rows=lambda rank: rank + 1, ranks=None):
    """What an allgather of of_rank(rank, dtype, (rows(rank), 2)) must be."""
    ranks = range(hvd.size()) if ranks is None else ranks
    return torch.cat([of_rank(rank, dtype, (rows(rank), 2)) for rank in ranks])


@check
def allgather_joins_different_numbers_of_rows_of_every_type():
    for dtype in ALL:
        same(hvd.allgather(mine(dtype, (hvd.rank() + 1, 2)), name=f"rows.{dtype}"), gathered(dtype))
    same(hvd.allgather(mine(shape=(2, 3)).t()), torch.cat([of_rank(r, shape=(2, 3)).t() for r in range(hvd.size())]))
    same(hvd.synchronize(hvd.allgather_async(mine(shape=(hvd.rank() + 1, 2)))), gathered())


@check
def allgather_takes_ranks_without_rows():
    for dtype in (torch.float32, torch.bfloat16, torch.bool):
        same(hvd.allgather(mine(dtype, (hvd.rank(), 2))), gathered(dtype, lambda rank: rank))
        same(hvd.allgather(torch.zeros(0, 2, dtype=dtype)), torch.zeros(0, 2, dtype=dtype))


@check
def what_was_gathered_is_memory_of_its_own():
    first = hvd.allgather(mine(shape=(2, 2)))
    second = hvd.allgather(mine(shape=(2, 2)))
    first.add_(1)
    same(second, gathered(rows=lambda rank: 2))
    same(first, second + 1)


@check
def groups_are_gathered_together_whatever_their_types():
    tensors = [mine(shape=(hvd.rank() + 1, 2)), mine(torch.int64, (2, 2)), torch.zeros(0, 1)]
    for results in (hvd.grouped_allgather(tensors), hvd.synchronize(hvd.grouped_allgather_async(tensors, name="g"))):
        assert isinstance(results, tuple)
        same(results[0], gathered())
        same(results[1], gathered(torch.int64, lambda rank: 2))
        same(results[2], torch.zeros(0, 1))


@check
def broadcast_gives_everyone_the_values_of_any_root():
    for root in range(hvd.size()):
        for dtype in ALL:
            tensor = mine(dtype)
            same(hvd.broadcast(tensor, root, name=f"root.{dtype}"), of_rank(root, dtype))
            same(tensor, mine(dtype))
            assert hvd.broadcast_(tensor, root_rank=root) is tensor
            same(tensor, of_rank(root, dtype))
    same(hvd.synchronize(hvd.broadcast_async(mine(), 0)), of_rank(0))
    tensor = mine()
    assert hvd.synchronize(hvd.broadcast_async_(tensor, 0)) is tensor
    same(tensor, of_rank(0))


@check
def broadcast_takes_strided_empty_and_single_element_tensors():
    tensor = mine(shape=(5, 3)).t()
    same(hvd.broadcast(tensor, 0), of_rank(0, shape=(5, 3)).t())
    hvd.broadcast_(tensor, 0)
    same(tensor, of_rank(0, shape=(5, 3)).t())
    same(hvd.broadcast_(torch.zeros(0, 3), 0), torch.zeros(0, 3))
    same(hvd.broadcast(torch.tensor(float(hvd.rank())), hvd.size() - 1), torch.tensor(hvd.size() - 1.0))
    parameter = torch.nn.Parameter(mine())
    assert hvd.broadcast_(parameter, 0) is parameter


def exchanged(dtype, rows):
    """What this rank receives when rank s sends rows(s, r) rows filled with s to every rank r."""
    return torch.cat([torch.full((rows(sender, hvd.rank()), 2), sender).to(dtype) for sender in range(hvd.size())])


@check
def alltoall_sends_equal_parts_without_splits():
    for dtype in ALL:
        tensor = torch.full((3 * hvd.size(), 2), hvd.rank()).to(dtype)
        same(hvd.alltoall(tensor, name=f"equal.{dtype}"), exchanged(dtype, lambda sender, receiver: 3))
    output, received = hvd.synchronize(hvd.alltoall_async(torch.zeros(hvd.size(), 2)))
    same(output, torch.zeros(hvd.size(), 2))
    same(received, torch.ones(hvd.size(), dtype=torch.int32))


@check
def alltoall_splits_may_be_a_list_or_integers_of_any_type():
    counts = [hvd.rank() + receiver for receiver in range(hvd.size())]
    tensor = torch.full((sum(counts), 2), float(hvd.rank()))
    want = exchanged(torch.float32, lambda sender, receiver: sender + receiver)
    forms = [counts, tuple(counts)] + [torch.tensor(counts, dtype=dtype) for dtype in
                                       (torch.int32, torch.int64, torch.uint8, torch.int16)]
    for splits in forms:
        output, received = hvd.alltoall(tensor, splits)
        same(output, want)
        same(received, torch.tensor([sender + hvd.rank() for sender in range(hvd.size())],
                                    dtype=splits.dtype if isinstance(splits, torch.Tensor) else torch.int32))


@check
def alltoall_leaves_rows_behind_the_splits_at_home():
    output, received = hvd.alltoall(torch.arange(hvd.size() + 3), torch.ones(hvd.size(), dtype=torch.int32))
    assert output.tolist() == [hvd.rank()] * hvd.size() and received.tolist() == [1] * hvd.size()


@check
def alltoall_says_what_is_wrong_with_splits():
    tensor, size = torch.zeros(hvd.size(), 2), hvd.size()
    assert "1D splits" in raises(ValueError, hvd.alltoall, tensor, torch.ones(1, size, dtype=torch.int32))
    assert "integer" in raises(ValueError, hvd.alltoall, tensor, torch.ones(size))
    assert "greater than the first dimension" in raises(ValueError, hvd.alltoall, tensor, [2] * size)
    assert "does not equal number of workers" in raises(ValueError, hvd.alltoall, tensor, [0] * (size + 1))
    if size > 1:
        assert "not an even multiple" in raises(ValueError, hvd.alltoall, torch.zeros(size + 1))


def rows_of(rank, rows, size):
    """(first row, number of rows) of a rank's part."""
    part, rest = divmod(rows, size)
    return rank * part + min(rank, rest), part + (rank < rest)


@check
def reducescatter_gives_the_first_ranks_one_row_more():
    for dtype in NUMBERS:
        for name, op in (("sum", hvd.Sum), ("average", hvd.Average)):
            want = reduced(name, dtype, (7, 2)).narrow(0, *rows_of(hvd.rank(), 7, hvd.size()))
            same(hvd.reducescatter(mine(dtype, (7, 2)), op=op, name=f"{dtype}.{name}"), want)
    want = reduced("average", shape=(7, 2)).narrow(0, *rows_of(hvd.rank(), 7, hvd.size()))
    same(hvd.reducescatter(mine(shape=(7, 2))), want)
    same(hvd.synchronize(hvd.reducescatter_async(mine(shape=(7, 2)))), want)
    same(hvd.reducescatter(mine(shape=(2, 7)).t()), reduced("average", shape=(2, 7)).t()
         .narrow(0, *rows_of(hvd.rank(), 7, hvd.size())))


@check
def reducescatter_takes_factors_compression_and_fewer_rows_than_ranks():
    want = reduced("sum", shape=(6, 2)).narrow(0, *rows_of(hvd.rank(), 6, hvd.size()))
    same(hvd.reducescatter(mine(shape=(6, 2)), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), want * 2)
    same(hvd.reducescatter(mine(shape=(6, 2)), op=hvd.Sum, prescale_factor=0), want * 0)
    same(hvd.reducescatter(mine(shape=(6, 2)), op=hvd.Sum, compression=hvd.Compression.fp16), want)
    one = reduced("sum", shape=(1, 3))
    same(hvd.reducescatter(mine(shape=(1, 3)), op=hvd.Sum), one if hvd.rank() == 0 else one[:0])
    assert hvd.reducescatter(torch.zeros(0, 3)).shape == (0, 3)
    text = raises(ValueError, hvd.reducescatter, mine(), op=hvd.Max)
    assert text == "Reducescatter currently only supports AVERAGE and SUM.", text


@check
def groups_are_scattered_together():
    tensors = [mine(shape=(5, 2)), mine(torch.int64, (4, 3))]
    want = [reduced("sum", shape=(5, 2)).narrow(0, *rows_of(hvd.rank(), 5, hvd.size())),
            reduced("sum", torch.int64, (4, 3)).narrow(0, *rows_of(hvd.rank(), 4, hvd.size()))]
    results = hvd.grouped_reducescatter(tensors, op=hvd.Sum)
    assert isinstance(results, list)
    for one, other in zip(results, want, strict=True):
        same(one, other)
    for one, other in zip(hvd.synchronize(hvd.grouped_reducescatter_async(tensors, op=hvd.Sum)), want, strict=True):
        same(one, other)
    for one, other in zip(hvd.grouped_reducescatter(tensors, op=hvd.Sum, compression=hvd.Compression.fp16), want, strict=True):
        same(one, other)


def sparse_of(rank, dtype=torch.float32):
    """A sparse matrix with one row of its own and one shared, both twice."""
    indices = torch.tensor([[rank, 5, rank], [0, 1, 0]])
    return torch.sparse_coo_tensor(indices, of_rank(rank, dtype, (3,)), (6, 2))


@check
def sparse_tensors_are_summed_and_averaged():
    total = sum(sparse_of(rank).to_dense() for rank in range(hvd.size()))
    for op, want in ((hvd.Sum, total), (hvd.Average, total / hvd.size()), (None, total / hvd.size())):
        handle = hvd.sparse_allreduce_async(sparse_of(hvd.rank()), name="sparse", op=op)
        assert callable(handle)
        while not hvd.poll(handle):
            pass
        result = handle()
        assert result.is_sparse and result.shape == (6, 2)
        same(result.to_dense(), want)
        assert hvd.synchronize(handle) is result, "synchronize takes the function too"


@check
def sparse_tensors_may_be_empty_and_of_any_type():
    nothing = torch.sparse_coo_tensor(torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0), (6, 2))
    same(hvd.sparse_allreduce_async(nothing, "none", hvd.Sum)().to_dense(), torch.zeros(6, 2))
    mixed = sparse_of(0) if hvd.rank() == 0 else nothing
    same(hvd.sparse_allreduce_async(mixed, "some", hvd.Sum)().to_dense(), sparse_of(0).to_dense())
    for dtype in (torch.float64, torch.int64, torch.bfloat16):
        want = sum(sparse_of(rank, dtype).to_dense() for rank in range(hvd.size()))
        same(hvd.sparse_allreduce_async(sparse_of(hvd.rank(), dtype), "typed", hvd.Sum)().to_dense(), want)
    embedding = torch.sparse_coo_tensor(torch.tensor([[1, 2]]), mine(shape=(2, 4)), (3, 4))
    want = torch.zeros(3, 4)
    want[1:] = reduced("average", shape=(2, 4))
    same(hvd.sparse_allreduce_async(embedding, "rows", hvd.Average)().to_dense(), want)


@check
def sparse_reductions_say_what_they_do_not_take():
    raises(ValueError, hvd.sparse_allreduce_async, sparse_of(0), "max", hvd.Max)
    raises(ValueError, hvd.sparse_allreduce_async, torch.ones(2), "dense", hvd.Sum)


@check
def ranks_that_have_joined_add_zeros_and_learn_who_was_last():
    for step in range(hvd.rank() + 1):
        total = sum(of_rank(rank) for rank in range(step, hvd.size()))
        same(hvd.allreduce(mine(), op=hvd.Sum, name=f"uneven.{step}"), total)
        same(hvd.allreduce(mine(), name=f"uneven average.{step}"), total / hvd.size())
    last = hvd.join()
    assert last == hvd.size() - 1 and isinstance(last, int), last
    assert isinstance(hvd.join(device=0), int)


@check
def others_cannot_gather_while_a_rank_has_joined():
    if hvd.size() == 1:
        return
    if hvd.rank() != 0:
        for word, call in (("Allgather", hvd.allgather), ("Alltoall", hvd.alltoall), ("Reducescatter", hvd.reducescatter),
                           ("Broadcast", lambda tensor, name: hvd.broadcast(tensor, 1, name))):
            text = raises(hvd.HorovodInternalError, call, mine(shape=(hvd.size(), 2)), name="joined")
            assert text.startswith(f"{word} is not supported with Join at this time."), text
    hvd.join()
    same(hvd.allreduce(mine(), op=hvd.Sum), reduced("sum"))


@check
def a_barrier_lets_nobody_through_before_all_have_come():
    hvd.barrier()
    handle = hvd.allreduce_async(mine(), op=hvd.Sum, name="before the barrier")
    hvd.barrier(process_set=hvd.global_process_set)
    same(hvd.synchronize(handle), reduced("sum"))


@check
def process_sets_reduce_among_their_ranks_alone():
    evens, odds = list(range(0, hvd.size(), 2)), list(range(1, hvd.size(), 2))
    sets = [hvd.add_process_set(ranks) for ranks in (evens, odds)] if hvd.size() > 1 else [hvd.global_process_set]
    for process_set in sets:
        ranks = process_set.ranks
        if not process_set.included():
            continue
        options = {"process_set": process_set}
        same(hvd.allreduce(mine(), **options), reduced("average", ranks=ranks))
        same(hvd.allreduce_(mine(), op=hvd.Sum, **options), reduced("sum", ranks=ranks))
        same(hvd.grouped_allreduce([mine()], op=hvd.Sum, **options)[0], reduced("sum", ranks=ranks))
        same(hvd.allgather(mine(shape=(hvd.rank() + 1, 2)), **options), gathered(ranks=ranks))
        same(hvd.broadcast(mine(), ranks[-1], **options), of_rank(ranks[-1]))
        same(hvd.alltoall(torch.full((len(ranks),), hvd.rank()), **options), torch.tensor(ranks))
        want = reduced("sum", shape=(5, 2), ranks=ranks).narrow(0, *rows_of(process_set.rank(), 5, len(ranks)))
        same(hvd.reducescatter(mine(shape=(5, 2)), op=hvd.Sum, **options), want)
        total = sum(sparse_of(rank).to_dense() for rank in ranks)
        same(hvd.sparse_allreduce_async(sparse_of(hvd.rank()), "set", hvd.Average, **options)().to_dense(),
             total / len(ranks))
        hvd.barrier(**options)
    for process_set in sets:
        assert hvd.remove_process_set(process_set) is (hvd.size() > 1), "the global set stays"


@check
def a_process_set_refuses_ranks_that_are_not_in_it_and_sets_that_are_not_registered():
    only_first = hvd.add_process_set([0]) if hvd.size() > 1 else hvd.global_process_set
    if hvd.rank() != 0:
        text = raises(ValueError, hvd.allreduce, mine(), process_set=only_first)
        assert f"Rank {hvd.rank()} is not a member of the provided process set." in text, text
        raises(ValueError, hvd.reducescatter, mine(), process_set=only_first)
        raises(ValueError, hvd.broadcast_, mine(), 0, process_set=only_first)
        raises(ValueError, hvd.alltoall, mine(), process_set=only_first)
        raises(ValueError, hvd.allgather, mine(), process_set=only_first)
    if hvd.size() > 1:
        hvd.remove_process_set(only_first)
    for function in (hvd.allreduce, lambda _, process_set: hvd.sparse_allreduce_async(sparse_of(0), "set", hvd.Sum, process_set)):
        assert "is not registered" in raises(ValueError, function, mine(), process_set=hvd.ProcessSet([0]))
    same(hvd.allreduce(mine(), op=hvd.Sum), reduced("sum"))


@check
def a_process_set_that_cannot_be_is_refused():
    for ranks in ([hvd.size()], [-1], []):
        assert "no such ranks" in raises(ValueError, hvd.add_process_set, ranks)
    assert "each rank once" in raises(ValueError, hvd.add_process_set, [0, 0])
    assert "exists already" in raises(ValueError, hvd.add_process_set, hvd.ProcessSet(range(hvd.size())))
    same(hvd.allreduce(mine(), op=hvd.Sum), reduced("sum"))


@check
def names_made_up_stay_the_same_on_all_ranks_after_refusals_and_calls_in_process_sets():
    last = hvd.add_process_set([hvd.size() - 1]) if hvd.size() > 1 else hvd.global_process_set
    if last.included():
        for function in (hvd.allreduce, hvd.allgather, hvd.reducescatter, hvd.alltoall):
            function(mine(shape=(1, 2)), process_set=last)
        hvd.broadcast(mine(), hvd.size() - 1, process_set=last)
        raises(ValueError, hvd.broadcast, mine(), hvd.size())
        raises(ValueError, hvd.alltoall, torch.zeros(hvd.size(), 2), [2] * hvd.size())
    else:  # a refused call counts, and is announced to those who make theirs
        raises(hvd.HorovodInternalError, hvd.broadcast, mine(), 0)
        raises(hvd.HorovodInternalError, hvd.alltoall, mine(shape=(hvd.size(), 2)))
    for function in (hvd.allreduce, hvd.allgather, hvd.reducescatter, hvd.alltoall):
        function(mine(shape=(hvd.size(), 2)))
    same(hvd.broadcast(mine(), 0), of_rank(0))
    assert hvd.remove_process_set(last) is (hvd.size() > 1)
