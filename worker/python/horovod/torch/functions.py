"""What ranks tell each other outside of the gradients: parameters, optimizer state, objects."""
import collections.abc
import itertools
import pickle

import torch

from horovod.common import refusals
from horovod.torch.mpi_ops import (allgather, broadcast_, broadcast_async_, global_process_set,
                                   rank, synchronize)

try:
    import cloudpickle as pickler  # also functions and classes of the script itself
except ImportError:
    pickler = pickle


def broadcast_parameters(params, root_rank):
    """Gives every rank the root's tensors, in place.

    params: a state_dict(), or pairs (name, tensor) as of named_parameters(), or a list of tensors.
    """
    handles, failure = [], None
    for name, tensor in _named(params):  # all of them, whatever becomes of one: the other ranks do so, too
        try:
            handles.append(_begin(tensor, root_rank, name))
        except (ValueError, TypeError, RuntimeError) as error:
            failure = failure or error
    for handle in handles:
        try:
            synchronize(handle)
        except RuntimeError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def _begin(tensor, root_rank, name):
    if isinstance(tensor, torch.Tensor):
        return broadcast_async_(tensor, root_rank, name)
    error = ValueError(f"broadcast_parameters takes tensors; {name} is of {type(tensor)}.")
    refusals.tell(error, "broadcast", name, global_process_set)
    raise error


def _named(params):
    """The pairs (name, tensor) of params, in the same order on every rank; None is left out."""
    if isinstance(params, collections.abc.Mapping):
        pairs = sorted(params.items())
    elif isinstance(params, collections.abc.Iterable) and not isinstance(params, (str, torch.Tensor)):
        pairs = [pair if isinstance(pair, tuple) else (None, pair) for pair in params]
    else:
        raise ValueError(f"broadcast_parameters takes a state_dict or named parameters, not {type(params)}.")
    return [(name, tensor) for name, tensor in pairs if tensor is not None]


class _Slot:
    """Stands for a tensor in what broadcast_optimizer_state sends: the tensor follows by itself."""

    def __init__(self, tensor, parameter):
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype
        self.is_with_parameter = parameter is not None and tensor.device == parameter.device

    def tensor(self, current, parameter):
        """A tensor to receive into: the current one where it fits, else a new one."""
        if (isinstance(current, torch.Tensor) and current.dtype == self.dtype
                and tuple(current.shape) == self.shape):
            return current
        device = parameter.device if self.is_with_parameter else "cpu"
        return torch.empty(self.shape, dtype=self.dtype, device=device)


def broadcast_optimizer_state(optimizer, root_rank, model=None):
    """Gives every rank the root's optimizer state and options, in place.

    The state becomes exactly the root's, also where the root has state that this rank has not or
    the reverse. No step is made for it, so no parameter changes. As in Horovod, parameters of an
    optimizer without state have gradients of zeros afterwards where they had none. model is not
    needed for that, and taken because scripts pass it.
    """
    del model
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    if not optimizer.state:
        _give_gradients(optimizer)
    places = _places(optimizer)
    tensors = []
    if rank() == root_rank:
        described = {place: _describe(holder, parameter, place, tensors)
                     for place, (holder, parameter) in places.items()}
        broadcast_object(described, root_rank, "optimizer_state")
    else:
        described = broadcast_object(None, root_rank, "optimizer_state")
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


def _give_gradients(optimizer):
    """Gradients of zeros for parameters that want one and have none."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.grad is None:
                zeros = torch.zeros_like(parameter, requires_grad=False)
                parameter.grad = zeros.to_sparse(1) if isinstance(optimizer, torch.optim.SparseAdam) else zeros


def _different(described):
    """ValueError for an optimizer that is not as the root's, whose tensors this rank does not take."""
    error = ValueError("the optimizers differ between ranks: they must have the same parameter "
                       "groups with as many parameters each.")
    for place, values in described.items():
        for key, value in values.items():
            if isinstance(value, _Slot):
                refusals.tell(error, "broadcast", _name_of(place, key), global_process_set)
    return error


def _name_of(place, key):
    return f"optimizer_state.{place}.{key}"


def _places(optimizer):
    """{place: (dictionary, parameter or None)} of all that makes up an optimizer's state."""
    places = {}
    for i, group in enumerate(optimizer.param_groups):
        places[f"group.{i}"] = (group, None)
        for j, parameter in enumerate(group["params"]):
            places[f"state.{i}.{j}"] = (optimizer.state.get(parameter, {}), parameter)
    return places


def _describe(holder, parameter, place, tensors):
    """The root's side: holder with slots for its tensors, which are appended to tensors."""
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
    """The others' side: holder becomes as described; where to receive goes to tensors."""
    for key in [key for key in holder if key != "params" and key not in described]:
        del holder[key]
    for key, value in described.items():
        if isinstance(value, _Slot):
            value = value.tensor(holder.get(key), parameter)
            tensors.append((_name_of(place, key), value))
        holder[key] = value


def broadcast_object(obj, root_rank=0, name=None, process_set=global_process_set):
    """The root's object, on every rank; what the others pass is not looked at.

    Objects travel pickled: any that pickle (cloudpickle, where it is installed) can carry.
    """
    name = name or "broadcast_object"
    is_root = rank() == root_rank
    data = _pickled(obj, "broadcast", f"{name}.size", process_set) if is_root else b""
    length = torch.tensor([len(data)], dtype=torch.int64)
    broadcast_(length, root_rank, f"{name}.size", process_set)
    data = data or bytearray(int(length))
    broadcast_(_bytes(data), root_rank, f"{name}.data", process_set)
    return obj if is_root else pickle.loads(data)


def allgather_object(obj, name=None):
    """The objects of all ranks, a list in the order of the ranks."""
    return gather_objects(obj, name or "allgather_object", global_process_set)


def gather_objects(obj, name, process_set):
    """The same in a process set, in the order of its ranks."""
    data = _pickled(obj, "allgather", f"{name}.size", process_set)
    lengths = allgather(torch.tensor([len(data)], dtype=torch.int64), f"{name}.size", process_set).tolist()
    gathered = bytearray(sum(lengths))
    _bytes(gathered).copy_(allgather(_bytes(data), f"{name}.data", process_set))
    view, ends = memoryview(gathered), itertools.accumulate(lengths)
    return [pickle.loads(view[end - length:end]) for end, length in zip(ends, lengths)]


def _pickled(obj, word, name, process_set):
    """The object as bytes; where that fails, so does the collective that the other ranks begin with."""
    try:
        return bytearray(pickler.dumps(obj))
    except Exception as error:  # pylint: disable=broad-except
        refusals.tell(error, word, name, process_set)
        raise


def _bytes(data):
    """A tensor of the memory of a bytearray."""
    return torch.frombuffer(data, dtype=torch.uint8)
