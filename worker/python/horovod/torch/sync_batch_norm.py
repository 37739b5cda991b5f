"""Batch normalisation with the mean and variance over the batches of all ranks."""
import torch
from torch.autograd.function import Function, once_differentiable
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from horovod.common import refusals
from horovod.torch.mpi_ops import Sum, allgather, allreduce, global_process_set, size


class SyncBatchNorm(_BatchNorm):
    """torch.nn.BatchNorm1d, 2d and 3d in one, whose batch is that of all ranks.

    Ranks may have batches of different sizes. Every rank runs its layers in the same order, one at
    a time. Tensors may be on any device. In evaluation it is the plain layer with its running
    statistics, and without these (track_running_stats=False) the same as in training.
    """

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input):
        """Normalises over all dimensions but the second."""
        is_together = (self.training or not self.track_running_stats) and size() > 1
        try:
            self._check_input_dim(input)
        except ValueError as error:
            if is_together:  # the other ranks wait for its statistics
                refusals.tell(error, "allgather", _name_of(2 * self.num_features + 1), global_process_set)
            raise
        if not is_together:
            return self._alone(input)
        running_mean, running_var = self._running()
        return _SyncBatchNorm.apply(input, self.weight, self.bias, running_mean, running_var,
                                    self.eps, self._next_momentum())

    def _alone(self, input):
        running_mean, running_var = self._running()
        is_of_batch = self.training or running_mean is None
        momentum = self._next_momentum() if self.training else 0.0
        return functional.batch_norm(input, running_mean, running_var, self.weight, self.bias,
                                     is_of_batch, momentum, self.eps)

    def _running(self):
        """Returns the statistics to update or to use; (None, None) without tracking: then the batch's own apply."""
        return (self.running_mean, self.running_var) if self.track_running_stats else (None, None)

    def _next_momentum(self):
        """Returns the weight of this batch in the running statistics: without momentum, all batches have the same weight."""
        if not self.track_running_stats or self.num_batches_tracked is None:
            return 0.0 if self.momentum is None else self.momentum
        self.num_batches_tracked.add_(1)
        return 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum


def _name_of(n):
    return f"sync_batch_norm.{n}"


def _over_channels(tensor, like):
    """Reshapes a value per channel to broadcast with tensors like `like`."""
    return tensor.view(1, -1, *[1] * (like.dim() - 2))


def _wide(tensor):
    """Converts half precision to single precision, in which statistics are computed."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _statistics(values):
    """Returns this rank's [count, mean of each channel, squared deviations from it of each channel]."""
    dimensions = [0, *range(2, values.dim())]
    count = values.numel() // values.shape[1]
    mean = values.sum(dimensions) / max(count, 1)
    deviations = (values - _over_channels(mean, values)).square().sum(dimensions)
    return torch.cat([mean.new_full((1,), count), mean, deviations])


def _combine(statistics):
    """Returns (count, mean, variance) of all, from one row of _statistics for each rank."""
    counts, (means, deviations) = statistics[:, :1], statistics[:, 1:].chunk(2, dim=1)
    count = counts.sum()
    mean = (counts * means).sum(0) / count
    spread = (deviations + counts * (means - mean).square()).sum(0)
    return count, mean, spread / count


def _update(running, new, momentum):
    if running is not None:
        running.mul_(1 - momentum).add_(momentum * new.to(running.dtype))


class _SyncBatchNorm(Function):
    """One allgather forwards and one allreduce backwards, whatever the number of channels."""

    @staticmethod
    def forward(ctx, input, weight, bias, running_mean, running_var, eps, momentum):
        """Normalises, and updates the running statistics with the variance of a sample."""
        values = _wide(input)
        mine = _statistics(values).unsqueeze(0)
        count, mean, variance = _combine(allgather(mine, name=_name_of(mine.numel())))
        if values.numel() <= values.shape[1] and count <= 1:  # on a GPU the comparison waits, so it is rare
            raise ValueError("SyncBatchNorm needs more than one value per channel to train, over all "
                             f"ranks: got an input of shape {tuple(input.shape)}.")
        inverse = torch.rsqrt(variance + eps)
        normal = (values - _over_channels(mean, values)) * _over_channels(inverse, values)
        _update(running_mean, mean, momentum)
        _update(running_var, variance * (count / (count - 1)), momentum)
        ctx.save_for_backward(input, weight, mean, inverse, count)
        ctx.bias_dtype = None if bias is None else bias.dtype
        if weight is not None:
            normal = normal * _over_channels(weight, values) + _over_channels(bias, values)
        return normal.to(input.dtype)

    @staticmethod
    @once_differentiable  # count, mean and inverse depend on the input, which a second derivative would miss
    def backward(ctx, grad_output):
        """Weight and bias get this rank's part of their gradient, as every parameter does."""
        input, weight, mean, inverse, count = ctx.saved_tensors
        values, slope = _wide(input), _wide(grad_output)
        dimensions = [0, *range(2, values.dim())]
        normal = (values - _over_channels(mean, values)) * _over_channels(inverse, values)
        sum_slope = slope.sum(dimensions)
        sum_product = (slope * normal).sum(dimensions)
        grad_input = None
        if ctx.needs_input_grad[0]:
            sums = torch.stack([sum_slope, sum_product])
            means = allreduce(sums, op=Sum, name=f"sync_batch_norm.backward.{sums.numel()}") / count
            centred = slope - _over_channels(means[0], values) - normal * _over_channels(means[1], values)
            scale = inverse if weight is None else inverse * weight
            grad_input = (centred * _over_channels(scale, values)).to(input.dtype)
        grad_weight = sum_product.to(weight.dtype) if ctx.needs_input_grad[1] else None
        grad_bias = sum_slope.to(ctx.bias_dtype) if ctx.needs_input_grad[2] else None
        return grad_input, grad_weight, grad_bias, None, None, None, None
