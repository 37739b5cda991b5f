"""Horovod's helpers for threads, which scripts use."""
import queue
import threading


def _check_arguments(args):
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}; for a single argument use (arg,)")


def in_thread(target, args=(), name=None, daemon=True, silent=False):
    """Starts a thread that calls target(*args), and returns it. silent: hides the exceptions of target."""
    _check_arguments(args)

    def quietly(*arguments):
        try:
            target(*arguments)
        except Exception:  # pylint: disable=broad-except  # silent=True
            pass

    thread = threading.Thread(target=quietly if silent else target, args=args, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(event, func, args=(), stop=None, check_stop_interval_s=1.0, daemon=True, silent=False):
    """Starts a thread that calls func(*args) once the event is set, unless the event `stop` is set before.

    Returns the thread. It checks `stop` every check_stop_interval_s seconds.
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
    """Calls fn(*args) for each args of the list, in at most max_concurrent_executions threads.

    Waits for all calls, and returns {index of the args: result}, or raises the exception of the first call that failed.
    Without block_until_all_done returns None at once.
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
            except Exception as failure:  # pylint: disable=broad-except  # the calling thread raises it
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
