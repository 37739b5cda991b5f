"""Checks of the elastic state and its callbacks, in a job that keeps its ranks."""
import numpy
from callbacks import compiled
from checks import check
from networks import SIDES, close, drive, has_legacy, number, rank, same_on_all_ranks, stepped

import horovod.numpy
from horovod._keras import variables as of
from horovod.common.exceptions import HorovodInternalError


class State:
    """Counts commits."""

    def __init__(self, **values):
        self.commits = []
        self.__dict__.update(values)

    def commit(self):
        self.commits.append((self.epoch, self.batch))


@check
def callbacks_record_batches_and_epochs_and_commit():
    for hvd, module in SIDES:
        state = State(epoch=3, batch=0)
        callbacks = [hvd.elastic.UpdateBatchStateCallback(state), hvd.elastic.UpdateEpochStateCallback(state),
                     hvd.elastic.CommitStateCallback(state, batches_per_commit=3)]
        drive(module, compiled(module), callbacks, epochs=2)  # of four steps
        assert state.commits == [(3, 2), (4, 0), (4, 2), (5, 0)], state.commits
        assert (state.epoch, state.batch) == (5, 0)
        state = State(epoch=0, batch=0)
        drive(module, compiled(module), [hvd.elastic.CommitStateCallback(state)])
        assert len(state.commits) == 5, state.commits


@check
def an_epoch_that_is_continued_has_the_rest_of_its_steps():
    for hvd, _ in SIDES:
        state = State(epoch=0, batch=3)
        callback = hvd.elastic.UpdateBatchStateCallback(state)
        callback.set_params({"steps": 10})
        callback.on_train_begin()
        callback.on_epoch_begin(0)
        assert callback.params["steps"] == 7
        callback.on_epoch_end(0)
        callback.on_epoch_begin(1)
        assert callback.params["steps"] == 10


@check
def epochs_count_on_from_an_initial_epoch():
    for hvd, _ in SIDES:
        state = State(epoch=3, batch=0)
        callback = hvd.elastic.UpdateEpochStateCallback(state)
        callback.on_train_begin()
        callback.on_epoch_begin(3)  # fit(initial_epoch=3)
        callback.on_epoch_end(3)
        callback.on_epoch_begin(4)
        callback.on_epoch_end(4)
        assert state.epoch == 5, state.epoch


@check
def a_state_restores_and_synchronises_model_optimizer_and_values():
    for hvd, module in SIDES:
        kinds = [module.optimizers.Adam, *([module.optimizers.legacy.Adam] if has_legacy(module) else [])]
        for kind in kinds:
            net = compiled(module, kind(0.01 * (rank() + 1)), seed=rank())
            stepped(net, net.optimizer)
            state = hvd.elastic.KerasState(net, optimizer=net.optimizer, epoch=rank() + 5, batch=0)
            state.save()
            saved = [number(one).copy() for one in [*net.variables, *of.of_optimizer(net.optimizer)]]
            for one in [*net.variables, *of.of_optimizer(net.optimizer)]:
                one.assign(number(one) * 0)
            state.epoch = 9
            state.restore()
            close([number(one) for one in [*net.variables, *of.of_optimizer(net.optimizer)]], saved, 0)
            assert state.epoch == rank() + 5
            state.sync()
            same_on_all_ranks([number(one) for one in [*net.variables, *of.of_optimizer(net.optimizer)]])
            assert state.epoch == 5
            if rank() == 0:
                close([number(one) for one in [*net.variables, *of.of_optimizer(net.optimizer)]], saved, 0)


@check
def a_training_goes_on_from_the_last_commit_after_a_failure():
    for hvd, module in SIDES:
        net = compiled(module)
        state = hvd.elastic.KerasState(net, tries=0)
        tries = []

        @hvd.elastic.run
        def train(state, by):
            tries.append(net.get_weights()[0].copy())
            net.set_weights([weight + by for weight in net.get_weights()])
            if len(tries) == 1:
                raise HorovodInternalError("planted")
            return "done"

        assert train(state, by=1.0) == "done"
        assert len(tries) == 2
        close(tries[:1], tries[1:], 0)
        horovod.numpy.barrier()
        assert numpy.isfinite(net.get_weights()[0]).all()
