"""SyncBatchNorm: the checks, run on every rank."""
import torch
from checks import check, only_the_last_refuses, raises
from training import close

import horovod.torch as hvd
from horovod.torch.sync_batch_norm import _SyncBatchNorm

PLAIN = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d, 5: torch.nn.BatchNorm3d}


def rows_of(rank):
    """The size of a rank's batch: they differ."""
    return 2 + rank % 3


def global_batch(shape, dtype=torch.float32):
    """The batches of all ranks, one behind the other, and where this rank's begins and ends."""
    generator = torch.Generator().manual_seed(11)
    begin = sum(rows_of(r) for r in range(hvd.rank()))
    rows = sum(rows_of(r) for r in range(hvd.size()))
    batch = torch.randn(rows, *shape, generator=generator, dtype=torch.float64) * 3 + 1
    return batch.to(dtype), begin, begin + rows_of(hvd.rank())


def runs_as_one_batch(shape, dtype=torch.float32, tolerance=1e-5, **options):
    """Compares output, gradients and running statistics with those of the plain layer."""
    batch, begin, end = global_batch(shape, dtype)
    plain = PLAIN[batch.dim()](shape[0], **options).to(dtype)
    synced = hvd.SyncBatchNorm(shape[0], **options).to(dtype)
    for layer in (plain, synced):
        if layer.affine:
            layer.weight.data.copy_(torch.linspace(0.5, 2, shape[0]))
            layer.bias.data.copy_(torch.linspace(-1, 1, shape[0]))
    for _ in range(2):
        whole, part = batch.clone().requires_grad_(), batch[begin:end].clone().requires_grad_()
        expected, output = plain(whole), synced(part)
        (expected * whole.detach().cos()).sum().backward()
        (output * part.detach().cos()).sum().backward()
        assert output.dtype == dtype
        close(output, expected[begin:end], tolerance)
        close(part.grad, whole.grad[begin:end], tolerance)
    if synced.affine:
        close(hvd.allreduce(synced.weight.grad, op=hvd.Sum), plain.weight.grad, 20 * tolerance)
        close(hvd.allreduce(synced.bias.grad, op=hvd.Sum), plain.bias.grad, 20 * tolerance)
    for name, buffer in plain.named_buffers():
        close(synced.get_buffer(name), buffer, tolerance)
    if synced.track_running_stats:
        close(synced.eval()(batch[begin:end]), plain.eval()(batch[begin:end]), tolerance)
    else:
        close(synced.eval()(batch[begin:end]), plain.eval()(batch)[begin:end], tolerance)


@check
def batches_of_all_ranks_are_normalised_as_one():
    for shape in ((3,), (3, 5), (3, 4, 4), (2, 2, 3, 2), (1, 3, 3)):
        runs_as_one_batch(shape)


@check
def options_of_batch_norm_mean_the_same():
    runs_as_one_batch((3, 4), eps=0.1, momentum=0.3)
    runs_as_one_batch((3, 4), momentum=None)
    runs_as_one_batch((3, 4), affine=False)
    runs_as_one_batch((3, 4), track_running_stats=False)


@check
def without_running_statistics_those_of_all_batches_count_in_evaluation_too():
    batch, begin, end = global_batch((3, 4))
    expected = torch.nn.functional.batch_norm(batch, None, None, training=True)[begin:end]
    for layer in (hvd.SyncBatchNorm(3, track_running_stats=False).eval(), hvd.SyncBatchNorm(3)):
        assert (layer.running_mean is None) is not layer.training
        layer.eval()
        layer.track_running_stats = False  # as scripts do to evaluate with the batch's own
        before = [buffer.clone() for buffer in layer.buffers()]
        part = batch[begin:end].clone().requires_grad_()
        close(layer(part), expected)
        layer(part).square().sum().backward()
        assert part.grad is not None and all(map(torch.equal, layer.buffers(), before))


@check
def an_input_that_one_rank_cannot_normalise_fails_on_the_others():
    layer = hvd.SyncBatchNorm(3)
    if hvd.size() == 1:
        return
    only_the_last_refuses("expected at least 2D input", "allgather.sync_batch_norm.7", lambda: layer(torch.ones(3)),
                          lambda: layer(torch.ones(4, 3)))
    layer(torch.ones(4, 3))


@check
def double_and_half_precision_are_normalised():
    runs_as_one_batch((3, 4), torch.float64, 1e-10)
    runs_as_one_batch((3, 4), torch.bfloat16, 0.1)


@check
def the_function_takes_what_the_layer_has():
    batch, begin, end = global_batch((3,))
    weight, bias = torch.linspace(0.5, 2, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
    part = batch[begin:end].clone().requires_grad_()
    mean, variance = torch.zeros(3), torch.ones(3)
    output = _SyncBatchNorm.apply(part, weight, bias, mean, variance, 1e-5, 0.5)
    close(output, torch.nn.functional.batch_norm(batch, None, None, weight, bias, training=True)[begin:end])
    close(mean, batch.mean(0) / 2)
    close(variance, (1 + batch.var(0)) / 2)
    output.square().sum().backward()
    assert part.grad.shape == part.shape and weight.grad.shape == bias.grad.shape == (3,)


@check
def a_frozen_input_and_channels_last_work():
    layer = hvd.SyncBatchNorm(3)
    layer(torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)).sum().backward()
    assert layer.weight.grad.shape == (3,)


@check
def inputs_that_cannot_be_normalised_are_value_errors():
    assert "2D" in raises(ValueError, hvd.SyncBatchNorm(3), torch.ones(3))
    layer = hvd.SyncBatchNorm(3)
    if hvd.size() == 1:
        raises(ValueError, layer, torch.ones(1, 3))
    else:
        layer(torch.ones(1, 3))  # one value on each rank: enough together


@check
def a_rank_with_an_empty_batch_takes_part():
    layer = hvd.SyncBatchNorm(2)
    if hvd.size() == 1:
        return
    rows = torch.randn(0 if hvd.rank() == 0 else 4, 2, requires_grad=True)
    layer(rows).sum().backward()
    assert torch.isfinite(layer.running_mean).all() and rows.grad.shape == rows.shape
