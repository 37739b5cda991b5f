"""Measures how many images a second a network trains on, with random images:

    python3 synthetic.py --model resnet18
    horovodrun -np 2 python3 synthetic.py --model resnet50 --batch-size 8

The flags are those of Horovod's synthetic benchmark for PyTorch, and the lines that it prints have
the same form. --image-size and --ddp (torch's own DistributedDataParallel over gloo instead of
Horovod, to compare with) are additions.
"""
import argparse
import os
import statistics
import time

import torch
from torch.nn import functional

import horovod.torch as hvd
import models


def parse_arguments():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Trains a network with random images and tells the speed.")
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients in half precision")
    parser.add_argument("--model", default="resnet50", choices=models.NAMES)
    parser.add_argument("--batch-size", type=int, default=32, help="images a rank and step")
    parser.add_argument("--num-warmup-batches", type=int, default=10)
    parser.add_argument("--num-batches-per-iter", type=int, default=10)
    parser.add_argument("--num-iters", type=int, default=10)
    parser.add_argument("--no-cuda", action="store_true", help="train on the CPU even if there is a GPU")
    parser.add_argument("--use-adasum", action="store_true", help="reduce with Adasum")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--ddp", action="store_true", help="with DistributedDataParallel instead")
    return parser.parse_args()


def rate_factor(arguments, is_cuda):
    """Returns the factor of the learning rate: with Adasum, steps do not grow with the ranks."""
    if not arguments.use_adasum:
        return hvd.size()
    return hvd.local_size() if is_cuda and hvd.nccl_built() else 1


def with_horovod(arguments, model, is_cuda):
    """Returns (model, optimizer) for Horovod."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * rate_factor(arguments, is_cuda))
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if arguments.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if arguments.use_adasum else hvd.Average)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return model, optimizer


def with_ddp(model):
    """Returns (model, optimizer) for torch's DistributedDataParallel over gloo; the ranks find each other by Horovod."""
    port = hvd.broadcast_object(free_port() if hvd.rank() == 0 else None)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=hvd.rank(), world_size=hvd.size())
    model = torch.nn.parallel.DistributedDataParallel(model)
    return model, torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())


def free_port():
    """Returns a port on which no process listens."""
    import socket
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def say(text):
    """Prints on rank 0."""
    if hvd.rank() == 0:
        print(text, flush=True)


def measure(arguments, step):
    """Returns the images a second and rank of each iteration."""
    say("Running warmup...")
    for _ in range(arguments.num_warmup_batches):
        step()
    say("Running benchmark...")
    speeds = []
    for i in range(arguments.num_iters):
        begin = time.perf_counter()
        for _ in range(arguments.num_batches_per_iter):
            step()
        seconds = time.perf_counter() - begin
        speeds.append(arguments.batch_size * arguments.num_batches_per_iter / seconds)
        say(f"Iter #{i}: {speeds[-1]:.1f} img/sec per {arguments.device}")
    return speeds


def main():
    """Measures, and prints the mean and 1.96 standard deviations."""
    arguments = parse_arguments()
    hvd.init()
    is_cuda = torch.cuda.is_available() and not arguments.no_cuda
    arguments.device = "GPU" if is_cuda else "CPU"
    device = torch.device("cuda", hvd.local_rank()) if is_cuda else torch.device("cpu")
    if not is_cuda:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // hvd.local_size()))
    torch.manual_seed(hvd.rank())
    model = models.make(arguments.model).to(device)
    model, optimizer = with_ddp(model) if arguments.ddp else with_horovod(arguments, model, is_cuda)
    images = torch.randn(arguments.batch_size, 3, arguments.image_size, arguments.image_size, device=device)
    classes = torch.randint(1000, (arguments.batch_size,), device=device)

    def step():
        optimizer.zero_grad()
        functional.cross_entropy(model(images), classes).backward()
        optimizer.step()
        if is_cuda:
            torch.cuda.synchronize()

    say(f"Model: {arguments.model}")
    say(f"Batch size: {arguments.batch_size}")
    say(f"Number of {arguments.device}s: {hvd.size()}")
    speeds = measure(arguments, step)
    mean, spread = statistics.mean(speeds), 1.96 * statistics.pstdev(speeds)
    say(f"Img/sec per {arguments.device}: {mean:.1f} +-{spread:.1f}")
    say(f"Total img/sec on {hvd.size()} {arguments.device}(s): "
        f"{hvd.size() * mean:.1f} +-{hvd.size() * spread:.1f}")
    if arguments.ddp:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
