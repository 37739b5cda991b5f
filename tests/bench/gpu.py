"""script/bench gpu: steps with the gradients of lists of tensors, a rank on each GPU of this machine, beside DistributedDataParallel
over NCCL in the same processes, and beside Horovod 0.28.1 in jobs of its own where HVD_BENCH_HOROVOD names the folder of its package.

PyTorch with CUDA is that of HVD_BENCH_PYTHON, or of python3 in PATH.
"""
import ctypes
import os
import pathlib
import shutil
import statistics

import measure
import python

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "device" / "torch_ddp.py"
WORKLOADS = ["small", "resnet50", "bert"]
LEAST_GPUS = 2
# Suffix of the row -> (arm of torch_ddp.py, what it is)
BASELINES = {"": ("ddp", "DDP over NCCL as it comes"),
             "-lean": ("ddp-lean", "DDP over NCCL, gradients are views of buckets, buffers not sent")}
WHAT = {"host": "host_ms", "step": "step_ms"}


def count_gpus():
    """(how many GPUs the driver sees, why there is none or "")"""
    count = ctypes.c_int()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return 0, str(error)
    for name, arguments in (("cuInit", (0,)), ("cuDeviceGetCount", (ctypes.byref(count),))):
        result = getattr(driver, name)(*arguments)
        if result:
            return 0, f"{name} returns {result}"
    return count.value, ""


def refusal(n_gpus, why):
    """Why this machine cannot run the benchmark; "": it can."""
    if n_gpus >= LEAST_GPUS:
        return ""
    found = f"there is no driver for GPUs ({why})" if why else f"the driver sees {n_gpus}"
    return f"bench: gpu needs a machine with two GPUs or more, and {found}; script/device-test measures on one GPU"


def interpreter():
    return os.environ.get("HVD_BENCH_PYTHON") or shutil.which("python3")


def environment(package):
    return {"PYTHONPATH": f"{package}{os.pathsep}{PROGRAM.parent}", "PYTHONDONTWRITEBYTECODE": "1", "BENCH_BLOCKS": "1",
            "BENCH_PORT": str(python.free_port())}


def launch(n_ranks, package, *arms):
    """Lines of one job with these arms, of all workloads."""
    return measure.launch([interpreter(), PROGRAM, *WORKLOADS], bind="none", ranks=n_ranks, BENCH_ARMS=",".join(arms), **environment(package))


def paired(lines, workload, arm, what):
    """(ours, the arm's, ratio) of a launch: medians over its rounds."""
    found = {(line["arm"], line["round"]): line[what] for line in lines if line["workload"] == workload}
    turns = sorted({turn for _, turn in found})
    pairs = [(found["ours", turn], found[arm, turn], found["ours", turn] / found[arm, turn]) for turn in turns]
    return tuple(map(statistics.median, zip(*pairs)))


def relabelled(lines, arm):
    """The lines of a job whose package is the peer's, in which its arm is called ours."""
    return [{**line, "arm": arm} for line in lines]


def add_rows(table, launches, n_gpus, has_peer):
    baselines = {**BASELINES, **({"-horovod": ("horovod", "Horovod 0.28.1 over NCCL")} if has_peer else {})}
    for workload in WORKLOADS:
        for suffix, (arm, text) in baselines.items():
            for name, what in WHAT.items():
                table.add("gpu", f"{workload}-{name}{suffix}", text, "ms",
                          {f"{n_gpus} GPUs": [paired(lines, workload, arm, what) for lines in launches]})


def measure_rows(table, options):
    n_gpus, why = count_gpus()
    reason = refusal(n_gpus, why)
    if reason:
        raise SystemExit(reason)
    peer = os.environ.get("HVD_BENCH_HOROVOD")
    launches = []
    for _ in range(max(1, options.launches // 2)):
        lines = launch(n_gpus, measure.BUILD / "python", "ours", *(arm for arm, _ in BASELINES.values()))
        lines += relabelled(launch(n_gpus, peer, "ours"), "horovod") if peer else []
        launches.append(lines)
    add_rows(table, launches, n_gpus, bool(peer))
