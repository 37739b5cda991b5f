"""Inputs that every rank can compute for every other, and what reductions of them must be."""
import torch

import horovod.torch as hvd

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [getattr(torch, name) for name in  # some are of PyTorch 2.3
            ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64") if hasattr(torch, name)]
NUMBERS = FLOATS + INTEGERS
ALL = NUMBERS + [torch.bool]
OPS = {"average": hvd.Average, "sum": hvd.Sum, "min": hvd.Min, "max": hvd.Max, "product": hvd.Product}


def of_rank(rank, dtype=torch.float32, shape=(3, 5)):
    """Small whole numbers that differ between ranks and elements, exact in every type and so are their sums."""
    count = int(torch.Size(shape).numel())
    if dtype == torch.bool:
        return ((torch.arange(count) + rank) % 3 == 0).reshape(shape)
    return (1 + (torch.arange(count) * 3 + rank * 2) % 4).reshape(shape).to(dtype)


def mine(dtype=torch.float32, shape=(3, 5)):
    """This rank's input."""
    return of_rank(hvd.rank(), dtype, shape)


def everyones(dtype=torch.float32, shape=(3, 5), ranks=None):
    """The inputs of the ranks (all), behind each other along a new first dimension."""
    ranks = range(hvd.size()) if ranks is None else ranks
    return torch.stack([of_rank(rank, torch.float64 if dtype != torch.bool else dtype, shape) for rank in ranks])


def reduced(op, dtype=torch.float32, shape=(3, 5), ranks=None):
    """What the reduction of the ranks' inputs must be."""
    inputs = everyones(dtype, shape, ranks)
    if dtype == torch.bool:
        return inputs.any(0) if op in ("sum", "max") else inputs.all(0)
    result = {"average": inputs.mean, "sum": inputs.sum, "min": inputs.amin, "max": inputs.amax,
              "product": inputs.prod}[op](0)
    return (result if dtype.is_floating_point else result.trunc()).to(dtype)


def same(one, other):
    """The same type, shape and values, but for the rounding of an average or product of halves."""
    assert one.dtype == other.dtype, (one.dtype, other.dtype)
    assert one.shape == other.shape, (one.shape, other.shape)
    if one.dtype in FLOATS:
        tolerance = {torch.float16: 1e-3, torch.bfloat16: 1e-2}.get(one.dtype, 1e-6)
        assert torch.allclose(one.double(), other.double(), rtol=tolerance, atol=tolerance), (one, other)
    else:
        assert one.tolist() == other.tolist(), (one, other)
