"""Horovod with mixed precision, compiled models, data loaders and elastic training: the checks."""
import copy

import torch
from checks import check, raises
from training import batches, mine, perceptron, same_on_all_ranks, same_parameters, sgd, train

import horovod.torch as hvd
from horovod.common.elastic import HostUpdateResult, ObjectState, State, notification_manager, run_fn
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.torch.elastic.state import (ModelStateHandler, StateHandler, get_handler_registry,
                                         set_handler_registry)


def scaled_step(model, optimizer, scaler, loss):
    """A step as the documentation of mixed precision has it."""
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()


def make_scaler():
    """A GradScaler for the CPU."""
    return torch.amp.GradScaler("cpu", init_scale=8.0)


@check
def scaled_gradients_train_as_in_one_process():
    data, alone, shared = batches(3), perceptron(), perceptron()
    train(alone, sgd(alone), data)
    optimizer, scaler = hvd.DistributedOptimizer(sgd(shared)), make_scaler()
    for inputs, targets in data:
        scaled_step(shared, optimizer, scaler,
                    torch.nn.functional.mse_loss(shared(mine(inputs)), mine(targets)))
    same_parameters(shared, alone)


@check
def an_overflow_on_one_rank_skips_the_step_on_all():
    model = perceptron()
    before = copy.deepcopy(model)
    optimizer, scaler = hvd.DistributedOptimizer(sgd(model)), make_scaler()
    factor = float("inf") if hvd.rank() == hvd.size() - 1 else 1.0
    scaled_step(model, optimizer, scaler, model(torch.ones(2, 6)).sum() * factor)
    same_parameters(model, before, 0.0)
    assert scaler.get_scale() == 4.0
    scaled_step(model, optimizer, scaler, model(torch.ones(2, 6)).sum())
    same_on_all_ranks(model[0].weight)
    assert not torch.equal(model[0].weight, before[0].weight)


@check
def autocast_to_bfloat16_trains_the_same_on_every_rank():
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    for inputs, targets in batches(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = torch.nn.functional.mse_loss(model(mine(inputs)).float(), mine(targets))
        loss.backward()
        optimizer.step()
    for parameter in model.parameters():
        same_on_all_ranks(parameter)


@check
def a_model_of_bfloat16_trains_the_same_on_every_rank():
    model = perceptron().to(torch.bfloat16)
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    train(model, optimizer, [(i.bfloat16(), t.bfloat16()) for i, t in batches(2)], mine)
    for parameter in model.parameters():
        same_on_all_ranks(parameter.float())


@check
def a_compiled_model_trains_as_in_one_process():
    if hvd.size() != 2:  # the compiler's import takes longer than everything else here; see torch_compile for 4 ranks
        return
    data, alone, shared = batches(3), perceptron(), perceptron()
    train(alone, sgd(alone), data)
    optimizer = hvd.DistributedOptimizer(sgd(shared), named_parameters=shared.named_parameters())
    train(torch.compile(shared, backend="aot_eager"), optimizer, data, mine)
    same_parameters(shared, alone)


@check
def data_loaders_with_forked_workers_feed_a_training():
    inputs, targets = batches(1, rows_of_a_rank=8)[0]
    dataset = torch.utils.data.TensorDataset(inputs, targets)
    sampler = torch.utils.data.distributed.DistributedSampler(
        dataset, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=False)
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=2,
                                         multiprocessing_context="fork")
    alone, shared = perceptron(), perceptron()
    train(alone, sgd(alone), list(zip(inputs.split(4 * hvd.size()), targets.split(4 * hvd.size()))) * 2)
    optimizer = hvd.DistributedOptimizer(sgd(shared), named_parameters=shared.named_parameters())
    for _ in range(2):
        assert len(list(loader)) == 2
        train(shared, optimizer, loader)
    same_parameters(shared, alone)


@check
def an_elastic_state_restores_what_was_saved():
    model = perceptron()
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    state = hvd.elastic.TorchState(model, optimizer, epoch=0, history=[], best=None)
    before = copy.deepcopy(model)
    train(model, optimizer, batches(2), mine)
    state.epoch, state.best = 3, 0.5
    state.history.append(1)
    state.restore()
    same_parameters(model, before, 0.0)
    assert (state.epoch, state.history, state.best) == (0, [], None) and not optimizer.state
    train(model, optimizer, batches(2), mine)
    state.epoch = 1
    state.commit()
    after = copy.deepcopy(model)
    train(model, optimizer, batches(1), mine)
    state.restore()
    same_parameters(model, after, 0.0)
    assert state.epoch == 1 and state.model is model


