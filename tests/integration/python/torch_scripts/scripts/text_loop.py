"""The loop of a language model's training in the way of transformers: accumulation, a linear schedule, sampled parts of
batches in workers of a loader, metrics over all ranks, a checkpoint that goes on."""
import os
import tempfile

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import horovod.torch as hvd


class Texts(Dataset):
    """Sequences in which each token is the last one plus 3."""

    def __len__(self):
        return 33 * hvd.size() + 1

    def __getitem__(self, index):
        return (torch.arange(9) * 3 + index) % 17


class Model(torch.nn.Module):
    """Embeddings that are tied to the output, and an attention."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(17, 16)
        self.block = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.unused = torch.nn.Linear(16, 3)  # of a task that this script does not train
        self.out = torch.nn.Linear(16, 17, bias=False)
        self.out.weight = self.words.weight

    def forward(self, tokens):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.out(self.block(self.words(tokens), src_mask=mask, is_causal=True))


def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def make(lr=0.01):
    torch.manual_seed(hvd.rank())
    model = Model()
    bias = [p for name, p in model.named_parameters() if name.endswith("bias")]
    rest = [p for name, p in model.named_parameters() if not name.endswith("bias")]
    optimizer = torch.optim.AdamW([{"params": rest, "weight_decay": 0.01}, {"params": bias, "weight_decay": 0.0}], lr=lr)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                         backward_passes_per_step=ACCUMULATED)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / 60))
    return model, optimizer, schedule


hvd.init()
ACCUMULATED = 2
model, optimizer, schedule = make()
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
texts = Texts()
sampler = DistributedSampler(texts, num_replicas=hvd.size(), rank=hvd.rank(), seed=3)
loader = DataLoader(texts, batch_size=4, sampler=sampler, num_workers=1, persistent_workers=True, drop_last=True)
checkpoint = hvd.broadcast_object(os.path.join(tempfile.mkdtemp(), "checkpoint") if hvd.rank() == 0 else None)
first = last = None
for epoch in range(8):
    if epoch == 4:  # as if the job had been stopped and started again
        hvd.barrier()
        model, optimizer, schedule = make()
        if hvd.rank() == 0:
            saved = torch.load(checkpoint, weights_only=False)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        schedule.load_state_dict(hvd.broadcast_object(saved["schedule"] if hvd.rank() == 0 else None))
    sampler.set_epoch(epoch)
    total = torch.zeros(2)
    for i, batch in enumerate(loader):
        if i + 1 > len(loader) // ACCUMULATED * ACCUMULATED:
            break  # no full step is left
        loss = loss_of(model, batch)
        (loss / ACCUMULATED).backward()
        total += torch.tensor([loss.item(), 1.0])
        if (i + 1) % ACCUMULATED == 0:
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    total = hvd.allreduce(total, op=hvd.Sum, name="loss")
    last = (total[0] / total[1]).item()
    first = first if first is not None else last
    if hvd.rank() == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()},
                   checkpoint)
assert last < first / 3, (first, last)
with torch.no_grad():  # predictions of every rank, of different lengths, as an evaluation gathers them
    mine = torch.stack([texts[i] for i in range(hvd.rank(), len(texts), hvd.size())])
    right = (model(mine[:, :-1])[:, -1].argmax(-1) == mine[:, -1]).float()
    everyones = hvd.allgather(right, name="right")
assert len(everyones) == len(texts) and everyones.mean() > 0.9, everyones
