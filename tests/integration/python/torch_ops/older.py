"""Tensors as PyTorch before 2.10 shows them: by data_ptr() and attributes, without DLPack's exchange table."""
import torch
from checks import check, raises
from inputs import ALL, mine, reduced, same

import horovod.numpy
import horovod.torch as hvd
from horovod import _core


class Older:
    """A tensor that shows what an older PyTorch's does, and nothing else."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.dtype, self.shape, self.device = tensor.dtype, tensor.shape, tensor.device

    def data_ptr(self):
        return self.tensor.data_ptr()

    def is_contiguous(self):
        return self.tensor.is_contiguous()


@check
def an_older_tensor_of_every_type_and_shape_is_reduced_in_place():
    for dtype in ALL:
        for shape in ((3, 5), (), (2, 0, 4), (1,) * 16):
            tensor = mine(dtype, shape)
            horovod.numpy.allreduce_(Older(tensor), op=hvd.Sum)
            same(tensor, reduced("sum", dtype, shape))


@check
def older_tensors_are_gathered_and_broadcast():
    gathered, = _core.wait(_core.allgather_async(Older(mine(torch.int16)), "older", 0))
    assert gathered.shape == (3 * hvd.size(), 5)
    same(torch.from_dlpack(gathered)[3 * hvd.rank():][:3], mine(torch.int16))
    tensor = mine(torch.float64)
    horovod.numpy.broadcast_(Older(tensor), root_rank=0)
    same(tensor, reduced("sum", torch.float64, ranks=[0]))


@check
def ranks_with_an_older_and_a_newer_pytorch_work_together():
    tensor = mine(torch.bfloat16)
    if hvd.rank() == 0:
        horovod.numpy.allreduce_(Older(tensor), name="of all ages", op=hvd.Sum)
    else:
        hvd.allreduce_(tensor, name="of all ages", op=hvd.Sum)
    same(tensor, reduced("sum", torch.bfloat16))


@check
def an_older_tensor_that_cannot_be_sent_is_refused():
    for tensor, why in ((mine().t(), "the tensor is not contiguous"),
                        (torch.empty(3, device="meta"), "the tensor is neither in host memory nor on an NVIDIA GPU"),
                        (torch.zeros(3, dtype=torch.complex64), "tensors of torch.complex64 cannot be reduced"),
                        (torch.zeros((1,) * 17), "a tensor has at most 16 dimensions")):
        text = raises(ValueError, horovod.numpy.allreduce_, Older(tensor))
        assert why in text, text


@check
def what_an_older_tensor_raises_is_told():
    class Sparse(Older):
        def is_contiguous(self):
            raise RuntimeError("sparse tensors do not have is_contiguous")

    assert "sparse tensors" in raises(ValueError, horovod.numpy.allreduce_, Sparse(mine()))
