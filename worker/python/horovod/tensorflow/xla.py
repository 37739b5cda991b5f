"""Allreduce in programs that XLA compiles, as tf.function(jit_compile=True) and compile(jit_compile=True) have them.

XLA compiles no operations of other libraries. So there a custom call takes the place of the operation: a C function that XLA calls by
its name. Only an allreduce and a group of them can be compiled. The calls of one graph run in program order, which has to be the same
on all ranks; outside of XLA any order is fine.
"""
import ctypes
import struct
import threading

import tensorflow
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.python.ops import control_flow_util

from horovod.common.process_sets import global_process_set
from horovod.tensorflow import library

TARGET = "horovod_allreduce"
_TOKEN = "_horovod_last_compiled_call"  # attribute of a graph: the byte that its last call returns

_registration = threading.Lock()


def is_compiling(graph=None):
    """Returns whether XLA compiles the graph, by default that in which the caller builds operations."""
    if graph is None:
        if tensorflow.executing_eagerly():
            return False
        graph = tensorflow.compat.v1.get_default_graph()
    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def unsupported(collective):
    """Returns the exception for another collective in such a program."""
    return NotImplementedError(f"Horovod's {collective} cannot be compiled by XLA: call it outside of the function with "
                               "jit_compile=True, or set jit_compile=False. Allreduce and grouped allreduce can.")


def _register():
    """Makes XLA know the custom call."""
    function = library.native.hvd_tf_xla_register
    function.restype = ctypes.c_char_p
    with _registration:
        problem = function()
    if problem is not None:
        raise NotImplementedError(f"Horovod's allreduce cannot be compiled by XLA, because {problem.decode()}. "
                                  "Set jit_compile=False.")


def _bits(factor):
    """Returns the bits of a float as an integer."""
    return struct.unpack("=q", struct.pack("=d", factor))[0]


def _describe(tensors, name, is_group, op, factors, process_set_id):
    """Returns the text by which the C function learns what to do; core/compiled.h describes it."""
    words = [int(is_group), op, process_set_id, *map(_bits, factors), len(tensors)]
    for tensor in tensors:
        if not tensor.shape.is_fully_defined():
            raise ValueError(f"Horovod's allreduce in a function with jit_compile=True needs tensors of a known shape, and {tensor.name} "
                             f"has {tensor.shape}. Give the function an input_signature without None, or set jit_compile=False.")
        words += [tensor.dtype.as_datatype_enum, tensor.shape.rank, *tensor.shape.as_list()]
    return " ".join(map(str, words)) + " " + name


def _call(tensors, text):
    """Adds the custom call to the graph, behind the last one of the graph. Returns the results."""
    _register()
    graph = tensorflow.compat.v1.get_default_graph()
    last = getattr(graph, _TOKEN, None)
    *results, token = gen_xla_ops.xla_custom_call_v2(
        [*tensors, *([] if last is None else [last])], call_target_name=TARGET, backend_config=text, has_side_effect=True,
        result_dtypes=[*(tensor.dtype for tensor in tensors), tensorflow.uint8],
        result_shapes=[*(tensor.shape for tensor in tensors), tensorflow.TensorShape([])])
    setattr(graph, _TOKEN, token)
    for result, tensor in zip(results, tensors):
        result.set_shape(tensor.shape)
    return results


def _reduce(tensors, name, is_group, op, factors, process_set_id):
    """Returns the sums, which have a gradient: the same reduction of the gradients."""
    @tensorflow.custom_gradient
    def reduced(*inputs):
        def gradient(*gradients):
            return _reduce(gradients, f"{name}_gradient", is_group, op, factors, process_set_id)
        results = _call(inputs, _describe(inputs, name, is_group, op, factors, process_set_id))
        return tuple(results), gradient
    return list(reduced(*tensors))


def _number_of(process_set):
    number = process_set.process_set_id
    if number is None:
        raise ValueError(f"{process_set} is not registered: use hvd.add_process_set or hvd.init(process_sets=...).")
    return number


def _name_of(name):
    return name or tensorflow.compat.v1.get_default_graph().unique_name("HorovodAllreduce", mark_as_used=True)


def allreduce(tensor, name=None, op=1, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """Returns the reduction of a tensor over the ranks. Only while is_compiling()."""
    return _reduce([tensorflow.convert_to_tensor(tensor)], _name_of(name), False, op, (prescale_factor, postscale_factor),
                   _number_of(process_set))[0]


def grouped_allreduce(tensors, name=None, op=1, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """Returns the reductions of tensors, which complete together, as a list. Only while is_compiling()."""
    return _reduce([tensorflow.convert_to_tensor(tensor) for tensor in tensors], _name_of(name), True, op,
                   (prescale_factor, postscale_factor), _number_of(process_set))
