"""DistributedOptimizer: the checks, run on every rank."""
import copy
import gc
import warnings

import torch
from checks import check, needs_adasum, raises
from training import (batches, close, convolution, mine, perceptron, reductions, same_on_all_ranks, same_parameters, sgd,
                      train, train_in_two_passes, trains_as_one_process, trains_clipped_as_one_process)

import horovod.torch as hvd


@check
def training_equals_that_of_one_process():
    trains_as_one_process()


@check
def training_without_names_equals_that_of_one_process():
    trains_as_one_process(named_parameters=None)


@check
def every_optimizer_of_torch_trains_as_in_one_process():
    for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad):
        trains_as_one_process(lambda model, kind=kind: kind(model.parameters(), lr=0.01), tolerance=1e-4)


@check
def gradients_in_groups_train_as_in_one_process():
    for n_groups in (1, 2, 3, 100):
        trains_as_one_process(groups=n_groups)
    trains_as_one_process(make_groups=lambda model: [[model[0].weight, model[2].bias], [model[0].bias]])


@check
def num_groups_still_works_and_warns():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trains_as_one_process(num_groups=2)
    assert any(w.category is DeprecationWarning and "num_groups" in str(w.message) for w in caught), caught


@check
def predivided_gradients_train_as_in_one_process():
    trains_as_one_process(gradient_predivide_factor=2.0)
    trains_as_one_process(gradient_predivide_factor=float(hvd.size()))


@check
def sums_of_gradients_train_as_averages_with_a_smaller_rate():
    data, alone, shared = batches(3), perceptron(), perceptron()
    train(alone, sgd(alone, lr=0.1), data)
    train(shared, hvd.DistributedOptimizer(sgd(shared, lr=0.1 / hvd.size()), op=hvd.Sum), data, mine)
    same_parameters(shared, alone)


@check
def compressed_gradients_train_nearly_as_in_one_process():
    trains_as_one_process(compression=hvd.Compression.fp16, tolerance=5e-3)


@check
def compressed_groups_have_the_bits_of_compressed_gradients():
    """Also of gradients that are not contiguous, and of two types."""
    trained = []
    for groups in (None, 1, 3):
        torch.manual_seed(5)
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16, 5))
        model = model.to(memory_format=torch.channels_last)
        model[3].double()
        optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters(), compression=hvd.Compression.fp16,
                                             groups=groups)
        torch.manual_seed(hvd.rank())
        for _ in range(3):
            optimizer.zero_grad()
            features = model[2](model[1](model[0](torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last))))
            model[3](features.double()).square().sum().backward()
            optimizer.step()
        trained.append([parameter.detach().clone() for parameter in model.parameters()])
    for other in trained[1:]:
        assert all(map(torch.equal, trained[0], other)), (trained[0], other)


@check
def gradients_that_are_not_contiguous_train_as_in_one_process():
    trains_as_one_process(make_model=convolution, shape=(3, 6, 6))
    trains_as_one_process(make_model=convolution, shape=(3, 6, 6), groups=2)


@check
def gradients_are_reduced_while_backward_runs():
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, tensor):
            return tensor.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(optimizer._gradients.is_pending())
            return gradient

    first, last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    model = torch.nn.ModuleList([first, last])
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    last(Look.apply(first(torch.ones(2, 4)))).sum().backward()
    optimizer.step()
    assert seen == [hvd.size() > 1], seen


@check
def passes_add_up_before_gradients_are_reduced():
    data, alone, shared = batches(4), perceptron(), perceptron()
    lonely = sgd(alone)
    optimizer = hvd.DistributedOptimizer(sgd(shared), named_parameters=shared.named_parameters(),
                                         backward_passes_per_step=2)
    train_in_two_passes(alone, lonely, data)
    train_in_two_passes(shared, optimizer, data, mine)
    same_parameters(shared, alone)
    optimizer.set_backward_passes_per_step(1)
    assert optimizer.backward_passes_per_step == 1
    train(shared, optimizer, data, mine)
    train(alone, lonely, data)
    same_parameters(shared, alone)


