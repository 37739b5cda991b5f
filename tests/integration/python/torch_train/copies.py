"""Copies of a DistributedOptimizer: the checks, run on every rank."""
import copy
import pickle

import torch
from checks import check, raises
from derived import AdasumScaled, Averaged
from training import batches, mine, perceptron, reductions, same_on_all_ranks, same_parameters, sgd, train

import horovod.torch as hvd


@check
def a_deep_copy_of_model_and_optimizer_trains_as_they_do():
    for op in reductions():
        for options in ({}, {"groups": 2}, {"groups": list}, {"backward_passes_per_step": 2}):
            model = perceptron()
            if options.get("groups") is list:
                options = {"groups": [list(model[0].parameters()), list(model[2].parameters())]}
            optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters(), op=op, **options)
            train(model, optimizer, batches(2), mine)
            its_model, its = copy.deepcopy((model, optimizer))
            assert type(its) is type(optimizer) and its.backward_passes_per_step == optimizer.backward_passes_per_step
            for one, other in zip(its_model.parameters(), its.param_groups[0]["params"]):
                assert one is other
            train(model, optimizer, batches(3), mine)
            train(its_model, its, batches(3), mine)
            same_parameters(model, its_model)
            for parameter in its_model.parameters():
                same_on_all_ranks(parameter)


@check
def a_deep_copy_of_the_optimizer_alone_keeps_its_state_and_reduces_nothing_elses():
    for op in reductions():
        model = perceptron()
        optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters(), op=op)
        train(model, optimizer, batches(1), mine)
        if hvd.rank() == 0:  # as one who saves does: a copy keeps nobody waiting
            saved = copy.deepcopy(optimizer).state_dict()
            assert saved["param_groups"] == optimizer.state_dict()["param_groups"]
        train(model, optimizer, batches(2), mine)
        for parameter in model.parameters():
            same_on_all_ranks(parameter)


@check
def a_copy_shares_the_parameters_and_their_gradients():
    for op in reductions():
        alone, shared = perceptron(), perceptron()
        train(alone, hvd.DistributedOptimizer(sgd(alone), named_parameters=alone.named_parameters(), op=op), batches(3), mine)
        optimizer = hvd.DistributedOptimizer(sgd(shared), named_parameters=shared.named_parameters(), op=op)
        train(shared, optimizer, batches(3)[:1], mine)
        train(shared, copy.copy(optimizer), batches(3)[1:], mine)
        same_parameters(shared, alone)


@check
def an_optimizer_from_a_pickle_names_the_cause():
    model = perceptron()
    kinds = (Averaged, AdasumScaled) if len(reductions()) == 2 else (Averaged,)
    for kind in kinds:
        optimizer = kind(model.parameters(), model.named_parameters(), hvd.Compression.none)
        its = pickle.loads(pickle.dumps(optimizer))
        for call in (its.zero_grad, its.step):
            assert "was made without its arguments, as pickle does" in raises(RuntimeError, call)
    torch.optim.SGD(its.param_groups[0]["params"], lr=0.1).load_state_dict(its.state_dict())
