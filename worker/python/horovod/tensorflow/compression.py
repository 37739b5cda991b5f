"""Compressors, which send a tensor in another type to save bandwidth."""
import tensorflow as tf

from horovod.common.compression import Compressor, NoneCompressor
from horovod.tensorflow.util import leave_unconverted, variable_of

__all__ = ["Compressor", "NoneCompressor", "FP16Compressor", "BF16Compressor", "Compression"]


def _narrow(tensor, dtype):
    """Returns (tensor as dtype, its own type) for floating point; leaves others alone."""
    if not isinstance(tensor, tf.Tensor):
        tensor = tf.convert_to_tensor(variable_of(tensor))
    own = tensor.dtype
    return (tf.cast(tensor, dtype) if own.is_floating and own != dtype else tensor), own


def _restore(tensor, dtype):
    """Returns the received tensor in the type that it had."""
    return tensor if dtype is None or tensor.dtype == dtype else tf.cast(tensor, dtype)


class FP16Compressor(Compressor):
    """Sends floating point as float16; values beyond 65504 become infinite."""

    @staticmethod
    def compress(tensor):
        """Returns (tensor as float16 if it is of floating point, its own type)."""
        return _narrow(tensor, tf.float16)

    @staticmethod
    def decompress(tensor, ctx):
        """Returns tensor in the type that it had."""
        return _restore(tensor, ctx)


class BF16Compressor(Compressor):
    """Sends floating point as bfloat16: the range of float32 with 8 bits of precision."""

    @staticmethod
    def compress(tensor):
        """Returns (tensor as bfloat16 if it is of floating point, its own type)."""
        return _narrow(tensor, tf.bfloat16)

    @staticmethod
    def decompress(tensor, ctx):
        """Returns tensor in the type that it had."""
        return _restore(tensor, ctx)


class Compression:
    """The compressors by name, for the `compression` parameters."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


leave_unconverted(globals())
