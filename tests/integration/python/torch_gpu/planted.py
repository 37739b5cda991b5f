"""One rank submits on a stream and synchronizes on another one, with an extension that has a bug. The doubles end it with what they
have found, else it prints that nothing was."""
import os

os.environ["HVD_FAKE_GPU_FATAL"] = "1"
import gpu  # noqa: E402  (restarts the program)
import torch  # noqa: E402

import horovod.torch as hvd  # noqa: E402


def step(submitting, using, number):
    """Scales tensors, so that one rank has something to do."""
    with submitting.current():
        handles = [hvd.allreduce_async(torch.ones(2000, device="cuda"), name=f"new.{number}", op=hvd.Sum, prescale_factor=2.0),
                   hvd.allreduce_async_(torch.ones(2000, device="cuda"), name=f"in place.{number}", op=hvd.Sum, prescale_factor=2.0),
                   hvd.grouped_allreduce_async([torch.ones(500, device="cuda")] * 2, name=f"group.{number}", op=hvd.Sum,
                                               prescale_factor=2.0)]
    with using.current():
        for handle in handles:
            result = hvd.synchronize(handle)
            assert (result[0] if isinstance(result, tuple) else result).sum().item() > 0


def main():
    """Some steps, all of whose streams are new."""
    hvd.init()
    with gpu.present():
        for number in range(3):
            step(gpu.Stream(), gpu.Stream(), number)
    gpu.settle()
    print("nothing was found", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
