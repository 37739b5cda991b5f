"""Trains a small transformer in bfloat16, with sparse gradients for its word embeddings:

    python3 transformer.py
    horovodrun -np 2 python3 transformer.py

Its language is made up: one of two words follows each word, and they depend on that word alone. A
network that has learnt it has a loss of ln 2 = 0.69, an untrained one of ln 512 = 6.24. The
embeddings have an optimizer of their own, which sends only those rows of their gradient that belong
to the words of a batch.
"""
import argparse
import sys

import torch
from torch import nn
from torch.nn import functional

import horovod.torch as hvd

WORDS, WIDTH, LENGTH = 512, 64, 32
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def parse_arguments():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Trains a small transformer on a made-up language.")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32, help="texts a step, of all ranks together")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="bfloat16")
    parser.add_argument("--dense", action="store_true", help="send the whole gradient of the embeddings")
    return parser.parse_args()


class Transformer(nn.Module):
    """Computes for each place of a text the odds of the next word."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, sparse=True)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, nhead=4, dim_feedforward=4 * WIDTH, dropout=0.0,
                                           batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, texts):
        """A place sees only the words before it."""
        mask = nn.Transformer.generate_square_subsequent_mask(texts.shape[1], dtype=self.places.dtype)
        hidden = self.words(texts) + self.places[:texts.shape[1]]
        return self.head(self.body(hidden, mask=mask, is_causal=True))


def make_texts(n, step):
    """Returns n texts with one word more than the network sees; the same on every rank."""
    rule = torch.Generator().manual_seed(1)
    followers = torch.randint(WORDS, (WORDS, 2), generator=rule)
    chance = torch.Generator().manual_seed(1000 + step)
    texts = torch.empty(n, LENGTH + 1, dtype=torch.int64)
    texts[:, 0] = torch.randint(WORDS, (n,), generator=chance)
    for i in range(LENGTH):
        texts[:, i + 1] = followers[texts[:, i], torch.randint(2, (n,), generator=chance)]
    return texts


def make_optimizers(model, is_dense):
    """Returns an optimizer for the embeddings and one for all other parameters, both over all ranks."""
    words = [("words.weight", model.words.weight)]
    others = [(name, p) for name, p in model.named_parameters() if name != "words.weight"]
    make_sparse = torch.optim.Adam if is_dense else torch.optim.SparseAdam
    return [hvd.DistributedOptimizer(make_sparse([p for _, p in words], lr=0.01), words, op=hvd.Sum,
                                     sparse_as_dense=is_dense),
            hvd.DistributedOptimizer(torch.optim.AdamW([p for _, p in others], lr=0.003), others,
                                     op=hvd.Sum)]


def train_step(model, optimizers, texts):
    """Makes one step of all ranks; returns the mean loss of the batch."""
    mine = texts.tensor_split(hvd.size())[hvd.rank()]
    output = model(mine[:, :-1])
    loss = functional.cross_entropy(output.flatten(0, 1).float(), mine[:, 1:].flatten(), reduction="sum")
    loss = loss / texts[:, 1:].numel()
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return hvd.allreduce(loss.detach(), op=hvd.Sum, name="loss").item()


def main():
    """Trains, and prints the loss."""
    arguments = parse_arguments()
    sys.stdout.reconfigure(line_buffering=True)
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(hvd.rank())
    model = Transformer().to(DTYPES[arguments.dtype])
    optimizers = make_optimizers(model, arguments.dense)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for optimizer in optimizers:
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for step in range(1, arguments.steps + 1):
        loss = train_step(model, optimizers, make_texts(arguments.batch, step))
        if hvd.rank() == 0 and (step % 20 == 0 or step == arguments.steps):
            print(f"transformer: step {step} loss {loss:.7f}")


if __name__ == "__main__":
    main()
