"""culprit.py: ranks reduce for ever, until the rank CULPRIT_RANK does what CULPRIT_CAUSE says. The others end as Python does."""

import array
import os
import signal
import sys
import threading
import time

import horovod.numpy as hvd

CAUSE = os.environ["CULPRIT_CAUSE"]
STEPS_BEFORE = 5


def fail():
    """Ends this rank in the way that is asked for."""
    if CAUSE == "raise":
        raise ValueError("bad batch")
    if CAUSE == "code":
        sys.exit(3)
    if CAUSE == "words":
        sys.exit("no data")
    if CAUSE == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    if CAUSE == "_exit":
        os._exit(3)
    if CAUSE == "thread":
        thread = threading.Thread(target=lambda: {}["learning_rate"])
        thread.start()
        thread.join()
        sys.exit(1)


def main():
    """Everything."""
    is_culprit = os.environ["OMPI_COMM_WORLD_RANK"] == os.environ["CULPRIT_RANK"]
    if is_culprit and CAUSE == "before":
        raise ValueError("bad configuration")
    hvd.init()
    data = array.array("f", [1.0] * 16)
    step = 0
    while True:
        hvd.allreduce(data, name=f"gradient.{step % 4}")
        step += 1
        if step == STEPS_BEFORE:
            print("under way", file=sys.stderr, flush=True)
            if is_culprit:
                fail()


main()
