"""Checks of the timeline of fit(), in a job that begins anew because it may write one."""
import json
import os

from checks import check
from networks import BATCH, EPOCHS, OPTIMIZERS, STEPS, fit, folder, mine, network, of_tf, rows, size

import horovod.numpy


def backward(events):
    """The marks of backward passes in a timeline, "B" and "E"."""
    names, marks = [], []
    for event in events:
        if event["ph"] == "B":
            names.append((event["pid"], event["name"]))
        if event["ph"] == "B" and event["name"] == "BACKWARD" or event["ph"] == "E" and (event["pid"], "BACKWARD") in names:
            marks.append(event["ph"])
            if event["ph"] == "E":
                names.remove((event["pid"], "BACKWARD"))
    return "".join(marks)


@check
def fit_marks_backward_passes_in_the_timeline():
    hvd, module = of_tf()
    everyone = list(range(size()))
    hvd.shutdown()
    os.environ["HOROVOD_TIMELINE"] = "DYNAMIC"
    hvd.init(comm=everyone, process_sets="dynamic")
    for number, options in enumerate(({}, {"run_eagerly": True})):
        file = folder() / f"timeline.{number}.json"
        net = network(module)
        net.compile(hvd.DistributedOptimizer(OPTIMIZERS["sgd"](module)), "mse", **options)
        horovod.numpy.barrier()
        hvd.start_timeline(str(file), mark_cycles=True)
        fit(net, *map(mine, rows()), BATCH // size())
        horovod.numpy.barrier()
        hvd.stop_timeline()
        horovod.numpy.barrier()
        if horovod.numpy.rank() == 0:
            assert backward(json.loads(file.read_text(encoding="utf-8"))) == "BE" * STEPS * EPOCHS
