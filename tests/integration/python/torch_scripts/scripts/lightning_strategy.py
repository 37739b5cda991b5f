"""A trainer with a strategy for Horovod, in the way of PyTorch Lightning's former one."""
import contextlib

import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import horovod.torch as hvd


class Strategy:
    """What the trainer asks for: where it runs, how optimizers are wrapped, how values are reduced."""

    def __init__(self):
        hvd.init()
        self.stack = contextlib.ExitStack()

    global_rank = property(lambda self: hvd.rank())
    local_rank = property(lambda self: hvd.local_rank())
    world_size = property(lambda self: hvd.size())
    sampler_options = property(lambda self: {"num_replicas": hvd.size(), "rank": hvd.rank()})

    def setup(self, model, optimizers, schedulers):
        """Scales learning rates, gives all ranks the state of the first, wraps the optimizers."""
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] *= hvd.size()
        for scheduler in schedulers:
            scheduler.base_lrs = [rate * hvd.size() for rate in scheduler.base_lrs]
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        for optimizer in optimizers:
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        wrapped = []
        for optimizer in optimizers:
            mine = {p for group in optimizer.param_groups for p in group.get("params", [])}
            named = [(name, p) for name, p in model.named_parameters() if p in mine]
            wrapped.append(hvd.DistributedOptimizer(optimizer, named_parameters=named))
        for optimizer in wrapped:  # the trainer synchronises after backward, so that it can clip
            self.stack.enter_context(optimizer.skip_synchronize())
        return wrapped

    @staticmethod
    def post_backward(optimizers):
        for optimizer in optimizers:
            optimizer.synchronize()

    @staticmethod
    def barrier(name=None):
        hvd.allreduce(torch.tensor(0), name=name or "barrier", op=hvd.Sum)

    @staticmethod
    def broadcast(thing, src=0):
        return hvd.broadcast_object(thing, src)

    @staticmethod
    def reduce(tensor, op="mean"):
        return hvd.allreduce(tensor, op=hvd.Average if op in (None, "avg", "mean") else hvd.Sum)

    @staticmethod
    def all_gather(tensor):
        hvd.join()  # as the strategy did: all ranks are here
        return hvd.allgather(tensor.reshape(1, *tensor.shape))

    def teardown(self):
        self.stack.close()
        hvd.join()


class Model(torch.nn.Module):
    """Two parts with an optimizer each."""

    def __init__(self):
        super().__init__()
        self.encoder, self.head = torch.nn.Linear(5, 8), torch.nn.Linear(8, 1)

    def training_step(self, batch):
        inputs, targets = batch
        return torch.nn.functional.mse_loss(self.head(torch.tanh(self.encoder(inputs))), targets)


strategy = Strategy()
torch.manual_seed(strategy.global_rank)  # differs until the first rank's is broadcast
model = Model()
optimizers = [torch.optim.Adam(model.encoder.parameters(), lr=0.005), torch.optim.SGD(model.head.parameters(), lr=0.01)]
schedulers = [torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5) for optimizer in optimizers]
rates = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
optimizers = strategy.setup(model, optimizers, schedulers)

generator = torch.Generator().manual_seed(0)
inputs = torch.randn(32 * hvd.size(), 5, generator=generator)
data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
sampler = DistributedSampler(data, **strategy.sampler_options)
losses = []
for epoch in range(6):
    sampler.set_epoch(epoch)
    for batch in DataLoader(data, batch_size=8, sampler=sampler):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = model.training_step(batch)
        loss.backward()
        strategy.post_backward(optimizers)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        for optimizer in optimizers:
            optimizer.step()
    for scheduler in schedulers:
        scheduler.step()
    losses.append(strategy.reduce(loss.detach()).item())
strategy.barrier()
assert losses[-1] < losses[0] / 2, losses
assert strategy.broadcast({"best": losses[-1]} if strategy.global_rank == 0 else None)["best"] == losses[-1]
everyones = strategy.all_gather(torch.cat([p.detach().flatten() for p in model.parameters()]))
assert everyones.shape[0] == strategy.world_size and all(torch.equal(row, everyones[0]) for row in everyones)
assert [optimizer.param_groups[0]["lr"] for optimizer in optimizers] == [r * hvd.size() / 8 for r in rates]
strategy.teardown()
