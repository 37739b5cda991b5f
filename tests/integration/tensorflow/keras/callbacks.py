"""Checks of the callbacks."""
import contextlib
import io

import numpy
from checks import check, raises
from networks import (
    BATCH, EPOCHS, OPTIMIZERS, SIDES, STEPS, alone, close, drive, fit, folder, has_legacy, mine, network, noting, number, of_tf, rank,
    rows, same_on_all_ranks, size, stepped)

import horovod.numpy
from horovod._keras import variables as of


def compiled(module, optimizer=None, seed=7):
    """A network that is ready for fit()."""
    net = network(module, seed)
    net.compile(optimizer or module.optimizers.SGD(0.1), "mse")
    return net


@check
def fit_takes_all_callbacks():
    """Variables of the last rank, a warm-up that ends at once, a commit a batch: the training is that of one process."""
    root = size() - 1
    hvd, module = of_tf()
    net = network(module, seed=7 if rank() == root else 100 + rank())
    net.compile(hvd.DistributedOptimizer(OPTIMIZERS["adam"](module)), "mse")
    state = hvd.elastic.KerasState(net, epoch=0, batch=0)
    commits = []
    state.commit = lambda: commits.append((state.epoch, state.batch))
    every = hvd.callbacks
    history = fit(net, *map(mine, rows()), BATCH // size(), callbacks=[
        every.BroadcastGlobalVariablesCallback(root, device="/cpu:0"), every.MetricAverageCallback(),
        every.LearningRateScheduleCallback(0.01, 1.0), hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.UpdateEpochStateCallback(state), hvd.elastic.CommitStateCallback(state)])
    close(net.get_weights(), alone(module, "adam"))
    same_on_all_ranks(net.get_weights())
    same_on_all_ranks([history.history["loss"]])
    assert len(commits) == EPOCHS * (STEPS + 1) and commits[-1] == (EPOCHS, 0), commits


@check
def variables_become_the_roots_and_local_ones_stay():
    root = size() - 1
    for hvd, module in SIDES:
        kinds = [module.optimizers.Adam, *([module.optimizers.legacy.Adam] if has_legacy(module) else [])]
        for kind in kinds:
            net = compiled(module, kind(0.01 * (rank() + 1)), seed=rank())
            stepped(net, net.optimizer, steps=1 + rank())
            own = net.trainable_variables[1]
            own.assign(number(own) * 0 + rank())
            callback = hvd.callbacks.BroadcastGlobalVariablesCallback(root, device="/cpu:0", local_variables=[own])
            drive(module, net, [callback], epochs=2)
            same_on_all_ranks([number(one) for one in of.of_optimizer(net.optimizer)])
            same_on_all_ranks([number(one) for one in net.trainable_variables if one is not own])
            assert (number(own) == rank()).all() and callback.broadcast_done
            assert int(number(net.optimizer.iterations)) == 1 + root