@check
def a_step_before_the_last_pass_reduces_what_there_is():
    data, alone, shared = batches(2), perceptron(), perceptron()
    train(alone, sgd(alone), data)
    train(shared, hvd.DistributedOptimizer(sgd(shared), backward_passes_per_step=3), data, mine)
    same_parameters(shared, alone)


@check
def a_backward_pass_too_many_is_an_assertion_error_and_training_goes_on():
    if hvd.size() == 1:
        return
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    model(torch.ones(2, 6)).sum().backward()
    text = raises(AssertionError, lambda: model(torch.ones(2, 6)).sum().backward())
    assert "backward_passes_per_step" in text, text
    optimizer.synchronize()  # what the second pass added while it was reduced may differ
    train(model, optimizer, batches(2), mine)
    for parameter in model.parameters():
        same_on_all_ranks(parameter)


@check
def zero_grad_while_gradients_are_reduced_is_an_assertion_error():
    if hvd.size() == 1:
        return
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    model(torch.ones(2, 6)).sum().backward()
    assert "step()" in raises(AssertionError, optimizer.zero_grad)
    optimizer.step()
    optimizer.zero_grad()
    assert model[0].weight.grad is None
    optimizer.zero_grad(set_to_none=False)


@check
def what_is_wrong_with_the_arguments_is_a_value_error():
    model = perceptron()
    named = list(model.named_parameters())

    def refused(**options):
        return raises(ValueError, hvd.DistributedOptimizer, sgd(model), **options)

    assert "pairs" in refused(named_parameters=list(model.parameters()))
    assert "0.weight" in refused(named_parameters=named + named[:1])
    assert "missing" in refused(named_parameters=named[1:])
    assert "missing" in refused(named_parameters=[])
    assert "negative" in refused(groups=-1)
    assert "0" in refused(groups=0)
    for factor in (0, 0.0, float("inf"), float("nan")):
        assert "gradient_predivide_factor must be" in refused(gradient_predivide_factor=factor)
    assert "op must be" in refused(op=99)
    for name in ("compression", "process_set"):
        assert f"{name} must " in raises(TypeError, hvd.DistributedOptimizer, sgd(model), **{name: None})
    assert "a number" in raises(TypeError, hvd.DistributedOptimizer, sgd(model), gradient_predivide_factor="2x")
    assert "list of lists" in refused(groups="all")
    assert "list of lists" in refused(groups=[model[0].weight])
    assert "torch.Tensor" in refused(groups=[["0.weight"]])
    assert "once" in refused(groups=[[model[0].weight], [model[0].weight]])
    assert "Average" in refused(gradient_predivide_factor=2.0, op=hvd.Sum)
    optimizer = hvd.DistributedOptimizer(sgd(model))
    assert "already" in raises(ValueError, hvd.DistributedOptimizer, optimizer)


@check
def clipped_gradients_train_as_in_one_process():
    trains_clipped_as_one_process()


@check
def a_step_after_synchronize_warns_and_reduces_once():
    if hvd.size() == 1:
        return
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model), op=hvd.Sum)
    model(torch.ones(2, 6)).sum().backward()
    optimizer.synchronize()
    before = model[0].weight.grad.clone()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.step()
    said, = [str(w.message) for w in caught]
    assert "optimizer.step() called without optimizer.skip_synchronize()" in said, said
    assert torch.equal(before, model[0].weight.grad)


@check
def an_optimizer_has_the_names_of_its_parameters():
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    assert optimizer._parameter_names == {parameter: name for name, parameter in model.named_parameters()}
    unnamed = hvd.DistributedOptimizer(sgd(model))
    assert [unnamed._parameter_names[parameter] for parameter in model.parameters()] == [
        f"noname.0.{i}" for i in range(4)]


