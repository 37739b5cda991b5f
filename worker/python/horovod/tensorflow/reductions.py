"""What reduces tensors and lists of gradients: dense ones, slices (tf.IndexedSlices), groups.

Slices are reduced by two allgathers, first of the values and then of the indices. The first one has the name that the tensor would
have as a dense one: ranks of which one has slices and another a dense tensor all get an error, and none waits.

A list of gradients is reduced one by one in a graph, so that they are sent while others are computed. Eagerly, and in a function that
XLA compiles, it is reduced as a group. XLA compiles no allgather: there slices are reduced as dense tensors.
"""
import tensorflow as tf

from horovod.common import refusals
from horovod.common.util import split_list
from horovod.tensorflow import mpi_ops, xla
from horovod.tensorflow.compression import Compression, NoneCompressor
from horovod.tensorflow.mpi_ops import (
    Adasum, Average, Sum, _allreduce, _grouped_allreduce, _grouped_reducescatter, _reducescatter, check_num_rank_power_of_2,
    global_process_set, handle_average_backwards_compatibility, size_op)
from horovod.tensorflow.util import _executing_eagerly, leave_unconverted, ref_of


def on(device):
    """Returns the context of a device; "": where TensorFlow puts an operation."""
    return tf.device(device) if device else mpi_ops._nothing


def check_adasum(process_set):
    """Raises unless the ranks of a process set can run Adasum."""
    if not check_num_rank_power_of_2(process_set.size() or 1):
        raise NotImplementedError(f"Adasum needs 1, 2, 4, 8, ... ranks, not {process_set.size()}.")


def _reduction(op, average, process_set):
    """Returns the reduction that the arguments request, checked; op None means Average."""
    if op is None or average is not None:
        op = handle_average_backwards_compatibility(op, average)
    if op == Adasum:
        check_adasum(process_set)
    return op


def _refuses(function):
    """Wraps function(word, tensors, name, process_set, n, ...): an exception makes the other ranks' call fail, too."""

    def wrapper(word, tensors, name, process_set, n, *arguments):
        try:
            return function(*arguments)
        except Exception as error:  # pylint: disable=broad-except
            raise mpi_ops.refused(error, word, tensors, name, process_set, n)

    return wrapper


_checked = _refuses(lambda check, *arguments: check(*arguments))


# --- Slices


def have_slices(tensors):
    """Returns whether some of the tensors are slices. A look at each kind once takes less time than one at each tensor."""
    return any(issubclass(kind, tf.IndexedSlices) for kind in set(map(type, tensors)))


def check_slices(op):
    """Raises for a reduction that slices do not support."""
    if op == Adasum:
        raise NotImplementedError("Adasum does not reduce tf.IndexedSlices: use sparse_as_dense=True, or tf.convert_to_tensor.")
    if op not in (Average, Sum):
        raise NotImplementedError("tf.IndexedSlices are summed and averaged only.")


def _name_of_slices(tensor):
    return f"HorovodAllgather_{mpi_ops.function_name()}{mpi_ops._tensor_name(tensor)}"


_divisors = {}  # {(number, type): an eager tensor of it}


def _scaled(values, op, factor, process_set):
    """Returns values times a factor, and for Average divided by the number of ranks. Before they are sent there are fewer of them."""
    if factor != 1:
        values = values * tf.cast(factor, values.dtype)
    if op != Average:
        return values
    if not _executing_eagerly() and process_set is global_process_set:
        return values / tf.cast(size_op(), values.dtype)
    n = process_set.size()
    if n == 1:
        return values
    if not _executing_eagerly():
        return values / tf.cast(n, values.dtype)
    key = n, values.dtype
    if key not in _divisors:
        _divisors[key] = tf.constant(n, values.dtype)
    return values / _divisors[key]


def _reduced_slices(slices, op, factor, compression, name, process_set, ignore_name_scope):
    """Returns the sum or average of tf.IndexedSlices: those of all ranks behind one another."""
    if process_set.process_set_id is not None:  # else the allgather names it
        values = _scaled(slices.values, op, factor, process_set)
    else:
        values = slices.values
    sent, ctx = compression.compress(values)
    if _executing_eagerly():
        values = mpi_ops.gathered(sent, "allreduce", name, process_set)
        indices = mpi_ops.gathered(slices.indices, "allreduce", f"{name}.indices" if name else None, process_set)
    else:
        name = name or _name_of_slices(slices.values)
        values = mpi_ops.allgather(sent, name, ignore_name_scope, process_set)
        with tf.control_dependencies([values]):  # if it fails, the indices are not sent, for which nobody would wait
            indices = mpi_ops.allgather(slices.indices, f"{name}.indices", ignore_name_scope, process_set)
    return tf.IndexedSlices(compression.decompress(values, ctx), indices, dense_shape=slices.dense_shape)