@check
def a_network_without_shapes_follows_after_the_first_batch():
    hvd, module = of_tf()
    module.utils.set_random_seed(rank() + 1)
    net = module.Sequential([module.layers.Dense(3)])
    inputs, targets = map(mine, rows())
    net.compile(hvd.DistributedOptimizer(module.optimizers.SGD(0.1)), "mse")
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    net.fit(inputs, targets, batch_size=BATCH // size(), verbose=0, callbacks=[callback])
    same_on_all_ranks(net.get_weights())
    assert callback.broadcast_done


@check
def metrics_are_averaged_over_the_ranks_that_have_them():
    for hvd, module in SIDES:
        own, averaged = [], []

        def logs(epoch):
            own.append(0.5 + rank() * 2 + epoch)
            only = {"of the first": 5.0} if rank() == 0 else {}
            return {"loss": own[-1], "rank": numpy.float32(rank()), "note": "text", **only}

        def note(_, epoch, logs):
            averaged.append(logs["loss"])
            assert logs["rank"] == (size() - 1) / 2 and logs["note"] == "text", logs
            assert logs.get("of the first") == (5.0 if rank() == 0 else None), logs

        drive(module, compiled(module), [hvd.callbacks.MetricAverageCallback(device="/cpu:0"), noting(module, note)], 2, logs)
        everywhere = horovod.numpy.allgather(numpy.array([own], "float64"))
        close([averaged], [everywhere.mean(axis=0)], 1e-6)


def rates(module, callback, optimizer=None, epochs=4):
    """The learning rate of each batch with a callback, and that which it adds to the logs."""
    found = []
    note = noting(module, batch=lambda model, *_: found.append(of.learning_rate(model.optimizer)))
    logs = drive(module, compiled(module, optimizer), [callback, note], epochs)
    return found, [one["lr"] for one in logs]


@check
def the_learning_rate_follows_a_schedule():
    for hvd, module in SIDES:
        kind = hvd.callbacks.LearningRateScheduleCallback
        found, logged = rates(module, kind(0.4, 0.5, start_epoch=1, end_epoch=3))
        close([found], [[0.1] * 4 + [0.2] * 12], 1e-6)
        close([logged], [[0.1, 0.2, 0.2, 0.2]], 1e-6)
        found, _ = rates(module, kind(0.4, lambda epoch: 1.0 / (1 + epoch), staircase=True))
        close([found], [[0.4] * 4 + [0.2] * 4 + [0.4 / 3] * 4 + [0.1] * 4], 1e-6)
        for steps in (None, 4):
            found, _ = rates(module, kind(1.0, lambda epoch: 0.1 + epoch, staircase=False, steps_per_epoch=steps), epochs=2)
            close([found], [[0.1 + batch / 4 for batch in range(8)]], 1e-6)
        assert "initial_lr is required" in raises(ValueError, kind, None, 0.5)
        callback = kind(1.0, lambda epoch: 1.0, staircase=False)
        callback.set_params({})
        assert "pass steps_per_epoch" in raises(ValueError, callback.on_train_begin)
        decay = module.optimizers.schedules.ExponentialDecay(0.1, 4, 0.5)
        text = raises(ValueError, rates, module, kind(0.4, 0.5), module.optimizers.SGD(decay))
        assert "was made with a schedule" in text, text


@check
def velocities_follow_the_learning_rate():
    for hvd, module in SIDES:
        kinds = [module.optimizers.SGD, module.optimizers.RMSprop]
        kinds += [module.optimizers.legacy.SGD] if has_legacy(module) else []
        for kind in kinds:
            for corrected in (True, False):
                net = compiled(module, kind(0.05, momentum=0.9))
                before = [number(one).copy() for one in of.velocities(stepped(net, net.optimizer, 2).optimizer)]
                callback = hvd.callbacks.LearningRateScheduleCallback(0.1, 0.25, momentum_correction=corrected)
                drive(module, net, [callback])  # halves the rate
                after = [number(one) for one in of.velocities(net.optimizer)]
                assert len(before) == len(after) == 4 and all((one != 0).all() for one in before)
                close(after, [one * (0.5 if corrected else 1.0) for one in before], 1e-7)
        assert of.velocities(module.optimizers.SGD(0.1)) == of.velocities(module.optimizers.Adam(0.1)) == []


@check
def the_learning_rate_warms_up():
    for hvd, module in SIDES:
        kind = hvd.callbacks.LearningRateWarmupCallback
        for options in ({"steps_per_epoch": 4}, {"momentum_correction": False}):
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                found, logged = rates(module, kind(0.8, warmup_epochs=2, verbose=1, **options), epochs=3)
            share = [(1 + (batch + 1) / 8 * (size() - 1)) / size() for batch in range(8)]
            close([found], [[0.8 * one for one in share] + [0.8] * 4], 1e-6)
            close([logged], [[0.8 * share[3], 0.8, 0.8]], 1e-6)
            assert ("Epoch 2: finished gradual learning rate warmup to 0.8." in said.getvalue()) is (rank() == 0), said.getvalue()


@check
def the_best_model_is_kept():
    for place, (hvd, module) in enumerate(SIDES):
        for weights_only in (False, True) if place == 1 else (False,):
            options = {"save_weights_only": True} if weights_only else {}
            file = str(folder() / f"best.{place}.{rank()}{'.weights.h5' if weights_only else '.keras'}")
            callback = hvd.callbacks.BestModelCheckpoint(monitor="score", verbose=1, mode="max", **options)
            net = compiled(module)
            text = raises(ValueError, drive, module, net, [callback])
            assert "set its attribute filepath" in text, text
            callback.filepath = file
            scores, weights = [1.0, 3.0, 2.0], []

            def change(model, epoch, logs):
                model.set_weights([weight + 1 for weight in model.get_weights()])
                weights.append(model.get_weights())

            with contextlib.redirect_stdout(io.StringIO()):
                drive(module, net, [noting(module, change), callback], 3, lambda epoch: {"score": scores[epoch]})
            loaded = net if weights_only else module.models.load_model(file)
            if weights_only:
                net.load_weights(file)
            close(loaded.get_weights(), weights[1], 0)
        every_third = hvd.callbacks.BestModelCheckpoint(save_freq=3, monitor="loss")
        assert every_third.save_freq == 3
