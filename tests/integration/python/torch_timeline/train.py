"""Trains for some steps. Within each backward pass something is reduced for certain: backward waits for it there."""
import torch

import horovod.torch as hvd

STEPS = 5


class Meeting(torch.autograd.Function):
    """Passes its input on; going back, meets the other ranks."""

    @staticmethod
    def forward(ctx, tensor):
        return tensor.clone()

    @staticmethod
    def backward(ctx, gradient):
        hvd.allreduce_(torch.ones(1 << 16), name="meeting")
        return gradient


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    first, last = torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)
    model = torch.nn.ModuleList([first, last])
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01),
                                         named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        last(Meeting.apply(first(torch.randn(4, 64)))).sum().backward()
        optimizer.step()
    hvd.shutdown()


if __name__ == "__main__":
    main()