# --- One tensor, and groups


def allreduce(tensor, average=None, device_dense="", device_sparse="", compression=Compression.none, op=None, prescale_factor=1.0,
              postscale_factor=1.0, name=None, process_set=global_process_set, ignore_name_scope=False):
    """Returns the reduction of `tensor` over the ranks, with gradient; of tf.IndexedSlices such slices.

    op: Average (the default), Sum, Adasum, Min, Max or Product; average is its older form. compression: the type in which it is sent.
    prescale_factor and postscale_factor multiply tensor and result. device_dense and device_sparse: where the operations are put.
    """
    if op is None or op == Adasum or average is not None:
        op = _checked("allreduce", (tensor,), name, process_set, 0, _reduction, op, average, process_set)
    if isinstance(tensor, tf.IndexedSlices):
        _checked("allreduce", (tensor.values,), name, process_set, 0, check_slices, op)
        if xla.is_compiling():
            tensor = as_dense(tensor)
    if isinstance(tensor, tf.IndexedSlices):
        with on(device_sparse):
            return _reduced_slices(tensor, op, prescale_factor * postscale_factor, compression, name, process_set, ignore_name_scope)
    with on(device_dense):
        if compression is NoneCompressor:
            return _allreduce(tensor, name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set)
        sent, ctx = _checked("allreduce", (tensor,), name, process_set, 0, compression.compress, tensor)
        received = _allreduce(sent, name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set)
        return compression.decompress(received, ctx)


def _compressed(tensors, compression, word, name, process_set):
    """Returns (a group's tensors to send, the context for decompress of each)."""
    def compress():
        sent, contexts = [], []
        for place, tensor in enumerate(tensors):
            try:
                packed, ctx = compression.compress(tensor)
            except Exception as error:  # pylint: disable=broad-except
                error.place_in_group = place
                raise
            sent.append(packed)
            contexts.append(ctx)
        return sent, contexts

    return _checked(word, tensors, name, process_set, len(tensors), compress)


def _grouped(call, word, tensors, compression, name, process_set, *arguments):
    """Returns the results of a grouped collective of compressed tensors, a list."""
    if compression is NoneCompressor:
        return call(tensors, name, *arguments)
    sent, contexts = _compressed(tensors, compression, word, name, process_set)
    return [compression.decompress(result, ctx) for result, ctx in zip(call(sent, name, *arguments), contexts)]


def grouped_allreduce(tensors, average=None, device_dense="", device_sparse="", compression=Compression.none, op=None,
                      prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set, ignore_name_scope=False, name=None):
    """Returns the reductions of `tensors`, done together, as a list; parameters as those of allreduce. No tensors: returns them."""
    if isinstance(tensors, (list, tuple)) and not tensors:
        return tensors
    tensors = mpi_ops.group_of(tensors, "allreduce", name, process_set)
    if op is None or op == Adasum or average is not None:
        op = _checked("allreduce", (), name, process_set, len(tensors), _reduction, op, average, process_set)
    has_any = have_slices(tensors)
    if has_any:
        _checked("allreduce", (), name, process_set, len(tensors), check_slices, op)
        if xla.is_compiling():
            tensors, has_any = [as_dense(tensor) for tensor in tensors], False
    if not has_any:
        with on(device_dense):
            return _grouped(_grouped_allreduce, "allreduce", tensors, compression, name, process_set, op, prescale_factor,
                            postscale_factor, ignore_name_scope, process_set)
    has_slices = [isinstance(tensor, tf.IndexedSlices) for tensor in tensors]
    with on(device_dense):
        sent = [_stand_in(tensor) if is_sparse else tensor for tensor, is_sparse in zip(tensors, has_slices)]
        results = _grouped(_grouped_allreduce, "allreduce", sent, compression, name, process_set, op, prescale_factor, postscale_factor,
                           ignore_name_scope, process_set)
    with on(device_sparse), tf.control_dependencies(results) if not _executing_eagerly() else mpi_ops._nothing:
        for place, tensor in enumerate(tensors):
            if has_slices[place]:
                results[place] = _reduced_slices(tensor, op, prescale_factor * postscale_factor, compression,
                                                 None if name is None else f"{name}.{place}", process_set, ignore_name_scope)
    return results


