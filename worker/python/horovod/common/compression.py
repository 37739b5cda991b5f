"""The interface of compressors, which send tensors in another type. The frameworks define those for their types."""


class Compressor:
    """Interface of compressors; both methods are static."""

    @staticmethod
    def compress(tensor):
        """Returns (tensor to send, context for decompress)."""
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
