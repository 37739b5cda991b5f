"""What every benchmark needs: launches of two ranks, placement classes, ratios with intervals."""
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build-bench")).resolve()
RESULTS = ROOT / "build" / "bench"  # JSON lines
# Open MPI in containers may not read other processes' memory; both arms do without.
MPIRUN = ["mpirun", "--allow-run-as-root", "--map-by", "slot", "--mca", "btl_vader_single_copy_mechanism", "none"]
LIMIT_S = 1800


def environment(**more):
    """This one without the runtimes' settings, which the arms choose themselves."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    return kept | more


def launch(arguments, *, bind, mca=(), ranks=2, **more):
    """One launch of two ranks, or as many as are said: the JSON lines of rank 0. bind None: mca says it."""
    binding = ["--bind-to", bind] if bind else []
    command = [*MPIRUN, "-np", str(ranks), *binding, *mca, *map(str, arguments)]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(**more)) as process:
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except BaseException as error:
            process.terminate()  # mpirun ends its ranks
            if isinstance(error, subprocess.TimeoutExpired):
                sys.exit(f"bench: {' '.join(command)}: not done within {LIMIT_S} s")
            raise
    if process.returncode:
        sys.exit(f"bench: {' '.join(command)}: exit {process.returncode}\n{err[-2000:]}")
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def placement(ping_ns):
    """The class of a block by its round trips before and after; None when they differ by more than 25 %."""
    before, after = ping_ns
    if max(before, after) > 1.25 * min(before, after):
        return None
    trip = (before + after) / 2
    return "< 160 ns" if trip < 160 else "160-400 ns" if trip <= 400 else "> 400 ns"


def interval(values, rng):
    """95 % bootstrap interval of the median."""
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(2000))
    return [medians[49], medians[1949]]


class Table:
    """Rows as they are printed and as they are written, one JSON object each."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.rows = []
        print(f"{'row':>5} {'name':<26} {'ours':>11} {'baseline':>11} {'unit':<8} {'ratio':>8}  "
              f"{'95 % interval':<20} {'placement':<10} launches", flush=True)

    def add(self, row, name, baseline, unit, samples):
        """samples: class -> launches, each (ours, baseline's, ratio)."""
        for where, found in sorted(samples.items()):
            ours, theirs, ratios = zip(*found)
            low, high = interval(ratios, self.rng)
            ratio = statistics.median(ratios)
            self.rows.append({"row": row, "name": name, "baseline": baseline, "ratio_p50": significant(ratio),
                              "ci95": [significant(low), significant(high)], "class": where, "n": len(ratios),
                              "ours_p50": significant(statistics.median(ours)),
                              "baseline_p50": significant(statistics.median(theirs)), "unit": unit})
            print(f"{row:>5} {name:<26} {statistics.median(ours):>11.5g} {statistics.median(theirs):>11.5g} {unit:<8} "
                  f"{ratio:>8.3g}  {f'{low:.3g} to {high:.3g}':<20} {where:<10} {len(ratios)}", flush=True)

    def miss(self, row, name, why):
        """Says that a row could not be measured."""
        print(f"{row:>5} {name:<26} {why}", flush=True)


def significant(value):
    return float(f"{value:.4g}")
