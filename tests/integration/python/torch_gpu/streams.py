"""The order between PyTorch's streams and Horovod's operations, and what Horovod does on the way."""
import threading

import gpu
import torch
from checks import check, raises

import horovod.torch as hvd


def does_nothing_more(step):
    """Fails if the step, once it has run a few times, still copies, allocates or waits."""
    for _ in range(4):
        step()
    gpu.settle()
    hvd.barrier()
    copies, before = dict(gpu.copies), gpu.counts()
    for _ in range(4):
        step()
    made = {name: count - before[name] for name, count in gpu.counts().items() if name not in ("launches", "waits", "records")}
    assert gpu.copies == copies, (gpu.copies, copies)
    assert not any(made.values()), made


def ones(*shape):
    """Ones on the GPU."""
    return torch.ones(*shape, device="cuda")


@check
def synchronize_returns_while_the_gpu_stands_still():
    tensor, part = ones(1000), ones(3)
    hvd.synchronize(hvd.allreduce_async_(tensor, name="warm", op=hvd.Sum))
    hvd.synchronize(hvd.allgather_async(part, name="warm too"))
    gpu.settle()
    with gpu.standing_still():
        reduced = hvd.allreduce_async_(tensor, name="reduced", op=hvd.Sum)
        gathered = hvd.allgather_async(part, name="gathered")
        assert not hvd.poll(reduced) and not hvd.poll(gathered)
        assert hvd.synchronize(reduced) is tensor
        assert hvd.synchronize(gathered).shape == (3 * hvd.size(),)
    assert tensor.tolist() == [hvd.size() ** 2] * 1000
    handle = hvd.allreduce_async_(tensor, name="polled")
    while not hvd.poll(handle):
        pass
    hvd.synchronize(handle)


@check
def a_steady_step_copies_and_allocates_nothing_and_waits_for_nothing():
    tensors = [ones(n) for n in (1, 5, 1000, 300000)]

    def step():  # whose fused operations are the same each time
        for i, tensor in enumerate(tensors):
            hvd.synchronize(hvd.allreduce_async_(tensor, name=f"steady.{i}"))
            hvd.broadcast_(tensor, 0, name="steady")
        hvd.grouped_allreduce_(tensors, name="steady")

    does_nothing_more(step)


@check
def results_are_there_for_the_stream_that_synchronizes():
    submitting, using = gpu.Stream(), gpu.Stream()
    for name in "abc":
        with submitting.current():
            tensor = ones(500)
            handle = hvd.allreduce_async_(tensor, name=f"{name} in place", op=hvd.Sum)
            other = hvd.allreduce_async(ones(500), name=f"{name} new", op=hvd.Sum)
            gathered = hvd.allgather_async(ones(5), name=f"{name} gathered")
        with using.current():
            results = [hvd.synchronize(handle), hvd.synchronize(other), hvd.synchronize(gathered)]
            assert (results[0] + results[1]).tolist() == [2.0 * hvd.size()] * 500
            assert results[2].sum().item() == 5 * hvd.size()


@check
def memory_is_reused_behind_the_operation_whatever_stream_synchronizes():
    submitting, using = gpu.Stream(), gpu.Stream()
    for name in "abc":
        with submitting.current():
            handles = [hvd.allreduce_async(ones(2000), name=f"{name} reduced"),
                       hvd.allgather_async(ones(2000), name=f"{name} gathered"),
                       hvd.grouped_allreduce_async([ones(3), ones(2000)], name=f"{name} grouped")]
        with using.current():
            for handle in handles:
                hvd.synchronize(handle)


@check
def an_output_may_be_dropped_while_the_gpu_uses_it():
    with gpu.Stream().current():
        total = sum(hvd.allgather(ones(400) * i).sum() for i in range(4))
        assert total.item() == 6 * 400 * hvd.size()
    del total