@check
def an_elastic_state_becomes_that_of_rank_0():
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(2, 2)
    state = hvd.elastic.TorchState(model=model, optimizer=sgd(model), batch=hvd.rank(), scale=[hvd.rank()])
    state.sync()
    same_on_all_ranks(model.weight)
    assert (state.batch, state.scale) == (0, [0])
    state.model = other = torch.nn.Linear(2, 2)
    state.sync()
    same_on_all_ranks(other.weight)


@check
def a_training_that_failed_goes_on_from_its_last_commit():
    model, resets = perceptron(), []
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    state = hvd.elastic.TorchState(model, optimizer, batch=0, tries=0)
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])
    failures = [3, 5]

    @hvd.elastic.run
    def training(state, extra):
        while state.batch < 6:
            if failures and state.batch == failures[0]:
                failures.pop(0)
                hvd.allreduce(torch.ones(hvd.rank() + 1), name="odd")  # fails on every rank
                raise HorovodInternalError("as when a rank of one was lost")
            train(model, optimizer, batches(6)[state.batch:state.batch + 1], mine)
            state.batch += 1
            if state.batch % 2 == 0:
                state.commit()
        return extra

    assert training(state, "done") == "done"
    assert resets == [hvd.size()] * 2 and not failures
    alone = perceptron()
    train(alone, sgd(alone), batches(6))
    same_parameters(model, alone)


@check
def hosts_that_change_interrupt_every_rank_at_the_same_commit():
    state = hvd.elastic.TorchState(batch=0)
    syncs, seen = [], []
    state.sync = lambda: syncs.append(state.batch)

    @hvd.elastic.run
    def training(state):
        seen.append(state.batch)
        while state.batch < 4:
            state.batch += 1
            if hvd.rank() == 0 and state.batch == 1:
                notification_manager.handle_hosts_updated(1, HostUpdateResult.added)
            if state.batch == 3:
                state.on_hosts_updated(2, HostUpdateResult.removed)
            state.commit()

    training(state)
    assert seen == [0, 1, 3] and syncs == [0, 1], (seen, syncs)


@check
def an_update_says_whether_there_is_anything_to_synchronise():
    state = ObjectState(bcast_object=hvd.broadcast_object, get_rank=hvd.rank, epoch=1)
    for updates, skips in (([HostUpdateResult.removed], True), ([HostUpdateResult.added], False),
                           ([HostUpdateResult.removed, HostUpdateResult.added], False)):
        for update in updates:
            state.on_hosts_updated(state._last_update + 1, update)
        try:
            state.commit()
            raise AssertionError("not interrupted")
        except HostsUpdatedInterrupt as interrupt:
            assert interrupt.skip_sync == skips
        state.check_host_updates()


@check
def a_training_may_bring_its_own_way_to_form_the_job_anew():
    resets, failures = [], [HostsUpdatedInterrupt(skip_sync=True), HorovodInternalError("lost")]

    def training(state, step, scale=1):
        state.epoch += step * scale
        if failures:
            raise failures.pop(0)
        return state.epoch

    state = ObjectState(hvd.broadcast_object, hvd.rank, epoch=1)
    run = run_fn(training, reset=lambda: resets.append(state.epoch))
    assert run.__name__ == "training"
    # the first goes on from 3, the second from the state that was saved
    assert run(state, 1, scale=2) == 3 and resets == [3, 1] and not failures


@check
def a_state_of_ones_own_says_what_it_has_to_do():
    state = State(bcast_object=hvd.broadcast_object, get_rank=hvd.rank)
    for method in (state.save, state.restore, state.sync, state.commit):
        raises(NotImplementedError, method)
    state.check_host_updates()
    calls = []
    state.reset = lambda: calls.append("reset")
    state.register_reset_callbacks([lambda: calls.append("first"), lambda: calls.append("second")])
    state.on_hosts_updated(1, HostUpdateResult.mixed)
    state.on_reset()
    state.check_host_updates()  # nothing: the update is what it was reset for
    assert calls == ["reset", "first", "second"]


@check
def a_handler_of_ones_own_says_what_it_has_to_do():
    handler = StateHandler(3)
    for method in (handler.save, handler.restore, handler.sync, lambda: handler.set_value(4)):
        raises(NotImplementedError, method)
    assert handler.value == 4


@check
def another_exception_ends_an_elastic_training():
    @hvd.elastic.run
    def training(state):
        raise KeyError("mine")

    raises(KeyError, training, hvd.elastic.TorchState())


