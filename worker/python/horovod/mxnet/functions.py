"""Collectives for parameters and objects."""
from mxnet import gluon

from horovod.common import refusals
from horovod.common.objects import allgather_object, broadcast_object  # noqa: F401
from horovod.common.operations import complete
from horovod.mxnet.adapter import operations
from horovod.mxnet.mpi_ops import broadcast_, global_process_set, size


def broadcast_parameters(params, root_rank=0, prefix=None):
    """Copies the root's parameters to every rank, in place.

    params: a dictionary of arrays or parameters, as of Module.get_params() or Block.collect_params(). A parameter whose shape is not
    known yet follows when MXNet makes it, in the first forward pass. prefix: put before the names of the tensors.
    """
    if not isinstance(params, (dict, gluon.ParameterDict)):
        raise ValueError(f"invalid params of type: {type(params)}; broadcast_parameters takes a dictionary of arrays or parameters.")
    if size() == 1:
        return
    prefix = prefix or ""
    complete(lambda pair: operations.broadcast_async_(pair[1], root_rank, pair[0]),
             [(name, array) for name, array in _arrays(params, root_rank, prefix) if array is not None])


def _arrays(params, root_rank, prefix):
    """Yields (name of the tensor, array) in the same order on every rank; None for a parameter that follows."""
    for name, parameter in sorted(params.items()):
        name = f"{prefix}{name}"
        yield name, _array_of(parameter, root_rank, name) if isinstance(parameter, gluon.Parameter) else parameter


def _array_of(parameter, root_rank, name):
    try:
        return parameter.data()
    except gluon.parameter.DeferredInitializationError:
        _broadcast_when_made(parameter, root_rank, name)
        return None
    except RuntimeError as error:  # it was never initialized, or is sparse
        refusals.tell(error, "broadcast", name, global_process_set)
        raise


def _broadcast_when_made(parameter, root_rank, name):
    """Lets MXNet broadcast the parameter once, right after it has made it."""
    def init_impl(*args, **kwargs):
        del parameter._init_impl  # the class's method is in effect again
        parameter._init_impl(*args, **kwargs)
        broadcast_(parameter.data(), root_rank, name)

    parameter._init_impl = init_impl
