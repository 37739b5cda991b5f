"""The collectives of TensorFlow: operations of the library of ops, eager or in a graph.

Eagerly an operation waits in the caller's thread, and its name is that of the call, or a number. In a graph the node's name is the
name; a collective there depends on its inputs alone, so that ranks may run them in any order, and runs also if its result is not used.

A call that this rank refuses before it reaches the runtime fails on the other ranks, too. The gradients are in gradients.py.
"""
import re

import tensorflow as tf
from tensorflow.python.framework import func_graph, ops

from horovod import _core
from horovod.common import refusals
from horovod.common.basics import (  # noqa: F401
    Adasum, Average, HorovodBasics as _HorovodBasics, Max, Min, Product, Sum, basics as _horovod_basics, ccl_built, cross_rank, cross_size,
    cuda_built, ddl_built, gloo_built, gloo_enabled, is_homogeneous, is_initialized, local_rank, local_size, mpi_built, mpi_enabled,
    mpi_threads_supported, nccl_built, rank, rocm_built, shutdown, size, start_timeline, stop_timeline)
from horovod.common.operations import handle_average_backwards_compatibility  # noqa: F401
from horovod.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set  # noqa: F401
from horovod.common.util import (  # noqa: F401
    check_installed_version, get_average_backwards_compatibility_fun, get_ext_suffix, gpu_available, num_rank_is_power_2)
from horovod.tensorflow import library, refusing, xla
from horovod.tensorflow.util import _executing_eagerly, leave_unconverted, variable_of

check_num_rank_power_of_2 = num_rank_is_power_2
_ops = library.ops
_EagerTensor = ops.EagerTensor
_ONLY_EAGER = {_EagerTensor}

_DTYPES = {getattr(tf, name) for name in ("uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64", "bool",
                                          "bfloat16", "uint32", "uint64")}


class _Basics:
    """The functions about the job, with one more that programs written for Horovod call."""

    def __getattr__(self, name):
        return getattr(_horovod_basics, name)

    @staticmethod
    def _get_process_set_ids_and_ranks():
        """Returns {number of a process set: its ranks}."""
        return {number: _core.process_set_ranks(number) for number in _core.process_set_ids()}


_basics = _Basics()


def init(*args, **kwargs):
    """Joins the job: init(comm=None, process_sets=None) of horovod.common.basics."""
    return _horovod_basics.init(*args, **kwargs)


# --- Refused calls


def _unregistered(process_set):
    return ValueError(f"{process_set} is not registered: use hvd.add_process_set or hvd.init(process_sets=...).")


def _number_of(process_set):
    """Returns the number of a process set; raises ValueError if it has none: an operation would take all ranks then."""
    number = process_set.process_set_id
    if number is None:
        raise _unregistered(process_set)
    return number


def _remedy(dtype):
    """Returns what to do about a tensor of a type that cannot be sent."""
    if dtype.is_complex:
        return "Send tf.math.real(tensor) and tf.math.imag(tensor)."
    if dtype == tf.string:
        return "Use hvd.broadcast_object() or hvd.allgather_object()."
    return "Send its bytes, tf.bitcast(tensor, tf.uint8)."


def _why(tensor):
    """Returns an exception that describes why a tensor cannot be sent, or None."""
    tensor = variable_of(tensor)
    if isinstance(tensor, (tf.IndexedSlices, tf.SparseTensor, tf.RaggedTensor)):
        return ValueError(f"Tensor type {type(tensor).__name__} is not supported. Send tf.convert_to_tensor(tensor), or reduce "
                          "tf.IndexedSlices with hvd.allreduce().")
    try:
        dtype = tf.as_dtype(tensor.dtype) if hasattr(tensor, "dtype") else tf.convert_to_tensor(tensor).dtype
    except Exception:  # pylint: disable=broad-except  # an object of any kind
        return ValueError(f"Tensor type {type(tensor).__qualname__} is not supported: a tf.Tensor is needed.")
    if dtype.base_dtype not in _DTYPES:
        return ValueError(f"Tensor type {dtype.name} is not supported. {_remedy(dtype)}")
    return None


def _explained(tensors, process_set):
    """Returns (an exception that describes a call that cannot be submitted, the tensor's place in its group), or (None, None)."""
    if process_set.process_set_id is None:
        return _unregistered(process_set), None
    for place, tensor in enumerate(tensors):
        reason = _why(tensor)
        if reason is not None:
            return reason, place
    return None, None