@check
def an_elastic_sampler_shares_what_is_not_processed():
    sampler = hvd.elastic.ElasticSampler(range(10 * hvd.size() + 1), seed=4)
    assert len(sampler) == len(list(sampler)) == 11
    shares = hvd.allgather_object(list(sampler))
    assert set().union(*shares) == set(range(10 * hvd.size() + 1))
    first = sampler.get_indices(0, 4)
    assert first == list(sampler)[:4] and sampler.get_indices(2, 4) == list(sampler)[8:]
    sampler.record_batch(0, 4)
    state = hvd.elastic.TorchState(sampler=sampler, batch=1)
    state.sync()
    done = set().union(*hvd.allgather_object(first))
    assert sampler.processed_indices == done and len(done) == 4 * hvd.size()
    assert len(sampler) == 7 and not done & set(sampler)
    state.save()
    sampler.record_batch(0, 7)
    assert len(sampler.processed_indices) > len(done)
    state.restore()
    assert sampler.processed_indices == done
    order = list(sampler)
    sampler.set_epoch(1)
    assert len(sampler) == 11 and list(sampler)[:7] != order and not sampler.processed_indices


@check
def the_state_of_an_elastic_sampler_is_that_of_horovod():
    n = 10 * hvd.size()
    sampler = hvd.elastic.ElasticSampler(range(n), seed=4)
    assert sampler.state_dict() == {"epoch": 0, "processed_num": 0, "processed_indices": set()}
    rest = hvd.allgather_object(list(sampler)[4:])
    for batch in range(2):
        sampler.record_batch(batch, 2)
    assert sampler.state_dict()["processed_num"] == sampler.processed_num == 4 * hvd.size()
    ours, theirs = (hvd.elastic.ElasticSampler(range(n), seed=4) for _ in range(2))
    done = set().union(*hvd.allgather_object(sampler.processed_indices))
    ours.load_state_dict({"epoch": 0, "processed_indices": done})
    theirs.load_state_dict({"epoch": 0, "processed_num": 4 * hvd.size()})  # what Horovod 0.28.1 saves
    for loaded in (ours, theirs):
        assert loaded.processed_indices == done and loaded.processed_num == len(done)
        assert hvd.allgather_object(list(loaded)) == rest  # as if nothing had been interrupted
        loaded.record_batch(0, 6)
        assert loaded.processed_num == n
    theirs.load_state_dict({"epoch": 3, "processed_num": n})
    assert (theirs.epoch, len(theirs), theirs.processed_num) == (3, 0, n)


@check
def an_elastic_sampler_of_few_samples_or_none_gives_every_rank_as_many():
    assert len(list(hvd.elastic.ElasticSampler([1]))) == 1
    assert list(hvd.elastic.ElasticSampler([])) == []
    unshuffled = hvd.elastic.ElasticSampler(range(2 * hvd.size()), shuffle=False)
    assert list(unshuffled) == [hvd.rank(), hvd.rank() + hvd.size()]


@check
def a_handler_can_be_registered_for_another_type():
    class Counter:
        n = 0

    class CounterHandler(StateHandler):
        def save(self):
            self.saved = self.value.n

        def restore(self):
            self.value.n = self.saved

        def sync(self):
            self.value.n = hvd.broadcast_object(self.value.n)
            self.save()

    before = get_handler_registry()
    assert ModelStateHandler in [handler for _, handler in before]
    set_handler_registry([(Counter, CounterHandler)] + before)
    try:
        state = hvd.elastic.TorchState(counter=Counter())
    finally:
        set_handler_registry(before)
    state.counter.n = hvd.rank() + 4
    state.sync()
    assert state.counter.n == 4
    state.counter.n = 9
    state.restore()
    assert state.counter.n == 4


@check
def batches_are_recorded_one_after_the_other_whatever_their_numbers():
    n = 20 * hvd.size()
    sampler = hvd.elastic.ElasticSampler(range(n), shuffle=False)
    step = 0
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for _ in range(3):
            sampler.record_batch(step, 4)  # as trainer.global_step, which goes on over epochs
            step += 1
        assert sampler.processed_num == 12 * hvd.size()
    sampler.load_state_dict(sampler.state_dict())  # of one rank, as in a checkpoint
    assert len(sampler.remaining_indices) == n - 12 * hvd.size()
    assert sampler.remaining_indices == list(range(12 * hvd.size(), n))
    sampler.record_batch(step, 4)
    assert sampler.processed_num == 16 * hvd.size()
    sampler.processed_num = 4
    sampler.reset()
    assert sampler.remaining_indices == list(range(4, n)) and sampler.processed_num == 4
