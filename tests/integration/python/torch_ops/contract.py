"""Checks of which error is raised for what: the rows of the table in docs/python.md that a call can bring about."""
import array
import pathlib
import re

import torch
from checks import check, only_the_last_refuses, raises
from errors import the_job_goes_on
from inputs import mine, reduced, same

import horovod.torch as hvd
from horovod.torch import adapter

ONE_TENSOR = {name: getattr(hvd, name) for name in (
    "allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "allgather", "allgather_async", "alltoall",
    "alltoall_async", "reducescatter", "reducescatter_async")}
ONE_TENSOR.update({name: lambda tensor, function=getattr(hvd, name): function(tensor, 0) for name in (
    "broadcast", "broadcast_", "broadcast_async", "broadcast_async_")})
ONE_TENSOR["allreduce in halves"] = lambda tensor: hvd.allreduce(tensor, compression=hvd.Compression.fp16)
ONE_TENSOR["sparse"] = lambda tensor: hvd.sparse_allreduce_async(tensor, "sparse", hvd.Sum)
GROUPS = {name: getattr(hvd, name) for name in (
    "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_",
    "grouped_allgather", "grouped_allgather_async", "grouped_reducescatter", "grouped_reducescatter_async")}


@check
def what_is_no_tensor_is_refused_by_the_name_of_its_type():
    for name, function in ONE_TENSOR.items():
        for thing, kind in ((None, "NoneType"), ([1.0], "list"), (3, "int"), ("words", "str")):
            text = raises(ValueError, function, thing)
            assert text == f"Tensor type {kind} is not supported: a torch.Tensor is needed.", (name, text)
    assert "pathlib.PosixPath" in raises(ValueError, hvd.allreduce, pathlib.PosixPath("/"))
    the_job_goes_on()


@check
def a_group_of_what_is_no_tensor_is_refused_by_the_name_of_its_type():
    for name, function in GROUPS.items():
        for thing, kind in (([None], "NoneType"), ([[1.0]], "list")):
            text = raises(ValueError, function, thing)
            assert text == f"Tensor type {kind} is not supported: a torch.Tensor is needed.", (name, text)
        for thing, kind in ((None, "NoneType"), (3, "int")):
            text = raises(ValueError, function, thing)
            assert text == f"A group is a sequence of tensors, not {kind}.", (name, text)
        assert raises(ValueError, function, []) == "A group needs at least one tensor.", name
    the_job_goes_on()


@check
def a_group_that_one_rank_has_without_tensors_is_an_error_on_the_others():
    """Whatever brought the last rank to it; differing.py has groups of more."""
    for call, function in GROUPS.items():
        word = re.match("grouped_([a-z]*)", call)[0]
        for name in ("none", None):
            for nothing, words in (([], "A group needs at least one tensor."), (iter(()), "A group needs at least one tensor."),
                                   (3, "A group is a sequence of tensors, not int.")):
                only_the_last_refuses(words, f"{word}.{name or 'noname'}", lambda f=function, n=name, t=nothing: f(t, name=n),
                                      lambda f=function, n=name, c=call: done(c, f([torch.ones(4)], name=n)))
            sums = done(call, function([torch.ones(4), torch.ones(2, 2)], name=name))  # of all ranks, whatever the last refused
            assert len(sums) == 2
    the_job_goes_on()


@check
def groups_that_all_ranks_have_without_tensors_count_alike_and_hold_up_nothing():
    for name in ("empty", None):
        for _ in range(3):
            for function in GROUPS.values():
                raises(ValueError, function, [], name=name)
        for tensors in ([mine()], [mine(), mine()]):
            for result in hvd.grouped_allreduce(tensors, name=name, op=hvd.Sum):
                same(result, reduced("sum"))
    the_job_goes_on()


@check
def of_a_group_the_member_is_told_that_one_rank_refuses():
    good, bad = torch.ones(4), torch.ones(4, dtype=torch.complex64)
    words = "tensor 2 of 3: Tensor type torch.ComplexFloatTensor is not supported."
    for call, function in GROUPS.items():
        word = re.match("grouped_([a-z]*)", call)[0]
        for name in ("member", None):
            only_the_last_refuses(words if hvd.rank() != hvd.size() - 1 else words[len("tensor 2 of 3: "):], f"{word}.{name or 'noname'}",
                                  lambda f=function, n=name: f([good, bad, good], name=n),
                                  lambda f=function, n=name, c=call: done(c, f([good.clone() for _ in range(3)], name=n)))
    the_job_goes_on()


def done(call, result):
    """What a call returns, waited for."""
    return hvd.synchronize(result) if "async" in call else result


