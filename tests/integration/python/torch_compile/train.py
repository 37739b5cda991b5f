"""A compiled model's gradients, reduced over all ranks, are those of one process with the global batch.

Rank 0 compiles first, so that the others find its kernels in the cache.
"""
import torch

import horovod.torch as hvd

STEPS, ROWS = 3, 4
TOLERANCE = 1e-5


def network():
    """A small network, the same on every rank."""
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(64, 8),
                               torch.nn.LayerNorm(8), torch.nn.Linear(8, 3))


def backward(model, inputs, targets):
    torch.nn.functional.mse_loss(model(inputs), targets).backward()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def compiled(model):
    """The model, compiled, and once used by one rank after the other."""
    done = torch.compile(model, fullgraph=True)
    for first in (True, False):
        if (hvd.rank() == 0) == first:
            backward(done, torch.zeros(ROWS, 3, 6, 6), torch.zeros(ROWS, 3))
        hvd.barrier()
    model.zero_grad()
    return done


def main():
    hvd.init()
    alone, shared = network(), network()
    trained = compiled(shared)
    alone_steps = sgd(alone)
    steps = hvd.DistributedOptimizer(sgd(shared), named_parameters=shared.named_parameters())
    generator = torch.Generator().manual_seed(3)
    mine = slice(ROWS * hvd.rank(), ROWS * (hvd.rank() + 1))
    for _ in range(STEPS):
        inputs = torch.randn(ROWS * hvd.size(), 3, 6, 6, generator=generator)
        targets = torch.randn(ROWS * hvd.size(), 3, generator=generator)
        alone_steps.zero_grad()
        steps.zero_grad()
        backward(alone, inputs, targets)
        backward(trained, inputs[mine], targets[mine])
        steps.synchronize()
        for (name, one), other in zip(alone.named_parameters(), shared.parameters()):
            difference = (other.grad - one.grad).abs().max().item()
            assert difference <= TOLERANCE, f"{name} differs by {difference}"
        with steps.skip_synchronize():
            steps.step()
        alone_steps.step()
    print(f"rank {hvd.rank()} of {hvd.size()}: {STEPS} steps")
    hvd.shutdown()


if __name__ == "__main__":
    main()
