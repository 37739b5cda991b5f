"""Checks of every kind of tensor in every collective: the right values, or an error on every rank.

KINDS makes, out of plain values, a tensor that holds them in another way; COLLECTIVES are what is called with it. What
cannot be sent is refused with the tensor's name and the remedy, and when one rank alone does so the others do not wait.
"""
import torch
from checks import check, raises
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

import horovod.numpy
import horovod.torch as hvd


class Plain(torch.Tensor):
    """A subclass that changes nothing."""


class Mute(torch.Tensor):
    """A subclass that answers nothing."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise TypeError(f"no {func}")


def _negative(values):
    return torch._neg_view(-values)


def _imaginary(values):
    return torch.complex(torch.zeros_like(values), -values).conj().imag


def _inferred(values, is_dense):
    with torch.inference_mode():
        return values.clone() if is_dense else values.t().contiguous().t()


def _freed(values):
    tensor = values.clone()
    tensor.untyped_storage().resize_(0)
    return tensor


def _jagged(values):
    return torch.nested.nested_tensor([values, values[1:]], layout=torch.jagged)


def _window(values):
    return torch.cat([values[:, 0], values[-1:, 1]]).as_strided(values.shape, (1, 1))


# Right in place and out of place: name -> made of values
SENT = {
    "plain": torch.clone,
    "negative": _negative,
    "imaginary part of a conjugate": _imaginary,
    "negative and strided": lambda values: torch._neg_view(-values.t().contiguous()).t(),
    "parameter": torch.nn.Parameter,
    "with a gradient": lambda values: values.clone().requires_grad_() * 1,
    "subclass": lambda values: values.clone().as_subclass(Plain),
    "of inference": lambda values: _inferred(values, True),
    "of inference and strided": lambda values: _inferred(values, False),
    "shared": lambda values: values.clone().share_memory_(),
    "every second": lambda values: torch.stack([values, values], -1)[..., 0],
    "part": lambda values: torch.nn.functional.pad(values, (1, 1))[:, 1:-1],
}
# Right, but not to be written to
READ = {"expanded": lambda values: values[:, :1].expand(values.shape), "overlapping": _window,
        "zeros without memory": lambda values: torch._efficientzerotensor(values.shape)}
# What has no values of its own: name -> (made, words of the error)
REFUSED = {
    "meta": (lambda values: values.to("meta"), "to_empty()"),
    "fake": (lambda values: FakeTensorMode().from_tensor(values), "wrapper"),
    "wrapper": (lambda values: TwoTensor(values, values), "wrapper"),
    "nested": (lambda values: torch.nested.nested_tensor([values, values]), "unbind()"),
    "jagged": (_jagged, "unbind()"),
    "functional": (torch._to_functional_tensor, "functionalization"),
    "freed": (_freed, "storage was freed"),
    "complex": (lambda values: values.to(torch.complex64), "ComplexFloatTensor is not supported"),
    "conjugate": (lambda values: values.to(torch.complex64).conj(), "ComplexFloatTensor is not supported"),
    "quantized": (lambda values: torch.quantize_per_tensor(values, 0.1, 0, torch.qint8), "dequantize()"),
    "coo": (lambda values: values.to_sparse(), "sparse_allreduce_async()"),
    "csr": (lambda values: values.to_sparse_csr(), "to_dense()"),
    "mkldnn": (lambda values: values.to_mkldnn(), "to_dense()"),
    "float8": (lambda values: values.to(torch.float8_e4m3fn), "view(torch.uint8)"),
    "uninitialized": (lambda values: torch.nn.parameter.UninitializedParameter(), "uninitialized parameter"),
    "mute": (lambda values: values.clone().as_subclass(Mute), "no <"),
    "a list": (lambda values: values.tolist(), "list is not supported"),
}

WHOLE = {  # what gives the sum, or the root's, in the shape of the input
    "allreduce": lambda t, name: hvd.allreduce(t, op=hvd.Sum, name=name),
    "allreduce_async": lambda t, name: hvd.synchronize(hvd.allreduce_async(t, op=hvd.Sum, name=name)),
    "grouped_allreduce": lambda t, name: hvd.grouped_allreduce([torch.ones(3), t], op=hvd.Sum, name=name)[1],
}
IN_PLACE = {
    "allreduce_": lambda t, name: hvd.allreduce_(t, op=hvd.Sum, name=name),
    "allreduce_async_": lambda t, name: hvd.synchronize(hvd.allreduce_async_(t, op=hvd.Sum, name=name)),
    "grouped_allreduce_": lambda t, name: hvd.grouped_allreduce_([torch.ones(3), t], op=hvd.Sum, name=name)[1],
}
SENT_BY_ROOT = {
    "broadcast": lambda t, name: hvd.broadcast(t, 0, name=name),
    "broadcast_async": lambda t, name: hvd.synchronize(hvd.broadcast_async(t, 0, name=name)),
}
RECEIVED_IN_PLACE = {
    "broadcast_": lambda t, name: hvd.broadcast_(t, 0, name=name),
    "broadcast_async_": lambda t, name: hvd.synchronize(hvd.broadcast_async_(t, 0, name=name)),
    "broadcast_parameters": lambda t, name: (hvd.broadcast_parameters([(name, t)], 0), t)[1],
}
GATHERED = {
    "allgather": lambda t, name: hvd.allgather(t, name=name),
    "grouped_allgather": lambda t, name: hvd.grouped_allgather([torch.ones(3), t], name=name)[1],
}
EXCHANGED = {"alltoall": lambda t, name: hvd.alltoall(t, name=name)}
SCATTERED = {
    "reducescatter": lambda t, name: hvd.reducescatter(t, op=hvd.Sum, name=name),
    "grouped_reducescatter": lambda t, name: hvd.grouped_reducescatter([torch.ones(6), t], op=hvd.Sum, name=name)[1],
}
COMPRESSED = {
    "allreduce": lambda t, name, how: hvd.allreduce(t, op=hvd.Sum, name=name, compression=how),
    "grouped_allreduce": lambda t, name, how: hvd.grouped_allreduce([torch.ones(3), t], op=hvd.Sum, name=name, compression=how),
    "reducescatter": lambda t, name, how: hvd.reducescatter(t, op=hvd.Sum, name=name, compression=how),
    "grouped_reducescatter": lambda t, name, how: hvd.grouped_reducescatter([torch.ones(6), t], name=name, compression=how),
}
OUT_OF_PLACE = {**WHOLE, **SENT_BY_ROOT, **GATHERED, **EXCHANGED, **SCATTERED}
WRITING = {**IN_PLACE, **RECEIVED_IN_PLACE}


def values_of(rank):
    """Plain values of a rank, in rows of one value for what is expanded; every rank can have as many rows."""
    rows = 3 * hvd.size()
    return torch.arange(rows * 2.0).reshape(rows, 2) + 100 * rank + 1


def wanted(call, tensors):
    """What a collective must give here for the values of all ranks."""
    rank, size = hvd.rank(), hvd.size()
    if call in WHOLE or call in IN_PLACE:
        return sum(tensors)
    if call in SENT_BY_ROOT or call in RECEIVED_IN_PLACE:
        return tensors[0]
    if call in GATHERED:
        return torch.cat(tensors)
    if call in EXCHANGED:
        return torch.cat([tensor.tensor_split(size)[rank] for tensor in tensors])
    return sum(tensors).tensor_split(size)[rank]


def told(function, *arguments):
    """The text of whatever error the call raises."""
    return raises(Exception, function, *arguments)


def plainly(tensor):
    """The values of a tensor as PyTorch sees them."""
    return torch.clone(tensor.detach()).as_subclass(torch.Tensor)


def is_right(call, function, make, kind):
    """Whether one collective gives the right values for one kind, on every rank."""
    tensors = [plainly(make(values_of(rank))) for rank in range(hvd.size())]
    result = plainly(function(make(values_of(hvd.rank())), f"{call} {kind}"))
    assert torch.equal(result, wanted(call, tensors)), (call, kind, result, wanted(call, tensors))


@check
def what_holds_its_values_in_another_way_is_sent_and_written_to():
    for kind, make in SENT.items():
        for call, function in {**OUT_OF_PLACE, **WRITING}.items():
            is_right(call, function, make, kind)


@check
def one_rank_may_hold_its_values_in_another_way_than_the_others():
    for kind, make in SENT.items():
        for call, function in {**OUT_OF_PLACE, **WRITING}.items():
            is_right(call, function, make if hvd.rank() == hvd.size() - 1 else torch.clone, f"alone {kind}")


@check
def what_cannot_be_written_to_is_sent_and_refused_in_place():
    for kind, make in READ.items():
        for call, function in OUT_OF_PLACE.items():
            is_right(call, function, make, kind)
        for call, function in WRITING.items():
            text = told(function, make(values_of(0)), f"{call} {kind}")
            assert "clone() it first" in text, (call, kind, text)


@check
def what_has_no_values_is_refused_by_every_collective_with_the_remedy():
    for kind, (make, words) in REFUSED.items():
        for call, function in {**OUT_OF_PLACE, **WRITING}.items():
            text = told(function, make(values_of(0)), f"{call} {kind}")
            assert words in text or call == "broadcast_parameters" and kind == "a list", (call, kind, text)
            if "cannot be sent" in text:
                assert f"Tensor {call} {kind} of " in text or "grouped" in call, text


@check
def the_others_hear_what_one_rank_refuses():
    if hvd.size() == 1:
        return
    makes = {kind: make for kind, (make, _) in REFUSED.items() if kind != "a list"}
    for kind, make in {**makes, **READ}.items():
        for call, function in (WRITING if kind in READ else {**OUT_OF_PLACE, **WRITING}).items():
            for name in (f"{call} {kind}", None):
                if name is None and call == "broadcast_parameters":
                    continue
                if hvd.rank() == 1:
                    told(function, make(values_of(1)), name)
                else:
                    text = raises(hvd.HorovodInternalError, function, values_of(0), name)
                    assert "Rank 1 on host" in text and "refused tensor" in text, (call, kind, text)
                    reason = "clone() it first" if kind in READ else REFUSED[kind][1]
                    assert reason in text and ("grouped" not in call or "tensor 2 of 2: " in text), (call, kind, text)
        is_right("allreduce", WHOLE["allreduce"], torch.clone, "after")
        is_right("allgather", GATHERED["allgather"], torch.clone, "after")


@check
def what_has_no_values_is_refused_with_compression_too():
    for kind, (make, words) in REFUSED.items():
        if kind == "float8":  # is sent as float16
            continue
        for call, function in COMPRESSED.items():
            for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
                text = told(function, make(values_of(0)), f"{call} {kind}", compression)
                assert words in text, (call, kind, text)


@check
def arrays_without_values_are_refused_with_an_error_of_the_contract():
    for kind, (make, _) in REFUSED.items():
        for call, function in (("allreduce", horovod.numpy.allreduce), ("allreduce_", horovod.numpy.allreduce_),
                               ("allgather", horovod.numpy.allgather)):
            if kind == "a list":
                continue
            raises(TypeError if kind == "mute" else ValueError, function, make(values_of(0)), f"{call} {kind}")


@check
def transforms_are_refused():
    for call, function in {**WHOLE, **IN_PLACE, **SENT_BY_ROOT}.items():
        text = told(torch.vmap(lambda row, f=function, c=call: f(row, f"vmap {c}")), torch.ones(3, 2))
        assert "transform" in text or "vmap" in text, text


@check
def sparse_tensors_are_summed_coalesced_or_not_and_with_lazy_values():
    indices = torch.tensor([[0, 0, 2]])
    for values in (torch.tensor([1.0, 2.0, 3.0]), torch._neg_view(torch.tensor([-1.0, -2.0, -3.0]))):
        tensor = torch.sparse_coo_tensor(indices, values, (4,))
        result = hvd.synchronize(hvd.sparse_allreduce_async(tensor, "sparse", hvd.Sum))
        assert torch.equal(result.to_dense(), torch.tensor([3.0, 0, 3.0, 0]) * hvd.size())
    text = raises(ValueError, hvd.sparse_allreduce_async, torch.eye(3).to_sparse_csr(), "sparse", hvd.Sum)
    assert "not a sparse COO tensor" in text, text


@check
def parameters_behind_one_that_is_refused_are_broadcast_all_the_same():
    good = torch.full((3,), float(hvd.rank()))
    bad = torch.ones(1).expand(3) if hvd.rank() == hvd.size() - 1 else torch.ones(3)
    parameters = [("first", torch.ones(2)), ("second", bad), ("third", good)]
    told(hvd.broadcast_parameters, parameters, 0)
    assert torch.equal(good, torch.zeros(3))


@check
def gradients_with_the_negative_bit_are_averaged():
    for groups in (None, 1):
        parameter = torch.nn.Parameter(torch.zeros(4))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), groups=groups)
        parameter.grad = torch._neg_view(torch.arange(4.0))
        optimizer.step()
        assert torch.equal(parameter.detach(), torch.arange(4.0)), parameter


@check
def splits_and_arrays_may_be_lazy_as_well():
    rows = torch.arange(2.0 * hvd.size())
    splits = torch._neg_view(torch.full((hvd.size(),), -2))
    result, received = hvd.alltoall(rows, splits)
    assert received.tolist() == [2] * hvd.size() and len(result) == 2 * hvd.size()
    lazy = torch._neg_view(torch.arange(4.0))
    assert horovod.numpy.allreduce(lazy, op=horovod.numpy.Max, name="lazy").tolist() == (-torch.arange(4.0)).tolist()
    for make in (_freed, torch._to_functional_tensor, lambda values: torch._efficientzerotensor(values.shape)):
        text = raises(ValueError, horovod.numpy.allreduce, make(torch.ones(4)), name="nothing")
        assert "no memory" in text, text
