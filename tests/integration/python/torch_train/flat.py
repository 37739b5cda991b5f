"""Gradients that share memory, DistributedOptimizer(flat_gradients=True): the checks, run on every rank."""
import contextlib
import copy

import torch
from agreement import distributed, last
from checks import check, raises
from training import (batches, close, convolution, mine, perceptron, same_on_all_ranks, same_parameters, sgd, train,
                      train_in_two_passes, trains_as_one_process, trains_clipped_as_one_process)

import horovod.torch as hvd
from horovod.torch import buckets


def flat(model, **options):
    """An optimizer of all that the model has, with flat gradients."""
    return distributed(model, flat_gradients=True, **options)


def memories(model):
    """How many memories the gradients have."""
    return len({parameter.grad.untyped_storage().data_ptr() for parameter in model.parameters()})


@contextlib.contextmanager
def small_memories(n_bytes):
    """In its body memories end after so many bytes."""
    before, buckets.FLAT_BYTES = buckets.FLAT_BYTES, n_bytes
    try:
        yield
    finally:
        buckets.FLAT_BYTES = before


@check
def flat_gradients_train_as_in_one_process():
    trains_as_one_process(flat_gradients=True)
    trains_as_one_process(flat_gradients=True, named_parameters=None)
    trains_as_one_process(flat_gradients=True, gradient_predivide_factor=2.0)
    trains_as_one_process(flat_gradients=True, compression=hvd.Compression.fp16, tolerance=5e-3)
    trains_as_one_process(lambda model: torch.optim.Adam(model.parameters(), lr=0.01), tolerance=1e-4, flat_gradients=True)
    trains_as_one_process(make_model=convolution, shape=(3, 6, 6), flat_gradients=True)


@check
def flat_gradients_of_one_rank_or_two_have_the_bits_of_others():
    trained = []
    for options in ({}, {"flat_gradients": True}):
        model = perceptron()
        train(model, distributed(model, **options), batches(3), mine)
        trained.append(list(model.parameters()))
    if hvd.size() < 3:  # sums of two do not depend on the order
        assert all(map(torch.equal, *trained)), trained
    else:
        for one, other in zip(*trained):
            close(one, other)


@check
def gradients_are_views_of_few_memories_and_zeros_between_steps():
    for n_bytes, n in ((buckets.FLAT_BYTES, 1), (1, 4), (100, 2)):
        with small_memories(n_bytes):
            model = perceptron()
            optimizer = flat(model)
            train(model, optimizer, batches(2), mine)
            assert memories(model) == n, (n_bytes, memories(model))
            for set_to_none in (True, False):
                optimizer.zero_grad(set_to_none=set_to_none)
                assert memories(model) == n and not any(parameter.grad.any() for parameter in model.parameters())
            for parameter in model.parameters():
                assert parameter.grad.is_contiguous() and parameter.grad.data_ptr() % 64 == 0
    with small_memories(100):
        trains_as_one_process(flat_gradients=True)


@check
def parameters_of_two_types_and_without_elements_train_too():
    class Mixed(torch.nn.Module):
        """Some parameters are wide, one is empty, one is not contiguous."""

        def __init__(self):
            super().__init__()
            self.narrow, self.wide = perceptron(), torch.nn.Linear(3, 3).double()
            self.empty = torch.nn.Parameter(torch.zeros(0, 3))
            self.turned = torch.nn.Parameter(torch.ones(4, 3).t())

        def forward(self, inputs):
            """The wide result, narrowed."""
            return (self.wide(self.narrow(inputs).double()).float() @ self.turned @ self.turned.t()) + self.empty.sum()

    torch.manual_seed(2)
    model = Mixed()
    trains_as_one_process(make_model=lambda: copy.deepcopy(model), tolerance=1e-4, flat_gradients=True,
                          make_optimizer=lambda model: sgd(model, lr=0.01))


