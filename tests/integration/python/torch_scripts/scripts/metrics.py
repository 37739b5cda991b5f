import torch

import horovod.torch as hvd


class Metric(object):
    def __init__(self, name):
        self.name = name
        self.sum = torch.tensor(0.)
        self.n = torch.tensor(0.)

    def update(self, val):
        self.sum += hvd.allreduce(val.detach().cpu(), name=self.name)
        self.n += 1

    @property
    def avg(self):
        return self.sum / self.n


hvd.init()
loss = Metric("train_loss")
for step in range(4):
    loss.update(torch.tensor(float(hvd.rank() + step)))
assert abs(loss.avg.item() - (1.5 + (hvd.size() - 1) / 2)) < 1e-6

handles = [hvd.allreduce_async(torch.full((2,), float(i)), name=f"metric.{i}", op=hvd.Sum) for i in range(4)]
while not all(hvd.poll(handle) for handle in handles):
    pass
assert [hvd.synchronize(handle)[0].item() for handle in handles] == [i * hvd.size() for i in range(4)]

averaged = hvd.allreduce(torch.ones(3), average=False)
assert averaged.tolist() == [hvd.size()] * 3
losses = hvd.allgather_object({"rank": hvd.rank(), "losses": [0.5] * hvd.rank()})
assert [entry["rank"] for entry in losses] == list(range(hvd.size()))
grouped = hvd.grouped_allreduce([torch.ones(2), torch.ones(3)], op=hvd.Sum)
assert [tensor[0].item() for tensor in grouped] == [hvd.size()] * 2
received, splits = hvd.alltoall(torch.full((hvd.size(),), hvd.rank()), splits=torch.ones(hvd.size(), dtype=torch.int32))
assert received.tolist() == list(range(hvd.size())) and splits.tolist() == [1] * hvd.size()
if hvd.rank() == 0:
    print("loss", loss.avg.item(), hvd.mpi_enabled(), hvd.nccl_built(), hvd.local_rank(), hvd.cross_rank())
