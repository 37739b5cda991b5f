"""Collectives for Python objects, which the ranks exchange pickled, as bytes. They need no framework."""
import array
import itertools
import pickle

from horovod import _core
from horovod.common import refusals
from horovod.common.adapter import Adapter
from horovod.common.operations import Operations, synchronize
from horovod.common.process_sets import global_process_set

try:
    import cloudpickle as pickler  # also carries functions and classes of the script itself
except ImportError:
    pickler = pickle

operations = Operations(Adapter(), __name__)


def broadcast_object(obj, root_rank=0, name=None, process_set=global_process_set):
    """Returns the root's object on every rank; ignores the objects of the other ranks.

    Objects are sent pickled: any that pickle (cloudpickle, if installed) can carry.
    """
    name = name or "broadcast_object"
    is_root = _core.rank() == root_rank
    data = _pickled(obj, "broadcast", f"{name}.size", process_set) if is_root else b""
    length = _number(len(data))
    operations.broadcast_(length, root_rank, f"{name}.size", process_set)
    data = data or bytearray(length[0])
    operations.broadcast_(data, root_rank, f"{name}.data", process_set)
    return obj if is_root else pickle.loads(data)


def refuse_broadcast(error, name, process_set):
    """Makes the other ranks' broadcast_object of that name fail with the error, instead of waiting for this rank."""
    refusals.tell(error, "broadcast", f"{name}.size", process_set)


def allgather_object(obj, name=None):
    """Returns the objects of all ranks, a list in the order of the ranks."""
    return gather_objects(obj, name or "allgather_object", global_process_set)


def gather_objects(obj, name, process_set):
    """allgather_object() in a process set, in the order of its ranks."""
    data = _pickled(obj, "allgather", f"{name}.size", process_set)
    lengths = synchronize(operations.allgather_async(_number(len(data)), f"{name}.size", process_set)).tolist()
    gathered = synchronize(operations.allgather_async(data, f"{name}.data", process_set))
    return [pickle.loads(gathered[end - length:end]) for end, length in zip(itertools.accumulate(lengths), lengths)]


def _number(n):
    """Returns an array of one integer of 64 bits."""
    return array.array("q", [n])


def _pickled(obj, word, name, process_set):
    """Returns the object as bytes. If that fails, makes the other ranks' first collective fail, too."""
    try:
        return bytearray(pickler.dumps(obj))
    except Exception as error:  # pylint: disable=broad-except
        refusals.tell(error, word, name, process_set)
        raise
