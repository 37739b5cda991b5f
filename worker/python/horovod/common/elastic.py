"""Training that goes on after ranks were lost and when hosts come or go.

A State is what a training would lose; run_fn repeats a training function from the last committed
state whenever the job had to be formed anew. Frameworks give both what they need of them.
"""
import copy
import functools
import queue

from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt


class HostUpdateResult:
    """What became of the hosts of the job; both may happen in one update."""
    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class NotificationManager:
    """Tells the states of this process that the hosts of the job have changed."""

    def __init__(self):
        self._listeners = set()

    def init(self):
        """Called before each training; there is nothing to begin with here."""

    def register_listener(self, listener):
        """From now on listener.on_hosts_updated is called with each update."""
        self._listeners.add(listener)

    def remove_listener(self, listener):
        """The listener is told no more; it may be unknown."""
        self._listeners.discard(listener)

    def handle_hosts_updated(self, timestamp, update_res):
        """Passes an update (a time that grows, a HostUpdateResult) on; from any thread."""
        for listener in list(self._listeners):
            listener.on_hosts_updated(timestamp, update_res)


WorkerNotificationManager = NotificationManager  # as Horovod calls it
notification_manager = NotificationManager()


class State:
    """What all ranks must share to go on with a training after the job was formed anew.

    bcast_object(obj) returns the object of rank 0 on every rank; get_rank() is this rank.
    """

    def __init__(self, bcast_object, get_rank):
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._updates = queue.Queue()
        self._last_update = 0
        self._reset_callbacks = []

    def register_reset_callbacks(self, callbacks):
        """Functions to call after each reset, for what depends on the number of ranks."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        """The job was formed anew: forgets updates that led to it, and calls the callbacks."""
        self._updates = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp, update_res):
        """Remembers an update for the next check; from any thread."""
        self._updates.put((timestamp, update_res))

    def commit(self):
        """Saves, then raises HostsUpdatedInterrupt if the hosts have changed."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self):
        """HostsUpdatedInterrupt on every rank at the same call, once rank 0 knows of an update."""
        newest, result = self._last_update, HostUpdateResult.no_update
        while not self._updates.empty():
            timestamp, update = self._updates.get()
            if timestamp > self._last_update:
                newest, result = max(newest, timestamp), result | update
        before, self._last_update, result = self._bcast_object((self._last_update, newest, result))
        if self._last_update > before:
            raise HostsUpdatedInterrupt(result == HostUpdateResult.removed)

    def save(self):
        """Keeps a copy of the state in memory."""
        raise NotImplementedError

    def restore(self):
        """Goes back to what was saved last."""
        raise NotImplementedError

    def sync(self):
        """Gives every rank the state of rank 0."""
        raise NotImplementedError

    def reset(self):
        """The job was formed anew; called before the callbacks."""


class ObjectState(State):
    """A State of Python objects, which are attributes of it: those that the arguments name."""

    def __init__(self, bcast_object, get_rank, **kwargs):
        self._saved_state = kwargs
        self._set_attrs()
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)

    def save(self):
        """Copies the attributes, so that what changes within them later is not saved."""
        self._saved_state = {name: copy.deepcopy(getattr(self, name)) for name in self._saved_state}

    def restore(self):
        """Sets the attributes to what was saved last."""
        self._set_attrs()

    def sync(self):
        """Sets and saves the attributes that rank 0 has now."""
        if self._saved_state:
            self.save()
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attrs()

    def _set_attrs(self):
        for name, value in self._saved_state.items():
            setattr(self, name, copy.deepcopy(value))


def run_fn(func, reset):
    """func(state, ...) made to go on after failures: reset() forms the job anew.

    After HorovodInternalError the state is restored; after HostsUpdatedInterrupt training goes on
    from where it is, and where ranks only left there is nothing to synchronise.
    """

    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        notification_manager.init()
        notification_manager.register_listener(state)
        try:
            return _repeat(functools.partial(func, state, *args, **kwargs), state, reset)
        finally:
            notification_manager.remove_listener(state)

    return wrapper


def _repeat(train, state, reset):
    skip_sync = False
    while True:
        try:
            if not skip_sync:
                state.sync()
            return train()
        except HorovodInternalError:
            state.restore()
            skip_sync = False
        except HostsUpdatedInterrupt as interrupt:
            skip_sync = interrupt.skip_sync
        reset()
        state.on_reset()
