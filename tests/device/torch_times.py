"""Host time from Python with one rank: a submission beside one of torch.distributed, tensors behind a kernel that spins, and how
fast torch._foreach_copy_ packs."""
import statistics
import time

import torch

import horovod.torch as hvd
from torch_machine import DEVICE, IS_GPU, IS_SHORT, alternate, cycles_of, device_ms, join_alone, lists, ratio, row, run, settle, verdict

N_TENSORS = 100
ROUNDS = 3 if IS_SHORT else 40
SPIN_MS = 50


def tensors():
    return [torch.full((1024,), float(i), device=DEVICE) for i in range(N_TENSORS)]


def submit_ours(group):
    """Microseconds of a submission; the results are ordered outside of the time."""
    begin = time.perf_counter()
    handles = [hvd.allreduce_async_(tensor, name=f"t{i}", op=hvd.Sum) for i, tensor in enumerate(group)]
    took = time.perf_counter() - begin
    for handle in handles:
        hvd.synchronize(handle)
    settle()
    return 1e6 * took / len(group)


def submit_theirs(group):
    begin = time.perf_counter()
    handles = [torch.distributed.all_reduce(tensor, async_op=True) for tensor in group]
    took = time.perf_counter() - begin
    for handle in handles:
        handle.wait()
    settle()
    return 1e6 * took / len(group)


def check_submission():
    ours, theirs = tensors(), tensors()
    arms = {"ours": lambda: submit_ours(ours), "theirs": lambda: submit_theirs(theirs)}
    alternate(arms, 5)
    found = alternate(arms, ROUNDS)
    row("submission", statistics.median(found["ours"]))
    row("submission of torch.distributed", statistics.median(found["theirs"]))
    row("submission over torch.distributed's", ratio(found, "ours", "theirs"))


def behind_a_kernel(group, cycles):
    """(milliseconds until all are submitted and ordered, whether the kernel still runs)"""
    if IS_GPU:
        torch.cuda._sleep(cycles)
    for tensor in group:
        tensor.add_(1)
    begin = time.perf_counter()
    handles = [hvd.allreduce_async_(tensor, name=f"t{i}", op=hvd.Sum) for i, tensor in enumerate(group)]
    for handle in handles:
        hvd.synchronize(handle)
    took = time.perf_counter() - begin
    still = not torch.cuda.current_stream().query() if IS_GPU else True
    settle()
    return 1000 * took, still


def check_kernel():
    cycles = cycles_of(SPIN_MS) if IS_GPU else 0
    group = tensors()
    submit_ours(group)
    found = [behind_a_kernel(group, cycles) for _ in range(5)]
    row("100 tensors behind a kernel", statistics.median(took for took, _ in found))
    verdict("the kernel still runs", all(still for _, still in found), "it had ended before the submissions returned")
    wanted = [float(i) + 5 for i in range(N_TENSORS)]
    verdict("results behind a kernel", [tensor[7].item() for tensor in group] == wanted, [tensor[7].item() for tensor in group])


def check_foreach():
    """torch._foreach_copy_ of each list into one buffer, beside a copy of as many bytes."""
    for name, sizes in lists().items():
        total = sum(-(-size // 4) * 4 for size in sizes)
        buffer, other = (torch.zeros(total, device=DEVICE) for _ in range(2))
        sources = [torch.ones(size, device=DEVICE) for size in sizes]
        views, at = [], 0
        for size in sizes:
            views.append(buffer[at:at + size])
            at += -(-size // 4) * 4
        copy = device_ms(lambda: other.copy_(buffer), 20)  # pylint: disable=cell-var-from-loop
        pack = device_ms(lambda: torch._foreach_copy_(views, sources), 20)  # pylint: disable=cell-var-from-loop
        row(f"_foreach_copy_ {name}", copy / pack)


def main():
    hvd.init()
    join_alone()
    run([("submission", check_submission), ("100 tensors behind a kernel", check_kernel), ("_foreach_copy_ small", check_foreach)])
    torch.distributed.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