def _stand_in(slices):
    """Returns what a group has in the place of slices: a tensor without elements. The ranks where it is dense get an error for it, and
    this one, too, before it sends the slices, for which nobody would wait."""
    return tf.zeros([0], slices.dtype)


def reducescatter(tensor, device_dense="", compression=Compression.none, op=Average, name=None, process_set=global_process_set,
                  ignore_name_scope=False, prescale_factor=1.0, postscale_factor=1.0):
    """Returns this rank's rows of the average or sum of the ranks' tensors, with gradient.

    Of N rows over n ranks each gets N / n, and the first N % n ranks one more.
    """
    with on(device_dense):
        if compression is NoneCompressor:
            return _reducescatter(tensor, name, op, ignore_name_scope, process_set, prescale_factor, postscale_factor)
        sent, ctx = _checked("reducescatter", (tensor,), name, process_set, 0, compression.compress, tensor)
        received = _reducescatter(sent, name, op, ignore_name_scope, process_set, prescale_factor, postscale_factor)
        return compression.decompress(received, ctx)


def grouped_reducescatter(tensors, device_dense="", compression=Compression.none, op=Average, process_set=global_process_set,
                          prescale_factor=1.0, postscale_factor=1.0):
    """Returns this rank's rows of the reductions of `tensors`, done together, as a list. No tensors: returns them."""
    if isinstance(tensors, (list, tuple)) and not tensors:
        return tensors
    tensors = mpi_ops.group_of(tensors, "reducescatter", None, process_set)
    with on(device_dense):
        return _grouped(_grouped_reducescatter, "reducescatter", tensors, compression, None, process_set, op, False, process_set,
                        prescale_factor, postscale_factor)


# --- Lists of gradients


def check_groups(groups, num_groups=0):
    """Returns the groups of an optimizer: None, a number, or lists of variables; num_groups is the older form of a number."""
    if num_groups:
        import warnings  # pylint: disable=import-outside-toplevel
        warnings.warn("Use groups instead of num_groups.", DeprecationWarning, stacklevel=3)
        groups = num_groups if groups is None else groups
    if groups is None or (isinstance(groups, list) and all(isinstance(one, (list, tuple)) for one in groups)):
        return groups
    if isinstance(groups, int) and not isinstance(groups, bool) and groups >= 0:
        return groups or None
    raise ValueError(f"groups is a number of groups, or a list of lists of variables, not {groups!r}.")


def check_predivide(factor, op):
    """Raises ValueError for a gradient_predivide_factor that the reduction does not support."""
    if factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=Average.")
    if not factor:
        raise ValueError("gradient_predivide_factor must not be 0.")


