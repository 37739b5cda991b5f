"""script/bench python: what an operation costs from Python over the C call, and what training costs beside
torch.nn.parallel.DistributedDataParallel over gloo: steps of the same models in the same launch, and memory.

An operation is measured on one rank, where nobody has to be waited for, in turns that are short beside the kernel's time
slices: one in C, one from Python, in the same process.
"""
import json
import os
import pathlib
import socket
import statistics
import subprocess

import measure

HERE = pathlib.Path(__file__).resolve().parent
TORCH = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "horovod/python/torch-2.15.0"
PYTHON = TORCH / "bin" / "python"
LIBRARY = measure.BUILD / "tests" / "bench" / "bench_call.so"
TARGET_NS, IDLE_TARGET_CORES = 150, 0.002
TURNS, CALLS, GROUP_TURNS = 400, 500, 50
KINDS = [of + form for of in ("array", "torch", "layer") for form in ("", "-async")]
WORKLOADS = ["resnet50", "many-small"]
MEMORY_OF = "resnet50"
# Suffix of the row -> (arm of training.py, what it is)
BASELINES = {"": ("ddp", "DDP over gloo as it comes"),
             "-lean": ("ddp-lean", "DDP over gloo, gradients are views of buckets, buffers not sent")}


def environment():
    return {"PYTHONPATH": str(measure.BUILD / "python"), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


# --- An operation ------------------------------------------------------------------------------------------------

def called(kind):
    """Nanoseconds of one launch: a call in C, and what one from Python takes more."""
    command = [str(part) for part in (PYTHON, HERE / "call.py", LIBRARY, kind, TURNS, CALLS)]
    done = subprocess.run(command, env=measure.environment(**environment()), capture_output=True, text=True, check=False,
                          timeout=300)
    if done.returncode:
        raise SystemExit(f"bench: {' '.join(command)}:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def operations(table, n_launches):
    """What an allreduce of one element costs more than in C."""
    for kind in KINDS:
        launches = [called(kind) for _ in range(n_launches)]
        what = "submit and wait" if kind.endswith("-async") else "one call"
        in_c = statistics.median(launch["c"] for launch in launches)
        table.add("python", f"{kind}-over-c", f"target {TARGET_NS} ns over {what} in C, of {in_c:.0f}", "ns",
                  {"any": [(launch["over"], TARGET_NS, launch["over"] / TARGET_NS) for launch in launches]})


# --- Groups -------------------------------------------------------------------------------------------------------

def groups(table, options, n_launches):
    """What 1,024, 1, 4 and 16 tensors of 4 KiB cost as a group, beside the same tensors one by one."""
    launches = [measure.launch([PYTHON, HERE / "groups.py", GROUP_TURNS], bind=options.bind, **environment())
                for _ in range(n_launches)]
    for lines in zip(*launches):
        table.add("python", f"group-{lines[0]['what']}", "the same tensors one by one", "us",
                  {"any": [(line["group"], line["members"], line["ratio"]) for line in lines]})


# --- Training ----------------------------------------------------------------------------------------------------

def free_port():
    """A port that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def train(options, *arguments):
    return measure.launch([PYTHON, HERE / "training.py", *arguments], bind=options.bind,
                          BENCH_PORT=str(free_port()), **environment())


def paired(lines, workload, arm):
    """(ours, the arm's, ratio) of a launch: medians over its rounds."""
    found = {(line["arm"], line["round"]): line["p50_ms"] for line in lines if line.get("workload") == workload and "arm" in line}
    turns = sorted({turn for _, turn in found})
    pairs = [(found["ours", turn], found[arm, turn], found["ours", turn] / found[arm, turn]) for turn in turns]
    return tuple(map(statistics.median, zip(*pairs)))


def check_same(lines):
    """Ends the benchmark when the arms did not train the same model."""
    for line in lines:
        if line.get("difference", 0) > 1e-5:
            raise SystemExit(f"bench: the models of {line['workload']} differ by {line['difference']} after training")


def steps(table, launches):
    for workload in WORKLOADS:
        for suffix, (arm, what) in BASELINES.items():
            table.add("python", workload + suffix, what, "ms", {"any": [paired(lines, workload, arm) for lines in launches]})


def beside(ours, theirs, what):
    """Samples of a row: (ours, theirs, ratio) of each launch."""
    return {"any": [(one[what], other[what], one[what] / other[what]) for one, other in zip(ours, theirs)]}


def resting(table, by_arm):
    """Rows of idle ranks and of memory, from what training.py said of each arm in each launch."""
    ours, gloo = by_arm["ours"], by_arm["ddp"]
    table.add("python", "idle-cores", f"target {IDLE_TARGET_CORES} core", "core",
              {"any": [(line["idle_cores"], IDLE_TARGET_CORES, line["idle_cores"] / IDLE_TARGET_CORES) for line in ours]})
    table.add("python", "idle-cores-gloo", "a rank of DDP over gloo", "core", beside(ours, gloo, "idle_cores"))
    table.add("python", "idle-memory", "a process that imported torch alone", "MiB",
              {"any": [(line["joined_mib"], line["torch_mib"], line["joined_mib"] / line["torch_mib"]) for line in ours]})
    table.add("python", "idle-memory-gloo", "a rank of DDP over gloo", "MiB", beside(ours, gloo, "joined_mib"))
    for suffix, (arm, what) in BASELINES.items():
        table.add("python", f"peak-memory{suffix}", f"{MEMORY_OF}, {what}", "MiB", beside(ours, by_arm[arm], "peak_mib"))


def prepare(options):
    """Makes the environment with PyTorch when it is missing; how many launches there are."""
    subprocess.run([str(measure.ROOT / "script" / "bootstrap"), "python"], check=True)
    return max(1, options.launches // 2)


def measure_calls(table, options):
    """What an operation costs from Python, and what a group does."""
    n_launches = prepare(options)
    operations(table, n_launches)
    groups(table, options, n_launches)


def measure_training(table, options):
    """Steps of models, ranks that sleep, memory."""
    n_launches = prepare(options)
    launches = [train(options, "compare", options.seed + number, *WORKLOADS) for number in range(n_launches)]
    for lines in launches:
        check_same(lines)
    steps(table, launches)
    arms = ["ours", *(arm for arm, _ in BASELINES.values())]
    resting(table, {arm: [train(options, "memory", arm, MEMORY_OF)[0] for _ in range(max(1, n_launches // 2))]
                    for arm in arms})
