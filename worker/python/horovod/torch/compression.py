"""Types that are sent in place of a tensor's own, to save bandwidth.

A group is converted as a whole where its tensors are plain: they lie in one piece of memory while they are sent, so that
nothing is done for each of them in Python, and the reduction may write where it reads.
"""
from functools import partial
from operator import attrgetter

import torch

from horovod.torch.handles import check_supported


class Compressor:
    """Interface of compressors; both methods are static."""

    @staticmethod
    def compress(tensor):
        """Returns (tensor to send, what decompress needs to know)."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor, ctx):
        """Returns the received tensor in its own type; ctx is from compress."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor):
        """Returns (tensor, None)."""
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        """Returns tensor."""
        return tensor


def _narrow(tensor, dtype):
    """(tensor as dtype, its own type) for floating point; others are left alone."""
    try:
        has_memory = tensor.data_ptr()
    except Exception:  # pylint: disable=broad-except  # of what has no memory, or is no tensor: it is refused by name
        has_memory = 0
    if not has_memory:  # a conversion would give values that are not there
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
_traits_of = attrgetter("is_cpu", "dtype", "layout", "requires_grad")
_unflatten = getattr(torch._C._nn, "unflatten_dense_tensors", None)


def pack(tensors, compression):
    """A group's tensors in the type that is sent, in memory of their own; None where each is to be compressed for itself."""
    sent = _SENT.get(compression)
    if sent is None or len(tensors) < 2 or _unflatten is None or not _are_plain(tensors):
        return None
    packed = _unflatten(torch.empty(sum(map(torch.Tensor.numel, tensors)), dtype=sent), tensors)
    copy_all(packed, tensors)
    return packed


def _are_plain(tensors):
    """Whether these are tensors of one floating-point type in the host's memory, and no part of a graph."""
    try:
        if not _PLAIN_TYPES.issuperset(map(type, tensors)):
            return False
        traits = set(map(_traits_of, tensors))
        is_cpu, dtype, layout, requires_grad = next(iter(traits))
        return (len(traits) == 1 and is_cpu and dtype.is_floating_point and layout is torch.strided and not requires_grad
                and all(map(torch.Tensor.data_ptr, tensors)))
    except Exception:  # pylint: disable=broad-except  # of what does not answer; that is refused by name, one by one
        return False


def unpack(packed, dtype):
    """Tensors as they were received in that type."""
    tensors = list(map(partial(torch.empty_like, dtype=dtype), packed))
    copy_all(tensors, packed)
    return tensors


def copy_all(targets, sources):
    """Copies the values of many tensors, converted."""
    with torch.no_grad():
        if hasattr(torch, "_foreach_copy_"):
            torch._foreach_copy_(targets, sources)
            return
        for target, source in zip(targets, sources):
            target.copy_(source)


class Compression:
    """The compressors by name, for the `compression` parameters."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
