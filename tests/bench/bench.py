"""Benchmarks as ratios with intervals; called by script/bench.

A ratio is ours / baseline, smaller is better. Both arms of a pair ran in turn in the same launch; a row is the
median over launches with a bootstrap interval. A table goes to standard output, JSON lines to build/bench/.
"""
import argparse
import json
import os
import signal
import sys

import allreduce
import cluster
import gpu
import jobs
import longrun
import measure
import network
import nodes
import peer
import picture
import python
import results
import simulated
import steps
import tensorflow_rows

OUT = measure.RESULTS
# What a benchmark measures, in this order; a part can be named by itself.
PARTS = {"allreduce": allreduce.measure_rows, "steps": steps.measure_rows, "simulated": simulated.measure_rows,
         "network": network.measure_rows, "simgrid": cluster.measure_rows, "served": jobs.measure_rows,
         "long": longrun.measure_rows, "nodes": nodes.measure_rows, "limited": nodes.measure_limited,
         "calls": python.measure_calls, "training": python.measure_training, "tensorflow": tensorflow_rows.measure_rows, "gpu": gpu.measure_rows}
# The whole runtime is what has rows in the table.
BENCHMARKS = {"runtime": ["allreduce", "steps", "simulated"], "operator": ["served", "long", "nodes", "limited"],
              "python": ["calls", "training"], **{name: [name] for name in PARTS}}
# What is no benchmark.
ACTIONS = {"peers": peer.build_all, "table": lambda: print(results.markdown(results.load())), "report": results.report,
           "timeline": picture.draw}


def measure_rows(name, options):
    """One benchmark: its rows, printed and written."""
    table = measure.Table(options.seed)
    for part in BENCHMARKS[name]:
        PARTS[part](table, options)
    if not table.rows:
        return
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in table.rows), encoding="utf-8")
    print(f"wrote {os.path.relpath(path, measure.ROOT)}")


def main():
    parser = argparse.ArgumentParser(prog="script/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="runtime (default); its parts allreduce, steps and simulated; network: which algorithm "
                             "suits which payload between hosts; simgrid: the same, simulated; operator: rows of the "
                             "operator; its parts served (on a fake API server), long (the same for some minutes) and "
                             "nodes (on a real one) and limited (the same with the limits of its controllers as they "
                             "are); python, with its parts calls (an operation over the C call) and training (with PyTorch "
                             "beside its own DistributedDataParallel); tensorflow: operations and training beside Horovod's; gpu: steps beside "
                             "DistributedDataParallel over NCCL, on a machine with two GPUs or more; peers: "
                             "build what steps and tensorflow compare with; table: "
                             "print the results in Markdown; report: write them and a plot into docs/; timeline: draw "
                             "the pictures of docs/timeline.md")
    parser.add_argument("--launches", type=int, default=10, help="launches of each benchmark (default: 10)")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each arm in a launch (default: 2)")
    parser.add_argument("--seed", type=int, default=1, help="order of the arms and tensors (default: 1)")
    parser.add_argument("--bind", choices=["core", "none"], default="core",
                        help="each rank on a core of its own, or wherever the kernel likes (default: core)")
    parser.add_argument("--models", action="store_true",
                        help="also the gradients of ResNet-50 and BERT-large; needs 6 GB of memory")
    parser.add_argument("--first", action="store_true",
                        help="operator: run before all other programs of this machine; needs root")
    parser.add_argument("--stages", action="store_true",
                        help="nodes: instead of the rows, print the stages of what the operator adds, with the operator's log at debug")
    parser.add_argument("--minutes", type=float, default=5, help="operator: how long jobs come and go in long (default: 5)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))
    names = options.names or ["runtime"]
    for name in names:
        if name not in BENCHMARKS and name not in ACTIONS:
            parser.error(f"no benchmark '{name}'; there are {', '.join([*BENCHMARKS, *ACTIONS])}")
    if "peers" in names:
        peer.build_all()
    for name in names:
        if name in BENCHMARKS:
            measure_rows(name, options)
    for name in names:
        if name in ("table", "report", "timeline"):
            ACTIONS[name]()


if __name__ == "__main__":
    main()
