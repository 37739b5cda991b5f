"""Ends a training in one of several bad ways: torch_endings.py WAY. No rank may hang."""
import os
import signal
import sys
import threading
import time

import torch

import horovod.torch as hvd


def raise_in_one_rank():
    """The others wait for a tensor that it never submits."""
    if hvd.rank() == 1:
        raise KeyError("an exception of rank 1")
    hvd.allreduce(torch.ones(1000), name="gradient")


def raise_in_one_rank_during_backward():
    """In the midst of hooks, with some gradients submitted and some not."""
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(4)))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))

    def fail(_):
        raise KeyError("an exception of rank 1")

    if hvd.rank() == 1:
        model[1].weight.register_hook(fail)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()


def exit_with_operations_outstanding():
    """Every rank has submitted something that the other has not, and just ends."""
    try:
        hvd.allreduce_async(torch.ones(1000), name=f"of rank {hvd.rank()}")
        hvd.allgather_async(torch.ones(1000), name=f"gathered by rank {hvd.rank()}")
    except hvd.HorovodInternalError:  # the other has ended already
        pass
    print(f"rank {hvd.rank()} ends")


def exit_with_operations_done_and_not_waited_for():
    """Nobody asks for the results, which are there on every rank."""
    handles = [hvd.allreduce_async(torch.ones(1000), name=f"tensor.{i}") for i in range(50)]
    while not all(hvd.poll(handle) for handle in handles):
        time.sleep(0.01)
    print(f"rank {hvd.rank()} ends")


def go_on_after_the_failure_of_a_peer():
    """HorovodInternalError can be caught, and says who left."""
    if hvd.rank() == 1:
        return
    try:
        hvd.allreduce(torch.ones(1000), name="gradient")
    except hvd.HorovodInternalError as error:
        print("caught:", error)


def go_on_after_an_interrupt_of_a_sparse_wait():
    """The handle can be called again, and has lost nothing."""
    if hvd.rank() == 1:
        hvd.barrier()  # rank 0 was interrupted
    handle = hvd.sparse_allreduce_async(torch.eye(2).to_sparse(), "sparse", hvd.Sum)
    if hvd.rank() == 0:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            handle()
        except KeyboardInterrupt:
            print("interrupted")
        hvd.barrier()
    print(hvd.synchronize(handle=handle).to_dense().tolist())


if __name__ == "__main__":
    hvd.init()
    globals()[sys.argv[1]]()
