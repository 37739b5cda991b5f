"""Checks of the callbacks, in fit() of a small network."""
import contextlib
import io
import os
import pathlib

import numpy
from checks import check, raises
from networks import (
    BATCH, OPTIMIZERS, SIDES, alone, close, fit, has_legacy, mine, network, number, of_tf, rank, rows, same_on_all_ranks, size)

import horovod.numpy
from horovod._keras import variables as of


def folder():
    """Where ranks write files."""
    return pathlib.Path(os.environ["CHECK_RESULTS"])


def trained(module, callbacks, optimizer=None, net=None, epochs=2, **options):
    """A network that fit() has trained on this rank with an optimizer as it is, and the history."""
    net = network(module) if net is None else net
    net.compile(optimizer or module.optimizers.SGD(0.1), "mse", **options)
    inputs, targets = map(mine, rows())
    history = net.fit(inputs, targets, batch_size=BATCH // size(), epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks)
    return net, history.history


@check
def variables_become_the_roots_before_the_first_batch():
    root = size() - 1
    hvd, module = of_tf()
    net = network(module, seed=7 if rank() == root else 100 + rank())
    net.compile(hvd.DistributedOptimizer(OPTIMIZERS["adam"](module)), "mse")
    fit(net, *map(mine, rows()), BATCH // size(), callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(root, device="/cpu:0")])
    close(net.get_weights(), alone(module, "adam"))
    same_on_all_ranks(net.get_weights())


@check
def so_do_the_optimizers_and_local_variables_stay():
    root = size() - 1
    for hvd, module in SIDES:
        kinds = [module.optimizers.Adam, *([module.optimizers.legacy.Adam] if has_legacy(module) else [])]
        for kind in kinds:
            net, _ = trained(module, [], kind(0.01 * (rank() + 1)), epochs=1 + rank())
            own = net.trainable_variables[1]
            own.assign(number(own) * 0 + rank())
            callback = hvd.callbacks.BroadcastGlobalVariablesCallback(root, local_variables=[own])
            callback.set_model(net)
            callback.on_train_begin()
            callback.on_train_begin()  # the second one does nothing
            same_on_all_ranks([number(one) for one in of.of_optimizer(net.optimizer)])
            same_on_all_ranks([number(one) for one in net.trainable_variables if one is not own])
            assert (number(own) == rank()).all() and callback.broadcast_done
            assert int(number(net.optimizer.iterations)) == 4 * (1 + root)


@check
def a_network_without_shapes_follows_after_the_first_batch():
    for hvd, module in SIDES:
        module.utils.set_random_seed(rank() + 1)
        net = module.Sequential([module.layers.Dense(3)])
        inputs, targets = map(mine, rows())
        net.compile(hvd.DistributedOptimizer(module.optimizers.SGD(0.1)), "mse")
        callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
        net.fit(inputs, targets, batch_size=BATCH // size(), verbose=0, callbacks=[callback])
        same_on_all_ranks(net.get_weights())
        assert callback.broadcast_done


class Noting:
    """Makes a callback that calls a function at the end of each epoch or batch with (callback, number, logs)."""

    def __new__(cls, module, epoch=None, batch=None):
        class Callback(module.callbacks.Callback):
            def on_epoch_end(self, number, logs=None):
                if epoch is not None:
                    epoch(self, number, logs)

            def on_batch_end(self, number, logs=None):
                if batch is not None:
                    batch(self, number, logs)

        return Callback()


@check
def metrics_are_averaged_over_the_ranks_that_have_them():
    for hvd, module in SIDES:
        own, averaged, alone_here = [], [], []

        def note_own(_, epoch, logs):
            own.append(logs["loss"])
            logs["rank"] = numpy.float32(rank())
            logs["note"] = "text"
            if rank() == 0:
                logs["of the first"] = 5.0

        def note_averaged(_, epoch, logs):
            averaged.append(logs["loss"])
            assert logs["rank"] == (size() - 1) / 2 and logs["note"] == "text", logs
            alone_here.append(logs.get("of the first"))

        trained(module, [Noting(module, note_own), hvd.callbacks.MetricAverageCallback(device="/cpu:0"), Noting(module, note_averaged)])
        everywhere = horovod.numpy.allgather(numpy.array([own], "float64"))
        close([averaged], [everywhere.mean(axis=0)], 1e-6)
        assert alone_here == [5.0 if rank() == 0 else None] * 2, alone_here


def rates(module, callback, optimizer=None, epochs=4):
    """The learning rate of each batch of a fit() with a callback, and the rates in the history."""
    found = []
    trained_net, history = trained(module, [callback, Noting(module, batch=lambda one, *_: found.append(
        of.learning_rate(one.model.optimizer)))], optimizer, epochs=epochs)
    del trained_net
    return found, history.get("lr")


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
    hvd, module = of_tf()
    kinds = [module.optimizers.SGD, module.optimizers.RMSprop]
    kinds += [module.optimizers.legacy.SGD] if has_legacy(module) else []
    for kind in kinds:
        for corrected in (True, False):
            before, after = [], []

            def note(one, batch, logs):
                if one.model.optimizer.iterations == 4:
                    before.extend(number(velocity) for velocity in of.velocities(one.model.optimizer))

            callback = hvd.callbacks.LearningRateScheduleCallback(0.05, lambda epoch: 1.0 / (1 + epoch), momentum_correction=corrected)
            net, _ = trained(module, [callback, Noting(module, batch=note)], kind(0.05, momentum=0.9), epochs=1)
            callback.on_epoch_begin(1)
            callback.on_batch_begin(0)  # halves the rate
            after = [number(velocity) for velocity in of.velocities(net.optimizer)]
            assert len(before) == len(after) == 4
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
    for number_of_side, (hvd, module) in enumerate(SIDES):
        for weights_only in (False, True) if hvd is SIDES[1][0] else (False,):
            options = {"save_weights_only": True} if weights_only else {}
            file = folder() / f"best.{number_of_side}.{rank()}{'.weights.h5' if weights_only else '.keras'}"
            callback = hvd.callbacks.BestModelCheckpoint(monitor="loss", verbose=1, mode="min", save_freq="epoch", **options)
            text = raises(ValueError, trained, module, [callback])
            assert "set its attribute filepath" in text, text
            callback.filepath = str(file)
            kept = []
            with contextlib.redirect_stdout(io.StringIO()):
                net, history = trained(module, [callback, Noting(module, lambda one, epoch, logs: kept.append(one.model.get_weights()))])
            best = kept[int(numpy.argmin(history["loss"]))]
            if weights_only:
                net.set_weights([weight * 0 for weight in best])
                net.load_weights(str(file))
                close(net.get_weights(), best, 0)
            else:
                close(module.models.load_model(str(file)).get_weights(), best, 0)
        every_batch = hvd.callbacks.BestModelCheckpoint(save_freq=3, monitor="loss")
        assert every_batch.save_freq == 3
