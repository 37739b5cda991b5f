import math

import torch
import torch.nn.functional as F

import horovod.torch as hvd

hvd.init()
torch.manual_seed(0)

batch_size, batches_per_allreduce, epochs, warmup_epochs, base_lr = 4, 3, 6, 2, 0.02
allreduce_batch_size = batch_size * batches_per_allreduce
data = torch.randn(24 * hvd.size(), 5)
target = data @ torch.arange(5.).view(5, 1)
data, target = data[hvd.rank()::hvd.size()], target[hvd.rank()::hvd.size()]
loader = list(zip(data.split(allreduce_batch_size), target.split(allreduce_batch_size)))

model = torch.nn.Linear(5, 1)
lr_scaler = batches_per_allreduce * hvd.size()
optimizer = torch.optim.SGD(model.parameters(), lr=base_lr * lr_scaler, momentum=0.9, weight_decay=0.00005)
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(),
    compression=hvd.Compression.fp16,
    backward_passes_per_step=batches_per_allreduce)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)


def adjust_learning_rate(epoch, batch_idx):
    if epoch < warmup_epochs:
        progress = epoch + float(batch_idx + 1) / len(loader)
        lr_adj = 1. / hvd.size() * (progress * (hvd.size() - 1) / warmup_epochs + 1)
    else:
        lr_adj = 1. if epoch < 4 else 1e-1
    for param_group in optimizer.param_groups:
        param_group["lr"] = base_lr * hvd.size() * lr_adj


def average_loss():
    with torch.no_grad():
        return hvd.allreduce(F.mse_loss(model(data), target), name="loss").item()


first = average_loss()
for epoch in range(epochs):
    for batch_idx, (inputs, labels) in enumerate(loader):
        adjust_learning_rate(epoch, batch_idx)
        optimizer.zero_grad()
        for i in range(0, len(inputs), batch_size):
            loss = F.mse_loss(model(inputs[i:i + batch_size]), labels[i:i + batch_size])
            loss.div_(math.ceil(float(len(inputs)) / batch_size))
            loss.backward()
        optimizer.step()
last = average_loss()
if hvd.rank() == 0:
    print("loss", first, "to", last)
assert last < first / 2
