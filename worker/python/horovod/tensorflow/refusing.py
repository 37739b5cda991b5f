"""Announces collectives that this rank cannot add to a graph: there the runtime's names are those of nodes.

horovod.common.refusals is for names of calls, which have the word of the collective in front.
"""
import ctypes

from horovod.common import refusals
from horovod.tensorflow import library


class _Tensor(ctypes.Structure):
    """horovod_tensor_t of horovod.h."""
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("ndim", ctypes.c_int),
                ("shape", ctypes.c_void_p), ("op", ctypes.c_int), ("root_rank", ctypes.c_int), ("process_set", ctypes.c_int),
                ("prescale_factor", ctypes.c_double), ("postscale_factor", ctypes.c_double), ("splits", ctypes.c_void_p),
                ("n_splits", ctypes.c_int), ("reserved", ctypes.c_int), ("done", ctypes.c_void_p), ("allocate", ctypes.c_void_p),
                ("context", ctypes.c_void_p)]


_refuse = ctypes.CDLL(library.PATH).horovod_refuse  # of the runtime, which the library is linked with
_refuse.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.POINTER(_Tensor)), ctypes.c_char_p, ctypes.c_void_p]


def announce_node(reason, word, name, process_set, n=0):
    """Makes the other ranks' collectives fail that match a node: of that name, or a group of n tensors of it (EMPTY_GROUP: their
    number is not known)."""
    number = getattr(process_set, "process_set_id", None)
    if number is None:
        return
    names = [f"grouped_{name}_{place + 1}of{max(n, 0)}" for place in range(max(n, 1))] if n else [name]
    tensors = [_Tensor(size=ctypes.sizeof(_Tensor), name=one.encode("utf-8"), process_set=number) for one in names]
    _refuse(word.encode(), n, (ctypes.POINTER(_Tensor) * len(tensors))(*map(ctypes.pointer, tensors)), reason.encode("utf-8", "replace"),
            None)
