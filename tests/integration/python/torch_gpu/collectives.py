"""The collectives on tensors of a GPU: the results are those of tensors of the host."""
import gpu
import torch
from checks import check, raises

import horovod.numpy
import horovod.torch as hvd

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [getattr(torch, name) for name in ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")]
ALL = FLOATS + INTEGERS + [torch.bool]


def values(dtype, shape=(4, 3), rank=None):
    """Small whole numbers of a rank (this one), in host memory; their sums and products are exact in every type."""
    rank = hvd.rank() if rank is None else rank
    numbers = torch.arange(torch.Size(shape).numel()) * 3 + 2 * rank
    return (numbers % 3 == 0 if dtype == torch.bool else 1 + numbers % 4).reshape(shape).to(dtype)


def same(one, other):
    """The first is on the GPU, and has the bits of the second."""
    assert one.device == gpu.TYPE, one.device
    assert (one.dtype, one.shape) == (other.dtype, other.shape), (one, other)
    assert one.tolist() == other.tolist(), (one.tolist(), other.tolist())


def nearly_same(one, other):
    """same(), but for the rounding of an average, which NCCL divides before it adds."""
    if other.dtype.is_floating_point and hvd.size() > 2:
        difference = (one.cpu().double() - other.double()).abs().max().item()
        assert one.device == gpu.TYPE and difference <= 8 * torch.finfo(other.dtype).eps, difference
    else:
        same(one, other)


@check
def every_collective_takes_its_types_and_gives_what_it_gives_on_the_host():
    size = hvd.size()
    for dtype in ALL if size == 2 else [torch.bfloat16, torch.float32, torch.int16, torch.int64, torch.bool]:
        host = values(dtype, (2 * size, 3))
        there = host.to("cuda")
        for op in (hvd.Sum, hvd.Min, hvd.Max, hvd.Product):
            same(hvd.allreduce(there, op=op), hvd.allreduce(host, op=op))
        nearly_same(hvd.allreduce(there, op=hvd.Average), hvd.allreduce(host, op=hvd.Average))
        same(hvd.allgather(there[hvd.rank():]), hvd.allgather(host[hvd.rank():]))
        same(hvd.broadcast(there, size - 1), hvd.broadcast(host, size - 1))
        same(hvd.alltoall(there), hvd.alltoall(host))
        same(hvd.reducescatter(there, op=hvd.Sum), hvd.reducescatter(host, op=hvd.Sum))
        same(there, host)


@check
def groups_and_asynchronous_forms_work_as_on_the_host():
    size = hvd.size()
    hosts = [values(dtype, (2 * size, n)) for n, dtype in enumerate((torch.float32, torch.float16, torch.int32, torch.float32), 1)]
    theres = [host.to("cuda") for host in hosts]
    for function, options in ((hvd.grouped_allreduce, {"op": hvd.Sum}), (hvd.grouped_allgather, {}),
                              (hvd.grouped_reducescatter, {"op": hvd.Sum})):
        for there, host in zip(function(theres, **options), function(hosts, **options)):
            same(there, host)
    handles = [hvd.allreduce_async(theres[0], name="reduced", op=hvd.Sum), hvd.allgather_async(theres[1], name="gathered"),
               hvd.broadcast_async(theres[2], 0, name="sent"), hvd.reducescatter_async(theres[3], name="scattered", op=hvd.Sum),
               hvd.alltoall_async(theres[0], torch.full((size,), 2), name="exchanged")]
    *results, (exchanged, counts) = [hvd.synchronize(handle) for handle in reversed(handles)][::-1]
    expected = [hvd.allreduce(hosts[0], op=hvd.Sum), hvd.allgather(hosts[1]), hvd.broadcast(hosts[2], 0),
                hvd.reducescatter(hosts[3], op=hvd.Sum)]
    for result, host in zip((*results, exchanged), (*expected, hvd.alltoall(hosts[0]))):
        same(result, host)
    assert counts.tolist() == [2] * size and counts.is_cpu
    assert hvd.allreduce_(theres[0], op=hvd.Sum) is theres[0]
    assert hvd.grouped_allreduce_(theres[2:], op=hvd.Sum)[1] is theres[3]
    assert hvd.broadcast_(theres[1], 0) is theres[1]
    for there, host in zip(theres, (hvd.allreduce(hosts[0], op=hvd.Sum), hvd.broadcast(hosts[1], 0),
                                    *hvd.grouped_allreduce(hosts[2:], op=hvd.Sum))):
        same(there, host)


@check
def tensors_of_every_form_are_taken():
    size = hvd.size()
    whole = values(torch.float32, (6, 4)).to("cuda")
    for there in (whole.t(), whole[:, 1:3], whole[::2], whole[1], whole[0, 0], whole[:0], whole.expand(2, 6, 4),
                  torch._neg_view(whole), whole.detach().requires_grad_(), torch.nn.Parameter(whole)):
        same(hvd.allreduce(there, op=hvd.Sum).detach(), hvd.allreduce(there.detach().cpu().contiguous(), op=hvd.Sum))
    expected = hvd.allreduce(whole.cpu(), op=hvd.Sum)
    part = whole[:, 1:3]
    assert hvd.allreduce_(part, op=hvd.Sum) is part
    same(part, expected[:, 1:3])
    same(whole[:, ::3], values(torch.float32, (6, 4))[:, ::3])
    column = whole.t()[1:2]
    assert hvd.synchronize(hvd.broadcast_async_(column, size - 1, name="column")) is column
    empty = hvd.allgather(torch.empty(0, 5, device="cuda"))
    assert empty.shape == (0, 5) and empty.device == gpu.TYPE


@check
def gradients_flow_through_collectives():
    there, host = (values(torch.float32, (hvd.size(), 2)).to(device).requires_grad_() for device in ("cuda", "cpu"))
    for tensor in (there, host):
        (hvd.allreduce(tensor, op=hvd.Sum).square().sum() + hvd.allgather(tensor).square().sum()
         + hvd.alltoall(tensor).square().sum() + hvd.broadcast(tensor, 0).sum()).backward()
    same(there.grad, host.grad)


@check
def tensors_of_the_host_and_the_gpu_are_sent_side_by_side():
    host, there = values(torch.float32), values(torch.float32).to("cuda")
    handles = [hvd.allreduce_async_(tensor.clone(), name=f"{i}.{tensor.device.type}", op=hvd.Sum)
               for i in range(3) for tensor in (host, there)]
    results = [hvd.synchronize(handle) for handle in handles]
    for result in results[1::2]:
        same(result, results[0])
    both = hvd.grouped_allreduce([host, there], op=hvd.Sum)
    assert both[0].is_cpu
    same(both[1], both[0])


@check
def compression_stays_on_the_gpu():
    theres = [values(torch.float32).to("cuda"), values(torch.float32, (5,)).to("cuda")]
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        for reduced, there in zip(hvd.grouped_allreduce(theres, compression=compression, op=hvd.Sum), theres):
            same(reduced, hvd.allreduce(there.cpu(), op=hvd.Sum))
        same(hvd.allreduce(theres[0], compression=compression, op=hvd.Sum), hvd.allreduce(theres[0].cpu(), op=hvd.Sum))


@check
def process_sets_reduce_on_the_gpu():
    if hvd.size() == 1:
        return
    last = hvd.add_process_set([hvd.size() - 1])
    if last.included():
        same(hvd.allreduce(values(torch.float32).to("cuda"), op=hvd.Sum, process_set=last), values(torch.float32))
    hvd.remove_process_set(last)


@check
def a_rank_that_has_joined_adds_zeros():
    expected = hvd.allreduce(values(torch.float32), op=hvd.Sum) - values(torch.float32, rank=0)
    if hvd.rank() > 0:
        same(hvd.allreduce(values(torch.float32).to("cuda"), name="more", op=hvd.Sum), expected)
    hvd.join()


class Older:
    """A tensor as PyTorch before 2.10 shows it, on a GPU of any number."""

    def __init__(self, tensor, index=0):
        self.tensor, self.dtype, self.shape, self.device = tensor, tensor.dtype, tensor.shape, torch.device("cuda", index)

    def data_ptr(self):
        return gpu.address_of(self.tensor)

    def is_contiguous(self):
        return self.tensor.is_contiguous()


@check
def tensors_of_an_older_pytorch_are_read_by_attributes():
    there = values(torch.int32).to("cuda")
    horovod.numpy.allreduce_(Older(there), op=hvd.Sum)
    same(there, hvd.allreduce(values(torch.int32), op=hvd.Sum))


@check
def a_tensor_of_another_gpu_than_the_ranks_is_refused():
    there = values(torch.int32).to("cuda")
    hvd.allreduce_(there)
    text = raises(ValueError, horovod.numpy.allreduce_, Older(there, 1))
    assert "GPU 1" in text and "this rank uses GPU 0" in text, text


@check
def splits_on_the_gpu_are_taken_and_come_back_there():
    there = values(torch.int64, (hvd.size(), 2)).to("cuda")
    splits = torch.ones(hvd.size(), dtype=torch.int32).to("cuda")
    received, counts = hvd.alltoall(there, splits)
    same(received, hvd.alltoall(there.cpu()))
    same(counts, splits.cpu())
    assert "splits are on a GPU" in raises(ValueError, horovod.numpy.alltoall, bytearray(4 * hvd.size()), splits)


@check
def ranks_that_differ_in_the_device_get_an_error():
    if hvd.size() > 1:
        tensor = values(torch.float32)
        text = raises(hvd.HorovodInternalError, hvd.allreduce, tensor.to("cuda") if hvd.rank() == 0 else tensor, name="differs")
        assert "differs" in text, text
    same(hvd.allreduce(values(torch.float32).to("cuda"), op=hvd.Sum), hvd.allreduce(values(torch.float32), op=hvd.Sum))
