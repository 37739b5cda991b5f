"""What reductions with factors are, bit for bit, computed with NumPy and without the runtime.

Horovod's rule: a factor is rounded to the type of the arithmetic (float32 for float16, bfloat16 and float32, float64
for float64 and the integers), multiplies once, and the product is rounded to the type of the tensor, an integer
towards zero. An average is a sum with the factor postscale / ranks, divided as float64.
"""
import numpy
import torch

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [getattr(torch, name) for name in  # some are of PyTorch 2.3
            ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64") if hasattr(torch, name)]


def of_rank(rank, size, dtype, shape, salt=0):
    """An input. At most two ranks have anything but zero at a place, so that no sum depends on its order."""
    count = int(torch.Size(shape).numel())
    at = numpy.arange(count, dtype=numpy.int64)
    draw = (at * 7919 + rank * 104729 + salt * 1299709 + 12345) % 10007
    if dtype in FLOATS:
        values = torch.from_numpy((draw - 5003) / 701.0).to(dtype)
    else:
        values = torch.from_numpy(draw % (20 if dtype in (torch.uint8, torch.int8) else 5000)).to(dtype)
        if dtype.is_signed:
            values = torch.where(torch.from_numpy(at % 3 == 0), -values, values)
    there = ((at - rank) % size) < 2
    return torch.where(torch.from_numpy(there), values, torch.zeros_like(values)).reshape(shape)


def scaled(tensor, factor):
    """The tensor times the factor."""
    dtype = tensor.dtype
    if factor == 1:
        return tensor
    if dtype == torch.bfloat16:
        return torch.from_numpy(tensor.float().numpy() * numpy.float32(factor)).to(dtype)
    array = tensor.numpy()
    if dtype == torch.float64:
        return torch.from_numpy(array * numpy.float64(factor))
    if dtype in FLOATS:
        return torch.from_numpy((array.astype(numpy.float32) * numpy.float32(factor)).astype(array.dtype))
    return torch.from_numpy(numpy.trunc(array.astype(numpy.float64) * numpy.float64(factor)).astype(array.dtype))


def added(tensors):
    """The sum, rounded after each step."""
    total = tensors[0]
    for tensor in tensors[1:]:
        if total.dtype in (torch.float16, torch.bfloat16):
            total = (total.float() + tensor.float()).to(total.dtype)
        else:
            total = torch.from_numpy(total.numpy() + tensor.numpy())
    return total


def reduced(tensors, is_average, before, after):
    """The sum or average of the ranks' tensors with factors."""
    total = added([scaled(tensor, before) for tensor in tensors])
    if not is_average:
        return scaled(total, after)
    if total.dtype not in FLOATS and after == 1:
        quotient = [abs(x) // len(tensors) * (1 if x >= 0 else -1) for x in total.flatten().tolist()]
        return torch.tensor(quotient, dtype=total.dtype).reshape(total.shape)
    return scaled(total, after / len(tensors))


def same_bits(one, other):
    """Fails unless all bits are the same."""
    assert one.dtype == other.dtype and one.shape == other.shape, (one.dtype, other.dtype, one.shape, other.shape)
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[one.element_size()]
    differ = (one.contiguous().view(width) != other.contiguous().view(width)).flatten()
    assert not differ.any(), (one.dtype, int(differ.sum()), one.flatten()[differ][:4], other.flatten()[differ][:4])
