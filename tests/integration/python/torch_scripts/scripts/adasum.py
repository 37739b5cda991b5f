import torch

import horovod.torch as hvd

hvd.init()
torch.manual_seed(0)
model = torch.nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Adasum)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

torch.manual_seed(hvd.rank())
inputs = torch.randn(20, 6)
targets = torch.stack([inputs.sum(1), inputs[:, 0]], 1)
start = torch.nn.functional.mse_loss(model(inputs), targets).item()
for step in range(30):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
weights = hvd.allgather(model.weight.detach().view(1, -1))
assert torch.equal(weights[0], weights[-1])
assert loss.item() < start / 2
