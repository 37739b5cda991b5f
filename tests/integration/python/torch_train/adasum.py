"""Checks that a DistributedOptimizer with Adasum counts backward passes as the others do."""
import copy

import torch
from checks import check, needs_adasum, raises
from training import perceptron

import horovod.torch as hvd


def _optimizer(passes=1, kind=torch.optim.SGD, **options):
    model = perceptron()
    optimizer = kind(model.parameters(), **(options or {"lr": 0.1}))
    return model, hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Adasum,
                                           backward_passes_per_step=passes)


def _backward(model):
    loss = model(torch.ones(2, 6)).sum()
    loss.backward()
    return loss


def _values(model):
    return [(parameter.detach().clone(), copy.deepcopy(parameter.grad)) for parameter in model.parameters()]


def _same(one, other):
    return all(torch.equal(a, b) for pair, with_pair in zip(one, other) for a, b in zip(pair, with_pair))


@check
def zero_grad_between_backward_and_step_is_an_assertion_error_with_adasum_too():
    needs_adasum()
    if hvd.size() == 1:
        return
    model, optimizer = _optimizer()
    _backward(model)
    before = _values(model)
    assert "zero_grad() between backward() and step()" in raises(AssertionError, optimizer.zero_grad)
    assert _same(before, _values(model))
    optimizer.step()
    assert not any(torch.equal(old, parameter) for (old, _), parameter in zip(before, model.parameters()))
    optimizer.zero_grad()
    assert model[0].weight.grad is None
    optimizer.zero_grad(set_to_none=False)


@check
def a_backward_pass_too_many_is_an_assertion_error_with_adasum_too():
    needs_adasum()
    if hvd.size() == 1:
        return
    for passes in (1, 3):
        model, optimizer = _optimizer(passes)
        for _ in range(2):
            for _ in range(passes):
                optimizer.zero_grad()  # may be called between passes, as long as the last one has not come
                _backward(model)
            text = raises(AssertionError, _backward, model)
            assert "computed once more before step()" in text and f"backward_passes_per_step={passes}" in text, text
            optimizer.step()
        optimizer.zero_grad()


@check
def with_adasum_counting_begins_anew_with_other_passes_and_other_state():
    needs_adasum()
    if hvd.size() == 1:
        return
    model, optimizer = _optimizer()
    _backward(model)
    optimizer.set_backward_passes_per_step(2)
    for _ in range(2):
        _backward(model)
    raises(AssertionError, _backward, model)
    raises(ValueError, optimizer.set_backward_passes_per_step, 0)
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    late = torch.nn.Parameter(torch.ones(2))
    optimizer.add_param_group({"params": [late]})
    optimizer.step()  # which counts the passes of a group that was added
    for _ in range(2):
        late.sum().backward()
    raises(AssertionError, optimizer.zero_grad)
    raises(AssertionError, late.sum().backward)
    optimizer.step()


@check
def a_step_at_a_number_of_ranks_without_adasum_moves_nothing():
    if hvd.size() & (hvd.size() - 1) == 0:
        return
    model, optimizer = _optimizer()
    _backward(model)
    before = _values(model)
    assert "non-power of 2" in raises(NotImplementedError, optimizer.step)
    assert _same(before, _values(model))


@check
def closures_make_as_many_passes_as_they_like_with_adasum():
    needs_adasum()
    model, optimizer = _optimizer(kind=torch.optim.LBFGS, lr=0.1, max_iter=4)
    calls = []

    def closure():
        optimizer.zero_grad()
        calls.append(_backward(model))
        return calls[-1]

    optimizer.step(closure)
    assert len(calls) > 1
    optimizer.zero_grad()
    _backward(model)
    optimizer.step(closure)  # what came before is given up
    optimizer.zero_grad()
