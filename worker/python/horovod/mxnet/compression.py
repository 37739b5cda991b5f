"""Compressors, which send a gradient in another type to save bandwidth."""
import numpy

from horovod.common.compression import Compressor, NoneCompressor


def _is_floating(dtype):
    return numpy.dtype(dtype).kind == "f"


class FP16Compressor(Compressor):
    """Sends floating point as float16; values beyond 65504 become infinite."""

    @staticmethod
    def compress(tensor):
        """Returns (tensor as float16 if it is of floating point, its own type)."""
        own = tensor.dtype
        return (tensor.astype("float16", copy=False) if _is_floating(own) else tensor), own

    @staticmethod
    def decompress(tensor, ctx):
        """Returns tensor in the type that it had."""
        return tensor.astype(ctx, copy=False) if _is_floating(ctx) else tensor


class Compression:
    """The compressors by name, for the `compression` parameter."""

    none = NoneCompressor
    fp16 = FP16Compressor
