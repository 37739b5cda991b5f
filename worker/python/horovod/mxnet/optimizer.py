"""The optimizer and the trainer, which sum gradients over the ranks before each update.

The update divides by the number of ranks, as it divides by the size of a batch. So a program that looks at a gradient after the
reduction finds the sum, as with Horovod built for CPUs.
"""
import warnings

import mxnet

from horovod.common.operations import complete
from horovod.common.util import split_list
from horovod.mxnet.adapter import operations
from horovod.mxnet.compression import Compression
from horovod.mxnet.mpi_ops import Sum, global_process_set


class _Reduction:
    """How gradients are reduced: the factors, the number of groups (0: one by one), the ranks."""

    def __init__(self, gradient_predivide_factor, num_groups, process_set):
        n = process_set.size()
        if n is None:
            raise ValueError(f"{process_set} is not registered: use hvd.add_process_set or hvd.init(process_sets=...).")
        if not gradient_predivide_factor:
            raise ValueError("gradient_predivide_factor must not be 0.")
        self._is_needed = n > 1 and process_set.included()
        self.scale = gradient_predivide_factor / n if self._is_needed else 1.0  # for the update
        self._prescale = 1.0 / gradient_predivide_factor
        self._num_groups = num_groups
        self._process_set = process_set

    def sum(self, gradients, names):
        """Replaces gradients by their sums over the ranks. Other ranks than those of the process set keep theirs."""
        if not self._is_needed:
            return
        if self._num_groups > 0:
            parts = zip(split_list(gradients, self._num_groups), split_list(names, self._num_groups))
            complete(self._begin_group, [part for part in parts if part[0]])
        else:
            complete(self._begin, zip(gradients, names))

    def _begin(self, pair):
        gradient, name = pair
        return operations.allreduce_async_(gradient, None, name, Sum, self._prescale, 1.0, self._process_set)

    def _begin_group(self, pair):
        gradients, names = pair
        return operations.grouped_allreduce_async_(gradients, None, f"{names[0]}:{names[-1]}", Sum, self._prescale, 1.0,
                                                   self._process_set)


class DistributedOptimizer(mxnet.optimizer.Optimizer):
    """Sums the gradients of each update over the ranks, and passes all else to `optimizer`, which has all of Optimizer's state."""

    # pylint: disable-next=super-init-not-called
    def __init__(self, optimizer, gradient_predivide_factor=1.0, num_groups=0, process_set=global_process_set):
        self._reduction = _Reduction(gradient_predivide_factor, num_groups, process_set)
        self._optimizer = optimizer
        self._optimizer.rescale_grad *= self._reduction.scale

    def __getattr__(self, item):
        if item == "_optimizer":  # not there yet: the object comes out of a pickle
            raise AttributeError(item)
        return getattr(self._optimizer, item)

    def __getstate__(self):
        return dict(vars(self))

    def __setstate__(self, state):
        vars(self).update(state)

    def unwrapped(self):
        """Returns the optimizer as it was before."""
        self._optimizer.rescale_grad /= self._reduction.scale
        return self._optimizer

    def create_state(self, index, weight):
        """Makes the optimizer's state of a weight."""
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index, weight):
        """Makes the optimizer's state of a weight, also in half precision."""
        return self._optimizer.create_state_multi_precision(index, weight)

    def _sum(self, index, grad):
        if isinstance(index, (tuple, list)):
            self._reduction.sum(list(grad), list(map(str, index)))
        else:
            self._reduction.sum([grad], [str(index)])

    def update(self, index, weight, grad, state):
        """Sums the gradient over the ranks, and updates the weight; lists of each are possible."""
        self._sum(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index, weight, grad, state):
        """update(), also for weights in half precision."""
        self._sum(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr):
        """Sets the optimizer's learning rate."""
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult):
        """Sets factors of the learning rate by parameter."""
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult):
        """Sets factors of the weight decay by parameter."""
        self._optimizer.set_wd_mult(args_wd_mult)

    def _set_current_context(self, device_id):
        self._optimizer._set_current_context(device_id)


class DistributedTrainer(mxnet.gluon.Trainer):
    """A gluon.Trainer that averages gradients over the ranks, for parameters in one context on each rank.

    compression: the type in which gradients are sent. gradient_predivide_factor: divides gradients before the sum, and multiplies them
    after it. prefix: put before the names of tensors; trainers whose steps overlap need different ones. num_groups: how many groups the
    gradients are sent in, 0 for one by one.
    """

    def __init__(self, params, optimizer, optimizer_params=None, compression=Compression.none, gradient_predivide_factor=1.0,
                 prefix=None, num_groups=0, process_set=global_process_set):
        self._reduction = _Reduction(gradient_predivide_factor, num_groups, process_set)
        if isinstance(optimizer, DistributedOptimizer):
            optimizer = optimizer.unwrapped()
            warnings.warn("DistributedTrainer reduces gradients itself; it uses the optimizer within DistributedOptimizer.")
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        if len(self._contexts) > 1:
            raise ValueError(f"DistributedTrainer needs the parameters in one context on each rank, not in {self._contexts}.")
        self._scale *= self._reduction.scale
        self._compression = compression
        self._prefix = prefix or ""

    def _allreduce_grads(self):
        numbered = [(i, parameter.list_grad()[0]) for i, parameter in enumerate(self._params) if parameter.grad_req != "null"]
        sent, contexts = zip(*(self._compression.compress(gradient) for _, gradient in numbered)) if numbered else ((), ())
        self._reduction.sum(list(sent), [f"{self._prefix}{i}" for i, _ in numbered])
        for (_, gradient), compressed, context in zip(numbered, sent, contexts):
            received = self._compression.decompress(compressed, context)
            if received is not gradient:
                gradient[:] = received
