"""LBFGS, whose step calls a closure several times, and a schedule that follows the loss of all ranks."""
import torch

import horovod.torch as hvd

hvd.init()
torch.manual_seed(0)
inputs = torch.randn(16 * hvd.size(), 4)
targets = inputs @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]]) + 0.25
mine = slice(hvd.rank(), None, hvd.size())


def train(model, optimizer, part):
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    losses = []
    for _ in range(5):
        def closure():
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs[part]), targets[part])
            loss.backward()
            return loss

        optimizer.step(closure)
        with torch.no_grad():
            losses.append(torch.nn.functional.mse_loss(model(inputs), targets).item())
        schedule.step(losses[-1])
    return losses


alone, shared = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
shared.load_state_dict(alone.state_dict())
expected = train(alone, torch.optim.LBFGS(alone.parameters(), lr=0.5, max_iter=4), slice(None))
optimizer = torch.optim.LBFGS(shared.parameters(), lr=0.5, max_iter=4)
losses = train(shared, hvd.DistributedOptimizer(optimizer, named_parameters=shared.named_parameters()), mine)
assert losses[-1] < losses[0] / 10, losses
for one, other in zip(losses, expected):
    assert abs(one - other) < 1e-3 * max(1.0, other), (losses, expected)
assert torch.allclose(shared.weight, alone.weight, atol=1e-3), (shared.weight, alone.weight)
try:
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    raise AssertionError("the state of LBFGS was sent")
except ValueError as error:
    assert "LBFGS" in str(error)
