"""What the checks of training share: small networks, their batches, and comparisons."""
import torch

import horovod.torch as hvd


def close(one, other, tolerance=1e-5):
    """Whether two tensors are the same but for rounding."""
    assert one.shape == other.shape, (one.shape, other.shape)
    difference = (one.detach().double() - other.detach().double()).abs().max().item() if one.numel() else 0.0
    assert difference <= tolerance, f"they differ by {difference}"


def same_on_all_ranks(tensor):
    """Whether every rank has the same bits."""
    gathered = hvd.allgather(tensor.detach().reshape(1, -1).contiguous(), name="same")
    assert all(torch.equal(row, gathered[0]) for row in gathered), gathered


def reductions():
    """What a DistributedOptimizer can reduce with here."""
    return (hvd.Average,) if hvd.size() & (hvd.size() - 1) else (hvd.Average, hvd.Adasum)


def perceptron():
    """A small network, the same on every rank."""
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def convolution():
    """A network whose weights and gradients are not contiguous."""
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                               torch.nn.Linear(64, 3)).to(memory_format=torch.channels_last)


def batches(steps, shape=(6,), rows_of_a_rank=4):
    """The global batches of so many steps: [(inputs, targets)], the same on every rank."""
    generator = torch.Generator().manual_seed(3)
    rows = rows_of_a_rank * hvd.size()
    return [(torch.randn(rows, *shape, generator=generator), torch.randn(rows, 3, generator=generator))
            for _ in range(steps)]


def mine(tensor):
    """This rank's rows of a global batch."""
    return tensor[hvd.rank()::hvd.size()]


def train(model, optimizer, data, part=lambda tensor: tensor):
    """Trains on a part of each batch; the model."""
    for inputs, targets in data:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(part(inputs)), part(targets)).backward()
        optimizer.step()
    return model


def sgd(model, **options):
    """The optimizer of most checks."""
    return torch.optim.SGD(model.parameters(), **{"lr": 0.1, "momentum": 0.9, **options})


def same_parameters(one, other, tolerance=1e-5):
    """Whether two models have the same parameters but for rounding."""
    for mine_, its in zip(one.parameters(), other.parameters()):
        close(mine_, its, tolerance)


def trains_as_one_process(make_optimizer=sgd, make_model=perceptron, shape=(6,), tolerance=1e-5, **options):
    """Trains with all ranks and alone with the global batches: the parameters must be the same."""
    data = batches(4, shape)
    alone = make_model()
    train(alone, make_optimizer(alone), data)
    shared = make_model()
    options.setdefault("named_parameters", shared.named_parameters())
    groups = options.pop("make_groups", None)
    if groups is not None:
        options["groups"] = groups(shared)
    train(shared, hvd.DistributedOptimizer(make_optimizer(shared), **options), data, mine)
    same_parameters(shared, alone, tolerance)
    for parameter in shared.parameters():
        same_on_all_ranks(parameter)


def trains_clipped_as_one_process(**options):
    """Trains with gradients that are clipped between synchronize() and step(): the parameters must be those of one process."""
    data, alone, shared = batches(3), perceptron(), perceptron()
    lonely, optimizer = sgd(alone), hvd.DistributedOptimizer(sgd(shared), **options)
    for inputs, targets in data:
        lonely.zero_grad()
        torch.nn.functional.mse_loss(alone(inputs), targets).backward()
        torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.1)
        lonely.step()
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(shared(mine(inputs)), mine(targets)).backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(shared.parameters(), 0.1)
        with optimizer.skip_synchronize():
            optimizer.step()
    same_parameters(shared, alone)


def train_in_two_passes(model, optimizer, data, part=lambda tensor: tensor):
    """Trains on four batches, two for each step."""
    for first in (0, 2):
        optimizer.zero_grad()
        for inputs, targets in data[first:first + 2]:
            torch.nn.functional.mse_loss(model(part(inputs)), part(targets)).backward()
        optimizer.step()