def as_dense(gradient):
    """Returns a gradient as a tensor; None as it is."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    tensor = tf.convert_to_tensor(gradient)
    if not _executing_eagerly() and not tensor.shape.is_fully_defined():  # known, if the slices' variable is
        tensor.set_shape(tf.TensorShape(gradient.shape))
    return tensor


def divided(gradient, number):
    """Returns a gradient divided by a number; None as it is."""
    if gradient is None or number == 1:
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(divided(gradient.values, number), gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(number, gradient.dtype)


class Gradients:
    """Reduces lists of gradients: Gradients(...)(gradients, variables) returns the reduced ones in the same order.

    None stays None. groups: None, a number, or lists of variables whose gradients are reduced as one.
    """

    def __init__(self, name, device_dense="", device_sparse="", compression=Compression.none, sparse_as_dense=False, op=Average,
                 gradient_predivide_factor=1.0, groups=None, process_set=global_process_set):
        check_predivide(gradient_predivide_factor, op)
        self.name = name
        self.process_set = process_set
        self._devices = {"device_dense": device_dense, "device_sparse": device_sparse}
        self._compression = compression
        self._sparse_as_dense = sparse_as_dense
        self._op = op
        self._factors = (1.0 / gradient_predivide_factor, gradient_predivide_factor) if op == Average else (1.0, 1.0)
        self._groups = check_groups(groups)
        self._is_plain = compression is NoneCompressor and not device_dense  # takes the direct path

    def __call__(self, grads, vars=None, use_generic_names=False):
        if self._sparse_as_dense:
            grads = [as_dense(gradient) for gradient in grads]
        if self._is_alone():
            return list(grads)
        if _executing_eagerly() or xla.is_compiling():
            return self._reduce(grads, vars, use_generic_names)
        with tf.name_scope(f"{self.name}_Allreduce"):
            return self._reduce(grads, vars, use_generic_names)

    def _is_alone(self):
        """Returns whether there is nothing to reduce on this rank. A graph may outlive the job, so it always has the operations."""
        is_in = self.process_set.included()
        if is_in is None:
            raise ValueError(f"{self.process_set} is not registered: use hvd.add_process_set or hvd.init(process_sets=...).")
        if self._op == Adasum:
            check_adasum(self.process_set)
        return not is_in or (_executing_eagerly() and self.process_set.size() == 1)

    def _reduce(self, grads, variables, use_generic_names):
        results = list(grads)
        is_one_group = self._groups is None and (_executing_eagerly() or xla.is_compiling())
        for number, places in enumerate(self._parts(grads, variables, is_one_group)):
            name = self._name_of(places[0] if self._groups is None and not is_one_group else number, use_generic_names)
            if len(places) == 1 and not is_one_group:
                reduced = [self._one(grads[places[0]], name, use_generic_names)]
            else:
                reduced = self._group([grads[place] for place in places], name, use_generic_names)
            for place, gradient in zip(places, reduced):
                results[place] = gradient
        return results

    def _name_of(self, number, use_generic_names):
        """Returns the name of a gradient, or of a group."""
        if use_generic_names:
            return f"grad_{number}"
        if _executing_eagerly():
            return f"{self.name}.grad_{number}"
        return f"HorovodAllreduce_{mpi_ops.function_name()}grad_{number}"

    def _parts(self, grads, variables, is_one_group):
        """Returns lists of the places of gradients that are reduced together."""
        places = [place for place, gradient in enumerate(grads) if gradient is not None]
        if not places:
            return []
        if isinstance(self._groups, int):
            return [part for part in split_list(places, min(self._groups, len(places)))]
        if self._groups is not None:
            return self._listed_parts(places, variables)
        return [places] if is_one_group else [[place] for place in places]

    def _listed_parts(self, places, variables):
        """Returns the places by the lists of variables; a variable in none of them is reduced alone."""
        if variables is None:
            raise ValueError("Groups of variables need the variables of the gradients.")
        of_variable = {ref_of(variables[place]): place for place in places}
        parts = []
        for group in self._groups:
            members = [of_variable.pop(ref) for ref in map(ref_of, group) if ref in of_variable]
            parts += [members] if members else []
        return parts + [[place] for place in sorted(of_variable.values())]

    def _one(self, gradient, name, use_generic_names):
        if self._is_plain and not isinstance(gradient, tf.IndexedSlices):
            return _allreduce(gradient, name, self._op, *self._factors, use_generic_names, self.process_set)
        return allreduce(gradient, None, self._devices["device_dense"], self._devices["device_sparse"], self._compression, self._op,
                         *self._factors, name, self.process_set, use_generic_names)

    def _group(self, gradients, name, use_generic_names):
        if self._is_plain and not have_slices(gradients):
            return _grouped_allreduce(gradients, name, self._op, *self._factors, use_generic_names, self.process_set)
        return grouped_allreduce(gradients, None, self._devices["device_dense"], self._devices["device_sparse"], self._compression,
                                 self._op, *self._factors, self.process_set, use_generic_names, name)


def _make_allreduce_grads_fn(name, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor, groups,
                             process_set):
    """Returns Gradients, by the name and with the parameters that programs written for Horovod use."""
    return Gradients(name, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor, groups, process_set)


def with_local(reduce, grads, variables, local_refs, process_set, scale_local_gradients=True):
    """Returns the gradients in their order: reduce(gradients, variables) of all but those of local variables.

    local_refs: references (util.ref_of) to these. Their gradients are divided by the number of ranks, or returned as they are: the
    others are averages, and so both have the weight of the loss of all ranks.
    """
    if not local_refs:
        return reduce(grads, variables)
    is_local = [ref_of(variable) in local_refs for variable in variables]
    shared = [place for place, local in enumerate(is_local) if not local]
    results = list(grads)
    for place, gradient in zip(shared, reduce([grads[place] for place in shared], [variables[place] for place in shared])):
        results[place] = gradient
    if scale_local_gradients:
        n = process_set.size()
        results = [divided(gradient, n) if local else gradient for gradient, local in zip(results, is_local)]
    return results


def tell(error, name, process_set):
    """Announces an error that keeps this rank from reducing gradients."""
    refusals.tell(error, "allreduce", name, process_set)


leave_unconverted(globals())