def _size_of_group(tensors, n):
    """Returns how many tensors the other ranks' operation has that fails with a group of n tensors here; 0 for no group.

    An operation has tensors of one type. Those that cannot be sent here are taken to be of that type elsewhere.
    """
    if n == 0 or len(tensors) != n:
        return refusals.EMPTY_GROUP if n else 0
    kinds = {tf.as_dtype(variable_of(tensor).dtype).base_dtype if hasattr(tensor, "dtype") else tf.convert_to_tensor(tensor).dtype
             for tensor in tensors if _why(tensor) is None}
    return n if len(kinds) < 2 else refusals.EMPTY_GROUP


def refused(error, word, tensors, name, process_set, n=0, is_node=False, is_whole=False):
    """Returns the exception to raise for an error of a call of n tensors of a group, or one (n = 0). is_node: the name is a node's.
    is_whole: a group of several types is one operation.

    If the call has not reached the runtime, announces it to the other ranks, which would wait for it.
    """
    if getattr(error, "is_told", False):
        return error
    try:
        reason, place = _explained(tensors, process_set)
    except Exception as failure:  # pylint: disable=broad-except  # arguments of any kind
        reason, place = failure, None
    if reason is None and isinstance(error, tf.errors.OpError):  # the runtime's own, for all ranks
        return error
    error = error if reason is None else reason
    text = refusals.reason_of(error)
    text = f"tensor {place + 1} of {n}: {text}" if n > 1 and place is not None else text
    announce = refusing.announce_node if is_node else refusals.announce
    announce(text, word, name, process_set, n if is_whole else _size_of_group(tensors, n))
    error.is_told = True
    return error


def group_of(tensors, word, name, process_set):
    """Returns the tensors of a group as a list. Without tensors raises ValueError, and makes the other ranks' group fail."""
    if type(tensors) is list and tensors:
        return tensors
    try:
        if isinstance(tensors, (tf.Tensor, tf.Variable)) or not hasattr(tensors, "__iter__"):
            raise ValueError(f"A group is a sequence of tensors, not {type(tensors).__qualname__}.")
        tensors = list(tensors)
        if not tensors:
            raise ValueError("A group needs at least one tensor.")
    except Exception as error:  # pylint: disable=broad-except  # also a generator's own
        if _executing_eagerly():
            refusals.tell(error, word, name, process_set, refusals.EMPTY_GROUP)
        elif name is not None:
            refusing.announce_node(refusals.reason_of(error), word, _name_in_graph(_node_name(name), False), process_set,
                                   refusals.EMPTY_GROUP)
        raise
    return tensors


# --- Names and graphs


def _normalize_name(name):
    """Returns a text with all that a node's name cannot hold replaced by "_"."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _node_name(name):
    """Returns the name that a node gets for the name of a call."""
    name = re.sub(r"[^a-zA-Z0-9_.\-/]", "_", name)
    return name if re.match(r"[a-zA-Z0-9.]", name) else f"H{name}"


def _tensor_name(tensor):
    try:
        return _normalize_name(tensor.name)
    except AttributeError:  # an eager tensor, which the graph captures
        return "constant"


def function_name():
    """Returns the name of the tf.function that is being traced, with an "_" behind it; "" in another graph. It tells apart what two
    functions send at once.

    Other functions, of branches, loops and gradients, have numbers in their names, which may differ between ranks.
    """
    name, graph = "", tf.compat.v1.get_default_graph()
    while isinstance(graph, func_graph.FuncGraph):
        if type(graph) is func_graph.FuncGraph and not graph.name.startswith("__"):
            name = f"{_normalize_name(graph.name)}_"
        graph = graph.outer_graph
    return name


def _name_for(kind, name, tensors):
    """Returns the name of a node for a collective."""
    if name is not None:
        return _node_name(name)
    parts = [_tensor_name(tensor) for tensor in (tensors[:1] if len(tensors) == 1 else (tensors[0], tensors[-1]))]
    return "_".join([f"Horovod{kind}", f"{function_name()}{parts[0]}", *parts[1:]])


def _name_in_graph(name, is_scope_ignored):
    """Returns the runtime's name of the next node of a name."""
    name = tf.compat.v1.get_default_graph().unique_name(name, mark_as_used=False)
    return name.rpartition("/")[2] if is_scope_ignored else name


def _as_tensors(tensors):
    return [tensor if isinstance(tensor, tf.Tensor) else tf.convert_to_tensor(variable_of(tensor)) for tensor in tensors]


_nodes = set()  # names of nodes with collectives, without their scopes