@check
def gradients_that_a_script_drops_or_replaces_are_taken_in():
    data, alone, shared = batches(4), perceptron(), perceptron()
    lonely, optimizer = sgd(alone), flat(shared)
    for model, one, part in ((alone, lonely, lambda tensor: tensor), (shared, optimizer, mine)):
        for step, (inputs, targets) in enumerate(data):
            model.zero_grad()  # to None: backward makes new ones
            if step == 2:
                for parameter in model.parameters():
                    parameter.grad = torch.zeros_like(parameter)
            torch.nn.functional.mse_loss(model(part(inputs)), part(targets)).backward(create_graph=step == 3)
            one.step()
    same_parameters(shared, alone)
    assert hvd.size() == 1 or memories(shared) == 1


@check
def flat_gradients_can_be_clipped_and_scaled_before_the_step():
    trains_clipped_as_one_process(flat_gradients=True)


@check
def several_passes_add_up_in_the_memory():
    data, alone, shared = batches(4), perceptron(), perceptron()
    train_in_two_passes(alone, sgd(alone), data)
    train_in_two_passes(shared, flat(shared, backward_passes_per_step=2), data, mine)
    same_parameters(shared, alone)


@check
def a_parameter_that_some_ranks_do_not_use_counts_as_zeros_there():
    for set_to_none in (True, False):
        model = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(1.0)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), op=hvd.Sum,
                                             flat_gradients=True)
        for _ in range(2):  # the second pass finds what the first left
            optimizer.zero_grad(set_to_none=set_to_none)
            model[last()](torch.ones(1, 2)).sum().backward()
            optimizer.step()
        n_last = 1 if hvd.size() > 1 else 0
        close(model[1].bias, torch.full((2,), 1.0 - 2 * n_last))
        close(model[0].bias, torch.full((2,), 1.0 - 2 * (hvd.size() - n_last)))


@check
def sparse_gradients_become_dense():
    for drop in (False, True):
        torch.manual_seed(4)
        model = torch.nn.Embedding(6, 3, sparse=True)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), op=hvd.Sum,
                                             flat_gradients=True)
        before = model.weight.detach().clone()
        if drop:
            model.zero_grad()
        model(torch.tensor([0, hvd.rank() % 5 + 1])).sum().backward()
        optimizer.step()
        if hvd.size() > 1:
            assert not model.weight.grad.is_sparse
        change = before - model.weight
        close(change[0], torch.full((3,), float(hvd.size())))
        same_on_all_ranks(model.weight)


@check
def a_parameter_that_is_frozen_later_keeps_its_value():
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model, weight_decay=0.1, momentum=0.0), model.named_parameters(), flat_gradients=True)
    train(model, optimizer, batches(1), mine)
    model[0].weight.requires_grad_(False)
    before, other = model[0].weight.clone(), model[2].weight.detach().clone()
    train(model, optimizer, batches(2), mine)
    assert torch.equal(before, model[0].weight) and not torch.equal(other, model[2].weight)
    model[0].weight.requires_grad_(True)
    train(model, optimizer, batches(2), mine)
    assert not torch.equal(before, model[0].weight)
    for parameter in model.parameters():
        same_on_all_ranks(parameter)


@check
def an_added_group_is_reduced_beside_the_memory():
    data, alone, shared = batches(3), perceptron(), perceptron()
    lonely, more = torch.optim.SGD(alone[0].parameters(), lr=0.1), {"params": list(alone[2].parameters())}
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(shared[0].parameters(), lr=0.1), flat_gradients=True)
    train(alone, lonely, data[:1])
    train(shared, optimizer, data[:1], mine)
    alone.zero_grad()
    shared.zero_grad()
    lonely.add_param_group(more)
    optimizer.add_param_group({"params": list(shared[2].parameters())})
    train(alone, lonely, data)
    train(shared, optimizer, data, mine)
    same_parameters(shared, alone)


