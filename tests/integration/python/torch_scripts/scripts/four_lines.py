import torch
import horovod.torch as hvd

hvd.init()

torch.manual_seed(hvd.rank())
inputs = torch.randn(32, 4)
targets = inputs.sum(1, keepdim=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * hvd.size())

optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

for step in range(100):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()

if hvd.rank() == 0:
    print("loss", loss.item())
assert loss.item() < 0.01
