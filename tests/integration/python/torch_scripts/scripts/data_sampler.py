import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch.utils.data.distributed

import horovod.torch as hvd


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv = nn.Conv2d(1, 4, kernel_size=3)
        self.dropout = nn.Dropout2d(0.1)
        self.fc = nn.Linear(36, 2)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.dropout(self.conv(x)), 2))
        return F.log_softmax(self.fc(x.view(-1, 36)), dim=1)


class Halves(torch.utils.data.Dataset):
    """Images whose left or whose right half is brighter."""

    def __init__(self, n, seed):
        generator = torch.Generator().manual_seed(seed)
        self.images = torch.rand(n, 1, 8, 8, generator=generator) * 0.5
        self.classes = torch.arange(n) % 2
        self.images[0::2, :, :, :4] += 1.0
        self.images[1::2, :, :, 4:] += 1.0

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], self.classes[index]


def metric_average(val, name):
    tensor = torch.tensor(val)
    avg_tensor = hvd.allreduce(tensor, name=name)
    return avg_tensor.item()


def train(epoch):
    model.train()
    train_sampler.set_epoch(epoch)
    for data, target in train_loader:
        optimizer.zero_grad()
        F.nll_loss(model(data), target).backward()
        optimizer.step()


def test():
    model.eval()
    test_loss, test_accuracy = 0., 0.
    for data, target in test_loader:
        output = model(data)
        test_loss += F.nll_loss(output, target, reduction="sum").item()
        pred = output.data.max(1, keepdim=True)[1]
        test_accuracy += pred.eq(target.data.view_as(pred)).float().sum().item()
    test_loss = metric_average(test_loss / len(test_sampler), "avg_loss")
    test_accuracy = metric_average(test_accuracy / len(test_sampler), "avg_accuracy")
    if hvd.rank() == 0:
        print("Test set: average loss: {:.4f}, accuracy: {:.2f}%".format(test_loss, 100. * test_accuracy))
    return test_accuracy


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--use-adasum", action="store_true", default=False)
parser.add_argument("--fp16-allreduce", action="store_true", default=False)
parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
args = parser.parse_args([])

hvd.init()
torch.manual_seed(42)
torch.set_num_threads(1)

train_dataset, test_dataset = Halves(256, 1), Halves(64, 2)
train_sampler = torch.utils.data.distributed.DistributedSampler(
    train_dataset, num_replicas=hvd.size(), rank=hvd.rank())
train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=args.batch_size, sampler=train_sampler)
test_sampler = torch.utils.data.distributed.DistributedSampler(
    test_dataset, num_replicas=hvd.size(), rank=hvd.rank())
test_loader = torch.utils.data.DataLoader(test_dataset, batch_size=32, sampler=test_sampler)

model = Net()
lr_scaler = hvd.size() if not args.use_adasum else 1
optimizer = optim.SGD(model.parameters(), lr=0.05 * lr_scaler, momentum=0.5)

hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
optimizer = hvd.DistributedOptimizer(optimizer,
                                     named_parameters=model.named_parameters(),
                                     compression=compression,
                                     op=hvd.Adasum if args.use_adasum else hvd.Average,
                                     gradient_predivide_factor=args.gradient_predivide_factor)

for epoch in range(1, args.epochs + 1):
    train(epoch)
    accuracy = test()
assert accuracy > 0.9, accuracy
