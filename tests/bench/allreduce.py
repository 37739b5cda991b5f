"""Rows 1 to 3: one allreduce against MPI_Allreduce in the same launch.

The rows of the table are the engine's data path. Sizes through horovod_allreduce, which also agrees on the
tensor's name and shape, follow as call-SIZE.
"""
import statistics

import measure

ENGINE = measure.BUILD / "tests/bench/bench_datapath"
CALL = measure.BUILD / "tests/bench/bench_allreduce"
DEFAULT = "Open MPI's defaults"
TUNED = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm"]
# What Open MPI is asked to do. The best setting of a size is the one that was fastest here and now.
SETTINGS = {DEFAULT: [],
            "Open MPI's coll/sm": ["--mca", "coll_sm_priority", "100"],
            "Open MPI's coll/sm in 64 KiB": ["--mca", "coll_sm_priority", "100", "--mca", "coll_sm_fragment_size", "65536"],
            "Open MPI's Rabenseifner": [*TUNED, "6"],
            "Open MPI's reduce and broadcast": [*TUNED, "1"]}
# row of the performance table, name, bytes, whether against the best setting
ROWS = [(1, "engine-4B", 4, False), (1, "engine-256B", 256, False), (2, "engine-4KiB", 4096, True),
        (2, "engine-64KiB", 65536, True), (3, "3-default", 64 << 20, False), (3, "3-best", 64 << 20, True)]
CALLS = [("call", "call-4B", 4), ("call", "call-4KiB", 4096), ("call", "call-64MiB", 64 << 20)]


def one_launch(program, setting, seed, bind):
    """(bytes, class) -> (our median in microseconds, MPI's, median of the paired ratios)."""
    pairs = {}
    for pair in measure.launch([program, seed], bind=bind, mca=SETTINGS[setting]):
        where = measure.placement(pair["ping_ns"])
        if where:
            pairs.setdefault((pair["bytes"], where), []).append((pair["ours_us"], pair["mpi_us"]))
    return {key: tuple(map(statistics.median, (*zip(*found), [ours / mpi for ours, mpi in found])))
            for key, found in pairs.items()}


def samples_of(launches, size):
    """class -> what the launches found for a size."""
    samples = {}
    for found in launches:
        for (of, where), values in found.items():
            if of == size:
                samples.setdefault(where, []).append(values)
    return samples


def mpi_median(launches, size):
    times = [mpi for found in samples_of(launches, size).values() for _, mpi, _ in found]
    return statistics.median(times) if times else float("inf")


def add_row(table, launches, row, name, size, setting):
    samples = samples_of(launches, size)
    if not samples:
        table.miss(row, name, "no block kept its placement")
    table.add(row, name, f"MPI_Allreduce, {setting}", "us", samples)


def measure_rows(table, options):
    def launch_all(program, setting):
        return [one_launch(program, setting, options.seed + number, options.bind)
                for number in range(options.launches)]

    launches = {setting: launch_all(ENGINE, setting) for setting in SETTINGS}
    for row, name, size, is_best in ROWS:
        setting = min(launches, key=lambda of, size=size: mpi_median(launches[of], size)) if is_best else DEFAULT
        add_row(table, launches[setting], row, name, size, setting)
    calls = launch_all(CALL, DEFAULT)
    for row, name, size in CALLS:
        add_row(table, calls, row, name, size, DEFAULT)
