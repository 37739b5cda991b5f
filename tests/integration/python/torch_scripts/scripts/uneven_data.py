import torch

import horovod.torch as hvd

hvd.init()
torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01),
                                     named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

batches = [torch.randn(4, 3) for _ in range(3 + 2 * hvd.rank())]
for batch in batches:
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
last_rank = hvd.join()
assert last_rank == hvd.size() - 1
hvd.broadcast_parameters(model.state_dict(), root_rank=last_rank)
weights = hvd.allgather(model.weight.detach())
assert torch.equal(weights[0], weights[-1])
