"""Rows 4 to 11 and 15: whole steps of a training loop, against Horovod where it was built."""
import pathlib
import statistics
import tempfile

import measure
import peer

PROGRAM = measure.BUILD / "tests/bench/bench_step"
DEFAULT, CYCLE0 = "peer", "peer-cycle0"
BASELINES = {DEFAULT: f"Horovod {peer.VERSION}, defaults", CYCLE0: f"Horovod {peer.VERSION}, HOROVOD_CYCLE_TIME=0"}
# row, name, workload, arm of the peer
ROWS = [(4, "1x4B", "1x4B", DEFAULT), (5, "1x4B-cycle0", "1x4B", CYCLE0),
        (6, "per-tensor", None, DEFAULT), (6, "per-tensor-cycle0", None, CYCLE0),
        (7, "10000x4B", "10000x4B", DEFAULT), (7, "10000x4B-cycle0", "10000x4B", CYCLE0),
        (8, "1024x4KiB", "1024x4KiB", DEFAULT), (8, "1024x4KiB-cycle0", "1024x4KiB", CYCLE0),
        (9, "64x1MiB", "64x1MiB", DEFAULT), (9, "64x1MiB-cycle0", "64x1MiB", CYCLE0)]
# Beside the rows of the table: the gradients of real models.
MODELS = [("model", "resnet50", "resnet50", DEFAULT), ("model", "resnet50-cycle0", "resnet50", CYCLE0),
          ("model", "bert-large", "bert-large", DEFAULT), ("model", "bert-large-cycle0", "bert-large", CYCLE0)]
SLOPE = ["100x4B", "1000x4B", "10000x4B"]
TIMELINE_OF = "1000x4B"
COUNTED = ["1x4B", "100x4B", "1024x4KiB", "64x1MiB"]
IDLE_TARGET_CORES = 0.002
SYSTEM_CALLS_TARGET = 2
# More names than in any workload, so that no runtime's cache is too small.
CACHE = {"HOROVOD_CACHE_CAPACITY": "16384"}


class Launch:
    """The blocks of one launch by (workload, arm, round)."""

    def __init__(self, lines):
        self.blocks = {(line["workload"], line["arm"], line["round"]): line for line in lines}
        self.rounds = 1 + max(line["round"] for line in lines)

    def p50(self, workload, arm, turn):
        """(median in microseconds, class of placement) of a block; None when the placement changed."""
        block = self.blocks[workload, arm, turn]
        where = measure.placement(block["ping_ns"])
        return (block["p50_us"], where) if where else None

    def slope(self, arm, turn):
        """Nanoseconds that one more cached tensor costs, by least squares."""
        found = [self.p50(workload, arm, turn) for workload in SLOPE]
        if not all(found) or len({where for _, where in found}) > 1:
            return None
        counts = [int(workload.split("x")[0]) for workload in SLOPE]
        times = [us for us, _ in found]
        return 1000 * statistics.linear_regression(counts, times).slope, found[0][1]

    def pairs(self, ours, theirs):
        """class -> (ours, theirs, ratio), medians over the rounds in which both had the same class."""
        kept = {}
        for turn in range(self.rounds):
            one, other = ours(turn), theirs(turn)
            if one and other and one[1] == other[1]:
                kept.setdefault(one[1], []).append((one[0], other[0], one[0] / other[0]))
        return {where: tuple(map(statistics.median, zip(*found))) for where, found in kept.items()}

    def counted(self, workload, arm, what):
        values = [self.blocks[workload, arm, turn].get(what) for turn in range(self.rounds)]
        return statistics.median([value for value in values if value is not None])


def gather(launches, ours, theirs):
    samples = {}
    for found in launches:
        kept = found.pairs(lambda turn, of=found: ours(of, turn), lambda turn, of=found: theirs(of, turn))
        for where, values in kept.items():
            samples.setdefault(where, []).append(values)
    return samples


def getter(workload, arm):
    """What a row compares: the median of a workload's blocks, or the slope over several workloads."""
    if workload is None:
        return lambda found, turn: found.slope(arm, turn)
    return lambda found, turn: found.p50(workload, arm, turn)


