"""Optimizers that are derived by hand, or from classes of one's own, and process sets that are not registered: the checks."""
import torch
from checks import check, needs_adasum, raises
from training import batches, mine, perceptron, same_on_all_ranks, same_parameters, sgd, train

import horovod.torch as hvd
from horovod.torch.optimizer import _DistributedAdasumOptimizer, _DistributedOptimizer


class Scaled(torch.optim.SGD):
    """SGD whose step takes an argument of its own."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, lr=lr)

    def step(self, closure=None, *, scale=1.0):
        """A step that is so much longer."""
        for group in self.param_groups:
            group["lr"] *= scale
        try:
            return super().step(closure)
        finally:
            for group in self.param_groups:
                group["lr"] /= scale


class Averaged(_DistributedOptimizer, Scaled):
    """As DistributedOptimizer would make it."""


class AdasumScaled(_DistributedAdasumOptimizer, Scaled):
    """Likewise, for Adasum."""


@check
def a_class_derived_by_hand_trains_too():
    options = ({}, {"op": hvd.Average, "gradient_predivide_factor": 2.0}, {"groups": 2}, {"sparse_as_dense": True}, {"flat_gradients": True},
               {"backward_passes_per_step": 2}, {"process_set": hvd.global_process_set})
    for chosen in options:
        data, alone, shared = batches(2), perceptron(), perceptron()
        train(alone, Scaled(alone.parameters()), data)
        optimizer = Averaged(shared.parameters(), shared.named_parameters(), hvd.Compression.none, **chosen)
        train(shared, optimizer, data, mine)
        same_parameters(shared, alone)
        assert optimizer.backward_passes_per_step == chosen.get("backward_passes_per_step", 1)
    shared = perceptron()
    total = Averaged(shared.parameters(), shared.named_parameters(), hvd.Compression.none, op=hvd.Sum)
    shared(torch.ones(1, 6)).sum().backward()
    total.step()
    assert torch.equal(shared[2].bias.grad, torch.full((3,), float(hvd.size())))


@check
def hooks_may_be_registered_by_hand_and_by_a_derived_class():
    class Counted(Averaged):
        calls = 0

        def _register_hooks(self):
            self.calls += 1
            super()._register_hooks()

    model, more = perceptron(), torch.nn.Linear(3, 2)
    optimizer = Counted(model.parameters(), model.named_parameters(), hvd.Compression.none)
    assert optimizer.calls == 1
    hvd.broadcast_parameters(more.state_dict(), 0)
    optimizer.add_param_group({"params": list(more.parameters())})
    optimizer._register_hooks()
    more(model(torch.full((1, 6), float(hvd.rank())))).sum().backward()
    optimizer.step()
    same_on_all_ranks(more.weight)
    same_on_all_ranks(model[0].weight)
    alone = perceptron()
    adasum = AdasumScaled(alone.parameters(), alone.named_parameters(), hvd.Compression.none)
    assert adasum._register_hooks() is None


@check
def a_derived_class_that_overrides_what_nothing_calls_is_refused():
    for name in ("_make_hook", "_allreduce_grad_async", "_grouped_allreduce_grad_async", "_sparse_allreduce_grad_async"):
        other = type("Other", (Averaged,), {name: lambda self, p: None})
        model = perceptron()
        text = raises(NotImplementedError, other, model.parameters(), model.named_parameters(), hvd.Compression.none)
        assert f"Other.{name} would not be called" in text, text

    class Own(torch.optim.SGD):
        def _make_hook(self):
            """What the wrapped optimizer has under such a name is its own."""

    hvd.DistributedOptimizer(Own(perceptron().parameters(), lr=0.1))


@check
def a_step_passes_on_what_the_wrapped_one_takes():
    data, alone, shared = batches(2), perceptron(), perceptron()
    lonely, optimizer = Scaled(alone.parameters()), hvd.DistributedOptimizer(Scaled(shared.parameters()))
    for model, one, part in ((alone, lonely, lambda t: t), (shared, optimizer, mine)):
        for inputs, targets in data:
            one.zero_grad(set_to_none=False)
            torch.nn.functional.mse_loss(model(part(inputs)), part(targets)).backward()
            one.step(scale=2.0)
    same_parameters(shared, alone)
    optimizer.load_state_dict(state_dict=lonely.state_dict())
    train(shared, optimizer, data, mine)
    train(alone, lonely, data)
    same_parameters(shared, alone)


@check
def adasum_takes_closures_and_what_the_wrapped_step_takes():
    needs_adasum()
    inputs, targets = torch.ones(4, 6), torch.ones(4, 3)
    alone, shared = perceptron(), perceptron()
    optimizers = ((alone, Scaled(alone.parameters())),
                  (shared, AdasumScaled(shared.parameters(), shared.named_parameters(), hvd.Compression.none, 1)))
    for model, one in optimizers:
        one.zero_grad(set_to_none=False)

        def closure(model=model, one=one):
            one.zero_grad(False)
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            return loss

        assert one.step(closure, scale=2.0) is not None
        closure()
        one.step()
    same_parameters(shared, alone, 1e-4)  # Adasum of the same steps is that step
    for parameter in shared.parameters():
        same_on_all_ranks(parameter)
    optimizer = optimizers[1][1]
    optimizer.synchronize()
    optimizer.set_backward_passes_per_step(3)
    assert optimizer.backward_passes_per_step == 3
    assert "step() itself reduces" in raises(AssertionError, optimizer.skip_synchronize)


@check
def adasum_has_a_constructor_with_passes():
    needs_adasum()
    model = perceptron()
    optimizer = AdasumScaled(model.parameters(), model.named_parameters(), hvd.Compression.fp16, backward_passes_per_step=2)
    assert optimizer.backward_passes_per_step == 2
    for inputs, targets in batches(2):
        torch.nn.functional.mse_loss(model(mine(inputs)), mine(targets)).backward()
    optimizer.step()
    for parameter in model.parameters():
        same_on_all_ranks(parameter)


@check
def names_that_are_there_twice_are_found():
    assert _DistributedOptimizer.find_duplicates(["a", "b", "a", "c", "b"]) == {"a", "b"}
    assert _DistributedOptimizer.find_duplicates([]) == set()


@check
def a_process_set_that_is_not_registered_is_refused_and_nothing_trains_alone():
    model = perceptron()
    unknown = hvd.ProcessSet([0])
    text = raises(ValueError, hvd.DistributedOptimizer, sgd(model), process_set=unknown)
    assert "is not registered" in text, text
    raises(ValueError, Averaged, model.parameters(), None, hvd.Compression.none, process_set=unknown)
    if hvd.size() > 1:
        gone = hvd.add_process_set(range(1, hvd.size()))
        optimizer = hvd.DistributedOptimizer(sgd(model), process_set=gone)
        hvd.remove_process_set(gone)
        assert "is not registered" in raises(ValueError, optimizer.step)