@check
def autograd_sees_that_gradients_were_reduced():
    if hvd.size() == 1:
        return
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model))
    model(torch.ones(2, 6)).sum().backward()
    gradient = model[0].weight.grad
    factor = torch.ones_like(gradient, requires_grad=True)
    product = (factor * gradient).sum()
    optimizer.synchronize()
    assert "modified by an inplace operation" in raises(RuntimeError, product.backward)
    with optimizer.skip_synchronize():
        optimizer.step()


@check
def sparse_optimizers_get_sparse_gradients_also_when_dense_ones_are_sent():
    words, alone = torch.arange(2 * hvd.size()), torch.nn.Embedding(12, 3, sparse=True)
    torch.nn.init.ones_(alone.weight)
    lonely = torch.optim.SparseAdam(list(alone.parameters()), lr=0.1)
    for _ in range(3):
        lonely.zero_grad()
        (alone(words).square().sum() / hvd.size()).backward()
        lonely.step()
    for options in ({}, {"sparse_as_dense": True}, {"sparse_as_dense": True, "groups": 1},
                    {"sparse_as_dense": True, "compression": hvd.Compression.bf16}):
        shared = torch.nn.Embedding(12, 3, sparse=True)
        torch.nn.init.ones_(shared.weight)
        optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(list(shared.parameters()), lr=0.1), **options)
        for _ in range(3):
            optimizer.zero_grad()
            shared(words[2 * hvd.rank():2 * hvd.rank() + 2]).square().sum().backward()
            optimizer.step()
            assert shared.weight.grad.is_sparse, options
        close(shared.weight, alone.weight, 0.01 if "compression" in options else 1e-5)
        same_on_all_ranks(shared.weight)


@check
def parameters_that_some_ranks_do_not_use_get_the_average_with_zeros():
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model, lr=1.0, momentum=0.0))
    before = model[2].bias.detach().clone()
    inputs = torch.ones(2, 6)
    hidden = model[1](model[0](inputs))
    (model[2](hidden) if hvd.rank() == 0 else hidden).sum().backward()
    optimizer.step()
    close(before - model[2].bias, torch.full((3,), 2.0 / hvd.size()))
    same_on_all_ranks(model[0].weight)


@check
def gradients_are_reduced_once_where_the_closure_only_returns_the_loss():
    for is_synchronized in (False, True):
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)], op=hvd.Sum)
        loss = weight.sum() * (hvd.rank() + 1)
        loss.backward()
        if is_synchronized:
            optimizer.synchronize()
        optimizer.step(lambda loss=loss: loss)
        assert -weight.item() == sum(range(1, hvd.size() + 1)), weight


@check
def closures_train_as_in_one_process():
    data, alone, shared = batches(3), perceptron(), perceptron()

    def train_with_closure(model, optimizer, part):
        for inputs, targets in data:
            def closure(inputs=inputs, targets=targets):
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(part(inputs)), part(targets))
                loss.backward()
                return loss
            assert optimizer.step(closure) is not None

    train_with_closure(alone, sgd(alone), lambda t: t)
    train_with_closure(shared, hvd.DistributedOptimizer(sgd(shared)), mine)
    same_parameters(shared, alone)
    train_with_closure(alone, torch.optim.LBFGS(alone.parameters(), lr=0.1, max_iter=4), lambda t: t)
    train_with_closure(shared, hvd.DistributedOptimizer(
        torch.optim.LBFGS(shared.parameters(), lr=0.1, max_iter=4)), mine)
    same_parameters(shared, alone, 1e-4)


@check
def sparse_gradients_train_as_in_one_process():
    for options in ({}, {"sparse_as_dense": True}, {"groups": 1}, {"sparse_as_dense": True, "groups": 1}):
        words = torch.arange(8 * hvd.size()).reshape(-1, 2) % 10
        torch.manual_seed(5)
        alone = torch.nn.EmbeddingBag(12, 3, sparse=True)
        shared = torch.nn.EmbeddingBag(12, 3, sparse=True)
        shared.load_state_dict(alone.state_dict())
        lonely = sgd(alone, momentum=0.0)
        optimizer = hvd.DistributedOptimizer(sgd(shared, momentum=0.0), shared.named_parameters(), **options)
        for _ in range(2):
            for model, one, rows in ((alone, lonely, words), (shared, optimizer, mine(words))):
                one.zero_grad()
                model(rows).square().mean().backward()
                one.step()
        assert options.get("sparse_as_dense") or shared.weight.grad.is_sparse
        same_parameters(shared, alone)


