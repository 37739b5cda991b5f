"""A GPU hangs, and the job fails. Each rank runs this program, and commits its elastic state after each batch."""
import gpu  # (first: it restarts the program)
import threading

import torch

import horovod.torch as hvd

BATCHES = 4
VICTIM = 1
GIVEN_UP_S = 10  # beyond the shutdown time


def main():
    hvd.init()
    with gpu.present():
        model = torch.nn.Linear(1, 1, bias=False).to("cuda")
        with torch.no_grad():
            model.weight.fill_(1.0)
        batch = 0

        def hang(_):
            """The GPU of a rank hangs when the last gradient is there, until the job has failed."""
            if batch == BATCHES - 1 and hvd.rank() == VICTIM:
                gpu.settle()
                gpu.stop()
                threading.Timer(GIVEN_UP_S, gpu.go_on).start()

        model.weight.register_post_accumulate_grad_hook(hang)  # in front of Horovod's
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.125), model.named_parameters())
        state = hvd.elastic.TorchState(model, optimizer, batch=0)
        try:
            for batch in range(1, BATCHES):
                optimizer.zero_grad()
                model(torch.ones(1, 1, device="cuda")).sum().backward()
                optimizer.step()
                state.batch = batch
                state.commit()
        except hvd.HorovodInternalError as error:
            state.restore()
            print(f"rank {hvd.rank()} has batch {state.batch} with {model.weight.item()}: {error}", flush=True)


if __name__ == "__main__":
    main()
