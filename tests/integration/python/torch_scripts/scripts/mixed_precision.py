import torch

import horovod.torch as hvd

hvd.init()
torch.manual_seed(3 + hvd.rank())
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                     compression=hvd.Compression.fp16)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)

data = torch.randn(64, 8)
labels = data[:, :4].argmax(1)
for step in range(40):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(data), labels)
    scaler.scale(loss).backward()
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()
    scheduler.step()
average = hvd.allreduce(loss.detach(), name="average_loss")
if hvd.rank() == 0:
    print("average loss", average.item())
assert average.item() < 1.0
