"""Types that are sent in place of a tensor's own, to save bandwidth."""
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


class Compression:
    """The compressors by name, for the `compression` parameters."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