@check
def a_model_may_be_converted_after_the_optimizer_was_made():
    for is_used, forget in ((False, False), (True, False), (True, True)):
        alone, shared = perceptron(), perceptron()
        lonely = sgd(alone, momentum=0.0)
        optimizer = hvd.DistributedOptimizer(sgd(shared, momentum=0.0), shared.named_parameters(), flat_gradients=True)
        data = batches(2)
        if is_used:
            train(alone, lonely, data)
            train(shared, optimizer, data, mine)
        alone.double()
        shared.double()
        if forget:
            for parameter in shared.parameters():
                parameter.grad = None
        wide = [(inputs.double(), targets.double()) for inputs, targets in data]
        train(alone, lonely, wide)
        train(shared, optimizer, wide, mine)
        same_parameters(shared, alone)
        assert hvd.size() == 1 or {parameter.grad.dtype for parameter in shared.parameters()} == {torch.float64}
    model = perceptron()
    optimizer = flat(model)
    model[0].double()
    assert "different types or devices now" in raises(ValueError, optimizer.zero_grad)


@check
def data_of_gradients_may_be_replaced():
    data, alone, shared = batches(3), perceptron(), perceptron()
    lonely, optimizer = sgd(alone), flat(shared)
    train(alone, lonely, data)
    for inputs, targets in data:
        optimizer.zero_grad()
        for parameter in shared.parameters():
            parameter.grad.data = torch.zeros_like(parameter)
        torch.nn.functional.mse_loss(shared(mine(inputs)), mine(targets)).backward()
        optimizer.step()
    same_parameters(shared, alone)


@check
def a_deep_copy_has_a_memory_of_its_own():
    model = perceptron()
    optimizer = flat(model)
    train(model, optimizer, batches(2), mine)
    its_model, its = copy.deepcopy((model, optimizer))
    assert its.flat_gradients
    train(model, optimizer, batches(3), mine)
    train(its_model, its, batches(3), mine)
    same_parameters(model, its_model)
    assert model[0].weight.grad.untyped_storage().data_ptr() != its_model[0].weight.grad.untyped_storage().data_ptr()


@check
def zero_grad_between_backward_and_step_is_refused_and_none_reported():
    model = perceptron()
    optimizer = flat(model)
    model(torch.ones(1, 6)).sum().backward()
    if hvd.size() > 1:
        raises(AssertionError, optimizer.zero_grad)
        model.zero_grad()
        assert "was set to None between backward() and step()" in raises(ValueError, optimizer.step)
    train(model, optimizer, batches(1), mine)
    for parameter in model.parameters():
        same_on_all_ranks(parameter)


@check
def what_flat_gradients_cannot_have_is_a_value_error():
    model = perceptron()
    assert "leave out groups" in raises(ValueError, flat, model, groups=2)
    assert "not for Adasum" in raises(ValueError, flat, model, op=hvd.Adasum)
    sparse = torch.optim.SparseAdam(torch.nn.Embedding(3, 2, sparse=True).parameters())
    assert "dense gradients" in raises(ValueError, hvd.DistributedOptimizer, sparse, flat_gradients=True)


@check
def ranks_that_freeze_different_parameters_are_told_with_flat_gradients():
    if hvd.size() == 1:
        return
    end = hvd.size() - 1
    model = perceptron()
    model[0].bias.requires_grad_(not last())
    text = raises(ValueError, flat, model)
    assert text == (f"flat_gradients: rank 0 trains 4 parameters, rank {end} trains 3: 0.bias is frozen on rank {end}. Every rank has "
                    "to give DistributedOptimizer the same flat_gradients of the same parameters."), text
    model = perceptron()
    text = raises(ValueError, distributed, model, **({"groups": 1} if last() else {"flat_gradients": True}))
    assert f"rank 0 has flat_gradients, rank {end} groups" in text, text
    trains_as_one_process(flat_gradients=True)
