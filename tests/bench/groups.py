"""What a group of tensors costs beside the same tensors one by one, both from PyTorch, in turn within one launch.

groups.py TURNS [NAME] prints a JSON line for each collective (whose name has NAME): the medians over the turns of "group" and
"members", in microseconds, and of their "ratio", turn by turn, with its 95 % bootstrap interval "ci95". Each rank runs it, in the
same order of the two in each turn, drawn at random; rank 0 prints."""
import functools
import json
import random
import statistics
import sys
import time

import torch

import horovod.torch as hvd

N_TENSORS, N_ELEMENTS = 1024, 1024  # of float32: 4 KiB
SMALL = (1, 4, 16)  # tensors of a small group, which is called CALLS times in a turn
CALLS = 20
ORDER = random.Random(1)


def members(submit, tensors, names):
    """All of them are submitted before the first is waited for."""
    for handle in [submit(tensor, name=name) for tensor, name in zip(tensors, names)]:
        hvd.synchronize(handle)


def group(submit, tensors):
    hvd.synchronize(submit(tensors, name="group"))


def packed_group(tensors):
    hvd.grouped_allreduce(tensors, name="group", compression=hvd.Compression.fp16)


def packed_members(tensors, names):
    """The same one by one, in the same types."""
    handles = [hvd.allreduce_async(tensor.half(), name=name) for tensor, name in zip(tensors, names)]
    for handle in handles:
        hvd.synchronize(handle).float()


def cases(n):
    """(what, the group's function, the members' one) for n tensors."""
    tensors = [torch.ones(N_ELEMENTS) for _ in range(n)]
    names = [f"member.{n}.{i}" for i in range(n)]
    for what, of_group, of_one in (
            ("allreduce-in-place", hvd.grouped_allreduce_async_, hvd.allreduce_async_),
            ("allreduce", hvd.grouped_allreduce_async, hvd.allreduce_async),
            ("allgather", hvd.grouped_allgather_async, hvd.allgather_async),
            ("reducescatter", hvd.grouped_reducescatter_async, hvd.reducescatter_async)):
        yield what, functools.partial(group, of_group, tensors), functools.partial(members, of_one, tensors, names)
    yield "allreduce-fp16", functools.partial(packed_group, tensors), functools.partial(packed_members, tensors, names)


def timed(function, calls):
    hvd.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return 1e6 * (time.perf_counter() - begin) / calls


def compare(what, of_group, of_members, calls):
    for function in 2 * (of_group, of_members):
        timed(function, calls)  # until names and buffers are known
    turns = [turn(of_group, of_members, calls) for _ in range(int(sys.argv[1]))]
    ratios = [group_us / members_us for group_us, members_us in turns]
    if hvd.rank() == 0:
        print(json.dumps({"what": what, "group": statistics.median(group_us for group_us, _ in turns),
                          "members": statistics.median(members_us for _, members_us in turns),
                          "ratio": statistics.median(ratios), "ci95": interval(ratios)}), flush=True)


def turn(of_group, of_members, calls):
    """(time of the group, of the members), in an order that all ranks draw alike."""
    if ORDER.random() < 0.5:
        return timed(of_group, calls), timed(of_members, calls)
    members_us = timed(of_members, calls)
    return timed(of_group, calls), members_us


def interval(ratios):
    """The middle 95 % of medians of as many turns, drawn again and again."""
    draw = random.Random(2)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(1000))
    return medians[25], medians[974]


def main():
    torch.set_num_threads(1)
    hvd.init()
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    for n, calls in ((N_TENSORS, 1), *((n, CALLS) for n in SMALL)):
        for what, *functions in cases(n):
            name = what if n == N_TENSORS else f"{what}-of-{n}"
            if wanted in name:
                compare(name, *functions, calls)
    hvd.shutdown()


main()
