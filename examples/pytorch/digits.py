"""Trains the network of ../digits on images of handwritten digits, in PyTorch:

    python3 digits.py
    horovodrun -np 2 python3 digits.py

Each rank takes its share of every batch, and the gradients are summed over all. So any number of
ranks computes the same result. [horovod] marks the distributed parts.
"""
import argparse
import csv
import os
import pathlib
import sys

import torch
from torch.nn import functional

import horovod.torch as hvd

DATA = pathlib.Path(__file__).resolve().parents[1] / "digits" / "digits.csv"
SEED = 20240229


def parse_arguments():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Trains a small network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=96, help="images a step, of all ranks together")
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="digits.csv")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="file to save to, and to go on from")
    return parser.parse_args()


def load(path):
    """Returns ((images, digits) to train with, the same held back): holds back every fifth image."""
    with open(path, newline="", encoding="ascii") as file:
        rows = torch.tensor([[int(value) for value in row] for row in csv.reader(file)])
    images, digits = rows[:, :64].float() / 16, rows[:, 64]
    is_held_back = torch.arange(len(rows)) % 5 == 0
    return (images[~is_held_back], digits[~is_held_back]), (images[is_held_back], digits[is_held_back])


def train_epoch(epoch, model, optimizer, images, digits, batch):
    """Makes one pass over the training set; returns (loss, accuracy) of all ranks."""
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(SEED + epoch))
    totals = torch.zeros(3, dtype=torch.float64)
    for chosen in order.split(batch):
        mine = chosen.tensor_split(hvd.size())[hvd.rank()]  # [horovod] my share of the batch
        output = model(images[mine])
        loss = functional.cross_entropy(output, digits[mine], reduction="sum")
        optimizer.zero_grad()
        (loss / len(chosen)).backward()
        optimizer.step()
        n_right = (output.argmax(1) == digits[mine]).sum().item()
        totals += torch.tensor([loss.item(), n_right, len(mine)], dtype=torch.float64)
    if epoch == 0:
        print(f"digits: rank {hvd.rank()} of {hvd.size()} trains on {totals[2]:.0f} of {len(images)} images")
    loss, n_right, n_images = hvd.allreduce(totals, op=hvd.Sum, name="totals").tolist()  # [horovod]
    return loss / n_images, n_right / n_images


def load_checkpoint(path, model, optimizer):
    """Loads a checkpoint, and returns the number of its epochs; 0 if there is none."""
    if path is None or not path.exists():
        return 0
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    print(f"digits: resuming after epoch {saved['epochs_done']}")
    return saved["epochs_done"]


def save_checkpoint(path, epochs_done, model, optimizer):
    """Replaces the checkpoint atomically: a reader sees the old file or the new one."""
    draft = path.with_name(path.name + ".new")
    torch.save({"epochs_done": epochs_done, "model": model.state_dict(),
                "optimizer": optimizer.state_dict()}, draft)
    os.replace(draft, path)


def main():
    """Trains, and prints the accuracy on the held-back images."""
    arguments = parse_arguments()
    sys.stdout.reconfigure(line_buffering=True)
    (images, digits), held_back = load(arguments.data)
    hvd.init()  # [horovod] join the other ranks
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=hvd.Sum)  # [horovod]
    first = load_checkpoint(arguments.checkpoint, model, optimizer) if hvd.rank() == 0 else None
    first = hvd.broadcast_object(first, root_rank=0)  # [horovod] begin with the state of rank 0
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for epoch in range(first, arguments.epochs):
        loss, accuracy = train_epoch(epoch, model, optimizer, images, digits, arguments.batch)
        if hvd.rank() == 0:  # [horovod] one rank prints and saves
            print(f"digits: epoch {epoch + 1} loss {loss:.7f} accuracy {accuracy:.4f}")
            if arguments.checkpoint:
                save_checkpoint(arguments.checkpoint, epoch + 1, model, optimizer)
    if hvd.rank() == 0:
        with torch.no_grad():
            accuracy = (model(held_back[0]).argmax(1) == held_back[1]).double().mean().item()
        print(f"digits: accuracy {accuracy:.4f} on {len(held_back[1])} held-back images")


if __name__ == "__main__":
    main()
