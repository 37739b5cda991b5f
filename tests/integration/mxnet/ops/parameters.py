"""Checks of broadcast_parameters, of objects, and of what the module tells about the job."""
import json
import os
import pathlib

import mxnet as mx
from arrays import mine, of_rank, same
from checks import check, raises

import horovod.mxnet as hvd
import horovod.numpy
from horovod.common.exceptions import HorovodInternalError


def network(**options):
    """A small network; without in_units MXNet makes its weights in the first forward pass."""
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(4, activation="relu", **options), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(3))
    return net


def differing(net):
    """Initialises a network with other values on every rank."""
    mx.random.seed(hvd.rank() + 1)
    net.initialize(mx.init.Normal(1.0), force_reinit=True)
    return net


def same_on_all_ranks(net):
    for parameter in net.collect_params().values():
        values = parameter.data()
        for row in hvd.allgather(values.reshape((1, -1))):
            same(row.reshape(values.shape), values)


@check
def arrays_and_parameters_become_the_roots():
    root = hvd.size() - 1
    arrays = {"b": mine(), "a": mine("float64", (3,))}
    hvd.broadcast_parameters(arrays, root_rank=root, prefix="first.")
    same(arrays["b"], of_rank(root))
    same(arrays["a"], of_rank(root, "float64", (3,)))
    net = differing(network(in_units=5))
    expected = net[0].weight.data().copy()
    hvd.broadcast_parameters(net.collect_params(), root)  # the last layer's weights are not there yet
    if hvd.rank() == root:
        same(net[0].weight.data(), expected)
    net(mx.nd.ones((2, 5)))
    same_on_all_ranks(net)


@check
def parameters_without_a_shape_follow_once_they_have_one():
    net = differing(network())
    hvd.broadcast_parameters(net.collect_params(), root_rank=0, prefix="later.")
    hvd.broadcast_parameters(dict(net.collect_params().items()))  # the second call is in effect
    net.hybridize()
    net(mx.nd.ones((2, 5)))
    same_on_all_ranks(net)
    hvd.broadcast_parameters(net.collect_params())
    if hvd.rank() == 0:  # nothing is broadcast any more
        net.collect_params().reset_ctx(mx.cpu(1))


@check
def a_checkpoint_that_the_root_alone_has_loaded_reaches_all():
    path = str(pathlib.Path(os.environ["CHECK_RESULTS"], "saved.params"))
    saved = differing(network())
    saved(mx.nd.ones((2, 5)))
    if hvd.rank() == 0:
        saved.save_parameters(path)
    net = differing(network())
    if hvd.rank() == 0:
        net.load_parameters(path)
    hvd.broadcast_parameters(net.collect_params())
    net(mx.nd.ones((2, 5)))
    same_on_all_ranks(net)
    if hvd.rank() == 0:
        same(net[0].weight.data(), saved[0].weight.data())


@check
def what_cannot_be_broadcast_is_refused_on_all_ranks():
    assert raises(ValueError, hvd.broadcast_parameters, [mine()], root_rank=-1).startswith("invalid params of type: <class 'list'>")
    if hvd.size() == 1:
        return
    last = hvd.rank() == hvd.size() - 1
    text = raises(ValueError if last else HorovodInternalError, hvd.broadcast_parameters,
                  {"a": mine(), "b": "words" if last else mine(), "c": mine()})
    assert "Tensor type str is not supported" in text, text
    net = network(in_units=5)
    if not last:
        net.initialize()
    first = {"weight": net[0].weight}
    text = raises(RuntimeError, hvd.broadcast_parameters, first)
    assert "has not been initialized" in text and isinstance(text, str), text


@check
def objects_go_from_one_to_all_and_from_all_to_all():
    for root in range(hvd.size()):
        assert hvd.broadcast_object({"rank": hvd.rank()}, root_rank=root, name="object") == {"rank": root}
    assert "root" in raises((ValueError, HorovodInternalError), hvd.broadcast_object, 1, root_rank=hvd.size())
    assert hvd.allgather_object("x" * hvd.rank(), name="objects") == ["x" * rank for rank in range(hvd.size())]


@check
def the_module_tells_who_is_there_and_what_was_built():
    assert hvd.is_initialized() and hvd.size() == hvd.local_size() * hvd.cross_size()
    assert hvd.rank() == hvd.cross_rank() * hvd.local_size() + hvd.local_rank()
    assert hvd.mpi_enabled() and hvd.mpi_built() and isinstance(hvd.mpi_threads_supported(), bool)
    assert not any(built() for built in (hvd.gloo_enabled, hvd.gloo_built, hvd.nccl_built, hvd.ddl_built, hvd.ccl_built,
                                         hvd.cuda_built, hvd.rocm_built))


@check
def a_timeline_has_the_arrays():
    path = pathlib.Path(os.environ["CHECK_RESULTS"], "mxnet_timeline")
    horovod.numpy.barrier()
    hvd.start_timeline(str(path), mark_cycles=True)
    horovod.numpy.barrier()
    hvd.allreduce(mine(), name="seen")
    horovod.numpy.barrier()
    hvd.stop_timeline()
    horovod.numpy.barrier()
    if hvd.rank() == 0:
        events = json.loads(path.read_text(encoding="utf-8"))
        assert any("seen" in str(event.get("args")) for event in events), events


@check
def a_job_can_end_and_the_next_one_begin():
    rank, size = hvd.rank(), hvd.size()
    horovod.numpy.barrier()
    hvd.shutdown()
    assert not hvd.is_initialized()
    assert raises((ValueError, HorovodInternalError), hvd.allreduce, mine_of(rank)) == "Horovod has not been initialized; use hvd.init()."
    hvd.init(list(range(size)), process_sets="dynamic")
    assert (hvd.rank(), hvd.size()) == (rank, size)


def mine_of(rank):
    """mine(), where there is no job."""
    return of_rank(rank)