@check
def ranks_without_a_batch_take_part_with_empty_sparse_gradients():
    torch.manual_seed(5)
    model = torch.nn.Embedding(6, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(sgd(model, lr=1.0, momentum=0.0), model.named_parameters())
    model(torch.tensor([0, 1])).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    before = model.weight.detach().clone()
    if hvd.rank() == 0:
        model(torch.tensor([2])).sum().backward()
    optimizer.step()
    close((before - model.weight)[2], torch.full((2,), 1.0 / hvd.size()))
    same_on_all_ranks(model.weight)


@check
def a_class_of_its_own_keeps_the_name_state_and_options_of_the_wrapped_optimizer():
    model = perceptron()
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    train(model, adam, batches(1))
    scheduler = torch.optim.lr_scheduler.StepLR(adam, 1, gamma=0.5)
    optimizer = hvd.DistributedOptimizer(adam, named_parameters=model.named_parameters())
    assert isinstance(optimizer, torch.optim.Adam) and type(optimizer).__name__ == "Adam"
    assert int(optimizer.state[model[0].weight]["step"]) == 1
    train(model, optimizer, batches(1), mine)
    assert int(optimizer.state[model[0].weight]["step"]) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.005
    torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    train(model, optimizer, batches(1), mine)
    for parameter in model.parameters():
        same_on_all_ranks(parameter)


@check
def a_step_hook_is_called_once_a_step_with_reduced_gradients():
    model, seen = perceptron(), []
    optimizer = hvd.DistributedOptimizer(sgd(model))
    optimizer.register_step_pre_hook(lambda one, *_: seen.append(model[0].weight.grad.clone()))
    train(model, optimizer, batches(2), mine)
    assert len(seen) == 2, len(seen)
    same_on_all_ranks(seen[0])


@check
def parameters_that_are_added_or_thawed_later_are_reduced_too():
    model = perceptron()
    model[0].weight.requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(list(model[0].parameters()), lr=0.1))
    optimizer.add_param_group({"params": list(model[2].parameters())})
    train(model, optimizer, batches(1), mine)
    model[0].weight.requires_grad_(True)
    train(model, optimizer, batches(3), mine)
    for parameter in model.parameters():
        same_on_all_ranks(parameter)


@check
def an_optimizer_that_is_gone_leaves_nothing_behind():
    model = perceptron()
    hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    gc.collect()
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    train(model, optimizer, batches(2), mine)
    for parameter in model.parameters():
        same_on_all_ranks(parameter)


@check
def a_loaded_state_replaces_one_whose_gradients_are_under_way():
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    saved = optimizer.state_dict()
    model(torch.ones(2, 6)).sum().backward()
    optimizer.load_state_dict(saved)
    train(model, optimizer, batches(2), mine)
    for parameter in model.parameters():
        same_on_all_ranks(parameter)


@check
def gradients_of_different_shapes_fail_on_every_rank_and_training_goes_on():
    if hvd.size() == 1:
        return
    odd = torch.nn.Linear(3 + hvd.rank() % 2, 2)
    optimizer = hvd.DistributedOptimizer(sgd(odd), named_parameters=odd.named_parameters())
    odd(torch.ones(1, odd.in_features)).sum().backward()
    assert "weight" in raises(hvd.HorovodInternalError, optimizer.step)
    trains_as_one_process()


@check
def adasum_of_equal_gradients_is_the_step_of_one_process():
    needs_adasum()
    data = [(torch.ones(4, 6), torch.ones(4, 3))] * 3
    alone, shared = perceptron(), perceptron()
    train(alone, sgd(alone), data)
    optimizer = hvd.DistributedOptimizer(sgd(shared), named_parameters=shared.named_parameters(),
                                         op=hvd.Adasum, backward_passes_per_step=1)
    train(shared, optimizer, data)
    same_parameters(shared, alone, 1e-4)
    optimizer.set_backward_passes_per_step(2)
    optimizer.synchronize()


