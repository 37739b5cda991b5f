"""What a group of tensors costs beside the same tensors one by one, both from PyTorch, in turn within one launch.

groups.py TURNS prints a JSON line for each collective: the medians over the turns of "group" and "members", in microseconds. Each
rank runs it; rank 0 prints."""
import functools
import json
import statistics
import sys
import time

import torch

import horovod.torch as hvd

N_TENSORS, N_ELEMENTS = 1024, 1024  # of float32: 4 KiB
SMALL = (1, 4, 16)  # tensors of a small group, which is called CALLS times in a turn
CALLS = 20


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
    turns = [(timed(of_group, calls), timed(of_members, calls)) for _ in range(int(sys.argv[1]))]
    if hvd.rank() == 0:
        print(json.dumps({"what": what, "group": statistics.median(turn[0] for turn in turns),
                          "members": statistics.median(turn[1] for turn in turns)}), flush=True)


def main():
    torch.set_num_threads(1)
    hvd.init()
    for what, *functions in cases(N_TENSORS):
        compare(what, *functions, 1)
    for n in SMALL:
        for what, *functions in cases(n):
            compare(f"{what}-of-{n}", *functions, CALLS)
    hvd.shutdown()


main()
