"""script/bench python: what an operation costs from Python over the C call, on one rank, where nobody has to be
waited for. The smallest turn of each arm counts, as noise only adds."""
import os
import pathlib
import subprocess

import measure

HERE = pathlib.Path(__file__).resolve().parent
TORCH = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "horovod/python/torch-2.15.0"
TARGET_NS = 150
TURNS, CALLS = 7, 20000


def turns_of(command):
    """The nanoseconds of the fastest turn."""
    env = {**os.environ, "PYTHONPATH": str(measure.BUILD / "python"), "OMP_NUM_THREADS": "1",
           "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([str(part) for part in command], env=env, capture_output=True, text=True, check=False,
                          timeout=300)
    if done.returncode:
        raise SystemExit(f"bench: {command}:\n{done.stdout}{done.stderr}")
    return min(float(line) for line in done.stdout.split())


def report():
    """Measures and prints; makes the environment with PyTorch when it is missing."""
    subprocess.run([str(measure.ROOT / "script" / "bootstrap"), "python"], check=True)
    python = TORCH / "bin" / "python"
    in_c = turns_of([measure.BUILD / "tests" / "bench" / "bench_call", TURNS, CALLS])
    print(f"C, submitted and waited for:            {in_c:7.0f} ns")
    for kind, text in (("array", "the extension, an array:        "), ("torch", "the extension, a tensor:        "),
                       ("layer", "horovod.torch, allreduce_async_:")):
        ours = turns_of([python, HERE / "call.py", kind, TURNS, CALLS])
        goal = f" (target: {TARGET_NS})" if kind == "torch" else ""
        print(f"{text}        {ours:7.0f} ns, {ours - in_c:5.0f} ns over C{goal}")
