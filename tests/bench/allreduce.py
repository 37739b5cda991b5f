"""Rows 1 to 3: one blocking allreduce against MPI_Allreduce in the same launch."""
import statistics

import measure

PROGRAM = measure.BUILD / "tests/bench/bench_allreduce"
# What Open MPI is asked to do: nothing, and its shared-memory collectives before all others.
DEFAULT = ("Open MPI's defaults", [])
BEST = ("Open MPI's coll/sm", ["--mca", "coll_sm_priority", "100"])
# row of the performance table, name, bytes, Open MPI's setting
ROWS = [(1, "allreduce-4B", 4, DEFAULT), (1, "allreduce-256B", 256, DEFAULT), (2, "allreduce-4KiB", 4096, BEST),
        (2, "allreduce-64KiB", 65536, BEST), (3, "3-default", 64 << 20, DEFAULT), (3, "3-best", 64 << 20, BEST)]


def one_launch(setting, seed, bind):
    """(bytes, class) -> (our median in microseconds, MPI's, median of the paired ratios)."""
    pairs = {}
    for pair in measure.launch([PROGRAM, seed], bind=bind, mca=setting[1]):
        where = measure.placement(pair["ping_ns"])
        if where:
            pairs.setdefault((pair["bytes"], where), []).append((pair["ours_us"], pair["mpi_us"]))
    return {key: tuple(map(statistics.median, (*zip(*found), [ours / mpi for ours, mpi in found])))
            for key, found in pairs.items()}


def measure_rows(table, options):
    launches = {setting[0]: [one_launch(setting, options.seed + number, options.bind)
                             for number in range(options.launches)] for setting in (DEFAULT, BEST)}
    for row, name, size, (baseline, _) in ROWS:
        samples = {}
        for found in launches[baseline]:
            for (of, where), values in found.items():
                if of == size:
                    samples.setdefault(where, []).append(values)
        if not samples:
            table.miss(row, name, "no block kept its placement")
        table.add(row, name, f"MPI_Allreduce, {baseline}", "us", samples)
