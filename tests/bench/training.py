"""One rank of a job that trains, for script/bench python; mpirun starts it.

training.py compare SEED WORKLOAD...: each model with horovod.torch and with torch.nn.parallel.DistributedDataParallel
over gloo, in turn and in an order drawn at random; rank 0 prints a JSON line for each block with the median step of
the slowest rank, and at the end how much the trained models differ.
training.py memory ARM WORKLOAD: trains with one of ours, ddp and ddp-lean; rank 0 prints its memory on the way, and the
processor time that it takes with nothing to do.
"""
import datetime
import json
import os
import random
import statistics
import sys
import time
import warnings

import torch

warnings.simplefilter("ignore", FutureWarning)  # broadcast_buffers, whose new name older versions do not know

RANK, SIZE = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
# DDP as it comes, and told to leave out what DistributedOptimizer does not do either: copies into buckets, and sending
# the buffers of the model in every step.
DDP = {"ddp": {}, "ddp-lean": {"gradient_as_bucket_view": True, "broadcast_buffers": False}}
ARMS = ("ours", *DDP)
ROUNDS, IDLE_S = 2, 2.0
# workload -> steps in a block, steps to warm up
STEPS = {"resnet50": (3, 2), "many-small": (8, 5)}
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "pytorch")


class ManySmall(torch.nn.Module):
    """1,024 parameters of 256 to 4,096 floats in a chain of narrow layers: moving them is mostly overhead."""
    WIDTHS = (16, 32, 48, 64)

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(width, width, bias=False) for width in self.WIDTHS for _ in range(256))

    def forward(self, rows):
        """Each layer adds a little to what it is given; a wider stage begins with zeros beside."""
        for layer in self.layers:
            if layer.in_features != rows.shape[1]:
                rows = torch.nn.functional.pad(rows, (0, layer.in_features - rows.shape[1]))
            rows = rows + 0.05 * layer(rows)
        return rows


def model_and_batch(workload):
    """A model and what it is trained with; the same on every rank."""
    torch.manual_seed(1)
    if workload == "many-small":
        return ManySmall(), torch.randn(4, 16), torch.randint(64, (4,))
    sys.path.insert(0, EXAMPLES)
    import models  # pylint: disable=import-outside-toplevel
    return models.make(workload), torch.randn(4, 3, 64, 64), torch.randint(1000, (4,))


def resident():
    """(memory now, its peak so far) of this process in MiB."""
    with open("/proc/self/status", encoding="ascii") as lines:
        found = dict(line.split(":", 1) for line in lines)
    return [int(found[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")]


def join_gloo():
    """Meets the other ranks over gloo."""
    torch.distributed.init_process_group(
        "gloo", rank=RANK, world_size=SIZE, timeout=datetime.timedelta(minutes=5),
        init_method=f"tcp://127.0.0.1:{os.environ['BENCH_PORT']}")


class Arm:
    """A model and how it is trained."""

    def __init__(self, kind, workload):
        self.model, self.rows, self.classes = model_and_batch(workload)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        if kind in DDP:
            self.model = torch.nn.parallel.DistributedDataParallel(self.model, **DDP[kind])
            return
        import horovod.torch as hvd  # pylint: disable=import-outside-toplevel
        self.optimizer = hvd.DistributedOptimizer(self.optimizer, named_parameters=self.model.named_parameters())
        hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)

    def step(self):
        """A step of a training loop."""
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.model(self.rows), self.classes).backward()
        self.optimizer.step()

    def times(self, n_steps):
        """The milliseconds of so many steps, of the slowest rank each."""
        steps = []
        for _ in range(n_steps):
            torch.distributed.barrier()
            begin = time.perf_counter()
            self.step()
            steps.append(1000 * (time.perf_counter() - begin))
        slowest = torch.tensor(steps)
        torch.distributed.all_reduce(slowest, torch.distributed.ReduceOp.MAX)
        return slowest.tolist()


def say(**line):
    if RANK == 0:
        print(json.dumps(line), flush=True)


def differing(arms):
    """How much the arms' parameters differ after as many steps: they train the same model."""
    ours, *others = (list(arm.model.parameters()) for arm in arms.values())
    return max((one - another).abs().max().item() for other in others for one, another in zip(ours, other))


def compare_one(workload, rng):
    n_steps, n_warm = STEPS[workload]
    arms = {kind: Arm(kind, workload) for kind in ARMS}
    for arm in arms.values():
        arm.times(n_warm)
    for turn in range(ROUNDS):
        for kind in rng.sample(ARMS, len(ARMS)):
            steps = arms[kind].times(n_steps)
            say(workload=workload, arm=kind, round=turn, p50_ms=statistics.median(steps))
    say(workload=workload, difference=differing(arms))


def compare(seed, workloads):
    import horovod.torch as hvd  # pylint: disable=import-outside-toplevel
    hvd.init()
    join_gloo()
    rng = random.Random(int(seed))
    for workload in workloads:
        compare_one(workload, rng)
    torch.distributed.destroy_process_group()
    hvd.shutdown()


def memory(kind, workload):
    line = {"arm": kind, "torch_mib": resident()[0]}
    if kind == "ours":
        import horovod.torch as hvd  # pylint: disable=import-outside-toplevel
        hvd.init()
    else:
        join_gloo()
    line["joined_mib"] = resident()[0]
    arm = Arm(kind, workload)
    for _ in range(4):
        arm.step()
    line["peak_mib"] = resident()[1]
    time.sleep(0.5)  # what a rank does after its last step is no idling
    idle = time.process_time()
    time.sleep(IDLE_S)
    line["idle_cores"] = (time.process_time() - idle) / IDLE_S
    say(**line)


def main():
    torch.set_num_threads(1)
    if sys.argv[1] == "compare":
        compare(sys.argv[2], sys.argv[3:])
    else:
        memory(*sys.argv[2:4])


if __name__ == "__main__":
    main()
