"""broadcast_parameters, broadcast_optimizer_state and objects: the checks, run on every rank."""
import torch
from checks import check, only_the_last_refuses, raises
from training import batches, perceptron, same_on_all_ranks, sgd, train

import horovod.torch as hvd


def of_this_rank():
    """A network that is another on every rank, with every kind of tensor that a model may have."""
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
    model[1].num_batches_tracked.fill_(hvd.rank() + 5)
    model[2].to(torch.bfloat16)
    model.register_buffer("flags", torch.tensor([hvd.rank() == hvd.size() - 1, True]))
    model.register_buffer("nothing", torch.empty(0))
    return model


def as_numbers(model):
    """All of a model's state in one tensor."""
    return torch.cat([tensor.double().flatten() for tensor in model.state_dict().values()])


@check
def a_state_dict_becomes_the_roots():
    for root in {0, hvd.size() - 1}:
        model = of_this_rank()
        before = as_numbers(model)
        hvd.broadcast_parameters(model.state_dict(), root_rank=root)
        same_on_all_ranks(as_numbers(model))
        assert hvd.rank() != root or torch.equal(before, as_numbers(model))


@check
def named_parameters_and_lists_become_the_roots():
    for params_of in (lambda model: model.named_parameters(), lambda model: list(model.named_parameters()),
                      lambda model: list(model.parameters()), lambda model: model.parameters()):
        model = of_this_rank()
        hvd.broadcast_parameters(params_of(model), root_rank=0)
        for parameter in model.parameters():
            same_on_all_ranks(parameter.double())


@check
def what_is_no_parameters_is_a_value_error():
    for wrong in (None, 3, "model", torch.ones(2)):
        raises(ValueError, hvd.broadcast_parameters, wrong, 0)
    assert "epoch" in raises(ValueError, hvd.broadcast_parameters, {"epoch": 3}, 0)


def optimizers():
    """One of each kind whose state differs."""
    for make in (sgd, lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
                 lambda m: torch.optim.Adam(m.parameters(), lr=0.1, amsgrad=True),
                 lambda m: torch.optim.AdamW([{"params": m[0].parameters(), "lr": 0.3},
                                              {"params": m[2].parameters()}], lr=torch.tensor(0.1)),
                 lambda m: torch.optim.RMSprop(m.parameters(), centered=True),
                 lambda m: torch.optim.Adagrad(m.parameters()),
                 lambda m: torch.optim.Adadelta(m.parameters()),
                 lambda m: torch.optim.NAdam(m.parameters()),
                 lambda m: torch.optim.Rprop(m.parameters())):
        yield make


def numbers_of(optimizer):
    """The state and options of an optimizer, comparable with those of another rank."""
    return repr(optimizer.state_dict())


@check
def optimizer_state_becomes_the_roots_whoever_has_any():
    for make in optimizers():
        for has_state in (lambda: True, lambda: hvd.rank() == 0, lambda: hvd.rank() != 0):
            model = perceptron()
            optimizer = make(model)
            optimizer.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"] * (hvd.rank() + 1)
            if has_state():
                train(model, optimizer, batches(hvd.rank() + 1))
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            texts = hvd.allgather_object(numbers_of(optimizer))
            assert set(texts) == {texts[0]}, texts
            hvd.broadcast_parameters(model.state_dict(), root_rank=0)
            train(model, hvd.DistributedOptimizer(optimizer), batches(1))
            for parameter in model.parameters():
                same_on_all_ranks(parameter)


@check
def to_broadcast_an_optimizers_state_changes_no_parameter():
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model, weight_decay=0.5))
    before = as_numbers(model)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=model)
    assert torch.equal(before, as_numbers(model)) and not optimizer.state


@check
def an_optimizer_without_state_has_gradients_of_zeros_behind_it():
    for options in ({}, {"sparse": True}):
        frozen = torch.nn.Parameter(torch.ones(2, dtype=torch.int32), requires_grad=False)
        free, other = torch.nn.Parameter(torch.randn(4, 2)), torch.nn.Parameter(torch.randn(2, 2))
        other.grad = torch.full((2, 2), 3.0) if not options else torch.full((2, 2), 3.0).to_sparse(1)
        if options:
            optimizer = torch.optim.SparseAdam([free, other], lr=0.1)
        else:
            optimizer = torch.optim.SGD([frozen, free, other], lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True)
        optimizer = hvd.DistributedOptimizer(optimizer)
        before = free.detach().clone()
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        assert frozen.grad is None and other.grad.is_sparse == bool(options) == free.grad.is_sparse
        assert torch.equal(before, free) and other.grad.to_dense().tolist() == [[3.0] * 2] * 2
        zeros = free.grad.to_dense()
        assert not zeros.any() and torch.equal(hvd.broadcast(zeros, root_rank=0), zeros)
        optimizer.zero_grad()


