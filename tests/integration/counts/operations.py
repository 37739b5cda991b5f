"""Reduces arrays from Python: operations.py FORM CALLS LENGTH prints how often another thread got the interpreter meanwhile.

FORM: "once" for one call, "apart" to submit and to wait. CALLS 0: until it did.
"""
import array
import json
import sys
import threading
import time

import horovod.numpy as hvd


class Other:
    """A thread that takes the interpreter whenever it is given up, and counts that."""
    def __init__(self):
        self.turns = 0
        self.has_to_end = False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.has_to_end:
            self.turns += 1
            time.sleep(0)


def main():
    form, calls, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    hvd.init()
    data = array.array("f", [0.0] * length)

    def reduce():
        if form == "once":
            hvd.allreduce_(data, name="t", op=hvd.Sum)
        else:
            hvd.synchronize(hvd.allreduce_async_(data, name="t", op=hvd.Sum))

    for _ in range(100):
        reduce()
    sys.setswitchinterval(1000)  # seconds: nobody is made to give it up
    other = Other()
    other.thread.start()
    before = other.turns
    for _ in range(calls):
        reduce()
    while calls == 0 and other.turns == before:
        reduce()
    turns = other.turns - before
    other.has_to_end = True
    other.thread.join()
    print(json.dumps({"turns": turns}), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
