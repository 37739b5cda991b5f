"""Ranks that give DistributedOptimizer different arguments: the checks, run on every rank."""
import torch
from checks import check, raises
from training import batches, mine, perceptron, same_on_all_ranks, sgd, train, trains_as_one_process

import horovod.torch as hvd

REMEDY = "Every rank has to give DistributedOptimizer the same groups of the same parameters."


def last():
    """Whether this rank is the last of several."""
    return 0 < hvd.rank() == hvd.size() - 1


def distributed(model, **options):
    """An optimizer of all that the model has, with names."""
    return hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters(), **options)


def refused_alike(model, **options):
    """The text of the ValueError that every rank gets, which is the same on all."""
    text = raises(ValueError, distributed, model, **options)
    texts = hvd.allgather_object(text, name="what the ranks got")
    assert set(texts) == {text}, texts
    assert text.startswith("groups: ") and text.endswith(REMEDY), text
    return text[len("groups: "):-len(f". {REMEDY}")]


def others_than_the_last():
    """Their ranks, as a message has them."""
    return "rank 0" if hvd.size() == 2 else f"ranks 0-{hvd.size() - 2}"


@check
def a_parameter_that_one_rank_has_frozen_is_a_value_error_on_all_with_groups():
    if hvd.size() == 1:
        return
    end = hvd.size() - 1
    for name in ("0.weight", "0.bias", "2.bias"):  # the first of a group, and others
        for groups in (1, 3, list):
            model = perceptron()
            given = [list(model.parameters())] if groups is list else groups
            model.get_parameter(name).requires_grad_(not last())
            assert refused_alike(model, groups=given) == (
                f"rank 0 trains 4 parameters, rank {end} trains 3: {name} is frozen on rank {end}")
    model = perceptron()
    model[0].bias.requires_grad_(hvd.rank() > 0)
    verb, end = ("trains", "rank 1") if hvd.size() == 2 else ("train", f"ranks 1-{hvd.size() - 1}")
    assert refused_alike(model, groups=1) == f"rank 0 trains 3 parameters, {end} {verb} 4: 0.bias is frozen on rank 0"
    trains_as_one_process(groups=2)


@check
def a_parameter_that_one_rank_has_not_is_a_value_error_on_all_with_groups():
    if hvd.size() == 1:
        return
    model, end = perceptron(), hvd.size() - 1
    parameters = list(model.named_parameters())[:1 if last() else 4]
    text = raises(ValueError, hvd.DistributedOptimizer, torch.optim.SGD([p for _, p in parameters], lr=0.1), parameters, groups=2)
    assert f"rank {end} trains 1: 0.bias, 2.weight, 2.bias are no parameters on rank {end}" in text, text
    with torch.no_grad():
        model[0].bias.requires_grad_(False)
        model[2].weight.requires_grad_(last())
        model[0].bias.requires_grad_(not last())
    assert refused_alike(model, groups=2) == (f"rank 0 trains 3 parameters, rank {end} trains 3: 0.bias is frozen on rank {end}; "
                                              "2.weight is frozen on rank 0")


@check
def groups_that_differ_between_ranks_are_a_value_error_on_all():
    if hvd.size() == 1:
        return
    end = hvd.size() - 1
    model = perceptron()
    first, bias, second, other = model.parameters()
    assert refused_alike(model, groups=2 if last() else 3) == f"groups=3 on rank 0, groups=2 on rank {end}"
    assert refused_alike(model, groups=[[first, bias]] if last() else [[first, bias, second]]) == (
        f"0.weight is reduced with 0.bias, 2.weight on rank 0, with 0.bias on rank {end}")
    assert refused_alike(model, groups=[[second, other]] if last() else 1) == (
        f"0.weight is reduced with 0.bias, 2.bias, 2.weight on rank 0, alone on rank {end}")
    if hvd.size() > 3:
        groups = hvd.rank() + 1
        assert refused_alike(model, groups=groups) == (
            "groups=1 on rank 0, groups=2 on rank 1; groups=1 on rank 0, groups=3 on rank 2; groups=1 on rank 0, groups=4 on rank 3")
        assert refused_alike(model, groups=min(2, groups)) == "groups=1 on rank 0, groups=2 on ranks 1-3"
    train(model, distributed(model, groups=2), batches(2), mine)
    for parameter in model.parameters():
        same_on_all_ranks(parameter)


