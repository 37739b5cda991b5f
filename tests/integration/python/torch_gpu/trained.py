"""Training on a GPU: the weights are those of a training on the host."""
import copy
import threading

import gpu
import torch
from checks import check, raises
from streams import does_nothing_more

import horovod.torch as hvd


def network():
    """A small network, the same on every rank."""
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def batches(steps=3, shape=(6,)):
    """This rank's batches, in host memory."""
    generator = torch.Generator().manual_seed(3 + hvd.rank())
    return [(torch.randn(4, *shape, generator=generator), torch.randn(4, 3, generator=generator)) for _ in range(steps)]


def sgd(parameters):
    """An optimizer with state."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def plain_step(optimizer, model, inputs, targets):
    """Forward, backward, step."""
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()


def train(device, step=plain_step, make=sgd, model=None, data=None, **options):
    """The weights after some steps on a device."""
    model = (network() if model is None else copy.deepcopy(model)).to(device)
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), model.named_parameters(), **options)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for inputs, targets in batches() if data is None else data:
        step(optimizer, model, inputs.to(device), targets.to(device))
    return [tensor.detach() for tensor in model.state_dict().values()]


def alike(device_and_host, tolerance=0.0):
    """The weights are on the GPU and those of the host, bit for bit where sums do not depend on their order."""
    for there, host in zip(*device_and_host):
        assert there.device == gpu.TYPE
        difference = (there.cpu().double() - host.double()).abs().max().item()
        assert difference <= (tolerance if hvd.size() < 3 else max(tolerance, 1e-5)), difference


def on_both(*arguments, **options):
    """The weights of a training on the GPU, and of the same on the host."""
    return [train(device, *arguments, **options) for device in ("cuda", "cpu")]


@check
def training_gives_the_weights_of_the_host():
    alike(on_both())
    alike(on_both(make=lambda parameters: torch.optim.Adam(parameters, lr=0.1, foreach=False)))


@check
def groups_and_factors_give_the_weights_of_the_host():
    for options in ({"groups": 1}, {"num_groups": 2}, {"op": hvd.Sum}, {"gradient_predivide_factor": 2.0},
                    {"compression": hvd.Compression.fp16}, {"groups": 2, "compression": hvd.Compression.bf16}):
        alike(on_both(**options), tolerance=1e-2 if "compression" in options else 0.0)
    model = network()
    alike([train(device, model=model, groups=None) for device in ("cuda", "cpu")])


@check
def several_passes_add_up_on_the_gpu():
    def two_passes(optimizer, model, inputs, targets):
        optimizer.zero_grad()
        for rows in (slice(0, 2), slice(2, 4)):
            torch.nn.functional.mse_loss(model(inputs[rows]), targets[rows]).backward()
        optimizer.step()

    alike(on_both(two_passes, backward_passes_per_step=2))


@check
def clipped_gradients_give_the_weights_of_the_host():
    def clipped(optimizer, model, inputs, targets):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1, foreach=False)
        with optimizer.skip_synchronize():
            optimizer.step()

    alike(on_both(clipped))


@check
def the_recipe_with_a_gradient_scaler_trains():
    def scaled(scaler):
        def step(optimizer, model, inputs, targets):
            optimizer.zero_grad()
            scaler.scale(torch.nn.functional.mse_loss(model(inputs), targets)).backward()
            optimizer.synchronize()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
            scaler.update()
        return step

    alike([train(device, scaled(torch.amp.GradScaler("cpu", init_scale=16.0))) for device in ("cuda", "cpu")], 1e-6)


@check
def adasum_trains_on_the_gpu():
    if hvd.size() & (hvd.size() - 1) == 0:
        alike(on_both(op=hvd.Adasum), 1e-5)


@check
def sync_batch_norm_gives_the_weights_of_the_host():
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), hvd.SyncBatchNorm(8), torch.nn.Linear(8, 3))
    copies = dict(gpu.copies)
    there = train("cuda", model=model, data=[])
    assert gpu.copies["to the host"] == copies["to the host"]
    assert there[0].device == gpu.TYPE
    alike(on_both(model=model), 1e-5)


@check
def a_layer_of_sync_batch_norm_copies_nothing_to_the_host():
    layer, inputs = hvd.SyncBatchNorm(4).to("cuda"), torch.ones(6, 4, device="cuda", requires_grad=True)
    layer(inputs).sum().backward()
    copies = dict(gpu.copies)
    layer(inputs).sum().backward()
    assert gpu.copies == copies, gpu.copies


@check
def sparse_gradients_stay_on_the_gpu():
    words = torch.arange(2 * hvd.size())[2 * hvd.rank():2 * hvd.rank() + 2]
    trained = []
    for device in ("cuda", "cpu"):
        torch.manual_seed(5)
        model = torch.nn.Embedding(8, 3, sparse=True).to(device)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        for _ in range(2):
            optimizer.zero_grad()
            model(words.to(device)).square().sum().backward()
            optimizer.step()
        assert model.weight.grad.is_sparse
        trained.append([model.weight.detach()])
    alike(trained, 1e-6)


@check
def parameters_on_the_host_and_on_the_gpu_share_an_optimizer():
    class Split(torch.nn.Module):
        def __init__(self, device):
            super().__init__()
            self.first, self.second = network()[0], network()[2].to(device)
            self.device = device

        def forward(self, inputs):
            return self.second(self.first(inputs.cpu()).to(self.device))

    trained = []
    for device in ("cuda", "cpu"):
        model = Split(device)
        optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), groups=1)
        for inputs, targets in batches():
            plain_step(optimizer, model, inputs, targets.to(device))
        assert model.first.weight.is_cpu
        trained.append([model.second.weight.detach()])
    alike(trained)


@check
def a_backward_pass_on_another_thread_and_stream_is_ordered():
    def elsewhere(optimizer, model, inputs, targets):
        stream = gpu.Stream()
        stream.wait_stream(torch.cuda.current_stream())

        def backward():
            with gpu.present(), stream.current():
                torch.nn.functional.mse_loss(model(inputs), targets).backward()

        optimizer.zero_grad()
        thread = threading.Thread(target=backward)
        thread.start()
        thread.join()
        if hvd.size() == 1:  # else step() orders the streams
            torch.cuda.current_stream().wait_stream(stream)
            for parameter in model.parameters():
                parameter.grad.record_stream(torch.cuda.current_stream())
        optimizer.step()

    alike([train("cuda", elsewhere), train("cpu")])


@check
def states_of_optimizers_are_broadcast_on_the_gpu():
    model = network().to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (1 + hvd.rank()), foreach=False)
    if hvd.rank() == 0:
        plain_step(optimizer, model, *(tensor.to("cuda") for tensor in batches()[0]))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.param_groups[0]["lr"] == 0.1
    for parameter in model.parameters():
        state = optimizer.state[parameter]
        assert state["exp_avg"].device == gpu.TYPE and state["step"].is_cpu
        for tensor in (parameter.detach(), state["exp_avg"]):
            gathered = hvd.allgather(tensor.reshape(1, -1).contiguous())
            assert all(torch.equal(row, gathered[0]) for row in gathered)


@check
def a_steady_step_of_the_optimizer_copies_nothing():
    model = network().to("cuda")
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), groups=1)  # one fused operation
    inputs, targets = (tensor.to("cuda") for tensor in batches(1)[0])

    def step():
        optimizer.zero_grad(set_to_none=False)
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()

    does_nothing_more(step)


@check
def flat_gradients_give_the_weights_of_the_host():
    for options in ({}, {"op": hvd.Sum}, {"gradient_predivide_factor": 2.0}, {"compression": hvd.Compression.fp16}):
        alike(on_both(flat_gradients=True, **options), tolerance=1e-2 if "compression" in options else 0.0)
    alike([train("cuda", flat_gradients=True), train("cpu")])

    def dropped(optimizer, model, inputs, targets):
        model.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()

    alike(on_both(dropped, flat_gradients=True))


@check
def flat_gradients_follow_a_model_to_the_gpu():
    trained = []
    for device in ("cuda", "cpu"):
        model = network()
        optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), flat_gradients=True)
        model.to(device)
        for inputs, targets in batches():
            plain_step(optimizer, model, inputs.to(device), targets.to(device))
        trained.append([parameter.detach() for parameter in model.parameters()])
        assert hvd.size() == 1 or all(parameter.grad.device == parameter.device for parameter in model.parameters())
    alike(trained)


@check
def flat_gradients_of_another_thread_and_stream_are_ordered():
    def elsewhere(optimizer, model, inputs, targets):
        optimizer.zero_grad()
        stream = gpu.Stream()
        stream.wait_stream(torch.cuda.current_stream())

        def backward():
            with gpu.present(), stream.current():
                torch.nn.functional.mse_loss(model(inputs), targets).backward()

        thread = threading.Thread(target=backward)
        thread.start()
        thread.join()
        if hvd.size() == 1:
            torch.cuda.current_stream().wait_stream(stream)
            for parameter in model.parameters():
                parameter.grad.record_stream(torch.cuda.current_stream())
        optimizer.step()

    alike([train("cuda", elsewhere, flat_gradients=True), train("cpu")])


@check
def flat_gradients_are_averaged_without_a_kernel_of_the_library():
    launches = []
    for options in ({"groups": 1}, {"flat_gradients": True}):
        model = network().to("cuda")
        optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), **options)
        inputs, targets = (tensor.to("cuda") for tensor in batches(1)[0])

        def step(optimizer=optimizer, model=model, inputs=inputs, targets=targets):
            optimizer.zero_grad(set_to_none=False)
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()

        does_nothing_more(step)
        before = gpu.counts()["launches"]
        step()
        gpu.settle()
        launches.append(gpu.counts()["launches"] - before)
    # packing, NCCL's kernel and unpacking; NCCL's alone
    assert launches == ([0, 0] if hvd.size() == 1 else [3, 1]), launches


@check
def a_second_derivative_of_sync_batch_norm_is_refused():
    if hvd.size() == 1:
        return  # it is PyTorch's own then
    layer = hvd.SyncBatchNorm(3)
    inputs = torch.arange(12.0).view(4, 3).requires_grad_()
    slope, = torch.autograd.grad(layer(inputs).square().sum(), inputs, create_graph=True)
    assert "differentiate twice" in raises(RuntimeError, slope.sum().backward)