def is_node(name):
    """Returns whether a node, as messages of TensorFlow name it, may be one of a collective."""
    return name.rpartition("/")[2] in _nodes


def _built(kind, word, call, tensors, name, ignore_name_scope, process_set, n=0, **attributes):
    """Adds a collective to the graph that is being built, and returns its result; call: the function of the library."""
    named = None if name is None else _name_in_graph(_node_name(name), ignore_name_scope)
    try:
        converted = _as_tensors(tensors)
        node = _name_for(kind, name, converted)
        named = named or _name_in_graph(node, ignore_name_scope)  # now, because an attempt takes the name
        result = call(converted if n else converted[0], name=node, ignore_name_scope=ignore_name_scope,
                      process_set_id=_number_of(process_set), **attributes)
    except Exception as error:  # pylint: disable=broad-except
        if named is None:  # nobody knows what it would be called
            raise
        raise refused(error, word, tensors, named, process_set, n, is_node=True)
    library.independent(result)
    _nodes.add(named.rpartition("/")[2])
    return result


def _check_not_compiling(kind):
    """Raises within a function that XLA compiles, for an operation that has no custom call."""
    if xla.is_compiling():
        raise xla.unsupported(f"Horovod{kind}")


def _compiled(call, tensors, name, process_set, n=0, **reduction):
    """Adds an allreduce to a function that XLA compiles; call: that of xla.py."""
    name = _node_name(name) if name else tf.compat.v1.get_default_graph().unique_name(f"HorovodAllreduce_{function_name()}compiled")
    try:
        converted = _as_tensors(tensors)
        reason, _ = _explained(converted, process_set)
        if reason is not None:
            raise reason
        return call(converted if n else converted[0], name=name, process_set=process_set, **reduction)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "allreduce", tensors, name, process_set, n, is_node=True, is_whole=True)


def _by_type(tensors):
    """Returns [(places of tensors of one type, these tensors)] of a group, in the order of the first of each."""
    found = {}
    for place, tensor in enumerate(tensors):
        places, members = found.setdefault(tensor.dtype.base_dtype, ([], []))
        places.append(place)
        members.append(tensor)
    return list(found.values())


def _for_each_type(kind, call, word, tensors, name, ignore_name_scope, process_set):
    """Returns call(tensors of one type, name) for each type of a group, in the order of the tensors: an operation has one type.

    The first type has the name of the group. So ranks whose first types agree hear of each other, also where the others differ.
    """
    try:
        converted = _as_tensors(tensors)
        reason, place = _explained(converted, process_set)
        if reason is not None:
            reason.place_in_group = place
            raise reason
    except Exception as error:  # pylint: disable=broad-except
        is_built = not _executing_eagerly()
        name = _name_in_graph(_name_for(kind, name, tensors), ignore_name_scope) if is_built else name
        raise refused(error, word, tensors, name, process_set, len(tensors), is_built)
    parts = _by_type(converted)
    if len(parts) == 1:
        return list(call(converted, name))
    results = [None] * len(converted)
    for part, (places, members) in enumerate(parts):
        named = f"{name}.{members[0].dtype.name}" if name and part else name
        for place, result in zip(places, call(members, named)):
            results[place] = result
    return results


def _are_alike(tensors):
    """Returns whether all are eager tensors of one type, in a fraction of the time that a look at each takes."""
    return set(map(type, tensors)) == _ONLY_EAGER and len(set(map(_EagerTensor._datatype_enum, tensors))) == 1


def _grouped(kind, word, call, tensors, name, ignore_name_scope, process_set, **attributes):
    """Runs or adds an operation for a group; returns a list."""
    tensors = group_of(tensors, word, name, process_set)

    def one_type(members, named):
        if not _executing_eagerly():
            return _built(kind, word, call, members, named, ignore_name_scope, process_set, len(members), **attributes)
        try:
            return call(members, process_set_id=_number_of(process_set), tensor_name=_full(word, named), blocking=True, **attributes)
        except Exception as error:  # pylint: disable=broad-except
            raise refused(error, word, members, named, process_set, len(members))

    if _executing_eagerly() and _are_alike(tensors):
        return one_type(tensors, name)
    return _for_each_type(kind, one_type, word, tensors, name, ignore_name_scope, process_set)


# --- Collectives


def _full(word, name):
    """Returns the runtime's name of a tensor with a name in an eager call."""
    return f"{word}.{name}" if name else ""


