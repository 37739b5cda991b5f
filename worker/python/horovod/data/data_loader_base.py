"""Loaders of batches, and a mixin that prefetches in a thread."""
import queue
import threading


class BaseDataLoader:
    """A loader that training iterates over: _iterate() yields batches, len() returns their number."""

    def __len__(self):
        raise NotImplementedError()

    def _iterate(self):
        raise NotImplementedError()

    def __iter__(self):
        for batch in self._iterate():
            yield self._process_batch(batch)

    def _process_batch(self, batch):
        return batch


class _End:
    """Marks the end of an epoch in the queue, with the exception that ended it, if any."""

    def __init__(self, error=None):
        self.error = error


class AsyncDataLoaderMixin:
    """Prefetches up to `async_loader_queue_size` batches in a thread: class Loader(AsyncDataLoaderMixin, MyLoader).

    With a size of 0 it does nothing. close_async_loader() ends the thread.
    """

    def __init__(self, async_loader_queue_size=64, debug_data_loader=False, *args, **kwargs):
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        super().__init__(*args, **kwargs)
        self.async_loader_thread = None
        self.async_loader_queue = None
        self._must_stop = None

    def _start(self):
        self.async_loader_queue = queue.Queue(self.async_loader_queue_size)
        self._must_stop = threading.Event()
        self.async_loader_thread = threading.Thread(
            target=self._load, args=(self.async_loader_queue, self._must_stop), daemon=True)
        self.async_loader_thread.start()

    @staticmethod
    def _put(batches, must_stop, batch):
        while not must_stop.is_set():
            try:
                batches.put(batch, timeout=0.1)
                return
            except queue.Full:
                pass

    def _load(self, batches, must_stop):
        """Loads one epoch."""
        try:
            for batch in self._iterate():
                self._put(batches, must_stop, batch)
                if must_stop.is_set():
                    return
            self._put(batches, must_stop, _End())
        except Exception as error:  # pylint: disable=broad-except  # __iter__() raises it
            self._put(batches, must_stop, _End(error))

    def close_async_loader(self):
        """Ends the thread, also in the middle of an epoch."""
        if self.async_loader_thread is None:
            return
        self._must_stop.set()
        self.async_loader_thread.join()
        self.async_loader_thread = None

    def __iter__(self):
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()
            return
        self.close_async_loader()
        self._start()
        try:
            while True:
                batch = self.async_loader_queue.get()
                if isinstance(batch, _End):
                    if batch.error is not None:
                        raise batch.error
                    return
                yield self._process_batch(batch)
        finally:
            self.close_async_loader()
