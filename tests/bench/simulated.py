"""Rows 13 and 14: agreeing over 16 to 27,360 ranks, simulated in one process.

The coordinator, the relays and the messages are the real ones; the network is modelled (LogGP). Counts are exact,
times are modelled, so one run says all: a row has one value and no interval.
"""
import json
import subprocess
import sys

import measure

PROGRAM = measure.BUILD / "tests/bench/bench_simulate"
LARGEST = 27360
CLASS = "modelled"
DOUBLING, FLOOR, STAR = "recursive doubling, 3 us a hop", "the hops alone, target 1.1", "a flat coordinator"


def run():
    """The runs of the simulation, as it prints them."""
    done = subprocess.run([PROGRAM, "--json"], text=True, capture_output=True, timeout=600, check=False)
    if done.returncode:
        sys.exit(f"bench: {PROGRAM.name}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def find(runs, step, design, ranks):
    return next(run for run in runs if (run["step"], run["design"], run["ranks"]) == (step, design, ranks))


def add_rows(table, runs):
    def add(row, name, baseline, ours, theirs):
        table.add(row, name, baseline, "us", {CLASS: [(ours, theirs, ours / theirs)]})

    sizes = sorted({run["ranks"] for run in runs if run["design"] == "tree"})
    for ranks in sizes:
        cached = find(runs, "cached", "tree", ranks)
        add(13, f"cached-{ranks}-ranks", DOUBLING, cached["modelled_us"], cached["doubling_us"])
        if ranks == LARGEST:
            add(13, f"cached-{ranks}-floor", FLOOR, cached["modelled_us"], cached["floor_us"])
    for ranks in sizes:
        add(14, f"first-{ranks}-ranks", STAR, find(runs, "first", "tree", ranks)["modelled_us"],
            find(runs, "first", "star", ranks)["modelled_us"])


def counts(runs):
    """What was counted, for orientation."""
    print(f"\n{'ranks':>7} {'depth':>6} {'messages':>9} {'of a rank, up and down':>23} {'coordinator reads, first':>25} "
          f"{'of a flat one':>14} {'cached':>8}")
    for ranks in sorted({run["ranks"] for run in runs if run["design"] == "tree"}):
        cached, first, star = (find(runs, *what, ranks) for what in
                               (("cached", "tree"), ("first", "tree"), ("first", "star")))
        sent = f"{cached['up_max']} / {cached['down_max']}"
        print(f"{ranks:>7} {cached['depth']:>6} {cached['messages']:>9} {sent:>23} {first['root_bytes_in']:>23} B "
              f"{star['root_bytes_in']:>12} B {cached['root_bytes_in']:>6} B")


def measure_rows(table, _options):
    runs = run()
    add_rows(table, runs)
    counts(runs)
