import torch

import horovod.torch as hvd

hvd.init()
torch.manual_seed(0)
embedding = torch.nn.Embedding(50, 4, sparse=True)
optimizer = torch.optim.SGD(embedding.parameters(), lr=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=embedding.named_parameters())
hvd.broadcast_parameters(embedding.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

words = torch.arange(10) + 10 * hvd.rank()
before = embedding.weight.detach().clone()
for step in range(20):
    optimizer.zero_grad()
    embedding(words).square().mean().backward()
    optimizer.step()
changed = (embedding.weight - before).abs().sum(1) > 0
assert changed.sum().item() == 10 * hvd.size(), changed
handle = hvd.sparse_allreduce_async(torch.eye(3).to_sparse(), name="eye", op=hvd.Sum)
assert torch.equal(handle().to_dense(), torch.eye(3) * hvd.size())
