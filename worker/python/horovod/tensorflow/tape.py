"""Gradient tapes whose gradients are reduced over the ranks."""
import tensorflow as tf

from horovod.common.process_sets import global_process_set
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.mpi_ops import Average
from horovod.tensorflow.reductions import Gradients, check_groups, with_local
from horovod.tensorflow.util import leave_unconverted, ref_of, variable_of


class _DistributedGradientTape(tf.GradientTape):
    """A tf.GradientTape over the recording of another one: gradient() returns gradients that are reduced over the ranks."""

    def __init__(self, tape, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor, groups,
                 persistent=False, watch_accessed_variables=True, process_set=global_process_set, scale_local_gradients=True):
        super().__init__(persistent, watch_accessed_variables)
        self._tape = tape
        self._allreduce_grads = Gradients("DistributedGradientTape", device_dense, device_sparse, compression, sparse_as_dense, op,
                                          gradient_predivide_factor, groups, process_set)
        self.process_set = process_set
        self.scale_local_gradients = scale_local_gradients
        self._local_sources = set()

    def register_local_source(self, source):
        """Marks a source whose gradient is this rank's own: it is not reduced."""
        self._local_sources.add(ref_of(source))

    def gradient(self, target, sources, output_gradients=None, use_generic_names=False,
                 unconnected_gradients=tf.UnconnectedGradients.NONE):
        """Returns the reduced gradients in the structure of the sources; those of local sources divided by the number of ranks.

        use_generic_names: names the tensors by their places alone, as ranks with different names of variables need.
        """
        inner = tf.nest.map_structure(variable_of, sources)
        flat = tf.nest.flatten(inner)
        gradients = tf.nest.flatten(super().gradient(target, inner, output_gradients, unconnected_gradients))

        def reduce(grads, variables):
            return self._allreduce_grads(grads, variables, use_generic_names)

        reduced = with_local(reduce, gradients, flat, self._local_sources, self.process_set, self.scale_local_gradients)
        return tf.nest.pack_sequence_as(sources, reduced) if tf.nest.is_nested(sources) else reduced[0]

    def get_local_and_global_gradients(self, target, sources, output_gradients=None, use_generic_names=False):
        """Returns ([(source, gradient)] of the local sources, the same of the others), each in the order of the sources."""
        gradients = self.gradient(target, sources, output_gradients, use_generic_names)
        found = ([], [])
        for source, gradient in zip(sources, gradients):
            found[ref_of(source) not in self._local_sources].append((source, gradient))
        return found


def _class_for(tape):
    """Returns the class of a distributed tape over another one, which has the methods of that one's class, too."""
    kind = type(tape)
    if kind is tf.GradientTape:
        return _DistributedGradientTape
    return type(kind.__name__, (_DistributedGradientTape, kind), {})


def DistributedGradientTape(gradtape, device_dense="", device_sparse="", compression=Compression.none, sparse_as_dense=False, op=Average,
                            gradient_predivide_factor=1.0, num_groups=0, groups=None, process_set=global_process_set,
                            scale_local_gradients=True):
    """Returns a tape over a tf.GradientTape whose gradient() reduces gradients over the ranks.

    compression: the type in which they are sent. sparse_as_dense: sends tf.IndexedSlices as tensors. gradient_predivide_factor: divides
    gradients before the sum, and multiplies the result of op=Average. groups: how many groups are reduced as one each, or lists of
    variables. scale_local_gradients: divides the gradients of local sources by the number of ranks.
    """
    return _class_for(gradtape)(gradtape._tape, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor,
                                check_groups(groups, num_groups), gradtape._persistent, gradtape._watch_accessed_variables,
                                process_set, scale_local_gradients)


def PartialDistributedGradientTape(gradtape, device_dense="", device_sparse="", compression=Compression.none, sparse_as_dense=False,
                                   op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None, process_set=global_process_set,
                                   local_layers=None, scale_local_gradients=True):
    """Returns a distributed tape that leaves the gradients of some layers alone: local_layers is a layer of Keras, or a list."""
    if local_layers is None:
        local_layers = []
    elif not isinstance(local_layers, (list, tuple, set)):
        local_layers = [local_layers]
    for layer in local_layers:
        if not hasattr(layer, "trainable_weights"):
            raise ValueError(f"local_layers are layers of Keras, not {type(layer).__qualname__}.")
    tape = DistributedGradientTape(gradtape, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor,
                                   num_groups, groups, process_set, scale_local_gradients)
    for layer in local_layers:
        for variable in layer.trainable_weights:
            tape.register_local_source(variable)
    return tape


leave_unconverted(globals())
