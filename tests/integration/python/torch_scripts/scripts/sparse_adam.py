"""Embeddings whose gradients are sparse, trained with SparseAdam beside a dense optimizer."""
import torch

import horovod.torch as hvd

hvd.init()
for sparse_as_dense in (False, True):
    torch.manual_seed(hvd.rank())
    embedding, head = torch.nn.Embedding(40, 4, sparse=True), torch.nn.Linear(4, 1)
    optimizers = [torch.optim.SparseAdam(list(embedding.parameters()), lr=0.05), torch.optim.Adam(head.parameters(), lr=0.05)]
    optimizers = [
        hvd.DistributedOptimizer(optimizers[0], named_parameters=[("words", embedding.weight)], sparse_as_dense=sparse_as_dense),
        hvd.DistributedOptimizer(optimizers[1], named_parameters=head.named_parameters(prefix="head"))]
    for module in (embedding, head):
        hvd.broadcast_parameters(module.state_dict(), root_rank=0)
    for optimizer in optimizers:
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    before = embedding.weight.detach().clone()
    words = torch.arange(10) + 10 * hvd.rank()
    losses = []
    for _ in range(40):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = (head(embedding(words)) - words[:, None] % 3).square().mean()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        assert embedding.weight.grad.is_sparse
        losses.append(hvd.allreduce(loss.detach()).item())
    assert losses[-1] < losses[0] / 3, losses
    changed = ((embedding.weight - before).abs().sum(1) > 0).nonzero().flatten()
    assert changed.tolist() == list(range(10 * hvd.size())), changed
    everyones = hvd.allgather(embedding.weight.detach()[None])
    assert all(torch.equal(rows, everyones[0]) for rows in everyones)
