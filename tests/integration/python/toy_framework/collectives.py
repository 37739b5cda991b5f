"""Checks of every collective for a framework that the package does not know."""
import pickle

import binding as hvd
from checks import check, only_the_last_refuses, raises
from toy import Frozen, Rows

from horovod.common.objects import allgather_object, broadcast_object


def mine(times=1):
    """Two rows, others on every rank."""
    return Rows([[times * (hvd.rank() + 1)] * 3] * 2)


def total():
    """The sum of all ranks' numbers."""
    return hvd.size() * (hvd.size() + 1) / 2


@check
def reductions_are_new_tensors():
    sent = mine()
    assert hvd.allreduce(sent, op=hvd.Sum) == Rows([[total()] * 3] * 2) and sent == mine() and sent.changes == 0
    assert hvd.allreduce(mine()) == Rows([[total() / hvd.size()] * 3] * 2)
    handle = hvd.allreduce_async(mine(), name="toys", op=hvd.Sum, prescale_factor=2.0)
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle) == Rows([[2 * total()] * 3] * 2)


@check
def what_is_in_place_is_brought_back():
    for function in (lambda x: hvd.allreduce_(x, op=hvd.Sum), lambda x: hvd.synchronize(hvd.allreduce_async_(x, op=hvd.Sum)),
                     lambda x: hvd.grouped_allreduce_([x], op=hvd.Sum)[0]):
        tensor = mine()
        assert function(tensor) is tensor and tensor == Rows([[total()] * 3] * 2) and tensor.changes == 1
    tensor = mine()
    assert hvd.broadcast_(tensor, hvd.size() - 1) is tensor and tensor == Rows([[hvd.size()] * 3] * 2)


@check
def groups_complete_together():
    first, second = hvd.synchronize(hvd.grouped_allreduce_async([mine(), mine(2)], op=hvd.Sum))
    assert first == Rows([[total()] * 3] * 2) and second == Rows([[2 * total()] * 3] * 2)
    gathered = hvd.synchronize(hvd.grouped_allgather_async([mine(), mine(2)]))
    assert [len(one.rows) for one in gathered] == [2 * hvd.size()] * 2
    scattered = hvd.synchronize(hvd.grouped_reducescatter_async([Rows([[1.0]] * hvd.size())] * 2, op=hvd.Sum))
    assert scattered == (Rows([[hvd.size()]]),) * 2


@check
def rows_are_gathered_exchanged_broadcast_and_scattered():
    everyone = range(hvd.size())
    assert hvd.synchronize(hvd.allgather_async(mine())) == Rows([[rank + 1] * 3 for rank in everyone for _ in range(2)])
    assert hvd.broadcast(mine(), 0) == hvd.synchronize(hvd.broadcast_async(mine(), 0)) == Rows([[1] * 3] * 2)
    received, counts = hvd.synchronize(hvd.alltoall_async(Rows([[hvd.rank()]] * hvd.size()), [1] * hvd.size()))
    assert received == Rows([[rank] for rank in everyone]) and counts == [1] * hvd.size()
    assert hvd.reducescatter(Rows([[row] for row in everyone]), op=hvd.Sum) == Rows([[hvd.size() * hvd.rank()]])


@check
def a_set_of_ranks_reduces_among_itself():
    alone = [hvd.add_process_set([rank]) for rank in range(hvd.size())] if hvd.size() > 1 else []
    for one in alone:
        if one.included():
            assert hvd.allreduce(mine(), op=hvd.Sum, process_set=one) == mine()
    for one in alone:
        hvd.remove_process_set(one)
    text = raises(ValueError, hvd.allreduce, mine(), process_set=hvd.ProcessSet([0]))
    assert "is not registered" in text, text


@check
def what_one_rank_refuses_the_others_get_with_its_reason():
    for name in ("toy", None):
        end = name or "noname"
        only_the_last_refuses("str is no toy.", f"allreduce.{end}", lambda: hvd.allreduce("words", name=name),
                              lambda: hvd.allreduce(mine(), name=name))
        only_the_last_refuses("frozen toy", f"broadcast.{end}", lambda: hvd.broadcast_(Frozen([[1.0]]), 0, name),
                              lambda: hvd.broadcast_(mine(), 0, name))
        only_the_last_refuses("is no toy.", f"grouped_allreduce.{end}",
                              lambda: hvd.grouped_allreduce_([mine(), 3], name=name),
                              lambda: hvd.grouped_allreduce_([mine(), mine()], name=name))
    assert raises(ValueError, hvd.grouped_allreduce_, []) == "A group needs at least one tensor."
    assert "factor" in raises(ValueError, hvd.allreduce, mine(), prescale_factor=0)


@check
def objects_need_no_tensors():
    assert broadcast_object({"from": hvd.rank()}) == {"from": 0}
    assert allgather_object("x" * hvd.rank()) == ["x" * rank for rank in range(hvd.size())]


@check
def a_pickled_operation_is_the_same():
    assert pickle.loads(pickle.dumps(hvd.allreduce)) == hvd.allreduce
