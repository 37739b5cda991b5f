"""Benchmarks as ratios with intervals; called by script/bench.

Each measurement is a ratio of two arms that ran in turn in the same launch; the interval is a
bootstrap over launches. A table goes to standard output, JSON lines to build/bench/NAME.jsonl.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
OUT = BUILD / "bench"
# row of the performance table -> (name, bytes): ours against MPI_Allreduce with Open MPI's defaults
ROWS = [(1, "allreduce-4B", 4), (1, "allreduce-256B", 256), (2, "allreduce-4KiB", 4096),
        (2, "allreduce-64KiB", 65536), (3, "3-default", 64 << 20)]


def interval(values, rng):
    """95 % bootstrap interval of the median."""
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(2000))
    return [medians[49], medians[1949]]


def launch(seed):
    """One launch of two ranks: bytes -> (our median in microseconds, MPI's, median of the paired ratios)."""
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "--mca",
               "btl_vader_single_copy_mechanism", "none", str(BUILD / "tests/bench/bench_allreduce"), str(seed)]
    done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=300)
    if done.returncode:
        sys.exit(f"bench: {' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    pairs = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            pair = json.loads(line)
            pairs.setdefault(pair["bytes"], []).append((pair["ours_us"], pair["mpi_us"]))
    return {size: tuple(map(statistics.median, (*zip(*found), [ours / mpi for ours, mpi in found])))
            for size, found in pairs.items()}


def runtime(options):
    """Allreduce of one tensor on two ranks against MPI_Allreduce in the same launch."""
    rng = random.Random(options.seed)
    launches = []
    for number in range(options.launches):
        launches.append(launch(options.seed + number))
        print(f"launch {number + 1} of {options.launches}", file=sys.stderr, flush=True)
    rows = []
    print(f"{'row':>3} {'name':<16} {'ours us':>10} {'MPI us':>10} {'ratio':>7}  95 % interval")
    for row, name, size in ROWS:
        ours, mpi, ratios = zip(*(one[size] for one in launches))
        low, high = interval(ratios, rng)
        rows.append({"row": row, "name": name, "baseline": "MPI_Allreduce, Open MPI defaults",
                     "ratio_p50": round(statistics.median(ratios), 3), "ci95": [round(low, 3), round(high, 3)],
                     "class": "unclassified", "n": len(ratios)})
        print(f"{row:>3} {name:<16} {statistics.median(ours):>10.1f} {statistics.median(mpi):>10.1f} "
              f"{rows[-1]['ratio_p50']:>7.2f}  {low:.2f} to {high:.2f}")
    return rows


BENCHMARKS = {"runtime": runtime}


def main():
    parser = argparse.ArgumentParser(prog="script/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--launches", type=int, default=10, help="launches of each pair (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="order of the arms (default: 1)")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    for name in options.names or BENCHMARKS:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark '{name}'; there are {', '.join(BENCHMARKS)}")
        rows = BENCHMARKS[name](options)
        (OUT / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        print(f"wrote {(OUT / name).relative_to(ROOT)}.jsonl")


if __name__ == "__main__":
    main()
