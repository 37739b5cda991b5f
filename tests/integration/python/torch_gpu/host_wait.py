"""With HOROVOD_ENABLE_ASYNC_COMPLETION=0 synchronize waits until the GPU has done the operation: each rank runs this program."""
import gpu  # (first: it restarts the program)
import threading

import torch

import horovod.torch as hvd


def main():
    hvd.init()
    has_gone_on = threading.Event()

    def go_on():
        has_gone_on.set()
        gpu.go_on()

    with gpu.present():
        tensor = torch.ones(100, device="cuda")
        hvd.allreduce_(tensor, name="warm", op=hvd.Sum)
        gpu.settle()
        with gpu.standing_still():
            handle = hvd.allreduce_async_(tensor, name="reduced", op=hvd.Sum)
            timer = threading.Timer(0.3, go_on)
            timer.start()
            hvd.synchronize(handle)
            print("waited" if has_gone_on.is_set() else "did not wait", flush=True)
            timer.join()
        assert tensor.tolist() == [hvd.size() ** 2] * 100
    hvd.shutdown()


if __name__ == "__main__":
    main()
