"""Training that continues after ranks were lost and when hosts are added or removed.

A State holds the data that a training would lose. run_fn repeats a training function from the last committed state
whenever the job was formed anew. The frameworks' modules complete both.
"""
import copy
import functools
import queue

from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt


class HostUpdateResult:
    """How the hosts of the job have changed; one update may add and remove hosts."""
    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class NotificationManager:
    """Notifies the states of this process of changes to the hosts of the job."""

    def __init__(self):
        self._listeners = set()

    def init(self):
        """Called before each training; does nothing."""

    def register_listener(self, listener):
        """Calls listener.on_hosts_updated with each update from now on."""
        self._listeners.add(listener)

    def remove_listener(self, listener):
        """Removes a listener, which may be unknown."""
        self._listeners.discard(listener)

    def handle_hosts_updated(self, timestamp, update_res):
        """Passes an update (a time that grows, a HostUpdateResult) to the listeners. Any thread may call it."""
        for listener in list(self._listeners):
            listener.on_hosts_updated(timestamp, update_res)


WorkerNotificationManager = NotificationManager  # Horovod's name
notification_manager = NotificationManager()


class State:
    """The data that all ranks must share to continue a training after the job was formed anew.

    bcast_object(obj) returns the object of rank 0 on every rank; get_rank() is this rank.
    """

    def __init__(self, bcast_object, get_rank):
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._updates = queue.Queue()
        self._last_update = 0
        self._reset_callbacks = []

    def register_reset_callbacks(self, callbacks):
        """Adds functions to call after each reset, for data that depends on the number of ranks."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        """After the job was formed anew, drops the updates that led to it, and calls the callbacks."""
        self._updates = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp, update_res):
        """Stores an update for the next check. Any thread may call it."""
        self._updates.put((timestamp, update_res))

    def commit(self):
        """Saves, then raises HostsUpdatedInterrupt if the hosts have changed."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self):
        """Raises HostsUpdatedInterrupt on every rank at the same call, once rank 0 has an update."""
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
        """Restores the state that was saved last."""
        raise NotImplementedError

    def sync(self):
        """Copies the state of rank 0 to every rank."""
        raise NotImplementedError

    def reset(self):
        """Called after the job was formed anew, before the callbacks."""


class ObjectState(State):
    """A State of Python objects: its attributes that the keyword arguments name."""

    def __init__(self, bcast_object, get_rank, **kwargs):
        self._saved_state = kwargs
        self._set_attrs()
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)

    def save(self):
        """Copies the attributes deeply, so that later changes within them do not alter the saved state."""
        self._saved_state = {name: copy.deepcopy(getattr(self, name)) for name in self._saved_state}

    def restore(self):
        """Restores the attributes that were saved last."""
        self._set_attrs()

    def sync(self):
        """Copies the attributes of rank 0 to every rank, and saves them."""
        if self._saved_state:
            self.save()
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attrs()

    def _set_attrs(self):
        for name, value in self._saved_state.items():
            setattr(self, name, copy.deepcopy(value))


def run_fn(func, reset):
    """Wraps func(state, ...) so that it continues after failures: reset() forms the job anew.

    After HorovodInternalError the wrapper restores the state. After HostsUpdatedInterrupt training continues with the
    current state; if hosts were only removed, no state has to be synchronised.
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