def against_peer(table, launches, has_peer, rows):
    for row, name, workload, arm in rows:
        if not has_peer:
            table.miss(row, name, "no peer (script/bench peers builds it)")
            continue
        samples = gather(launches, getter(workload, "ours"), getter(workload, arm))
        if not samples:
            table.miss(row, name, "no pair of blocks kept its placement")
        table.add(row, name, BASELINES[arm], "us" if workload else "ns", samples)


def idle(table, launches):
    """Row 10: measured / target."""
    cores = [found.counted("1x4B", "ours", "idle_cores") for found in launches]
    table.add(10, "idle-cores", f"target {IDLE_TARGET_CORES} core", "core",
              {"any": [(value, IDLE_TARGET_CORES, value / IDLE_TARGET_CORES) for value in cores]})


def allocations(table, launches):
    """Of row 15: the target is 0, so the count itself."""
    for workload in COUNTED:
        counts = [found.counted(workload, "ours", "allocations") for found in launches]
        table.add(15, f"allocations-{workload}", "target 0; the count itself", "a step",
                  {"any": [(value, 0, value) for value in counts]})


def timeline(table, launches, is_written):
    if not is_written:
        table.miss(11, "timeline", "no timeline was written")
        return
    samples = gather(launches, getter(TIMELINE_OF, "ours-timeline"), getter(TIMELINE_OF, "ours"))
    table.add(11, "timeline", f"the same {TIMELINE_OF} without a timeline", "us", samples)


def traced_calls(workload, n_steps, folder, bind):
    """System calls of the rank that made most, over a whole run."""
    totals = []
    measure.launch(["sh", "-c", 'exec strace -f -c -o "$0/rank.$OMPI_COMM_WORLD_RANK" "$@"', folder, PROGRAM, "--only",
                    "ours", workload, n_steps], bind=bind, **CACHE)
    for path in pathlib.Path(folder).glob("rank.*"):
        last = path.read_text(encoding="utf-8").strip().splitlines()[-1].split()
        totals.append(int(last[3]))
    return max(totals)


def system_calls(table, options):
    """Of row 15: what more steps cost, under a tracer, which makes waits longer than they are."""
    for workload in COUNTED[:2]:
        found = []
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(min(options.launches, 3)):
                few, many = (traced_calls(workload, n_steps, folder, options.bind) for n_steps in (200, 700))
                found.append((many - few) / 500)
        table.add(15, f"system-calls-{workload}", f"target {SYSTEM_CALLS_TARGET}, traced", "a step",
                  {"any": [(value, SYSTEM_CALLS_TARGET, value / SYSTEM_CALLS_TARGET) for value in found]})


def absolute(launches, arms):
    """All medians, for orientation: only the ratios above were taken in pairs."""
    print(f"\n{'p50, us':<12}" + "".join(f"{arm:>16}" for arm in arms))
    for workload in dict.fromkeys(workload for workload, _, _ in launches[0].blocks):
        values = [statistics.median(block["p50_us"] for found in launches for key, block in found.blocks.items()
                                    if key[:2] == (workload, arm)) for arm in arms]
        print(f"{workload:<12}" + "".join(f"{value:>16.1f}" for value in values))
    for label, what in (("idle cores", "idle_cores"), ("allocations", "allocations"), ("switches", "switches")):
        values = [statistics.median(found.counted("1x4B", arm, what) for found in launches) for arm in arms]
        print(f"{label:<12}" + "".join(f"{value:>16.4f}" for value in values))


def measure_rows(table, options):
    library = peer.library()
    has_peer = library.exists()
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "timeline.json"
        arguments = [PROGRAM, "--rounds", options.rounds, "--timeline", trace]
        arguments += ["--peer", library] if has_peer else []
        arguments += ["--models"] if options.models else []
        launches = [Launch(measure.launch([*arguments, "--seed", options.seed + number], bind=options.bind, **CACHE))
                    for number in range(options.launches)]
        is_written = any(path.stat().st_size for path in pathlib.Path(folder).iterdir())
    against_peer(table, launches, has_peer, ROWS)
    idle(table, launches)
    timeline(table, launches, is_written)
    allocations(table, launches)
    system_calls(table, options)
    against_peer(table, launches, has_peer, MODELS if options.models else [])
    absolute(launches, sorted({arm for _, arm, _ in launches[0].blocks}))