def gathered(tensor, word, name, process_set):
    """Returns an eager allgather's result under the name that a collective of this word would have."""
    try:
        return _ops.horovod_allgather(tensor, process_set_id=_number_of(process_set), tensor_name=_full(word, name), blocking=True)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, word, (tensor,), name, process_set)


def _allreduce(tensor, name=None, op=Sum, prescale_factor=1.0, postscale_factor=1.0, ignore_name_scope=False,
               process_set=global_process_set):
    """Returns the reduction of a tensor over the ranks, with gradient."""
    if _executing_eagerly():
        try:
            return _ops.horovod_allreduce(tensor, reduce_op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                                          process_set_id=_number_of(process_set), tensor_name=_full("allreduce", name), blocking=True)
        except Exception as error:  # pylint: disable=broad-except
            raise refused(error, "allreduce", (tensor,), name, process_set)
    if xla.is_compiling():
        return _compiled(xla.allreduce, [tensor], name, process_set, op=op, prescale_factor=prescale_factor,
                         postscale_factor=postscale_factor)
    return _built("Allreduce", "allreduce", _ops.horovod_allreduce, [tensor], name, ignore_name_scope, process_set, reduce_op=op,
                  prescale_factor=prescale_factor, postscale_factor=postscale_factor)


def _grouped_allreduce(tensors, name=None, op=Sum, prescale_factor=1.0, postscale_factor=1.0, ignore_name_scope=False,
                       process_set=global_process_set):
    """Returns the reductions of tensors of any types, done together for each type, as a list, with gradients."""
    if not _executing_eagerly() and xla.is_compiling():
        tensors = group_of(tensors, "allreduce", name, process_set)
        return _compiled(xla.grouped_allreduce, tensors, name, process_set, len(tensors), op=op, prescale_factor=prescale_factor,
                         postscale_factor=postscale_factor)
    return _grouped("GroupedAllreduce", "allreduce", _ops.horovod_grouped_allreduce, tensors, name, ignore_name_scope, process_set,
                    reduce_op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor)


def allgather(tensor, name=None, ignore_name_scope=False, process_set=global_process_set):
    """Returns the ranks' tensors concatenated along the first dimension, which may differ; with gradient."""
    if _executing_eagerly():
        try:
            return _ops.horovod_allgather(tensor, process_set_id=_number_of(process_set), tensor_name=_full("allgather", name),
                                          blocking=True)
        except Exception as error:  # pylint: disable=broad-except
            raise refused(error, "allgather", (tensor,), name, process_set)
    _check_not_compiling("Allgather")
    return _built("Allgather", "allgather", _ops.horovod_allgather, [tensor], name, ignore_name_scope, process_set)


def grouped_allgather(tensors, name=None, ignore_name_scope=False, process_set=global_process_set):
    """Returns the allgathers of `tensors`, done together for each type, as a list, with gradients."""
    if not _executing_eagerly():
        _check_not_compiling("GroupedAllgather")
    return _grouped("GroupedAllgather", "allgather", _ops.horovod_grouped_allgather, tensors, name, ignore_name_scope, process_set)


def broadcast(tensor, root_rank, name=None, ignore_name_scope=False, process_set=global_process_set):
    """Returns the values that `tensor` has on root_rank, a rank of the job; with gradient."""
    if _executing_eagerly():
        try:
            return _ops.horovod_broadcast(tensor, root_rank=root_rank, process_set_id=_number_of(process_set),
                                          tensor_name=_full("broadcast", name), blocking=True)
        except Exception as error:  # pylint: disable=broad-except
            raise refused(error, "broadcast", (tensor,), name, process_set)
    _check_not_compiling("Broadcast")
    return _built("Broadcast", "broadcast", _ops.horovod_broadcast, [tensor], name, ignore_name_scope, process_set, root_rank=root_rank)


def broadcast_(variables, root_rank, name=None, process_set=global_process_set):
    """Gives variables the values that they have on root_rank. Returns these values, which in a graph have to be run.

    The variables are all resource variables, or all reference variables of graphs.
    """
    try:
        variables = [variable_of(variable) for variable in variables]
        if len({hasattr(variable, "handle") for variable in variables}) > 1:
            raise ValueError("broadcast_ takes variables of one kind: either resource or reference variables.")
    except Exception as error:  # pylint: disable=broad-except
        refusals.tell(error, "broadcast", f"{name or 'broadcast_'}.0", process_set)
        raise
    results = []
    for place, variable in enumerate(variables):
        named = f"{name or 'broadcast_'}.{place}"
        with tf.name_scope("HorovodBroadcastInplace") if not _executing_eagerly() else _nothing:
            value = broadcast(variable, root_rank, name=named, process_set=process_set)
            assigned = variable.assign(value)
        results.append(value if _executing_eagerly() else tf.convert_to_tensor(assigned))
    return results


