"""Checks of groups that are converted, made and received as a whole: the bits of their tensors one by one, and no Python for each."""
import sys

import torch
from checks import check
from errors import the_job_goes_on

import horovod.torch as hvd

COMPRESSIONS = (hvd.Compression.fp16, hvd.Compression.bf16)


def thirds(*shape, dtype=torch.float32):
    return (torch.arange(torch.Size(shape).numel(), dtype=dtype).reshape(shape) + 1) * (hvd.rank() + 1) / 3


@check
def a_compressed_group_has_the_bits_of_its_tensors_one_by_one():
    plain = [thirds(4, 3), thirds(5), thirds(2, 2, 2)]
    for compression in COMPRESSIONS:
        for name, of_group, of_one in (("reduced", hvd.grouped_allreduce, hvd.allreduce), ("scattered", hvd.grouped_reducescatter, hvd.reducescatter)):
            before = [tensor.clone() for tensor in plain]
            got = of_group(plain, name=name, compression=compression, op=hvd.Sum)
            alone = [of_one(tensor, name=f"{name}.{i}", compression=compression, op=hvd.Sum) for i, tensor in enumerate(plain)]
            assert isinstance(got, list) and all(map(torch.equal, got, alone)), (name, got, alone)
            assert all(map(torch.equal, plain, before)) and all(tensor.dtype is torch.float32 and tensor._base is None for tensor in got)
    the_job_goes_on()


@check
def a_compressed_group_takes_tensors_of_every_form():
    forms = {
        "strided": thirds(3, 4).t(), "expanded": thirds(1, 3).expand(4, 3), "double": thirds(4, dtype=torch.float64), "whole": torch.ones(3, dtype=torch.int64),
        "empty": torch.zeros(0, 3), "single": torch.tensor(2.5), "negative": torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
        "zero": torch._efficientzerotensor(3), "half": thirds(4, dtype=torch.float16), "parameter": torch.nn.Parameter(thirds(3)),
    }
    for compression in COMPRESSIONS:
        for form, tensor in forms.items():
            got = hvd.grouped_allreduce([thirds(2, 2), tensor], name=form, compression=compression, op=hvd.Sum)
            alone = hvd.allreduce(tensor, name=f"{form}.alone", compression=compression, op=hvd.Sum)
            assert got[1].dtype is alone.dtype and got[1].shape == alone.shape and torch.equal(got[1], alone), (form, got, alone)
    the_job_goes_on()


def events(function):
    """The calls that Python makes for a function that was called before."""
    found = []
    function()
    sys.setprofile(lambda frame, event, what: found.append(event) if event in ("call", "c_call") else None)
    try:
        function()
    finally:
        sys.setprofile(None)
    return len(found)


@check
def python_does_nothing_for_each_tensor_of_a_group():
    calls = {
        "allreduce": lambda tensors: hvd.grouped_allreduce(tensors, name="counted"),
        "allreduce_": lambda tensors: hvd.grouped_allreduce_(tensors, name="counted"),
        "fp16": lambda tensors: hvd.grouped_allreduce(tensors, name="counted", compression=hvd.Compression.fp16),
        "allgather": lambda tensors: hvd.grouped_allgather(tensors, name="counted"),
        "reducescatter": lambda tensors: hvd.grouped_reducescatter(tensors, name="counted"),
        "reducescatter fp16": lambda tensors: hvd.grouped_reducescatter(tensors, name="counted", compression=hvd.Compression.fp16),
    }
    for name, call in calls.items():
        few, many = ([torch.ones(4, 2) for _ in range(n)] for n in (8, 64))
        of_few, of_many = events(lambda: call(few)), events(lambda: call(many))
        assert of_many == of_few, (name, of_few, of_many)
    the_job_goes_on()