@check
def the_same_groups_may_be_written_in_different_ways():
    for ways in (lambda model: (1, [list(model.parameters())]), lambda model: (4, 100),
                 lambda model: (2, [list(model[2].parameters()), list(model[0].parameters())[::-1]])):
        model = perceptron()
        train(model, distributed(model, groups=ways(model)[int(last())]), batches(2), mine)
        for parameter in model.parameters():
            same_on_all_ranks(parameter)


@check
def what_one_rank_gives_wrong_fails_on_those_with_groups():
    if hvd.size() == 1:
        return
    for wrong, words in (({"groups": -1}, "negative"), ({"op": 99}, "op must be"), ({"backward_passes_per_step": 0}, "> 0"),
                         ({"gradient_predivide_factor": 0}, "gradient_predivide_factor"), ({"compression": None}, "compression")):
        model = perceptron()
        if last():
            text = raises((ValueError, TypeError), distributed, model, **{"groups": 2, **wrong})
        else:
            text = raises(hvd.HorovodInternalError, distributed, model, groups=2)
        hvd.barrier()
        assert words in text, text
    model = perceptron()
    if last():
        text = raises(ValueError, hvd.DistributedOptimizer, sgd(model), groups=2, named_parameters=[])
    else:
        text = raises(hvd.HorovodInternalError, distributed, model, groups=2)
    hvd.barrier()
    assert "does not name every parameter" in text, text
    trains_as_one_process(groups=2)


@check
def process_sets_compare_their_groups_among_themselves():
    if hvd.size() < 4:
        return
    even, odd = hvd.add_process_set([0, 2]), hvd.add_process_set([1, 3])
    mine_, its_first = (odd, 1) if hvd.rank() % 2 else (even, 0)
    model = perceptron()
    optimizer = distributed(model, groups=1 + hvd.rank() % 2, process_set=mine_)  # 1 there, 2 here
    train(model, optimizer, batches(2), mine)
    model = perceptron()
    model[0].bias.requires_grad_(hvd.rank() < 2)
    text = raises(ValueError, distributed, model, groups=2, process_set=mine_)
    assert text.startswith(f"groups: rank {its_first} trains 4 parameters, rank {its_first + 2} trains 3: 0.bias is frozen on "
                           f"rank {its_first + 2}"), text
    for some in (even, odd):
        hvd.remove_process_set(some)


@check
def an_optimizer_that_one_rank_makes_for_itself_keeps_nobody_waiting():
    if hvd.rank() == 0:
        distributed(perceptron())
    trains_as_one_process()
    trains_as_one_process(groups=2)


@check
def steps_beside_a_rank_that_has_joined_leave_nothing_behind():
    model = perceptron()
    optimizer = distributed(model)
    if not last():
        train(model, optimizer, batches(2), mine)
    hvd.join()
    trains_as_one_process(groups=2)


@check
def other_arguments_that_differ_are_an_error_of_the_first_step_on_all():
    if hvd.size() == 1:
        return
    cases = [({"op": hvd.Sum}, {}), ({"gradient_predivide_factor": 2.0}, {}), ({"compression": hvd.Compression.fp16}, {}),
             ({"op": hvd.Sum, "groups": 2}, {"groups": 2}), ({"compression": hvd.Compression.fp16, "groups": 2}, {"groups": 2})]
    if hvd.size() in (2, 4):
        cases.append(({"op": hvd.Adasum}, {}))
    for its, others in cases:
        model = perceptron()
        optimizer = distributed(model, **(its if last() else others))
        model(torch.ones(2, 6)).sum().backward()
        text = raises(hvd.HorovodInternalError, optimizer.step)
        assert text.startswith("Mismatched ") and "allreduce." in text, text
    trains_as_one_process()


@check
def arguments_of_this_rank_alone_may_differ():
    for options in ({"backward_passes_per_step": 2}, {"sparse_as_dense": True}):
        model = perceptron()
        optimizer = distributed(model, **(options if last() else {}))
        train(model, optimizer, batches(2), mine)
        for parameter in model.parameters():
            same_on_all_ranks(parameter)
