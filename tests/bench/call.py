"""What an allreduce costs a Python program over what it costs in C: the extension alone, with arrays of the standard
library ("array") or tensors of PyTorch ("torch"), or horovod.torch as programs use it ("layer"). As one call, which is
compared with one call in C; behind the kind "-async" submits and waits, in C as well.

call.py LIBRARY KIND TURNS CALLS prints a JSON object: the medians over the turns of "c", the nanoseconds of a call in C,
and of "over", what the one from Python takes more, which was timed right behind. The loop without a call is taken off.
"""
import array
import ctypes
import json
import statistics
import sys
import time


def calls(kind):
    """(the function that reduces one element in place, the one that ends the job)."""
    from horovod import _core  # pylint: disable=import-outside-toplevel
    _core.init(None, [])
    submit, wait, reduce, summed = _core.allreduce_async, _core.wait, _core.allreduce, _core.SUM
    of, is_async = kind.split("-")[0], kind.endswith("-async")
    if of == "array":
        data = array.array("f", [1.0])
    else:
        import torch  # pylint: disable=import-outside-toplevel
        torch.set_num_threads(1)
        data = torch.ones(1)
    if of != "layer":
        if is_async:
            return lambda: wait(submit(data, data, "call", summed, 1.0, 1.0, 0)), _core.shutdown
        return lambda: reduce(data, data, "call", summed, 1.0, 1.0, 0), _core.shutdown
    import horovod.torch as hvd  # pylint: disable=import-outside-toplevel
    if is_async:
        return lambda: hvd.synchronize(hvd.allreduce_async_(data, name="call", op=summed)), _core.shutdown
    return lambda: hvd.allreduce_(data, name="call", op=summed), _core.shutdown


def timed(function, count):
    """The mean of so many calls in nanoseconds."""
    begin = time.perf_counter_ns()
    for _ in range(count):
        function()
    return (time.perf_counter_ns() - begin) / count


def turns(library, kind, n_turns, n_calls):
    """[(a call in C, what one from Python takes more)] of each turn."""
    function, end = calls(kind)
    in_c = getattr(ctypes.CDLL(library), "bench_call_async" if kind.endswith("-async") else "bench_call")
    in_c.restype = ctypes.c_double
    found = []
    for _ in range(n_turns):
        c = in_c(n_calls)
        assert c > 0, "a call from C failed"
        found.append((c, timed(function, n_calls) - timed(lambda: None, n_calls) - c))
    end()
    return found


def main():
    library, kind, n_turns, n_calls = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    c, over = map(statistics.median, zip(*turns(library, kind, n_turns, n_calls)))
    print(json.dumps({"c": c, "over": over}))


if __name__ == "__main__":
    main()
