"""The gradients of the collectives, by Horovod's convention that the loss is averaged over the ranks.

Eagerly the runtime numbers the collectives of a backward pass, so every rank runs the same backward passes in the same order.
"""
import tensorflow as tf

from horovod import _core
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow import mpi_ops
from horovod.tensorflow.mpi_ops import (
    Average, Sum, _allreduce, _grouped_allreduce, allgather, alltoall, grouped_allgather, rank_op)
from horovod.tensorflow.util import leave_unconverted


def _set_of(op):
    """Returns the process set of an operation."""
    number = op.get_attr("process_set_id")
    if number == 0:
        return global_process_set
    one = ProcessSet(_core.process_set_ranks(number))
    one.process_set_id = number
    return one


def _common(op):
    return {"process_set": _set_of(op), "ignore_name_scope": op.get_attr("ignore_name_scope")}


def _reduction(op):
    return {"op": op.get_attr("reduce_op"), "prescale_factor": op.get_attr("prescale_factor"),
            "postscale_factor": op.get_attr("postscale_factor"), **_common(op)}


def _dense(gradient, like):
    """Returns a gradient as a tensor of the type of `like`: TensorFlow gives slices of a tensor, and zeros of another type."""
    gradient = tf.convert_to_tensor(gradient)
    return gradient if gradient.dtype == like.dtype else tf.cast(gradient, like.dtype)


def _all_dense(gradients, op):
    return [_dense(gradient, tensor) for gradient, tensor in zip(gradients, op.inputs)]


@tf.RegisterGradient("HorovodAllreduce")
def _allreduce_grad(op, grad):
    """The allreduce of the gradients with the same reduction and factors."""
    return _allreduce(_dense(grad, op.inputs[0]), **_reduction(op))


@tf.RegisterGradient("HorovodGroupedAllreduce")
def _grouped_allreduce_grad(op, *grads):
    """The same for a group."""
    return _grouped_allreduce(_all_dense(grads, op), **_reduction(op))


def _place(process_set):
    """Returns this rank's place in a process set."""
    return rank_op() if process_set is global_process_set else process_set.rank()


def _own_rows(gradient, rows, process_set):
    """Returns this rank's rows of the gradient of an allgather; rows: how many rows each rank had sent."""
    place = _place(process_set)
    return gradient[tf.reduce_sum(rows[:place]):tf.reduce_sum(rows[:place + 1])]


def _rows_of(tensors):
    """Returns the first dimension of each tensor, as a tensor of one row for an allgather."""
    return tf.stack([tf.shape(tensor, tf.int64)[0] for tensor in tensors])[tf.newaxis, :]


@tf.RegisterGradient("HorovodAllgather")
def _allgather_grad(op, grad):
    """This rank's rows of the average of the gradients."""
    return _grouped_allgather_grad(op, grad)[0]


@tf.RegisterGradient("HorovodGroupedAllgather")
def _grouped_allgather_grad(op, *grads):
    """The same for a group."""
    common = _common(op)
    averages = _grouped_allreduce(_all_dense(grads, op), op=Average, **common)
    rows = allgather(_rows_of(op.inputs), **common)
    return [_own_rows(gradient, rows[:, place], common["process_set"]) for place, gradient in enumerate(averages)]


@tf.RegisterGradient("HorovodBroadcast")
def _broadcast_grad(op, grad):
    """The average of the gradients on the root, zeros on the other ranks."""
    average = _allreduce(_dense(grad, op.inputs[0]), op=Average, **_common(op))
    return tf.where(tf.equal(rank_op(), op.get_attr("root_rank")), average, tf.zeros_like(average))


@tf.RegisterGradient("HorovodAlltoall")
def _alltoall_grad(op, grad, grad_of_splits):
    """The gradient's rows, back at the ranks that had sent the rows. Rows behind the sum of the splits were not sent."""
    del grad_of_splits
    sent = op.inputs[0]
    gradient, _ = alltoall(_dense(grad, sent), splits=op.outputs[1], **_common(op))
    shape = tf.shape(sent)
    unsent = tf.concat([[shape[0] - tf.shape(gradient)[0]], shape[1:]], 0)
    return [tf.concat([gradient, tf.zeros(unsent, gradient.dtype)], 0), None]


def _scaled(gradient, op, process_set):
    """Returns the gradient times the factors of a reducescatter, one after the other, because each rounds."""
    factors = (process_set.size() if op.get_attr("reduce_op") == Sum else 1, op.get_attr("prescale_factor"),
               op.get_attr("postscale_factor"))
    for factor in factors:
        if factor != 1:
            gradient = gradient * tf.cast(factor, gradient.dtype)
    return gradient


@tf.RegisterGradient("HorovodReducescatter")
def _reducescatter_grad(op, grad):
    """The allgather of the gradients, times the factors and, for Sum, the number of ranks."""
    common = _common(op)
    return allgather(_scaled(_dense(grad, op.inputs[0]), op, common["process_set"]), **common)


@tf.RegisterGradient("HorovodGroupedReducescatter")
def _grouped_reducescatter_grad(op, *grads):
    """The same for a group."""
    common = _common(op)
    return grouped_allgather([_scaled(gradient, op, common["process_set"]) for gradient in _all_dense(grads, op)], **common)


for _kind in ("Size", "ProcessSetIncluded", "LocalSize", "Rank", "LocalRank", "Join"):
    tf.no_gradient(f"Horovod{_kind}")

for _function in (_allreduce_grad, _grouped_allreduce_grad, _allgather_grad, _grouped_allgather_grad, _broadcast_grad, _alltoall_grad,
                  _reducescatter_grad, _grouped_reducescatter_grad):  # where programs written for Horovod look for them
    setattr(mpi_ops, _function.__name__, _function)

leave_unconverted(globals())