def kinds_of_optimizers():
    """Every class of torch.optim whose state can be sent."""
    optim = torch.optim
    return [kind for name, kind in sorted(vars(optim).items())
            if isinstance(kind, type) and issubclass(kind, optim.Optimizer) and kind not in (optim.Optimizer, optim.LBFGS)]


@check
def every_optimizer_of_torch_takes_over_the_roots_state_whoever_has_any():
    for kind in kinds_of_optimizers():
        is_sparse = kind is torch.optim.SparseAdam
        for has_state in (hvd.rank() == 0, hvd.rank() != 0, False, True):
            table = torch.nn.Parameter(torch.ones(4, 2))
            optimizer = kind([table], lr=0.1 * (hvd.rank() + 1))
            for is_taken_over in (False, True):
                if is_taken_over:
                    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
                    texts = hvd.allgather_object(numbers_of(optimizer))
                    assert set(texts) == {texts[0]}, texts
                    hvd.broadcast_parameters([table], root_rank=0)
                if is_taken_over or has_state:
                    optimizer.zero_grad()
                    rows = torch.tensor([3 if is_taken_over else hvd.rank() % 4])
                    torch.nn.functional.embedding(rows, table, sparse=is_sparse).square().sum().backward()
                    optimizer.step()
            same_on_all_ranks(table)


@check
def nothing_can_be_broadcast_and_gathered():
    for nothing in ({}, [], iter(()), {"none": None}, torch.nn.Module().state_dict()):
        hvd.broadcast_parameters(nothing, root_rank=0)
    for nothing in (None, {}, b"", torch.empty(0)):
        assert type(hvd.broadcast_object(nothing if hvd.rank() == 0 else 1, root_rank=0)) is type(nothing)
        assert len(hvd.allgather_object(nothing)) == hvd.size()


@check
def the_state_of_lbfgs_is_refused():
    optimizer = torch.optim.LBFGS(perceptron().parameters())
    assert "LBFGS" in raises(ValueError, hvd.broadcast_optimizer_state, optimizer, 0)


@check
def objects_become_the_roots():
    for root in {0, hvd.size() - 1}:
        mine = {"rank": hvd.rank(), "list": [1, "two", None], "big": "x" * (100000 * (hvd.rank() + 1))}
        received = hvd.broadcast_object(mine, root_rank=root)
        assert received["rank"] == root and len(received["big"]) == 100000 * (root + 1)
        received = hvd.broadcast_object(mine if hvd.rank() == root else None, root, name="mine")
        assert received["list"] == [1, "two", None]
        close_to = hvd.broadcast_object(torch.ones(3, dtype=torch.bfloat16), root)
        assert close_to.dtype == torch.bfloat16


@check
def objects_are_gathered_in_the_order_of_the_ranks():
    gathered = hvd.allgather_object({"rank": hvd.rank(), "text": "x" * hvd.rank()})
    assert gathered == [{"rank": r, "text": "x" * r} for r in range(hvd.size())], gathered
    assert hvd.allgather_object(None, name="none") == [None] * hvd.size()


@check
def a_root_that_is_no_rank_is_refused_everywhere():
    for root in (hvd.size(), -1):
        assert "invalid root rank" in raises(ValueError, hvd.broadcast_object, "never", root_rank=root)
        assert "invalid root rank" in raises(ValueError, hvd.broadcast_parameters, perceptron().state_dict(), root)
        assert "invalid root rank" in raises(ValueError, hvd.broadcast_optimizer_state, sgd(perceptron()), root)
    assert hvd.broadcast_object("the next", root_rank=0) == "the next"