@check
def threads_have_streams_of_their_own():
    failures = []

    def work(name):
        try:
            with gpu.present(), gpu.Stream().current():
                for i in range(3):
                    assert hvd.allreduce(ones(100) + i, name=f"{name}.{i}", op=hvd.Sum).tolist() == [hvd.size() * (1.0 + i)] * 100
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@check
def what_is_not_synchronized_keeps_its_memory():
    handles = [hvd.allreduce_async(ones(3000), name=f"kept.{i}") for i in range(4)]
    gpu.settle()
    for handle in handles:
        hvd.synchronize(handle)


@check
def a_stream_that_is_captured_into_a_graph_is_refused():
    tensor = ones(4)
    with gpu.Stream().current():
        with gpu.captured():
            text = raises(ValueError, hvd.allreduce_, tensor, name="captured")
    assert "captur" in text, text
    gpu.settle()
    assert hvd.allreduce(tensor, op=hvd.Sum).tolist() == [hvd.size()] * 4


@check
def a_group_waits_for_the_streams_of_all_its_gradients():
    if hvd.size() == 1:
        return  # nothing is reduced, and the memory is the program's own affair
    first, second = gpu.Stream(), gpu.Stream()
    a, b = (torch.nn.Parameter(ones(4000)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], lr=1.0), [("a", a), ("b", b)], groups=1)
    main = torch.cuda.current_stream()
    for _ in range(3):
        first.wait_stream(main)
        second.wait_stream(main)
        with first.current():
            (a * 3).sum().backward()
        with second.current():
            (b * 5).sum().backward()
        main.wait_stream(first)
        main.wait_stream(second)
        optimizer.step()
        optimizer.zero_grad()
    assert (a[0].item(), b[0].item()) == (-8, -14)


@check
def a_wait_of_a_captured_stream_is_refused_behind_the_work():
    with gpu.Stream().current():
        tensor = ones(100)
        handle = hvd.allreduce_async_(tensor, name="captured later", op=hvd.Sum)
        with gpu.captured():
            assert "captured into a graph" in raises(ValueError, hvd.synchronize, handle)
        del tensor


@check
def what_a_wait_writes_is_kept_for_its_stream():
    submitting, using = gpu.Stream(), gpu.Stream()
    for name in "abc":
        with submitting.current():
            turned, sent, others = ones(60, 50).t(), ones(60, 50).t(), [ones(60, 50).t(), ones(7)]
            handles = [hvd.allreduce_async_(turned, name=f"{name} turned"), hvd.grouped_allreduce_async_(others, name=f"{name} others"),
                       hvd.broadcast_async_(sent, 0, name=f"{name} sent")]
        with using.current():
            for handle in handles:
                hvd.synchronize(handle)
        del turned, sent, others, handles, handle


@check
def compressed_gradients_are_kept_for_the_stream_of_the_step():
    if hvd.size() == 1:
        return  # nothing is reduced, and the memory is the program's own affair
    backward, step = gpu.Stream(), gpu.Stream()
    with backward.current():
        weight = torch.nn.Parameter(ones(50))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("w", weight)], compression=hvd.Compression.fp16)
    for _ in range(3):
        with backward.current():
            (weight * 2).sum().backward()
        step.wait_stream(backward)
        with step.current():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        backward.wait_stream(step)


class _OfAnotherStream(torch.autograd.Function):
    """Does in its backward what PyTorch's engine does for a node whose forward ran on another stream."""

    @staticmethod
    def forward(ctx, tensor, stream):
        ctx.stream = stream
        return tensor * 2

    @staticmethod
    def backward(ctx, gradient):
        ctx.stream.wait_stream(torch.cuda.current_stream())
        with ctx.stream.current():
            result = gradient * 2
            gradient.record_stream(ctx.stream)
        return result, None


@check
def autograd_may_give_gradients_of_collectives_to_other_streams():
    first, second = gpu.Stream(), gpu.Stream()
    for collective in (hvd.alltoall, hvd.reducescatter, lambda x: hvd.grouped_reducescatter([x])[0], hvd.allgather):
        with first.current():
            inner = _OfAnotherStream.apply(ones(8 * hvd.size(), 8).requires_grad_(), first)
        second.wait_stream(first)
        with second.current():
            (collective(inner) ** 2).sum().backward()
        first.wait_stream(second)
