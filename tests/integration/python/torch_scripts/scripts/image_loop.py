"""The loop of an image classifier's training in the way of timm: a schedule with warm-up, accumulation, an average of
the weights, statistics of batch normalisation that are shared between epochs."""
import copy
import math

import torch

import horovod.torch as hvd


def reduce_tensor(tensor):
    return hvd.allreduce(tensor.detach().clone(), op=hvd.Average)


def distribute_bn(model, reduce):
    """Between epochs all ranks take over the mean, or the first rank's, of the running statistics."""
    for name, buffer in model.named_buffers():
        if "running_mean" in name or "running_var" in name:
            if reduce:
                hvd.allreduce_(buffer, name=name)
            else:
                hvd.broadcast_(buffer, 0, name=name)


class ModelEma(torch.nn.Module):
    """An average over the steps."""

    def __init__(self, model, decay=0.9):
        super().__init__()
        self.module, self.decay = copy.deepcopy(model).eval(), decay

    @torch.no_grad()
    def update(self, model):
        for kept, now in zip(self.module.state_dict().values(), model.state_dict().values()):
            kept.copy_(self.decay * kept + (1 - self.decay) * now)


def accuracy(output, target, k):
    return (output.topk(k).indices == target[:, None]).any(1).float().mean() * 100


hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 6, 3, padding=1), torch.nn.BatchNorm2d(6), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4),
    torch.nn.Flatten(), torch.nn.Dropout(0.1), torch.nn.Linear(96, 4)).to(memory_format=torch.channels_last)
decayed = [p for p in model.parameters() if p.ndim > 1]
others = [p for p in model.parameters() if p.ndim <= 1]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}], lr=0.02)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
ACCUMULATED, EPOCHS, STEPS = 2, 4, 8
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                     backward_passes_per_step=ACCUMULATED, compression=hvd.Compression.none)
scheduler = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: min((step + 1) / 4, 0.5 + 0.5 * math.cos(math.pi * step / (EPOCHS * STEPS))))
ema = ModelEma(model)
generator = torch.Generator().manual_seed(100 + hvd.rank())
kinds = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(5))
history = []
for epoch in range(EPOCHS):
    model.train()
    for step in range(STEPS):
        optimizer.zero_grad()
        for _ in range(ACCUMULATED):
            target = torch.randint(4, (8,), generator=generator)
            images = kinds[target] + 0.3 * torch.randn(8, 1, 8, 8, generator=generator)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                output = model(images.to(memory_format=torch.channels_last))
                loss = torch.nn.functional.cross_entropy(output.float(), target, label_smoothing=0.1) / ACCUMULATED
            loss.backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        with optimizer.skip_synchronize():
            optimizer.step()
        scheduler.step()
        ema.update(model)
    distribute_bn(model, reduce=epoch % 2 == 0)
    distribute_bn(ema.module, reduce=True)
    model.eval()
    with torch.no_grad():
        output = model(kinds[target])
        history.append([reduce_tensor(value).item() for value in (
            torch.nn.functional.cross_entropy(output, target), accuracy(output, target, 1), accuracy(output, target, 2))])
assert history[-1][1] > 90 and history[-1][2] >= history[-1][1], history
for module in (model, ema.module):
    flat = torch.cat([value.double().flatten() for value in module.state_dict().values()])
    gathered = hvd.allgather(flat[None])
    for row in gathered:
        assert torch.allclose(row, gathered[0], atol=1e-6), (row - gathered[0]).abs().max()
