"""Threads, as scripts for Horovod start them."""
import queue
import threading


def _check_arguments(args):
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}; for a single argument use (arg,)")


def in_thread(target, args=(), name=None, daemon=True, silent=False):
    """Calls target(*args) in a thread, which is started and returned. silent: exceptions of it are not shown."""
    _check_arguments(args)

    def quietly(*arguments):
        try:
            target(*arguments)
        except Exception:  # pylint: disable=broad-except  # as was asked for
            pass

    thread = threading.Thread(target=quietly if silent else target, args=args, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(event, func, args=(), stop=None, check_stop_interval_s=1.0, daemon=True, silent=False):
    """Calls func(*args) in a thread once the event is set; never when the event `stop` is set before. The thread.

    While it waits it looks after `stop` every so many seconds.
    """
    if event is None:
        raise ValueError("Event must not be None")
    _check_arguments(args)

    def wait():
        while not event.wait(check_stop_interval_s if stop is not None else None):
            if stop.is_set():
                return
        if stop is None or not stop.is_set():
            func(*args)

    return in_thread(wait, daemon=daemon, silent=silent)


def execute_function_multithreaded(fn, args_list, block_until_all_done=True, max_concurrent_executions=1000):
    """Calls fn(*args) for each args of the list, each in one of so many threads.

    {index of the args: what fn returned}, when all are done; the first exception of a call is raised then. None at
    once, if that is not waited for.
    """
    waiting, results, failures = queue.Queue(), {}, []
    for call in enumerate(args_list):
        waiting.put(call)

    def work():
        while True:
            try:
                index, args = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                results[index] = fn(*args)
            except Exception as failure:  # pylint: disable=broad-except  # raised by the caller
                failures.append((index, failure))

    threads = [in_thread(work, daemon=not block_until_all_done)
               for _ in range(min(max_concurrent_executions, len(args_list)))]
    if not block_until_all_done:
        return None
    for thread in threads:
        thread.join()
    if failures:
        raise min(failures, key=lambda failed: failed[0])[1]
    return results
