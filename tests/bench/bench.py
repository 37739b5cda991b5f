"""Benchmarks as ratios with intervals; called by script/bench.

A ratio is ours / baseline, smaller is better. Both arms of a pair ran in turn in the same launch; a row is the
median over launches with a bootstrap interval. A table goes to standard output, JSON lines to build/bench/.
"""
import argparse
import json

import allreduce
import measure
import peer
import steps

OUT = measure.BUILD / "bench"


def runtime(options):
    """libhorovod on two ranks against MPI_Allreduce and Horovod."""
    table = measure.Table(options.seed)
    allreduce.measure_rows(table, options)
    steps.measure_rows(table, options)
    return table.rows


BENCHMARKS = {"runtime": runtime}


def main():
    parser = argparse.ArgumentParser(prog="script/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"{', '.join(BENCHMARKS)} (default: all), or peers: build what they compare with")
    parser.add_argument("--launches", type=int, default=10, help="launches of each benchmark (default: 10)")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each arm in a launch (default: 2)")
    parser.add_argument("--seed", type=int, default=1, help="order of the arms and tensors (default: 1)")
    parser.add_argument("--bind", choices=["core", "none"], default="core",
                        help="each rank on a core of its own, or wherever the kernel likes (default: core)")
    parser.add_argument("--models", action="store_true",
                        help="also the gradients of ResNet-50 and BERT-large; needs 6 GB of memory")
    options = parser.parse_args()
    for name in options.names or BENCHMARKS:
        if name == "peers":
            peer.build()
        elif name not in BENCHMARKS:
            parser.error(f"no benchmark '{name}'; there are {', '.join(BENCHMARKS)}, peers")
    for name in options.names or BENCHMARKS:
        if name == "peers":
            continue
        rows = BENCHMARKS[name](options)
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        print(f"wrote {(OUT / name).relative_to(measure.ROOT)}.jsonl")


if __name__ == "__main__":
    main()
