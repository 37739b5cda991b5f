"""Compressors, which send a tensor in another type to save bandwidth.

A group of plain tensors is converted as a whole, without Python code for each. The reduction then works in place, because the
converted tensors are private.
"""
from operator import attrgetter, methodcaller

import torch

from horovod.common.compression import Compressor, NoneCompressor
from horovod.torch.adapter import HAS_CUDA, check_supported


def _narrow(tensor, dtype):
    """Returns (tensor as dtype, its own type) for floating point; leaves others alone."""
    try:
        has_memory = tensor.data_ptr()
    except Exception:  # pylint: disable=broad-except  # no memory, or no tensor: check_supported() names it
        has_memory = 0
    if not has_memory:  # a conversion would invent values
        check_supported(tensor)
    own = tensor.dtype
    return (tensor.to(dtype) if own.is_floating_point else tensor), own


def _restore(tensor, dtype):
    return tensor.to(dtype) if dtype.is_floating_point else tensor


class FP16Compressor(Compressor):
    """Sends floating point as float16; values beyond 65504 become infinite."""

    @staticmethod
    def compress(tensor):
        """Returns (tensor as float16 if it is of floating point, its own type)."""
        return _narrow(tensor, torch.float16)

    @staticmethod
    def decompress(tensor, ctx):
        """Returns tensor in the type that it had."""
        return _restore(tensor, ctx)


class BF16Compressor(Compressor):
    """Sends floating point as bfloat16: the range of float32 with 8 bits of precision."""

    @staticmethod
    def compress(tensor):
        """Returns (tensor as bfloat16 if it is of floating point, its own type)."""
        return _narrow(tensor, torch.bfloat16)

    @staticmethod
    def decompress(tensor, ctx):
        """Returns tensor in the type that it had."""
        return _restore(tensor, ctx)


_SENT = {FP16Compressor: torch.float16, BF16Compressor: torch.bfloat16}
_PLAIN_TYPES = {torch.Tensor, torch.nn.Parameter}
_traits_of = attrgetter("is_cpu", "is_cuda", "dtype", "layout", "requires_grad")
_copy_each = getattr(torch, "_foreach_copy_", None)  # of PyTorch 2.1 and later
_to = {dtype: methodcaller("to", dtype) for dtype in vars(torch).values() if isinstance(dtype, torch.dtype) and dtype.is_floating_point}
_to.update({torch.float16: torch.Tensor.half, torch.bfloat16: torch.Tensor.bfloat16, torch.float32: torch.Tensor.float,
            torch.float64: torch.Tensor.double})  # the same in half the time


def pack(tensors, compression):
    """Converts a group's tensors to the type that is sent, in memory of their own; None: compress each separately.

    Packs tensors of one floating-point type other than the sent one, in dense memory of the host or of GPUs, that are no part of a
    graph.
    """
    if not (compression is FP16Compressor or compression is BF16Compressor) or not _PLAIN_TYPES.issuperset(map(type, tensors)):
        return None
    sent = _SENT[compression]
    try:
        (is_cpu, is_cuda, dtype, layout, requires_grad), *others = set(map(_traits_of, tensors))
        if (others or not (is_cpu or is_cuda and HAS_CUDA) or not dtype.is_floating_point or dtype is sent or layout is not torch.strided or requires_grad
                or not all(map(torch.Tensor.is_contiguous, tensors)) or not all(map(torch.Tensor.data_ptr, tensors))):
            return None
        return tuple(map(_to[sent], tensors))
    except Exception:  # pylint: disable=broad-except  # an object that does not answer; compress() refuses it by name
        return None


def unpack(packed, dtype):
    """Converts received tensors to dtype, and returns a list."""
    return list(map(_to[dtype], packed))


def copy_all(targets, sources):
    """Copies the values of many tensors, converted."""
    if _copy_each is not None:
        _copy_each(targets, sources)
        return
    for target, source in zip(targets, sources):
        target.copy_(source)


class Compression:
    """The compressors by name, for the `compression` parameters."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
