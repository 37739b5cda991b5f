"""What the programs in PyTorch share: the device, which is a GPU or, to try the programs, the processor; rows; time."""
import json
import os
import random
import socket
import statistics
import sys
import time

import torch

IS_GPU = os.environ.get("HVD_DEVICE_TEST_ON") != "processor"
DEVICE = torch.device("cuda", 0) if IS_GPU else torch.device("cpu")
IS_SHORT = not IS_GPU


def row(name, value=None, outcome=None, text=""):
    """Prints the result of a check."""
    print(json.dumps({"row": name, "value": value, "outcome": outcome, "text": text}), flush=True)


def verdict(name, is_good, text=""):
    row(name, outcome="passed" if is_good else "failed", text="" if is_good else str(text) or "it is not so")


def settle():
    """Waits until the device is idle."""
    if IS_GPU:
        torch.cuda.synchronize()


def cycles_of(milliseconds):
    """How many cycles of torch.cuda._sleep take that long, measured."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(1_000_000)
    begin.record()
    torch.cuda._sleep(20_000_000)
    end.record()
    torch.cuda.synchronize()
    return int(20_000_000 * milliseconds / begin.elapsed_time(end))


def device_ms(function, n_calls):
    """Milliseconds of the device for a call, of n in a row."""
    function()
    settle()
    if not IS_GPU:
        begin = time.perf_counter()
        for _ in range(n_calls):
            function()
        return 1000 * (time.perf_counter() - begin) / n_calls
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(n_calls):
        function()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / n_calls


def join_alone():
    """torch.distributed with this process alone, over NCCL on a GPU."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    more = {"device_id": DEVICE} if IS_GPU else {}
    torch.distributed.init_process_group("nccl" if IS_GPU else "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1, **more)


def alternate(arms, n_rounds, seed=1):
    """Name -> what its function returned, in rounds of all arms in an order drawn at random."""
    rng = random.Random(seed)
    found = {name: [] for name in arms}
    for _ in range(n_rounds):
        for name in rng.sample(sorted(arms), len(arms)):
            found[name].append(arms[name]())
    return found


def ratio(found, one, other):
    """The median of the ratios of two arms, round by round."""
    return statistics.median(a / b for a, b in zip(found[one], found[other]))


def run(checks):
    """Runs the checks in their order. One that raises is a failed row, and the next ones run."""
    n_bad = 0
    for name, function in checks:
        try:
            function()
        except Exception as error:  # pylint: disable=broad-exception-caught  (whatever it is, it is the finding)
            row(name, outcome="failed", text=f"{type(error).__name__}: {error}")
            n_bad += 1
    sys.stdout.flush()
    return n_bad


# --- Lists of tensors, as tests/integration/cuda/tensor_lists.c has them --------------------------------------------

def linear(out, into):
    return [out * into, out]


def bert_large():
    width = 1024
    sizes = [30522 * width, 512 * width, 2 * width, *linear(width, 1)]
    for _ in range(24):
        for _ in range(4):
            sizes += linear(width, width)
        sizes += linear(width, 1) + linear(4 * width, width) + linear(width, 4 * width) + linear(width, 1)
    return sizes + linear(width, width)


def convolution(out, into, side):
    return [out * into * side * side, out, out]


def resnet50():
    sizes, into = convolution(64, 3, 7), 64
    for stage, n_blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(n_blocks):
            sizes += convolution(width, into, 1) + convolution(width, width, 3) + convolution(4 * width, width, 1)
            sizes += convolution(4 * width, into, 1) if block == 0 else []
            into = 4 * width
    return sizes + linear(1000, 2048)


def skewed():
    rng = random.Random(1)
    return [rng.randrange(1, 513) for _ in range(1000)] + [256 << 18] + [rng.randrange(1, 513) for _ in range(1000)]


def lists():
    """Name -> sizes in elements of float32; short ones on a processor."""
    if IS_SHORT:
        return {name: [8, 5, 3] for name in ("small", "skewed", "bert", "resnet50")}
    return {"small": [1024] * 1024, "skewed": skewed(), "bert": bert_large(), "resnet50": resnet50()}
