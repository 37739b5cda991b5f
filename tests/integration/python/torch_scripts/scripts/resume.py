import os
import tempfile

import torch

import horovod.torch as hvd

hvd.init()
folder = hvd.broadcast_object(tempfile.mkdtemp() if hvd.rank() == 0 else None, root_rank=0, name="folder")
checkpoint_format = os.path.join(folder, "checkpoint-{epoch}.pth.tar")


def save_checkpoint(epoch):
    if hvd.rank() == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, checkpoint_format.format(epoch=epoch))


def start():
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    resume_from_epoch = 0
    for try_epoch in range(10, 0, -1):
        if os.path.exists(checkpoint_format.format(epoch=try_epoch)):
            resume_from_epoch = try_epoch
            break
    resume_from_epoch = hvd.broadcast(torch.tensor(resume_from_epoch), root_rank=0,
                                      name="resume_from_epoch").item()
    if resume_from_epoch > 0 and hvd.rank() == 0:
        checkpoint = torch.load(checkpoint_format.format(epoch=resume_from_epoch))
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return model, optimizer, resume_from_epoch


starts = []
for attempt in range(2):
    model, optimizer, first = start()
    starts.append(first)
    for epoch in range(first, first + 2):
        optimizer.zero_grad()
        model(torch.ones(2, 4) * (hvd.rank() + 1)).square().sum().backward()
        optimizer.step()
        save_checkpoint(epoch + 1)
    hvd.barrier()
assert starts == [0, 2], starts
momentum = optimizer.state[model.weight]["momentum_buffer"]
assert torch.equal(hvd.broadcast(momentum, 0), momentum)
