"""Reduces gradients of Keras 3 with PyTorch as its backend. That backend computes eagerly, so counters are Python's."""
import torch

from horovod import _core
from horovod import torch as hvd
from horovod._keras.reducers import Reducer
from horovod._keras.variables import identity
from horovod.common.util import split_list
from horovod.torch import compression


class TorchReducer(Reducer):
    """A Reducer of tensors of PyTorch."""

    _is_marked = False  # the beginning of a backward pass is in the timeline

    def __init__(self, settings):
        super().__init__(settings)
        self._before, self._op, self._after = _factors(settings)
        self._compression = getattr(compression, settings.compression.__name__, settings.compression)  # for one of TensorFlow
        if settings.backward_passes_per_step > 1:
            self.passes = _Passes(settings, self.reduced)

    def marked(self, loss):
        """Marks the beginning of a backward pass in the timeline, and returns the loss."""
        self._is_marked = self._is_marked or _core.timeline_mark("BACKWARD", True)
        return loss

    def aggregated(self, gradients, variables):
        """As described there; it is called at the end of each backward pass."""
        if self._is_marked:
            _core.timeline_mark("BACKWARD", False)
        self._is_marked = False
        return super().aggregated(gradients, variables)

    def _reduce(self, gradients, variables):
        places = [place for place, gradient in enumerate(gradients) if gradient is not None]
        handles = [(group, *self._submit([gradients[place] for place in group], group))
                   for group in self._groups(places, variables)]
        result = list(gradients)
        for group, handle, contexts in handles:
            received = hvd.synchronize(handle)
            for place, tensor, context in zip(group, received if len(group) > 1 else [received], contexts):
                result[place] = self._compression.decompress(tensor, context)
        return result

    def _groups(self, places, variables):
        """Returns lists of places that are reduced together."""
        groups = self.settings.groups
        if isinstance(groups, int) and groups > 0:
            return [group for group in split_list(places, min(groups, len(places)) or 1) if group]
        together = [[place for place in places if identity(variables[place]) in set(map(identity, group))]
                    for group in groups or ()]
        alone = [[place] for place in places if not any(place in group for group in together)]
        return [group for group in together if group] + alone

    def _submit(self, gradients, places):
        """Returns the handle, and the contexts of the compression."""
        packed = [self._compression.compress(gradient.detach()) for gradient in gradients]
        tensors, contexts = [tensor for tensor, _ in packed], [context for _, context in packed]
        name = f"{self.settings.name}.{places[0]}"
        options = {"name": name, "op": self._op, "prescale_factor": self._before, "postscale_factor": self._after,
                   "process_set": self.settings.process_set}
        if len(tensors) > 1:
            return hvd.grouped_allreduce_async(tensors, **options), contexts
        return hvd.allreduce_async(tensors[0], **options), contexts

    def _divided(self, gradient, number):
        return None if gradient is None else gradient / number


def _factors(settings):
    """Returns (prescale factor, reduction, postscale factor): with a factor to divide by first, the sum is scaled."""
    factor = settings.gradient_predivide_factor
    if factor == 1.0:
        return 1.0, settings.op, 1.0
    return 1.0 / factor, hvd.Sum, factor / settings.process_set.size()


class _Passes:
    """Adds up the gradients of several backward passes; the last of them reduces the sums."""

    def __init__(self, settings, reduce):
        self.counter = 0
        self._settings = settings
        self._reduce = reduce
        self._sums = None

    def compute_gradients(self, gradients, variables):
        """Adds the gradients of one pass; returns the sums, reduced after the last pass."""
        before = self._sums or [None] * len(gradients)
        self._sums = [old if new is None else new.detach().clone() if old is None else old + new
                      for old, new in zip(before, gradients)]
        self.counter += 1
        if self.counter < self._settings.backward_passes_per_step:
            return self._sums
        sums, self._sums, self.counter = self._sums, None, 0
        if self._settings.average_aggregated_gradients:
            sums = [None if one is None else one / self._settings.backward_passes_per_step for one in sums]
        return self._reduce(sums, variables)

    def apply_gradients(self, update, optimizer):
        """Calls update() after the last pass; else counts an iteration."""
        if self.counter == 0:
            return update()
        with torch.no_grad():
            optimizer._iterations.assign_add(1)
        return None