class Broken:
    """A compressor that fails."""

    @staticmethod
    def compress(tensor):
        raise RuntimeError("no room to compress")

    @staticmethod
    def decompress(tensor, context):
        raise AssertionError("nothing was compressed")


@check
def what_fails_before_it_is_submitted_is_told_as_well():
    good = torch.ones(4)
    for name in ("early", None):
        end = name or "noname"
        only_the_last_refuses("no room to compress", f"allreduce.{end}", lambda: hvd.allreduce(good, name=name, compression=Broken),
                              lambda: hvd.allreduce(good, name=name))
        only_the_last_refuses("no room to compress", f"grouped_allreduce.{end}",
                              lambda: hvd.grouped_allreduce([good], name=name, compression=Broken),
                              lambda: hvd.grouped_allreduce([good], name=name))
        only_the_last_refuses("no room to compress", f"reducescatter.{end}",
                              lambda: hvd.reducescatter(good, name=name, compression=Broken),
                              lambda: hvd.reducescatter(good, name=name))
        for bad, words in ((good, "is not a sparse COO tensor"), (good.to(torch.complex64).to_sparse(), "is not supported"),
                           ((good * 1j).to_sparse(), "is not supported")):
            only_the_last_refuses(words, "allgather." + (f"{name}.values" if name else end),
                                  lambda: hvd.sparse_allreduce_async(bad, name, hvd.Sum),
                                  lambda: hvd.sparse_allreduce_async(good.to_sparse(), name, hvd.Sum)())
        only_the_last_refuses("integers", f"alltoall.{end}", lambda: hvd.alltoall(good, ["one"] * hvd.size(), name=name),
                              lambda: hvd.alltoall(torch.ones(hvd.size()), name=name))
    the_job_goes_on()


