"""torch_pair.py collectives|train|killed: two ranks from PyTorch on one GPU, for correctness alone. mpirun starts it."""
import os
import signal
import sys
import time

RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])
os.environ["NCCL_HOSTID"] = f"device-test-{RANK}"  # NCCL takes the processes for two hosts

import torch  # noqa: E402  (NCCL reads the variable above)

import horovod.torch as hvd  # noqa: E402
from torch_machine import DEVICE, row, run  # noqa: E402

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
          torch.bool]
LOST_S = 5


def value(dtype, rank, n=1000):
    """Small whole numbers, so that results are exact in every type."""
    return ((torch.arange(n) + rank) % 3 + (dtype != torch.bool)).to(dtype)


def same(name, seen, wanted):
    """Both ranks compare; rank 0 prints a row for both."""
    seen = seen.cpu()
    good = seen.dtype == wanted.dtype and seen.shape == wanted.shape and torch.equal(seen, wanted)
    return "" if good else f"{name} on rank {RANK}: {seen.flatten()[:8].tolist()} and not {wanted.flatten()[:8].tolist()}"


def report(name, problems):
    """Rank 0 prints what any rank has found."""
    found = [text for texts in hvd.allgather_object([text for text in problems if text]) for text in texts]
    if RANK == 0:
        row(name, outcome="failed" if found else "passed", text="; ".join(found[:3]))


def reduced(dtype, op):
    """What both ranks' values make on the host."""
    both = [value(dtype, rank) for rank in range(2)]
    if dtype == torch.bool:
        return both[0] & both[1] if op in (hvd.Min, hvd.Product) else both[0] | both[1]
    if op in (hvd.Min, hvd.Max):
        return (torch.minimum if op == hvd.Min else torch.maximum)(*both)
    if op == hvd.Product:
        return both[0] * both[1]
    total = both[0] + both[1]
    if op == hvd.Sum:
        return total
    return total / 2 if dtype.is_floating_point else torch.div(total, 2, rounding_mode="trunc")


def check_allreduce():
    for key in ("Sum", "Average", "Min", "Max", "Product"):
        problems = []
        for dtype in DTYPES:
            op = getattr(hvd, key)
            seen = hvd.allreduce(value(dtype, RANK).to(DEVICE), name=f"{key} {dtype}", op=op)
            problems.append(same(f"{key} of {dtype}", seen, reduced(dtype, op)))
        report(f"allreduce, {key}", problems)


def check_others():
    gathered, spread, exchanged, scattered = [], [], [], []
    for dtype in DTYPES:
        mine = value(dtype, RANK).to(DEVICE)
        gathered.append(same(f"{dtype}", hvd.allgather(mine[:3 * RANK + 1], name=f"g {dtype}"),
                             torch.cat([value(dtype, 0)[:1], value(dtype, 1)[:4]])))
        spread.append(same(f"{dtype}", hvd.broadcast(mine, 1, name=f"b {dtype}"), value(dtype, 1)))
        seen = hvd.alltoall(mine, name=f"a {dtype}")
        exchanged.append(same(f"{dtype}", seen[0] if isinstance(seen, tuple) else seen,
                              torch.cat([value(dtype, rank)[500 * RANK:500 * RANK + 500] for rank in range(2)])))
        scattered.append(same(f"{dtype}", hvd.reducescatter(mine, name=f"s {dtype}", op=hvd.Sum),
                              reduced(dtype, hvd.Sum)[500 * RANK:500 * RANK + 500]))
    for name, problems in (("allgather", gathered), ("broadcast", spread), ("alltoall", exchanged), ("reducescatter", scattered)):
        report(name, problems)


def check_groups():
    many = [torch.full((300,), float(RANK + i), device=DEVICE) for i in range(50)]
    seen = hvd.grouped_allreduce(many, name="group", op=hvd.Sum)
    report("group", [same(f"tensor {i}", one, torch.full((300,), float(2 * i + 1))) for i, one in enumerate(seen)])
    large = torch.arange(4_000_000, dtype=torch.float32, device=DEVICE) + RANK
    report("a large tensor", [same("16 MB", hvd.allreduce(large, name="large", op=hvd.Average),
                                   torch.arange(4_000_000, dtype=torch.float32) + 0.5)])


def check_sets_and_join():
    alone = hvd.add_process_set([0])
    problems = []
    if RANK == 0:
        seen = hvd.allreduce(torch.ones(5, device=DEVICE), name="alone", op=hvd.Sum, process_set=alone)
        problems.append(same("set", seen, torch.ones(5)))
    report("a set of one", problems)
    problems = []
    if RANK == 1:
        seen = hvd.allreduce(torch.ones(5, device=DEVICE), name="late", op=hvd.Sum)
        problems.append(same("join", seen, torch.ones(5)))
    hvd.join(0) if DEVICE.type == "cuda" else hvd.join()  # pylint: disable=expression-not-assigned
    report("join", problems)


def collectives():
    hvd.init(process_sets="dynamic")
    run([("allreduce, Sum", check_allreduce), ("allgather", check_others), ("group", check_groups), ("a set of one", check_sets_and_join)])
    hvd.shutdown()


def check_train():
    """Both ranks train on their halves of the rows as one process does on all of them."""
    torch.manual_seed(3)
    rows, wanted = torch.randn(8, 16), torch.randn(8, 4)
    models = [torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    ours, alone = models[0].to(DEVICE), models[1].to(DEVICE)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (ours, alone)]
    optimizers[0] = hvd.DistributedOptimizer(optimizers[0], named_parameters=ours.named_parameters())
    hvd.broadcast_parameters(ours.state_dict(), root_rank=0)
    mine = slice(4 * RANK, 4 * RANK + 4)
    for _ in range(10):
        for model, optimizer, part in ((ours, optimizers[0], mine), (alone, optimizers[1], slice(0, 8))):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(rows[part].to(DEVICE)), wanted[part].to(DEVICE)).backward()
            optimizer.step()
    far = max((one - other).abs().max().item() for one, other in zip(ours.parameters(), alone.parameters()))
    report("training", [f"weights on rank {RANK} differ by {far}" if far > 1e-5 else ""])


def train():
    hvd.init()
    run([("training", check_train)])
    hvd.shutdown()


def killed():
    """Rank 1 dies while rank 0 has work on the GPU that waits for it."""
    hvd.init()
    hvd.allreduce(torch.ones(10, device=DEVICE), name="before")
    if RANK == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.perf_counter()
    try:
        value_of = hvd.allreduce(torch.ones(10, device=DEVICE), name="after")
        text = f"no error, but {value_of.sum().item()}"
    except hvd.HorovodInternalError as error:
        text = str(error)
    took = time.perf_counter() - begin - 0.5
    row("killed", took, "passed" if took <= LOST_S and "ank 1" in text else "failed", text)
    os._exit(0)


if __name__ == "__main__":
    {"collectives": collectives, "train": train, "killed": killed}[sys.argv[1]]()
