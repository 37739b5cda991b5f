import torch

import horovod.torch as hvd

hvd.init()
torch.manual_seed(1)
model = torch.nn.LSTM(input_size=3, hidden_size=8)
head = torch.nn.Linear(8, 1)
parameters = list(model.parameters()) + list(head.parameters())
optimizer = torch.optim.Adam(parameters, lr=0.01)
named = [("lstm." + n, p) for n, p in model.named_parameters()] + [("head." + n, p) for n, p in head.named_parameters()]
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=iter(named))
hvd.broadcast_parameters(named, root_rank=0)

torch.manual_seed(hvd.rank())
inputs = torch.randn(6, 16, 3)
targets = inputs.sum(dim=(0, 2)).unsqueeze(1)
losses = []
for step in range(60):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(head(model(inputs)[0][-1]), targets)
    loss.backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    with optimizer.skip_synchronize():
        optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
