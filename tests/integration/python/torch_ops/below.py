"""What lies below the collectives in Horovod's modules, and what forks and scripts import of them."""
import torch
from checks import check, only_the_last_refuses, raises
from inputs import mine, of_rank, reduced, same

import horovod.torch as hvd
from horovod.common import elastic, process_sets
from horovod.torch import mpi_lib_v2, mpi_ops

SET = hvd.global_process_set


def room(like, *shape):
    return torch.full(shape or tuple(like.shape), -1, dtype=like.dtype)


@check
def outputs_may_be_given_to_reductions_and_broadcasts():
    for make in (room, lambda like: room(like, *like.shape, 2)[..., 0], lambda like: room(like, *like.shape[::-1]).t()):
        output = make(mine())
        assert hvd.synchronize(mpi_ops._allreduce_async(mine(), output, "below", hvd.Sum, 1.0, 2.0, SET)) is output
        same(output, 2 * reduced("sum"))
        outputs = [make(mine()), make(mine())]
        handle = mpi_ops._grouped_allreduce_async([mine(), 2 * mine()], outputs, None, hvd.Sum, 1.0, 1.0, SET)
        assert all(one is other for one, other in zip(hvd.synchronize(handle), outputs))
        same(outputs[1], 2 * reduced("sum"))
        output = make(mine())
        assert hvd.synchronize(mpi_ops._broadcast_async(mine(), output, 0, mpi_ops._NULL or None, SET)) is output
        same(output, of_rank(0))
    in_place = mine()
    assert hvd.synchronize(mpi_ops._allreduce_async(in_place, in_place, None, hvd.Average, 1.0, 1.0, SET)) is in_place
    same(in_place, hvd.allreduce(mine()))
    if hvd.size() & (hvd.size() - 1) == 0:
        same(hvd.synchronize(mpi_ops._allreduce_async(mine(), room(mine()), None, hvd.Adasum, 1.0, 1.0, SET)),
             hvd.allreduce(mine(), op=hvd.Adasum))


@check
def outputs_become_as_large_as_what_is_gathered():
    wanted = hvd.allgather(mine())
    for output in (torch.empty(0), room(mine()), room(wanted)):
        assert hvd.synchronize(mpi_ops._allgather_async(mine(), output, "below", SET)) is output
        same(output, wanted)
    outputs = [torch.empty(0), torch.empty(0)]
    hvd.synchronize(mpi_ops._grouped_allgather_async([mine(), 2 * mine()], outputs, "below", SET))
    same(outputs[1], 2 * wanted)
    rows = mine(shape=(5 * hvd.size(), 2))
    for splits in (None, [5] * hvd.size(), torch.full((hvd.size(),), 5)):
        output, received = torch.empty(0), torch.empty(0, dtype=torch.int32)
        handle = mpi_ops._alltoall_async(rows, splits, output, received, "below", SET)
        assert hvd.synchronize(handle)[0] is output and received.tolist() == [5] * hvd.size()
        same(output, hvd.alltoall(rows))
    output = torch.empty(0)
    hvd.synchronize(mpi_ops._reducescatter_async(rows, output, "below", hvd.Sum, SET, 1.0, 0.5))
    same(output, hvd.reducescatter(rows, op=hvd.Sum, postscale_factor=0.5))
    outputs = [torch.empty(0), torch.empty(0)]
    hvd.synchronize(mpi_ops._grouped_reducescatter_async([rows, rows], outputs, None, hvd.Sum, SET, 1.0, 1.0))
    same(outputs[1], hvd.reducescatter(rows, op=hvd.Sum))


@check
def what_they_refuse_the_others_hear():
    good, bad = mine(), mine().to(torch.complex64)
    calls = {"allreduce": lambda x: mpi_ops._allreduce_async(x, room(x), "b", hvd.Sum, 1.0, 1.0, SET),
             "broadcast": lambda x: mpi_ops._broadcast_async(x, room(x), 0, "b", SET),
             "allgather": lambda x: mpi_ops._allgather_async(x, room(x), "b", SET),
             "alltoall": lambda x: mpi_ops._alltoall_async(x, [0] * hvd.size(), room(x), room(x), "b", SET),
             "reducescatter": lambda x: mpi_ops._reducescatter_async(x, room(x), "b", hvd.Sum, SET, 1.0, 1.0),
             "grouped_allreduce": lambda x: mpi_ops._grouped_allreduce_async([x], [room(x)], "b", hvd.Sum, 1.0, 1.0, SET),
             "grouped_allgather": lambda x: mpi_ops._grouped_allgather_async([x], [room(x)], "b", SET),
             "grouped_reducescatter": lambda x: mpi_ops._grouped_reducescatter_async([x], [room(x)], "b", hvd.Sum, SET, 1.0, 1.0)}
    for word, call in calls.items():
        only_the_last_refuses("ComplexFloatTensor is not supported", f"{word}.b", lambda c=call: c(bad),
                              lambda c=call: hvd.synchronize(c(good)))
    if hvd.size() == 3:
        raises(NotImplementedError, mpi_ops._allreduce_async, good, room(good), None, hvd.Adasum, 1.0, 1.0, SET)
        raises(NotImplementedError, mpi_ops._grouped_allreduce_async, [good], [room(good)], None, hvd.Adasum, 1.0, 1.0, SET)


@check
def names_that_scripts_import_mean_what_they_say():
    hvd.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", "horovod/torch/__init__.py", "mpi_lib_v2")
    assert hvd._MPI_LIB_AVAILABLE and hvd._check_has_gpu() is torch.cuda.is_available()
    assert mpi_ops.num_rank_is_power_2(4) and mpi_ops.gpu_available("torch") is False
    assert mpi_ops.check_installed_version("pytorch", torch.__version__) is None
    assert mpi_ops.get_average_backwards_compatibility_fun(mpi_ops)(None, None) == hvd.Average
    assert mpi_ops._setup_process_sets is process_sets._setup and process_sets._setup(None) is None
    assert isinstance(elastic.notification_manager, elastic.WorkerNotificationManager)
    values = mine()
    handle = hvd.allreduce_async_(values, op=hvd.Sum)
    assert mpi_ops.mpi_lib is mpi_lib_v2 and mpi_lib_v2.horovod_torch_poll(handle) in (True, False)
    assert mpi_lib_v2.horovod_torch_wait_and_clear(handle) is None and mpi_lib_v2.horovod_torch_reset() is None
    same(values, reduced("sum"))
