"""Checks of every type of elements that PyTorch has in every collective: the right values of that type, or a refusal by its name."""
import torch
from checks import check, only_the_last_refuses, raises
from kinds import IN_PLACE, OUT_OF_PLACE, RECEIVED_IN_PLACE, WRITING, plainly, wanted

import horovod.numpy
import horovod.torch as hvd
from horovod.torch import mpi_ops

TYPES = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str)
SENT = {getattr(torch, name) for name in ("uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64", "float16", "bfloat16",
                                          "float32", "float64", "bool") if hasattr(torch, name)}
REFUSED = [dtype for dtype in TYPES if dtype not in SENT]
BELOW = {  # (input, output)
    "_allreduce_async": lambda t, out, name: mpi_ops._allreduce_async(t, out, name, hvd.Sum, 1.0, 1.0, hvd.global_process_set),
    "_broadcast_async": lambda t, out, name: mpi_ops._broadcast_async(t, out, 0, name, hvd.global_process_set),
}
OF_ARRAYS = {
    "allreduce": lambda t, name: horovod.numpy.allreduce(t, op=horovod.numpy.Sum, name=name),
    "allreduce_": lambda t, name: horovod.numpy.allreduce_(t, op=horovod.numpy.Sum, name=name),
    "allreduce_async": lambda t, name: horovod.numpy.synchronize(horovod.numpy.allreduce_async(t, name)),
    "allreduce_async_": lambda t, name: horovod.numpy.synchronize(horovod.numpy.allreduce_async_(t, name)),
    "grouped_allreduce": lambda t, name: horovod.numpy.grouped_allreduce([t, t], name),
    "allgather": horovod.numpy.allgather,
    "grouped_allgather": lambda t, name: horovod.numpy.grouped_allgather([t, t], name),
    "broadcast": lambda t, name: horovod.numpy.broadcast(t, 0, name),
    "broadcast_": lambda t, name: horovod.numpy.broadcast_(t, 0, name),
    "alltoall": lambda t, name: horovod.numpy.alltoall(t, name=name),
    "reducescatter": lambda t, name: horovod.numpy.reducescatter(t, name),
}


def values_of(rank, dtype):
    """Values of a rank that each type has, and sums of few of them."""
    rows = 3 * hvd.size()
    return ((torch.arange(rows * 2) + rank) % 4).reshape(rows, 2).to(dtype)


def made(dtype):
    """A tensor of a type without arithmetic, whose bytes are 9 where they can be set."""
    rows = 3 * hvd.size()
    try:
        return torch.full((rows, 32), 9, dtype=torch.uint8).view(dtype)
    except (RuntimeError, TypeError):
        return torch.empty((rows, 2), dtype=dtype)


def word_of(dtype):
    """The type as its name has it in the texts of errors: torch.uint4 is a torch.UInt4Tensor."""
    words = {"complex32": "ComplexHalf", "complex64": "ComplexFloat", "complex128": "ComplexDouble"}
    name = str(dtype).removeprefix("torch.")
    return words.get(name, name).lower()


def is_named(dtype, text):
    """Whether a refusal names the type, and what to do."""
    return f"{word_of(dtype)}tensor is not supported. send " in text.lower()


def is_right(call, function, dtype, make):
    """Whether one collective gives the right values of the type."""
    wide = [values_of(rank, dtype).to(torch.float64) for rank in range(hvd.size())]
    result = plainly(function(make(values_of(hvd.rank(), dtype)), f"{call} {dtype}"))
    expected = wanted(call, wide)
    if dtype == torch.bool:
        expected = expected.clamp(max=1)
    assert result.dtype == dtype and torch.equal(result.to(torch.float64), expected), (call, dtype, result, expected)


@check
def every_type_that_can_be_sent_is_right_in_every_collective():
    for dtype in TYPES:
        if dtype in SENT:
            for call, function in {**OUT_OF_PLACE, **WRITING}.items():
                is_right(call, function, dtype, torch.clone)
                is_right(call, function, dtype, lambda values: torch.stack([values, values], -1)[..., 0])


@check
def every_other_type_is_refused_by_name_in_every_collective():
    for dtype in REFUSED:
        for make in (made, lambda d: made(d)[::2]):
            for call, function in {**OUT_OF_PLACE, **WRITING}.items():
                text = raises(ValueError, function, make(dtype), f"{call} {dtype}")
                assert is_named(dtype, text), (call, dtype, text)


@check
def a_type_that_is_refused_is_so_as_an_output_and_with_factors():
    for dtype in REFUSED:
        for call, function in BELOW.items():
            tensor = made(dtype)
            text = raises(ValueError, function, tensor, tensor, f"{call} {dtype}")
            assert is_named(dtype, text), (call, dtype, text)
            text = raises(ValueError, function, torch.zeros(tensor.shape, dtype=torch.uint8), tensor, f"{call} {dtype}")
            assert is_named(dtype, text), (call, dtype, text)
        for factor in (0.5, 0.0):
            for function in (hvd.allreduce, hvd.allreduce_, hvd.reducescatter):
                text = raises(ValueError, function, made(dtype), op=hvd.Sum, prescale_factor=factor, name=f"factor {dtype}")
                assert is_named(dtype, text), (function, dtype, text)


@check
def the_other_ranks_hear_the_type_that_one_refuses():
    if hvd.size() == 1:
        return
    for dtype in REFUSED:
        for call, function in {**IN_PLACE, **RECEIVED_IN_PLACE}.items():
            name = f"{call} {dtype} alone"
            words = f"{made(dtype).type()} is not supported. "
            only_the_last_refuses(words, "", lambda: function(made(dtype), name), lambda: function(made(torch.uint8), name))


@check
def arrays_of_other_types_are_refused_by_name_too():
    for dtype in REFUSED:
        for call, function in OF_ARRAYS.items():
            text = raises(ValueError, function, made(dtype), f"array {call} {dtype}")
            assert str(dtype) in text or dtype.is_complex and "arrays of the format Z" in text, (call, dtype, text)
