"""Data-parallel training with tf.keras: `import horovod.tensorflow.keras as hvd`.

    hvd.init()
    model.compile(optimizer=hvd.DistributedOptimizer(optimizer), loss=loss)
    model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])

tf.keras is Keras 3, or Keras 2 with TensorFlow 2.15 and where TF_USE_LEGACY_KERAS=1 is set.
"""
import tensorflow as _tf

from horovod import _keras as _impl
from horovod.common.basics import (
    Average, Sum, ccl_built, cross_rank, cross_size, cuda_built, ddl_built, gloo_built, gloo_enabled, init, is_initialized,
    local_rank, local_size, mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, rank, rocm_built, shutdown, size,
    start_timeline, stop_timeline)
from horovod.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from horovod.tensorflow.compression import Compression

_keras = _tf.keras
_impl.check_module(_keras, "horovod.tensorflow.keras")

from horovod.tensorflow.keras import callbacks, elastic  # noqa: E402

_backend = _keras.backend


def DistributedOptimizer(optimizer, name=None, device_dense="", device_sparse="", compression=Compression.none,
                         sparse_as_dense=False, gradient_predivide_factor=1.0, op=Average, backward_passes_per_step=1,
                         average_aggregated_gradients=False, num_groups=0, groups=None, process_set=global_process_set,
                         scale_local_gradients=True):
    """Converts an optimizer to one that updates with the reduced gradients of all ranks, and returns it.
    Another call with equal arguments changes nothing; one with others raises ValueError.

    optimizer: an optimizer of Keras; one inside of a LossScaleOptimizer is converted there. It keeps its variables.
    name: the beginning of the gradients' names. device_dense, device_sparse: where TensorFlow puts the operations.
    compression: the type in which gradients are sent. sparse_as_dense: sends IndexedSlices as dense tensors.
    gradient_predivide_factor: divides before the sum, the rest of the average after it. op: Average, Sum or Adasum.
    groups: the number of groups, or lists of variables, whose gradients are reduced as one; num_groups is its older form.
    backward_passes_per_step: adds up the gradients of so many passes, and averages them if average_aggregated_gradients.
    process_set: the ranks whose gradients are reduced. scale_local_gradients: divides the gradients of local variables
    (register_local_var) by the number of ranks.
    """
    return _impl.create_distributed_optimizer(
        _keras, optimizer, name, device_dense, device_sparse, compression, sparse_as_dense, gradient_predivide_factor, op,
        backward_passes_per_step, average_aggregated_gradients, _impl.groups_of(num_groups, groups), process_set,
        scale_local_gradients)


def broadcast_global_variables(root_rank):
    """Copies the root's global variables to every rank, in graph mode."""
    return _impl.broadcast_global_variables(_backend, root_rank)


def allreduce(value, name=None, average=None, prescale_factor=1.0, postscale_factor=1.0, op=None,
              compression=Compression.none):
    """Returns the reduction of the ranks' values: a tensor. `average` is the older form of op."""
    return _impl.allreduce(_backend, value, name, average, prescale_factor, postscale_factor, op, compression)


def allgather(value, name=None):
    """Returns the rows of all ranks' values, in the order of the ranks."""
    return _impl.allgather(_backend, value, name)


def broadcast(value, root_rank, name=None):
    """Returns the root's value on every rank."""
    return _impl.broadcast(_backend, value, root_rank, name)


def reducescatter(value, name=None, op=Average):
    """Returns this rank's rows of the average or sum of the ranks' values."""
    return _impl.reducescatter(_backend, value, name, op)


def load_model(filepath, custom_optimizers=None, custom_objects=None, compression=Compression.none, legacy_opts=False):
    """Loads a model and makes its optimizer distributed; slots and iterations are those of the file.

    custom_optimizers: classes of optimizers that the file names and Keras does not have. custom_objects: as for
    tf.keras.models.load_model. legacy_opts: ignored, because the file records the kind of its optimizer.
    """
    return _impl.load_model(_keras, lambda optimizer: DistributedOptimizer(optimizer, compression=compression), filepath,
                            custom_optimizers, custom_objects, legacy_opts)
