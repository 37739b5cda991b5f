"""Which algorithm suits which payload between hosts: measured messages, and what follows from them.

Two ranks exchange messages over TCP (and, for comparison, through Open MPI's shared memory); from what that takes
follows what each algorithm takes over any number of ranks, step by step, and from that the table that the library
chooses by. The algorithms themselves are measured too, between two ranks and, with two processors for all of them,
between four. Steps of many ranks are taken to be as long as those of two: a network without contention.
"""
import math
import statistics

import measure

PROGRAM = measure.BUILD / "tests/bench/bench_network"
TCP, SHM = "tcp", "shared memory"
# name -> (ranks, what mpirun is asked for)
ARMS = {TCP: (2, ["--bind-to", "core", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"]),
        SHM: (2, ["--bind-to", "core", "--mca", "btl", "self,vader"]),
        "tcp, 4 ranks": (4, ["--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,tcp", "--mca",
                             "btl_tcp_if_include", "lo"])}
DOUBLING, RABENSEIFNER, RING = ALGORITHMS = ("doubling", "rabenseifner", "ring")
EAGER_BYTES, ASKED_BYTES = 60 << 10, 64 << 10  # up to here a message goes at once; from 64 KiB on Open MPI asks first
# As worker/transport/mpi/steps.c has them: a payload goes in runs of so many bytes.
RUN_BYTES, BLOCK_BYTES, RUNS = 1 << 20, 64 << 10, 4
NEVER, MANY = 2 ** 63 - 1, 2 ** 31 - 1
SIZES = [round(2 ** (k / 4)) for k in range(32, 121)]  # 256 B to 1 GiB
SHOWN = [2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 100, 128, 200, 256, 400, 512, 700, 1024]


def line_through(points):
    """(microseconds, nanoseconds a byte) of the straight line with the least relative error."""
    weights = [1 / us ** 2 for us in points.values()]
    total = sum(weights)
    x = sum(w * size for w, size in zip(weights, points)) / total
    y = sum(w * us for w, us in zip(weights, points.values())) / total
    spread = sum(w * (size - x) ** 2 for w, size in zip(weights, points))
    slope = sum(w * (size - x) * (us - y) for w, (size, us) in zip(weights, points.items())) / spread
    return y - slope * x, 1000 * slope


class Cost:
    """Microseconds of a message by its size: a line up to the size from which Open MPI asks first, another beyond."""

    def __init__(self, points):
        self.small = line_through({size: us for size, us in points.items() if size <= EAGER_BYTES})
        self.large = line_through({size: us for size, us in points.items() if ASKED_BYTES <= size <= RUN_BYTES})

    def __call__(self, size):
        us, ns_a_byte = self.small if size < ASKED_BYTES else self.large
        return us + ns_a_byte * size / 1000

    def __str__(self):
        return " and ".join(f"{us:.3g} us and {byte:.3g} ns a byte" for us, byte in (self.small, self.large))


class Model:
    """What an allreduce takes, from what its steps take, in microseconds."""

    def __init__(self, found):
        self.exchange, self.exchange4, self.pingpong = (Cost(found[way]) for way in ("exchange", "exchange4", "pingpong"))
        self.add_ns = line_through({size: us for size, us in found["add"].items() if ASKED_BYTES <= size <= RUN_BYTES})[1]
        self.known = {}

    def run(self, algorithm, ranks, size, exchange):
        """One run through all steps, each of which takes as long as such an exchange."""
        steps = int(math.log2(ranks))
        step = lambda part: exchange(part) + self.add_ns * part / 1000  # noqa: E731
        fold = 2 * self.pingpong(size) + self.add_ns * size / 1000 if ranks > 1 << steps else 0
        if algorithm == RING:
            return (ranks - 1) * (step(size / ranks) + exchange(size / ranks))
        if algorithm == DOUBLING:
            return steps * step(size) + fold
        return sum(step(size / 2 ** i) + exchange(size / 2 ** i) for i in range(1, steps + 1)) + fold

    def __call__(self, algorithm, ranks, size):
        """A payload, of which up to four runs are on their way at once."""
        key = algorithm, ranks, size
        if key not in self.known:
            longest = max(RUN_BYTES, ranks * BLOCK_BYTES)
            runs = max(1, size / longest)
            exchange = self.exchange4 if runs >= RUNS else self.exchange
            self.known[key] = self.run(algorithm, ranks, min(size, longest), exchange) * runs
        return self.known[key]

    def regret(self, algorithm, ranks, size):
        """How much longer it takes than the best."""
        return self(algorithm, ranks, size) / min(self(other, ranks, size) for other in ALGORITHMS)


def choose(table, ranks, size):
    """As hvd_algorithm_choose does. table: (most ranks, doubling up to, ring from) by rising ranks."""
    _, doubling_max, ring_min = next(row for row in table if ranks <= row[0])
    return DOUBLING if size <= doubling_max else RING if size >= ring_min else RABENSEIFNER


def spans(last):
    """Numbers of ranks that share a row: a power of two, and what lies up to the next."""
    at = 2
    while at <= last:
        yield at, at
        if at > 2 or last >= 3:
            yield at + 1, 2 * at - 1
        at *= 2


def best_row(model, ranks):
    """(doubling up to, ring from) with the least regret over all sizes and some numbers of ranks.

    Powers of two never take the ring: it would save them little, and their sums have the same bits in every run.
    """
    is_power = all(n & (n - 1) == 0 for n in ranks)
    sums = {algorithm: [0.0] for algorithm in ALGORITHMS}
    for size in SIZES:
        for algorithm in ALGORITHMS:
            regrets = [math.log(model.regret(algorithm, n, size)) for n in ranks]
            sums[algorithm].append(sums[algorithm][-1] + sum(regrets))
    n = len(SIZES)
    cost = lambda d, r: (sums[DOUBLING][d] + sums[RABENSEIFNER][r] - sums[RABENSEIFNER][d]  # noqa: E731
                         + sums[RING][n] - sums[RING][r])
    # The longest range of Rabenseifner's among equals: it adds up in an order that does not depend on the place.
    doubling, ring = min(((d, r) for d in range(n + 1) for r in range(n if is_power else d, n + 1)),
                         key=lambda at: (round(cost(*at), 9), at[0] - at[1]))
    return NEVER if doubling == n else SIZES[doubling] - 1, NEVER if ring == n else SIZES[ring]


def make_table(model, last=1 << 15):
    """The rows that follow from the model; those that say the same are one."""
    table = []
    for low, high in spans(last):
        row = best_row(model, sorted({low, (low + high) // 2, high}))
        if table and table[-1][1:] == row:
            table.pop()
        table.append((high, *row))
    table[-1] = (MANY, *table[-1][1:])
    return table


def as_text(table):
    """The table as HOROVOD_MPI_ALLREDUCE_TABLE takes it."""
    number = lambda value: "-" if value == NEVER else value  # noqa: E731
    return ",".join(f"{'*' if ranks == MANY else ranks}:{number(doubling)}:{number(ring)}"
                    for ranks, doubling, ring in table)


def medians(launches):
    """way -> bytes -> median of the launches' medians."""
    return {way: {size: statistics.median(found[way][size] for found in launches) for size in launches[0][way]}
            for way in launches[0]}


def read(lines):
    """(the built-in table, way -> bytes -> median over the blocks of a launch)."""
    blocks = {}
    for line in lines:
        if "way" in line:
            blocks.setdefault(line["way"], {}).setdefault(line["bytes"], []).append(line["us"])
    table = next(line["table"] for line in lines if "table" in line)
    return table, {way: {size: statistics.median(times) for size, times in of.items()} for way, of in blocks.items()}


def show_costs(name, model):
    print(f"{name}: up to {EAGER_BYTES >> 10} KiB, and from {ASKED_BYTES >> 10} KiB on: to each other {model.exchange}; "
          f"four at once, each {model.exchange4}; one way {model.pingpong}; adding up {model.add_ns:.3g} ns a byte")


def show_measured(name, ranks, found, table):
    print(f"\n{name}: measured, {ranks} ranks, us\n{'bytes':>9} {'exchange':>10} {'of four':>9}" +
          "".join(f"{algorithm:>14}" for algorithm in ALGORITHMS) + "  chosen         of the best")
    for size in found[DOUBLING]:
        times = [found[algorithm][size] for algorithm in ALGORITHMS]
        chosen = choose(table, ranks, size)
        print(f"{size:>9} {found['exchange'][size]:>10.1f} {found['exchange4'][size]:>9.1f}" + "".join(f"{us:>14.1f}" for us in times) +
              f"  {chosen:<14} {found[chosen][size] / min(times):.2f}")


def show_crossovers(model, table, new):
    bound = lambda size: "-" if size == NEVER else f"{size / 1024:.4g} KiB"  # noqa: E731
    print(f"\nmodelled from the messages over {TCP}\n{'ranks':>6} {'doubling to':>13} {'ring from':>13} "
          f"{'built in: to':>13} {'from':>13} {'regret, mean':>13} {'worst':>6}  at")
    for ranks in SHOWN:
        ours, theirs = (next(row for row in of if ranks <= row[0]) for of in (new, table))
        regrets = {size: model.regret(choose(table, ranks, size), ranks, size) for size in SIZES}
        worst = max(regrets, key=regrets.get)
        print(f"{ranks:>6} {bound(ours[1]):>13} {bound(ours[2]):>13} {bound(theirs[1]):>13} {bound(theirs[2]):>13} "
              f"{statistics.geometric_mean(regrets.values()):>13.3f} {regrets[worst]:>6.2f}  {bound(worst)}")


def add_row(table, name, ranks, launches, builtin):
    """The chosen algorithm against the fastest of the three: geometric means over the sizes."""
    samples = []
    for found in launches:
        sizes = found[DOUBLING]
        chosen = statistics.geometric_mean(found[choose(builtin, ranks, size)][size] for size in sizes)
        best = statistics.geometric_mean(min(found[algorithm][size] for algorithm in ALGORITHMS) for size in sizes)
        samples.append((chosen, best, chosen / best))
    table.add("net", f"chosen-{name.replace(', ', '-').replace(' ', '-')}", "the fastest of the three algorithms", "us",
              {"any" if ranks == 2 else "oversubscribed": samples})


def measure_rows(table, options):
    launches = {name: [] for name in ARMS}
    builtin = None
    for number in range(options.launches):
        for name, (ranks, words) in ARMS.items():
            lines = measure.launch([PROGRAM, options.seed + number], ranks=ranks, bind=None, mca=words)
            builtin, found = read(lines)
            launches[name].append(found)
    for name, (ranks, _) in ARMS.items():
        if name != SHM:
            add_row(table, name, ranks, launches[name], builtin)
    print()
    for name, (ranks, _) in ARMS.items():
        if ranks == 2:
            show_costs(name, Model(medians(launches[name])))
    for name, (ranks, _) in ARMS.items():
        show_measured(name, ranks, medians(launches[name]), builtin)
    model = Model(medians(launches[TCP]))
    new = make_table(model)
    show_crossovers(model, builtin, new)
    print(f"\nwhat this machine would choose by:\nHOROVOD_MPI_ALLREDUCE_TABLE={as_text(new)}")
