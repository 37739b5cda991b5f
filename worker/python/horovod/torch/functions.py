"""Collectives for parameters, optimizer state and objects."""
import collections.abc

import torch

from horovod import _core
from horovod.common import refusals
from horovod.common.objects import allgather_object, broadcast_object, refuse_broadcast  # noqa: F401
from horovod.common.operations import complete
from horovod.torch.mpi_ops import broadcast_async_, global_process_set, rank

STATE_NAME = "optimizer_state"  # of the object and its tensors


def await_results():
    """Waits until the GPU has done all of its work, and raises HorovodInternalError if the job has failed meanwhile.

    synchronize() and step() return before the GPU has reduced CUDA tensors. If a collective then fails, its result is undefined, and
    the stream goes on with it. Call this before results leave the program, for example in a checkpoint. Not part of Horovod 0.28.
    """
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    _core.check_job()


def broadcast_parameters(params, root_rank):
    """Copies the root's tensors to every rank, in place.

    params: a state_dict(), or pairs (name, tensor) as of named_parameters(), or a list of tensors.
    """
    complete(lambda pair: _begin(pair[1], root_rank, pair[0]), _named(params))


def _begin(tensor, root_rank, name):
    if isinstance(tensor, torch.Tensor):
        return broadcast_async_(tensor, root_rank, name)
    error = ValueError(f"broadcast_parameters takes tensors; {name} is of {type(tensor)}.")
    refusals.tell(error, "broadcast", name, global_process_set)
    raise error


def _named(params):
    """Returns the pairs (name, tensor) of params, in the same order on every rank; omits None."""
    if isinstance(params, collections.abc.Mapping):
        pairs = sorted(params.items())
    elif isinstance(params, collections.abc.Iterable) and not isinstance(params, (str, torch.Tensor)):
        pairs = [pair if isinstance(pair, tuple) else (None, pair) for pair in params]
    else:
        raise ValueError(f"broadcast_parameters takes a state_dict or named parameters, not {type(params)}.")
    return [(name, tensor) for name, tensor in pairs if tensor is not None]


class _Slot:
    """Stands for a tensor in the object that broadcast_optimizer_state sends; the tensor follows separately."""

    def __init__(self, tensor, parameter):
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype
        self.is_with_parameter = parameter is not None and tensor.device == parameter.device

    def tensor(self, current, parameter):
        """Returns a tensor to receive into: the current one if it fits, else a new one."""
        if (isinstance(current, torch.Tensor) and current.dtype == self.dtype
                and tuple(current.shape) == self.shape):
            return current
        device = parameter.device if self.is_with_parameter else "cpu"
        return torch.empty(self.shape, dtype=self.dtype, device=device)


def broadcast_optimizer_state(optimizer, root_rank, model=None):
    """Copies the root's optimizer state and options to every rank, in place.

    The state becomes exactly the root's, also if the root has state that this rank lacks, or the reverse. The optimizer makes
    no step, so no parameter changes. As in Horovod, if the optimizer has no state, its parameters without a gradient get a
    gradient of zeros. model is ignored; scripts pass it.
    """
    del model
    is_root = rank() == root_rank
    tensors = []
    try:
        places = _read(optimizer)
        described = {place: _describe(holder, parameter, place, tensors)
                     for place, (holder, parameter) in places.items()} if is_root else None
    except Exception as error:  # pylint: disable=broad-except  # an object of any kind
        refuse_broadcast(error, STATE_NAME, global_process_set)
        raise
    described = broadcast_object(described, root_rank, STATE_NAME)
    if not is_root:
        if described.keys() != places.keys():
            raise _different(described)
        for place, (holder, parameter) in places.items():
            _take_over(holder, parameter, described[place], place, tensors)
    broadcast_parameters(tensors, root_rank)
    for holder, parameter in places.values():
        if parameter is not None and holder:
            optimizer.state[parameter] = holder
        elif parameter is not None:
            optimizer.state.pop(parameter, None)


def _read(optimizer):
    """Returns the places of an optimizer, which gets gradients if it has no state. Raises for one without state to send."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    if not optimizer.state:
        _give_gradients(optimizer)
    return _places(optimizer)


def _give_gradients(optimizer):
    """Sets a gradient of zeros for parameters that require one and have none."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.grad is None:
                zeros = torch.zeros_like(parameter, requires_grad=False)
                parameter.grad = zeros.to_sparse(1) if isinstance(optimizer, torch.optim.SparseAdam) else zeros


def _different(described):
    """Returns a ValueError for an optimizer that differs from the root's, and refuses the root's tensors."""
    error = ValueError("the optimizers differ between ranks: they must have the same parameter "
                       "groups with as many parameters each.")
    for place, values in described.items():
        for key, value in values.items():
            if isinstance(value, _Slot):
                refusals.tell(error, "broadcast", _name_of(place, key), global_process_set)
    return error


def _name_of(place, key):
    return f"{STATE_NAME}.{place}.{key}"


def _places(optimizer):
    """Returns {place: (dictionary, parameter or None)} for all parts of an optimizer's state."""
    places = {}
    for i, group in enumerate(optimizer.param_groups):
        places[f"group.{i}"] = (group, None)
        for j, parameter in enumerate(group["params"]):
            places[f"state.{i}.{j}"] = (optimizer.state.get(parameter, {}), parameter)
    return places


def _describe(holder, parameter, place, tensors):
    """The root's side: returns holder with slots for its tensors, and appends these to tensors."""
    described = {}
    for key, value in holder.items():
        if key == "params":
            continue
        if isinstance(value, torch.Tensor):
            tensors.append((_name_of(place, key), value))
            value = _Slot(value, parameter)
        described[key] = value
    return described


def _take_over(holder, parameter, described, place, tensors):
    """The others' side: makes holder equal to the description, and appends the tensors to receive into to tensors."""
    for key in [key for key in holder if key != "params" and key not in described]:
        del holder[key]
    for key, value in described.items():
        if isinstance(value, _Slot):
            value = value.tensor(holder.get(key), parameter)
            tensors.append((_name_of(place, key), value))
        holder[key] = value
