"""Gradients that are sparse on some ranks and missing or dense on others: the checks, run on every rank."""
import torch
from checks import check, raises
from training import close, same_on_all_ranks

import horovod.torch as hvd

WAYS = ({}, {"sparse_as_dense": True}, {"groups": 1}, {"sparse_as_dense": True, "groups": 1}, {"op": hvd.Sum},
        {"compression": hvd.Compression.fp16}, {"gradient_predivide_factor": 2.0})


def tables():
    """Two tables of words, which look up sparse or dense, and a layer above them: the same on every rank."""
    torch.manual_seed(5)
    return torch.nn.ParameterList([torch.randn(6, 2), torch.randn(5, 2), torch.randn(2, 1)])


def loss_of(model, kinds, rank):
    """What a rank learns from: of each table nothing, or a word of its own by a sparse or dense gradient."""
    looked_up = [torch.nn.functional.embedding(torch.tensor([rank % 4, 4]), table, sparse=kind == "sparse")
                 for table, kind in zip(model, kinds) if kind]
    return sum((words @ model[2]).square().sum() for words in looked_up) + 0 * model[2].sum()


def trains_as_one_process(kinds_of, make, **options):
    """Trains with kinds_of(rank, step) of gradients on each rank, and with dense ones alone."""
    shared, alone = tables(), tables()
    optimizer = hvd.DistributedOptimizer(make(shared.parameters()), shared.named_parameters(), **options)
    lonely = make(alone.parameters())
    divisor = 1 if options.get("op") == hvd.Sum else hvd.size()
    for step in range(3):
        optimizer.zero_grad()
        loss_of(shared, kinds_of(hvd.rank(), step), hvd.rank()).backward()
        optimizer.step()
        lonely.zero_grad()
        for parameter in alone:  # none of the ranks may have used it
            parameter.grad = torch.zeros_like(parameter)
        for rank in range(hvd.size()):
            kinds = ["dense" if kind else kind for kind in kinds_of(rank, step)]
            (loss_of(alone, kinds, rank) / divisor).backward()
        lonely.step()
        for mine, its in zip(shared, alone):
            close(mine, its, 0.02 if "compression" in options else 1e-5)
            if not options.get("sparse_as_dense"):  # optimizers round otherwise with the kind that a rank has
                same_on_all_ranks(mine)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def adagrad(parameters):
    return torch.optim.Adagrad(parameters, lr=0.1)


@check
def a_rank_that_never_had_a_gradient_gets_the_sparse_ones_of_others():
    for options in WAYS:
        trains_as_one_process(lambda rank, _: ["sparse" if rank == 0 else None] * 2, sgd, **options)
        trains_as_one_process(lambda rank, _: ["sparse" if rank == 0 else None, None if rank == 0 else "sparse"], sgd, **options)


@check
def gradients_that_are_sparse_on_one_rank_and_dense_on_another_add_up():
    for options in WAYS:
        trains_as_one_process(lambda rank, _: ["sparse" if rank == 0 else "dense", "dense" if rank == 0 else "sparse"], sgd,
                              **options)
        trains_as_one_process(lambda rank, _: ["dense", "sparse" if rank == hvd.size() - 1 else "dense"], sgd, **options)


@check
def gradients_that_change_their_kind_between_steps_add_up():
    kinds = ("sparse", None, "dense")
    for options in WAYS:
        for make in (sgd, adagrad):
            trains_as_one_process(lambda rank, step: [kinds[(rank + step) % 3], kinds[(rank + 2 * step) % 3]], make, **options)


@check
def passes_of_which_one_is_sparse_and_one_dense_add_up():
    shared = tables()
    optimizer = hvd.DistributedOptimizer(sgd(shared.parameters()), shared.named_parameters(), backward_passes_per_step=2,
                                         op=hvd.Sum)
    before = shared[0].detach().clone()
    for kind in ("sparse", "dense" if hvd.rank() == 0 else "sparse"):
        torch.nn.functional.embedding(torch.tensor([1]), shared[0], sparse=kind == "sparse").sum().backward()
    optimizer.step()
    close((before - shared[0])[1], torch.full((2,), 0.2 * hvd.size()))
    same_on_all_ranks(shared[0])


@check
def an_optimizer_of_sparse_gradients_gets_no_other():
    for options in ({}, {"sparse_as_dense": True}, {"groups": 1}, {"sparse_as_dense": True, "groups": 1}):
        for looks_up in (lambda: hvd.rank() == 0, lambda: False):
            table = torch.nn.Parameter(torch.ones(6, 2))
            optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam([table], lr=0.1), [("table", table)], **options)
            if looks_up():
                torch.nn.functional.embedding(torch.tensor([3]), table, sparse=True).sum().backward()
            optimizer.step() if hvd.size() > 1 or looks_up() else None
            assert table.grad is None or table.grad.is_sparse, options
            close(table.detach()[3], torch.full((2,), 1.0 if not torch.any(table != 1) else 0.9))
            same_on_all_ranks(table)


@check
def gradients_of_different_shapes_are_an_error_on_every_rank_and_training_goes_on():
    for options in ({}, {"groups": 1}, {"sparse_as_dense": True}):
        table = torch.nn.Parameter(torch.ones(4 + hvd.rank(), 2))
        optimizer = hvd.DistributedOptimizer(sgd([table]), [("table", table)], **options)
        for is_sparse in (False, True):
            torch.nn.functional.embedding(torch.tensor([3]), table, sparse=is_sparse).sum().backward()
            if hvd.size() > 1 and not (is_sparse and not options.get("sparse_as_dense")):
                assert "Mismatched" in raises(hvd.HorovodInternalError, optimizer.synchronize)
            else:
                optimizer.synchronize()
            optimizer.zero_grad()


@check
def a_reduction_that_sparse_gradients_have_not_is_an_error_on_every_rank():
    if hvd.size() == 1:
        return
    for options in ({}, {"groups": 1}):
        for kind in ("dense", None):
            table = torch.nn.Parameter(torch.ones(6, 2))
            optimizer = hvd.DistributedOptimizer(sgd([table]), [("table", table)], op=hvd.Max, **options)
            mine = "sparse" if hvd.rank() == 0 else kind

            def step(mine=mine, table=table, optimizer=optimizer):
                if mine:
                    torch.nn.functional.embedding(torch.tensor([3]), table, sparse=mine == "sparse").sum().backward()
                optimizer.step()

            text = raises((ValueError, RuntimeError), step)
            assert "averaged and summed only" in text, text
            hvd.barrier()