class Unreadable(torch.Tensor):
    """A tensor that nothing can be asked of."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise KeyError("an unreadable tensor")


@check
def what_an_argument_raises_of_any_kind_is_an_error_on_the_others():
    good = torch.ones(4)
    unreadable = torch.ones(4).as_subclass(Unreadable)
    for call in ("allreduce", "allreduce_", "allreduce_async", "allreduce_async_"):
        function = getattr(hvd, call)
        for bad, words in ((lambda f=function: f(good, name="any", prescale_factor=10**400), "too large"),
                           (lambda f=function: f(good.untyped_storage(), name="any"), "UntypedStorage"),
                           (lambda f=function: f(unreadable, name="any"), "an unreadable tensor")):
            only_the_last_refuses(words, "allreduce.any", bad, lambda f=function, c=call: done(c, f(good.clone(), name="any")))
    for call in ("broadcast", "broadcast_", "broadcast_async", "broadcast_async_"):
        function = getattr(hvd, call)
        for bad, words in ((lambda f=function: f(good, 2**80, name="any"), "too large"),
                           (lambda f=function: f(unreadable, 0, name="any"), "an unreadable tensor")):
            only_the_last_refuses(words, "broadcast.any", bad, lambda f=function, c=call: done(c, f(good.clone(), 0, name="any")))
    only_the_last_refuses("an unreadable tensor", "allgather.any", lambda: hvd.allgather(unreadable, name="any"),
                          lambda: hvd.allgather(good, name="any"))
    the_job_goes_on()


@check
def a_group_of_arrays_is_refused_before_it_is_submitted():
    tensors = [torch.ones(2), torch.ones(3)]
    only_the_last_refuses("Tensor type array.array is not supported", "grouped_allgather.arrays",
                          lambda: hvd.grouped_allgather([array.array("f", [1.0]), tensors[1]], name="arrays"),
                          lambda: hvd.grouped_allgather(tensors, name="arrays"))
    the_job_goes_on()


@check
def a_tensor_of_rows_is_a_group_of_its_rows():
    rows = torch.stack([mine(), 2 * mine()])
    for one, other in zip(hvd.grouped_allreduce(rows, op=hvd.Sum), hvd.allreduce(rows, op=hvd.Sum)):
        assert torch.equal(one, other)
    assert len(hvd.grouped_reducescatter(rows, op=hvd.Sum)) == 2


@check
def reducescatter_refuses_reductions_that_it_does_not_know_as_horovod_does():
    tensor = torch.ones(2 * hvd.size())
    calls = (hvd.reducescatter, hvd.reducescatter_async, lambda x, op: hvd.grouped_reducescatter([x], op=op),
             lambda x, op: hvd.grouped_reducescatter_async([x], op=op))
    for function in calls:
        for op in (hvd.Adasum, hvd.Min, hvd.Max, hvd.Product):
            for kind in (RuntimeError, ValueError):
                text = raises(kind, function, tensor, op=op)
                assert text == "Reducescatter currently only supports AVERAGE and SUM.", text
    the_job_goes_on()


@check
def splits_that_are_no_integers_are_refused():
    for splits in ("ab", 3, [1.5] * hvd.size(), [[1]], [None], torch.ones(hvd.size())):
        assert "alltoall expects" in raises(ValueError, hvd.alltoall, torch.ones(hvd.size()), splits)
    the_job_goes_on()


@check
def arguments_of_a_wrong_kind_are_type_errors():
    for kind in (None, "a", 1.0):
        raises(TypeError, hvd.broadcast, mine(), kind)
        raises(TypeError, hvd.broadcast_, mine(), kind)
    raises(TypeError, hvd.allreduce, mine(), name=3)
    raises(TypeError, hvd.allreduce, mine(), op="sum")
    raises(TypeError, hvd.allreduce, mine(), prescale_factor="2")
    raises(TypeError, hvd.poll, "handle")
    the_job_goes_on()


IN_PLACE = {
    "allreduce_": hvd.allreduce_,
    "allreduce_async_": lambda x: hvd.synchronize(hvd.allreduce_async_(x)),
    "grouped_allreduce_": lambda x: hvd.grouped_allreduce_([x]),
    "grouped_allreduce_async_": lambda x: hvd.synchronize(hvd.grouped_allreduce_async_([x])),
    "broadcast_": lambda x: hvd.broadcast_(x, 0),
    "broadcast_async_": lambda x: hvd.synchronize(hvd.broadcast_async_(x, 0)),
    "broadcast_parameters": lambda x: hvd.broadcast_parameters([("x", x)], 0),
}


@check
def autograd_sees_what_is_written_in_place():
    for name, function in IN_PLACE.items():
        for tensor in (mine(), mine().t(), torch.ones(()), torch.ones(0)):
            version = tensor._version
            function(tensor)
            assert tensor._version > version, name
            version = tensor._version
            function(tensor.detach())
            assert tensor._version > version, name
        weight = torch.ones(3, 5, requires_grad=True)
        saved = mine()
        product = (weight * saved).sum()
        function(saved.detach())
        text = raises(RuntimeError, product.backward)
        assert "modified by an inplace operation" in text, (name, text)


@check
def autograd_sees_it_with_an_older_pytorch_too():
    bump, adapter.bump = adapter.bump, adapter._bump_by_view
    try:
        for tensor in (mine(), torch.ones(()), torch.ones(0), torch.ones(2, requires_grad=True).detach()):
            before = tensor._version, tensor.clone()
            assert adapter.written(tensor) is tensor
            assert tensor._version == before[0] + 1 and torch.equal(tensor, before[1])
        adapter.written(array.array("d", [1.0]))  # nothing to count up
        with torch.inference_mode():
            adapter.written(torch.ones(2))
    finally:
        adapter.bump = bump


@check
def arrays_of_other_libraries_are_written_in_place():
    for function in (lambda x: hvd.allreduce_(x, op=hvd.Sum), lambda x: hvd.broadcast_(x, 0)):
        values = array.array("d", [1.0])
        assert function(values) is values and values[0] in (1.0, hvd.size())


@check
def what_is_not_in_place_leaves_its_input_to_autograd():
    for function in (hvd.allreduce, hvd.allgather, lambda x: hvd.broadcast(x, 0),
                     lambda x: hvd.grouped_allreduce([x]), hvd.reducescatter):
        tensor = mine()
        function(tensor)
        assert tensor._version == 0, function


@check
def tensors_of_inference_are_written_in_place():
    with torch.inference_mode():
        tensor = torch.ones(3)
        hvd.allreduce_(tensor, op=hvd.Sum)
        hvd.broadcast_(tensor, 0)
    assert tensor.tolist() == [hvd.size()] * 3


@check
def a_name_that_is_submitted_again_and_again_is_refused():
    """As scripts that test for Horovod's error do: nobody waits in between."""
    if hvd.size() == 1:
        return
    for function in (hvd.allreduce_async, hvd.allgather_async, lambda x, name: hvd.broadcast_async(x, 0, name),
                     hvd.reducescatter_async, hvd.alltoall_async):
        tensor = torch.ones(17 * hvd.size())
        first = function(tensor, name="again")
        text = raises(ValueError, lambda: [function(tensor, name="again") for _ in range(10)])
        assert re.search("with the same name", text), text
        hvd.synchronize(first)
