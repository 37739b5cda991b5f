"""A program that starts its own ranks and computes metrics over all of them, in the way of pytorch-ignite."""
import os

import torch

try:
    from horovod.run.runner import run as spawn  # where it was before
except ImportError:
    from horovod import run as spawn
import horovod.torch as hvd

os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"  # for groups of ranks


class Distributed:
    """The part that asks Horovod, for a library that knows several back ends."""
    OPS = {"SUM": hvd.Sum, "AVERAGE": hvd.Average, "ADASUM": hvd.Adasum}
    OTHERS = {"MIN": torch.amin, "MAX": torch.amax, "PRODUCT": torch.prod}

    @staticmethod
    def rank():
        try:
            return hvd.rank()
        except ValueError as error:
            assert "Horovod has not been initialized; use hvd.init()." in str(error), error
            return -1

    def all_reduce(self, tensor, op="SUM", group=None):
        if group is not None and not isinstance(group, hvd.ProcessSet):
            raise ValueError("Argument group should be list of int or ProcessSet")
        options = {} if group is None else {"process_set": group}
        if op in self.OPS:
            return hvd.allreduce(tensor, op=self.OPS[op], **options)
        return self.OTHERS[op](hvd.allgather(tensor.unsqueeze(0), **options), 0)

    @staticmethod
    def all_gather(tensor, group=None):
        tensor = tensor.unsqueeze(0) if tensor.ndimension() == 0 else tensor
        return hvd.allgather(tensor) if group is None else hvd.allgather(tensor, process_set=group)

    @staticmethod
    def all_gather_object(thing):
        return hvd.allgather_object(thing)

    @staticmethod
    def broadcast(tensor, src):
        return hvd.broadcast(tensor, root_rank=src)

    @staticmethod
    def barrier():
        hvd.allreduce(torch.tensor(0), name="barrier")

    @staticmethod
    def new_group(ranks):
        return hvd.add_process_set(ranks)


class Accuracy:
    """A metric that adds up on each rank and is computed over all."""

    def __init__(self, distributed):
        self.distributed, self.right, self.seen = distributed, torch.tensor(0), 0

    def update(self, output, target):
        self.right += (output.argmax(1) == target).sum()
        self.seen += len(target)

    def compute(self):
        right = self.distributed.all_reduce(self.right)
        seen = self.distributed.all_reduce(torch.tensor(self.seen))
        return right.item() / seen.item()


def training(local_rank, steps, scale=1.0):
    """What every rank runs."""
    distributed = Distributed()
    assert local_rank == hvd.local_rank() and hvd.rank() == distributed.rank()
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * scale)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    accuracy = Accuracy(distributed)
    for _ in range(steps):
        target = torch.randint(3, (8 + hvd.rank(),))  # ranks have batches of different sizes
        output = model(3 * torch.nn.functional.one_hot(target, 3).float())
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(output, target).backward()
        optimizer.step()
        accuracy.update(output.detach(), target)
    distributed.barrier()
    size, rank = hvd.size(), hvd.rank()
    one = torch.tensor(float(rank + 1))
    assert distributed.all_reduce(one, "MAX").item() == size and distributed.all_reduce(one, "MIN").item() == 1
    assert distributed.all_gather(one).tolist() == [float(r + 1) for r in range(size)]
    assert distributed.all_gather_object(f"of {rank}") == [f"of {r}" for r in range(size)]
    assert distributed.broadcast(one, src=size - 1).item() == size
    group = distributed.new_group([0])
    if rank == 0:
        assert distributed.all_reduce(one, group=group).item() == 1
    return round(accuracy.compute(), 6)


def worker(backend, function, args, kwargs):
    """What the library runs on every rank: it enters the job, and leaves it when the function is done."""
    assert backend == "horovod" and Distributed.rank() == -1
    hvd.init()
    try:
        return function(hvd.local_rank(), *args, **kwargs)
    finally:
        hvd.shutdown()


if __name__ == "__main__":
    RESULTS = spawn(worker, args=("horovod", training, (30,), {"scale": 2.0}), np=2, use_gloo=True)
    assert len(RESULTS) == 2 and RESULTS[0] == RESULTS[1] > 0.5, RESULTS
    print("accuracy", RESULTS[0])
