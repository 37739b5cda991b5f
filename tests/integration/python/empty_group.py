"""A rank of a job: the last one has a group without arrays, the others one of two, by a name or by numbers, after one that all have.

The others write what they are told of the stall, and make the file MARK; the last one waits for that, and submits nothing.
"""
import array
import os
import pathlib
import sys
import time

import horovod.numpy as hvd

NAME = sys.argv[1] or None
MARK = pathlib.Path(os.environ["MARK"])


def arrays():
    return [array.array("d", [1.0]), array.array("d", [2.0, 3.0])]


hvd.init()
sums = hvd.grouped_allreduce(arrays(), name=NAME, op=hvd.Sum)
assert [list(one) for one in sums] == [[hvd.size()], [2 * hvd.size(), 3 * hvd.size()]], sums
if hvd.rank() == hvd.size() - 1:
    assert hvd.grouped_allreduce([], name=NAME, op=hvd.Sum) == []
    while not MARK.exists():
        time.sleep(0.05)
else:
    try:
        hvd.grouped_allreduce(arrays(), name=NAME, op=hvd.Sum)
    except hvd.HorovodInternalError as error:
        os.write(1, f"told {hvd.rank()}: {error}\n".encode())  # in one piece, as ranks share the terminal
    MARK.touch()
hvd.shutdown()
