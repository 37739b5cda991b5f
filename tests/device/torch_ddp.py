"""torch_ddp.py KEY...: steps with the gradients of a list of tensors, with DistributedDataParallel and with ours, in turn and in an
order drawn at random. Each rank has a GPU; one rank without a launcher. Rank 0 prints rows, or with BENCH_BLOCKS a line of JSON for
each block.

The gradients come from one operation, so that a step has little besides: host time is what a training thread spends in a step,
device time what passes on the GPU.
"""
import json
import os
import random
import statistics
import sys
import time

import torch

import horovod.torch as hvd
from torch_machine import IS_GPU, IS_SHORT, join_alone, lists, ratio, row, run, settle

ROUNDS = 1 if IS_SHORT else 7
STEPS, WARM = (1, 1) if IS_SHORT else (10, 4)
DDP = {"ddp": {}, "ddp-lean": {"gradient_as_bucket_view": True, "broadcast_buffers": False}}
ARMS = tuple(filter(None, os.environ.get("BENCH_ARMS", "").split(","))) or ("ours", *DDP, "alone")
FUSION_BYTES = 128 << 20  # HOROVOD_FUSION_THRESHOLD, as it comes


class Give(torch.autograd.Function):
    """A loss whose backward gives a gradient to every parameter."""

    @staticmethod
    def forward(ctx, *parameters):
        ctx.save_for_backward(*parameters)
        return parameters[0].new_zeros(())

    @staticmethod
    def backward(ctx, gradient):
        del gradient
        return tuple(torch._foreach_mul(ctx.saved_tensors, 0.5))


class Tensors(torch.nn.Module):
    """A model with parameters of these sizes."""

    def __init__(self, sizes, device):
        super().__init__()
        self.all = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(size, device=device)) for size in sizes])

    def forward(self):
        return Give.apply(*self.all)


class Arm:
    """A model of these sizes and how it is trained."""

    def __init__(self, kind, sizes, device):
        self.device = device
        self.model = Tensors(sizes, device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0)
        if kind == "ours":
            self.optimizer = hvd.DistributedOptimizer(self.optimizer, named_parameters=self.model.named_parameters())
        elif kind in DDP:
            ids = [device.index] if device.type == "cuda" else None
            self.model = torch.nn.parallel.DistributedDataParallel(self.model, device_ids=ids, **DDP[kind])

    def step(self):
        self.optimizer.zero_grad()
        self.model().backward()
        self.optimizer.step()

    def block(self, n_steps):
        """(host, device) milliseconds of a step: the medians of a block. The device is idle before each step."""
        host, whole = [], []
        for _ in range(n_steps):
            settle()
            begin = time.perf_counter()
            self.step()
            host.append(1000 * (time.perf_counter() - begin))
            settle()
            whole.append(1000 * (time.perf_counter() - begin))
        return statistics.median(host), statistics.median(whole)

    def operations(self):
        """How many kernels and copies a step has on the GPU, and the bytes of the copies; by torch's profiler."""
        if not IS_GPU:
            return 0, 0
        activities = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities) as profile:
            self.step()
            settle()
        found = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
        return len(found), sum("Memcpy" in event.name for event in found)


def free_bytes():
    if not IS_GPU:
        return 0
    settle()
    return torch.cuda.mem_get_info()[0]


def check_memory(sizes, device):
    """How much memory of the GPU the first steps take beside PyTorch's own."""
    arm = Arm("alone", sizes, device)
    for _ in range(3):
        arm.step()
    del arm
    reserved = torch.cuda.memory_reserved() if IS_GPU else 0
    before = free_bytes()
    arm = Arm("ours", sizes, device)
    for _ in range(3):
        arm.step()
    grown = (torch.cuda.memory_reserved() if IS_GPU else 0) - reserved
    row("extra memory over the fusion threshold", (before - free_bytes() - grown) / FUSION_BYTES)


def compare(key, sizes, device):
    """Rows of one list: host time, device time, kernels and copies."""
    arms = {kind: Arm(kind, sizes, device) for kind in ARMS}
    for arm in arms.values():
        arm.block(WARM)
    rng = random.Random(1)
    host, whole = {kind: [] for kind in ARMS}, {kind: [] for kind in ARMS}
    for turn in range(ROUNDS):
        for kind in rng.sample(ARMS, len(ARMS)):
            block = arms[kind].block(STEPS)
            host[kind].append(block[0])
            whole[kind].append(block[1])
            if "BENCH_BLOCKS" in os.environ and hvd.rank() == 0:
                print(json.dumps({"workload": key, "arm": kind, "round": turn, "host_ms": block[0], "step_ms": block[1]}), flush=True)
    if "BENCH_BLOCKS" in os.environ:
        return
    for kind in ARMS:
        operations, copies = arms[kind].operations()
        text = f"{operations} kernels and copies, {copies} of them copies"
        row(f"{key}: host time, {kind}", statistics.median(host[kind]), text=text)
        row(f"{key}: step, {kind}", statistics.median(whole[kind]))
        row(f"{key}: kernels and copies, {kind}", operations, text=text)
    for other in DDP:
        row(f"{key}: host time over {other}'s", ratio(host, "ours", other))
        row(f"{key}: step over {other}'s", ratio(whole, "ours", other))


def main():
    hvd.init()
    device = torch.device("cuda", hvd.local_rank()) if IS_GPU else torch.device("cpu")
    if IS_GPU:
        torch.cuda.set_device(device)
    if hvd.size() == 1:
        join_alone()
    else:
        torch.distributed.init_process_group("nccl" if IS_GPU else "gloo", init_method=f"tcp://127.0.0.1:{os.environ['BENCH_PORT']}",
                                             rank=hvd.rank(), world_size=hvd.size())
    keys = sys.argv[1:]
    checks = [] if "BENCH_BLOCKS" in os.environ else [("extra memory over the fusion threshold",
                                                       lambda: check_memory(lists()[keys[-1]], device))]
    checks += [(f"{key}: host time, ours", lambda key=key: compare(key, lists()[key], device)) for key in keys]
    n_bad = run(checks)
    torch.distributed.destroy_process_group()
    hvd.shutdown()
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
