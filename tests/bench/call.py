"""What an allreduce costs a Python program, as call.c has it for C: the extension alone, with arrays of the standard
library ("array") or tensors of PyTorch ("torch"), or horovod.torch as programs use it ("layer").

call.py KIND TURNS CALLS prints the nanoseconds of each turn; the loop without a call is taken off.
"""
import array
import sys
import time


def calls(kind):
    """The function that reduces one element in place."""
    from horovod import _core  # pylint: disable=import-outside-toplevel
    _core.init(None, [])
    submit, wait, summed = _core.allreduce_async, _core.wait, _core.SUM
    if kind == "array":
        data = array.array("f", [1.0])
    else:
        import torch  # pylint: disable=import-outside-toplevel
        torch.set_num_threads(1)
        data = torch.ones(1)
    if kind != "layer":
        return lambda: wait(submit(data, data, "call", summed, 1.0, 1.0, 0)), _core.shutdown
    import horovod.torch as hvd  # pylint: disable=import-outside-toplevel
    return lambda: hvd.synchronize(hvd.allreduce_async_(data, name="call", op=summed)), _core.shutdown


def timed(function, count):
    begin = time.perf_counter_ns()
    for _ in range(count):
        function()
    return (time.perf_counter_ns() - begin) / count


def main():
    kind, turns, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    function, end = calls(kind)
    for _ in range(turns):
        empty = timed(lambda: None, count)
        print(f"{timed(function, count) - empty:.1f}", flush=True)
    end()


if __name__ == "__main__":
    main()