@check
def adasum_adds_steps_that_are_orthogonal():
    needs_adasum()
    model = torch.nn.Linear(hvd.size(), 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = hvd.DistributedOptimizer(sgd(model, lr=1.0, momentum=0.0), op=hvd.Adasum)
    model(torch.eye(hvd.size())[hvd.rank()]).sum().backward()
    optimizer.step()
    close(model.weight, torch.full((1, hvd.size()), -1.0))


@check
def what_adasum_does_not_offer_is_an_error():
    if hvd.size() == 1:
        return
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model), op=hvd.Adasum)
    raises(AssertionError, optimizer.skip_synchronize)
    some = hvd.add_process_set([0])
    raises(NotImplementedError, hvd.DistributedOptimizer, sgd(model), op=hvd.Adasum, process_set=some)
    hvd.remove_process_set(some)


@check
def an_optimizer_of_a_process_set_reduces_among_its_ranks():
    if hvd.size() == 1:
        return
    some = hvd.add_process_set(range(0, hvd.size(), 2))
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model, lr=1.0, momentum=0.0), process_set=some,
                                         named_parameters=model.named_parameters())
    model(torch.full((1, 6), float(hvd.rank()))).sum().backward()
    local = model[0].weight.grad.clone()
    optimizer.step()
    if some.included():
        gathered = hvd.allgather(model[0].weight.grad.reshape(1, -1), name="of the set", process_set=some)
        assert all(torch.equal(row, gathered[0]) for row in gathered)
    else:
        assert torch.equal(local, model[0].weight.grad)
    hvd.remove_process_set(some)


@check
def ranks_whose_data_ends_early_join():
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    train(model, optimizer, batches(hvd.rank() + 1), mine)
    last = hvd.join()
    assert hvd.size() == 1 or last == hvd.size() - 1, last


@check
def a_scheduler_that_was_made_before_does_not_warn():
    for op in reductions():
        model = perceptron()
        original = sgd(model)
        schedule = torch.optim.lr_scheduler.StepLR(original, 1, gamma=0.5)
        optimizer = hvd.DistributedOptimizer(original, named_parameters=model.named_parameters(), op=op)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.ones(2, 6)).sum().backward()
                optimizer.step()
                schedule.step()
        assert not caught, [str(w.message) for w in caught]
        assert optimizer.param_groups[0]["lr"] == 0.1 / 4
        copied = copy.deepcopy(optimizer)  # as some loops do; what is copied is the wrapped optimizer's state
        assert copied.param_groups[0]["lr"] == 0.1 / 4


@check
def sparse_gradients_beside_dense_ones_train_as_in_one_process():
    for options in ({}, {"sparse_as_dense": True}, {"backward_passes_per_step": 2}, {"groups": 1, "sparse_as_dense": True}):
        passes = options.get("backward_passes_per_step", 1)
        words = torch.arange(4 * hvd.size()) % 6
        torch.manual_seed(5)
        alone, shared = (torch.nn.Sequential(torch.nn.Embedding(6, 2, sparse=True), torch.nn.Linear(2, 1)) for _ in range(2))
        shared.load_state_dict(alone.state_dict())
        lonely = sgd(alone, momentum=0.0)
        optimizer = hvd.DistributedOptimizer(sgd(shared, momentum=0.0), shared.named_parameters(), **options)
        for _ in range(2):
            for model, one, rows in ((alone, lonely, words), (shared, optimizer, mine(words))):
                one.zero_grad()
                for _ in range(passes):
                    model(rows).square().mean().backward()
                one.step()
        same_parameters(shared, alone)


