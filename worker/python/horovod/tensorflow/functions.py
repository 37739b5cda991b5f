"""Collectives for variables and objects."""
import tensorflow as tf

from horovod.common import objects, refusals
from horovod.common.process_sets import global_process_set
from horovod.tensorflow.mpi_ops import broadcast, broadcast_, rank
from horovod.tensorflow.util import _executing_eagerly, leave_unconverted, variable_of


def broadcast_variables(variables, root_rank, process_set=global_process_set, inplace=False):
    """Gives variables, of TensorFlow or Keras, the values that they have on root_rank. In a graph, returns the operation that does it.

    Eagerly the ranks match variables by their place in the list. inplace: broadcasts through broadcast_().
    """
    try:
        variables = [variable_of(variable) for variable in variables]
        for variable in variables:
            if not hasattr(variable, "assign"):
                raise ValueError(f"broadcast_variables takes variables, not {type(variable).__qualname__}.")
    except Exception as error:  # pylint: disable=broad-except
        refusals.tell(error, "broadcast", "broadcast_variables.0", process_set)
        raise
    if inplace:
        values = broadcast_(variables, root_rank, name="broadcast_variables", process_set=process_set)
        return None if _executing_eagerly() else tf.group(*values)
    if not _executing_eagerly():
        return tf.group(*[variable.assign(broadcast(variable, root_rank, process_set=process_set)) for variable in variables])
    is_root = rank() == root_rank
    for place, variable in enumerate(variables):
        value = broadcast(variable, root_rank, f"broadcast_variables.{place}", process_set=process_set)
        if not is_root:
            variable.assign(value)
    return None


def broadcast_object(obj, root_rank=0, session=None, name=None, process_set=global_process_set):
    """Returns the root's object on every rank; ignores the objects of the other ranks.

    Objects are sent pickled, and not through a graph: session is not needed, and ignored.
    """
    del session
    return objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(root_rank=0, session=None, name=None, process_set=global_process_set):
    """Returns the function obj -> broadcast_object(obj, ...) for these arguments."""
    def of_root(obj):
        return broadcast_object(obj, root_rank, session, name or "broadcast_object_fn", process_set)

    return of_root


def allgather_object(obj, session=None, name=None, process_set=global_process_set):
    """Returns the objects of all ranks of the process set, a list in the order of the ranks; session is ignored."""
    del session
    return objects.gather_objects(obj, name or "allgather_object", process_set)


leave_unconverted(globals())
