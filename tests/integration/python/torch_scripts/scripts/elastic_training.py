import torch
import torch.nn.functional as F

import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())

lr, epochs, batch_size = 0.02, 3, 4
dataset = torch.utils.data.TensorDataset(torch.randn(32, 3), torch.randn(32, 1))
sampler = hvd.elastic.ElasticSampler(dataset)
loader = torch.utils.data.DataLoader(dataset, batch_size=batch_size, sampler=sampler)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr * hvd.size())
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
failures = [hvd.HorovodInternalError("a peer is gone")]


@hvd.elastic.run
def train(state):
    for state.epoch in range(state.epoch, epochs):
        state.sampler.set_epoch(state.epoch)
        for state.batch, (data, target) in enumerate(loader):
            state.optimizer.zero_grad()
            F.mse_loss(state.model(data), target).backward()
            state.optimizer.step()
            state.sampler.record_batch(state.batch, batch_size)
            if state.batch == 1:
                state.commit()
            if state.batch == 2 and failures:
                raise failures.pop()
        state.epochs_done.append(state.epoch)


def on_state_reset():
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr * hvd.size()


state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, batch=0, epochs_done=[])
state.register_reset_callbacks([on_state_reset])
train(state)
assert state.epochs_done == [0, 1, 2] and not failures
weights = hvd.allgather(model.weight.detach())
assert torch.equal(weights[0], weights[-1])