@check
def a_gradient_that_is_replaced_before_the_step_is_the_reduced_one():
    for options in ({}, {"compression": hvd.Compression.fp16}, {"groups": 1}, {"backward_passes_per_step": 2}):
        model = perceptron()
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **options)
        for _ in range(2):
            optimizer.zero_grad()
            for _ in range(options.get("backward_passes_per_step", 1)):
                model(torch.full((2, 6), 1.0 + hvd.rank())).square().sum().backward()
            for parameter in model.parameters():
                parameter.grad = parameter.grad.clone(memory_format=torch.contiguous_format)
            optimizer.step()
        for parameter in model.parameters():
            same_on_all_ranks(parameter.detach())
            same_on_all_ranks(parameter.grad)


@check
def a_gradient_that_is_removed_before_the_step_is_named():
    for options in ({}, {"groups": 1}):
        model = perceptron()
        optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **options)
        model(torch.ones(2, 6)).sum().backward()
        next(model.parameters()).grad = None
        if hvd.size() > 1:
            assert "0.weight was set to None between backward() and step()" in str(raises(ValueError, optimizer.step))
        optimizer.zero_grad()
        model(torch.ones(2, 6)).sum().backward()
        optimizer.step()


@check
def ranks_with_parameters_in_different_orders_form_the_same_groups():
    torch.manual_seed(3)
    model = perceptron()
    parameters = list(model.parameters())
    before = [parameter.detach().clone() for parameter in parameters]
    pairs = [parameters[i:i + 2] for i in range(0, len(parameters), 2)]
    for groups in (1, 2, pairs):
        if hvd.rank() % 2:
            parameters.reverse()
            groups = groups if isinstance(groups, int) else [pair[::-1] for pair in groups]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.1), model.named_parameters(), groups=groups)
        optimizer.zero_grad()
        model(torch.full((2, 6), float(hvd.rank()))).square().sum().backward()
        optimizer.step()
        for parameter in model.parameters():
            same_on_all_ranks(parameter.grad)
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), before):
            parameter.copy_(value)


@check
def zero_grad_is_that_of_the_wrapped_optimizer():
    class WithoutArguments(torch.optim.SGD):
        def zero_grad(self):  # pylint: disable=arguments-differ
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.grad.zero_()

    class WithZeros(torch.optim.SGD):
        def zero_grad(self, set_to_none=False):
            super().zero_grad(set_to_none)

    for kind in (WithoutArguments, WithZeros):
        for op in reductions():
            model = perceptron()
            optimizer = hvd.DistributedOptimizer(kind(model.parameters(), lr=0.1), model.named_parameters(), op=op)
            model(torch.ones(2, 6)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            assert all(not parameter.grad.any() for parameter in model.parameters())
    for op in reductions():
        model = perceptron()
        optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), op=op)
        for call in (lambda: optimizer.zero_grad(False), lambda: optimizer.zero_grad(set_to_none=False)):
            model(torch.ones(2, 6)).sum().backward()
            optimizer.step()
            call()
            assert all(not parameter.grad.any() for parameter in model.parameters())


@check
def backward_passes_per_step_is_a_number_of_passes():
    for op in (hvd.Average, hvd.Adasum):
        for passes in (0, -1, 1.5, None, "2"):
            model = perceptron()
            error = raises(ValueError, hvd.DistributedOptimizer, sgd(model), model.named_parameters(), op=op,
                           backward_passes_per_step=passes)
            assert "backward_passes_per_step must be > 0" in str(error)
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    raises(ValueError, optimizer.set_backward_passes_per_step, 0)


@check
def with_adasum_too_a_parameter_without_a_gradient_has_one_of_zeros():
    needs_adasum()
    model = torch.nn.ModuleList([torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)])
    with torch.no_grad():
        model[1].weight.fill_(1.0)
    decaying = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5)
    optimizer = hvd.DistributedOptimizer(decaying, model.named_parameters(), op=hvd.Adasum)
    model[0](torch.ones(1, 2)).sum().backward()
    optimizer.step()
    if hvd.size() > 1:
        close(model[1].weight.detach(), torch.full((1, 2), 0.95))