@check
def optimizer_state_may_be_of_any_kind():
    class Odd(torch.optim.SGD):
        """Keeps what no optimizer of PyTorch keeps."""

    model = perceptron()
    optimizer = Odd(model.parameters(), lr=0.1)
    weight, bias = model[0].weight, model[0].bias
    if hvd.rank() == 0:
        optimizer.param_groups[0]["betas"], optimizer.param_groups[0]["schedule"] = (0.5, 0.75), {"warm": [1, None]}
        optimizer.state[weight] = {
            "nothing": None, "word": "größe", "places": (3, [4.5]), "flags": torch.tensor([True, False]),
            "count": torch.tensor(7, dtype=torch.int64), "half": torch.ones(2, 3, dtype=torch.bfloat16),
            "empty": torch.empty(0, 2), "strided": torch.arange(6.0).reshape(2, 3).t()}
    else:  # of other types and shapes, and what the root has not
        optimizer.param_groups[0]["leftover"] = 1
        optimizer.state[weight] = {"half": torch.zeros(5), "word": torch.zeros(2), "mine": torch.zeros(3)}
        optimizer.state[bias] = {"mine": 1}
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    state, group = optimizer.state[weight], optimizer.param_groups[0]
    assert (group["betas"], group["schedule"], "leftover" in group) == ((0.5, 0.75), {"warm": [1, None]}, False)
    assert group["params"][0] is weight and list(optimizer.state) == [weight]
    assert sorted(state) == ["count", "empty", "flags", "half", "nothing", "places", "strided", "word"], state
    assert (state["nothing"], state["word"], state["places"]) == (None, "größe", (3, [4.5]))
    assert state["flags"].tolist() == [True, False] and state["count"].tolist() == 7 and state["count"].dim() == 0
    assert state["half"].dtype == torch.bfloat16 and state["half"].tolist() == [[1.0] * 3] * 2
    assert state["empty"].shape == (0, 2) and state["strided"].tolist() == [[0, 3], [1, 4], [2, 5]]


@check
def optimizers_that_differ_between_ranks_are_told_apart():
    if hvd.size() == 1:
        return
    model = perceptron()
    optimizer = torch.optim.SGD(list(model.parameters())[hvd.rank() == 0:], lr=0.1)
    if hvd.rank() == 0:  # the others raise before any tensor, of which this one has none
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    else:
        assert "the optimizers differ between ranks" in raises(ValueError, hvd.broadcast_optimizer_state, optimizer, 0)


@check
def objects_of_a_process_set_stay_in_it():
    if hvd.size() == 1:
        return
    some = hvd.add_process_set(range(1, hvd.size()))
    if some.included():
        assert hvd.broadcast_object(hvd.rank(), root_rank=1, process_set=some) == 1
    hvd.remove_process_set(some)


@check
def an_object_that_one_rank_cannot_pickle_fails_on_the_others():
    last = hvd.size() - 1
    words = "generator"
    only_the_last_refuses(words, "allgather.allgather_object.size", lambda: hvd.allgather_object((n for n in [1])),
                          lambda: hvd.allgather_object(1))
    only_the_last_refuses(words, "broadcast.thing.size", lambda: hvd.broadcast_object((n for n in [1]), last, "thing"),
                          lambda: hvd.broadcast_object(None, last, "thing"))
    assert hvd.allgather_object(1) == [1] * hvd.size()


@check
def parameters_that_one_rank_does_not_take_fail_on_the_others():
    good = {"a": torch.ones(2), "b": torch.ones(2)}
    only_the_last_refuses("broadcast_parameters takes tensors; a is of <class 'int'>", "broadcast.a",
                          lambda: hvd.broadcast_parameters({**good, "a": 1}, 0), lambda: hvd.broadcast_parameters(good, 0))
    optimizer = sgd(perceptron())
    for parameter in optimizer.param_groups[0]["params"]:
        optimizer.state[parameter] = {"momentum_buffer": torch.ones_like(parameter)}
    other = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    if hvd.size() > 1:
        only_the_last_refuses("the optimizers differ between ranks", "broadcast.optimizer_state.",
                              lambda: hvd.broadcast_optimizer_state(other, 0),
                              lambda: hvd.broadcast_optimizer_state(optimizer, 0))
    hvd.broadcast_parameters(good, 0)


class _WithoutGroups:
    """An optimizer whose parameters cannot be read."""
    state = {1: {}}

    @property
    def param_groups(self):
        raise LookupError("no groups here")


@check
def an_optimizer_that_one_rank_cannot_read_fails_on_the_others():
    good = sgd(perceptron())
    lbfgs = torch.optim.LBFGS(perceptron().parameters())
    for wrong, words in ((None, "'NoneType' object has no attribute"), (lbfgs, "LBFGS"), (_WithoutGroups(), "no groups here")):
        for root in (0, hvd.size() - 1):  # the rank that refuses receives or sends
            only_the_last_refuses(words, "broadcast.optimizer_state.size",
                                  lambda wrong=wrong, root=root: hvd.broadcast_optimizer_state(wrong, root),
                                  lambda root=root: hvd.broadcast_optimizer_state(good, root))
    hvd.broadcast_optimizer_state(good, 0)


@check
def an_object_that_cannot_be_pickled_is_the_callers_error():
    raises((TypeError, AttributeError, ValueError), hvd.allgather_object, (n for n in [1]))
    assert hvd.allgather_object(1) == [1] * hvd.size()
