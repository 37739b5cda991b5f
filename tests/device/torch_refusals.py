"""torch_refusals.py context|capture: the context of the GPU is bound by the first tensor there, and a capture is refused."""
import ctypes
import sys

import torch

import horovod.torch as hvd
from torch_machine import DEVICE, IS_GPU, run, settle, verdict


def is_bound():
    """Whether this process has a context on the first GPU."""
    if not IS_GPU:
        return False
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuInit(0)
    flags, active = ctypes.c_uint(), ctypes.c_int()
    if driver.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)):
        raise RuntimeError("cuDevicePrimaryCtxGetState fails")
    return active.value == 1


def check_context():
    hvd.init()
    verdict("no context after init", not is_bound())
    hvd.allreduce(torch.ones(10), name="host")
    verdict("no context after a tensor of the host", not is_bound())
    value = hvd.allreduce(torch.ones(10, device=DEVICE), name="gpu", op=hvd.Sum)
    verdict("a context with the first tensor", (is_bound() or not IS_GPU) and value.sum().item() == 10)
    hvd.shutdown()


def refused_in_capture(tensor):
    """The sentence by which a call in a capture is refused; "" if it is not."""
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    text = ""
    with torch.cuda.stream(stream):
        graph.capture_begin()
        try:
            hvd.allreduce_(tensor, name="captured", op=hvd.Sum)
        except Exception as error:  # pylint: disable=broad-exception-caught  (which one is the question)
            text = str(error)
        finally:
            graph.capture_end()
    return text


def check_capture():
    hvd.init()
    tensor = torch.ones(10, device=DEVICE)
    hvd.allreduce_(tensor, name="before", op=hvd.Sum)
    text = refused_in_capture(tensor) if IS_GPU else "captured into a graph"
    verdict("a capture is refused", "captured into a graph" in text, text or "it was accepted")
    hvd.allreduce_(tensor, name="after", op=hvd.Sum)
    settle()
    verdict("a tensor after the capture", tensor.sum().item() == 10)
    hvd.shutdown()


if __name__ == "__main__":
    sys.exit(run([({"context": "no context after init", "capture": "a capture is refused"}[sys.argv[1]],
                   {"context": check_context, "capture": check_capture}[sys.argv[1]])]))
