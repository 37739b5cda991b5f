"""Checks of fit() in jobs that begin anew: its timeline, and after the end of a job."""
import json
import os

import tensorflow as tf
from checks import check, raises
from networks import BATCH, EPOCHS, OPTIMIZERS, STEPS, fit, folder, mine, network, of_tf, rows, size

import horovod.numpy

NETS = []  # that fit() has trained, in a graph and eagerly


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
    NETS.clear()
    for number, options in enumerate(({}, {"run_eagerly": True})):
        file = folder() / f"timeline.{number}.json"
        net = network(module)
        net.compile(hvd.DistributedOptimizer(OPTIMIZERS["sgd"](module)), "mse", **options)
        NETS.append(net)
        horovod.numpy.barrier()
        hvd.start_timeline(str(file), mark_cycles=True)
        fit(net, *map(mine, rows()), BATCH // size())
        horovod.numpy.barrier()
        hvd.stop_timeline()
        horovod.numpy.barrier()
        if horovod.numpy.rank() == 0:
            assert backward(json.loads(file.read_text(encoding="utf-8"))) == "BE" * STEPS * EPOCHS


@check
def after_the_job_fit_raises_until_another_begins():
    hvd, _ = of_tf()
    everyone, data, batch = list(range(size())), [mine(array) for array in rows()], BATCH // size()
    horovod.numpy.barrier()
    hvd.shutdown()
    for net, kind in zip(NETS, (tf.errors.FailedPreconditionError, ValueError), strict=True):
        assert "Horovod has not been initialized" in raises(kind, fit, net, *data, batch)
    hvd.init(comm=everyone, process_sets="dynamic")