class _Nothing:
    """A context that does nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


_nothing = _Nothing()


def alltoall(tensor, splits=None, name=None, ignore_name_scope=False, process_set=global_process_set):
    """Returns the rows that the ranks sent to this one, in rank order, with gradient; with splits (rows, how many came from each rank).

    splits: how many rows go to each rank of the process set; without them the same number to each.
    """
    try:
        counts = tf.constant([], tf.int32) if splits is None else tf.cast(_counts(splits), tf.int32)
    except Exception as error:  # pylint: disable=broad-except
        raise refused(error, "alltoall", (tensor,), name, process_set)
    if _executing_eagerly():
        try:
            output, received = _ops.horovod_alltoall(tensor, counts, process_set_id=_number_of(process_set),
                                                     tensor_name=_full("alltoall", name), blocking=True)
        except Exception as error:  # pylint: disable=broad-except
            raise refused(error, "alltoall", (tensor,), name, process_set)
    else:
        _check_not_compiling("Alltoall")
        output, received = _built("Alltoall", "alltoall", _ops.horovod_alltoall, [tensor], name, ignore_name_scope, process_set,
                                  splits=counts)
    return output if splits is None else (output, received)


def _counts(splits):
    """Returns splits as a tensor of integers."""
    splits = tf.convert_to_tensor(splits)
    if not splits.dtype.is_integer and splits.shape.num_elements() != 0:
        raise ValueError(f"splits are integers, not {splits.dtype.name}.")
    return splits


def _reducescatter(tensor, name=None, op=Sum, ignore_name_scope=False, process_set=global_process_set, prescale_factor=1.0,
                   postscale_factor=1.0):
    """Returns this rank's rows of the sum or average of the ranks' tensors, with gradient."""
    if _executing_eagerly():
        try:
            return _ops.horovod_reducescatter(tensor, reduce_op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                                              process_set_id=_number_of(process_set), tensor_name=_full("reducescatter", name),
                                              blocking=True)
        except Exception as error:  # pylint: disable=broad-except
            raise refused(error, "reducescatter", (tensor,), name, process_set)
    _check_not_compiling("Reducescatter")
    return _built("Reducescatter", "reducescatter", _ops.horovod_reducescatter, [tensor], name, ignore_name_scope, process_set,
                  reduce_op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor)


def _grouped_reducescatter(tensors, name=None, op=Sum, ignore_name_scope=False, process_set=global_process_set, prescale_factor=1.0,
                           postscale_factor=1.0):
    """Returns this rank's rows of the reductions of tensors, done together for each type, as a list, with gradients."""
    if not _executing_eagerly():
        _check_not_compiling("GroupedReducescatter")
    return _grouped("GroupedReducescatter", "reducescatter", _ops.horovod_grouped_reducescatter, tensors, name, ignore_name_scope,
                    process_set, reduce_op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor)


# --- The job, as operations that look when they run


def join():
    """Returns the rank that joined last, once all ranks have called it: this rank has no more tensors for now, and takes part in the
    allreduces of the others with zeros."""
    _check_not_compiling("Join")
    return _ops.horovod_join()


def size_op(process_set_id=0, name=None):
    """Returns the number of ranks of a process set, when it runs."""
    _check_not_compiling("Size")
    return _ops.horovod_size(process_set_id=process_set_id, name=name)


def process_set_included_op(process_set_id=0, name=None):
    """Returns 1 if this rank is in a process set, when it runs, else 0. -3: there is no such set; -1: the job has not begun."""
    _check_not_compiling("ProcessSetIncluded")
    return _ops.horovod_process_set_included(process_set_id=process_set_id, name=name)


def local_size_op(name=None):
    """Returns the number of ranks on this host, when it runs."""
    _check_not_compiling("LocalSize")
    return _ops.horovod_local_size(name=name)


def rank_op(name=None):
    """Returns this rank, when it runs."""
    _check_not_compiling("Rank")
    return _ops.horovod_rank(name=name)


def local_rank_op(name=None):
    """Returns this rank among those of its host, when it runs."""
    _check_not_compiling("LocalRank")
    return _ops.horovod_local_rank(name=name)


leave_unconverted(globals())
