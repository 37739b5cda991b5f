"""The elastic state of a PyTorch training: models, optimizers, samplers and plain objects."""
import copy

import torch

from horovod.common.elastic import ObjectState
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.functions import (allgather_object, await_results, broadcast_object, broadcast_optimizer_state,
                                     broadcast_parameters)
from horovod.torch.mpi_ops import is_initialized, rank


class TorchState(ObjectState):
    """An elastic state of a model, an optimizer and anything else, all by keyword.

    Values with a handler in the registry (models, optimizers, samplers) are saved as their state_dict; all others are saved as
    objects.
    """

    def __init__(self, model=None, optimizer=None, **kwargs):
        kwargs.update(model=model, optimizer=optimizer)
        handlers = {name: _handler_for(value) for name, value in kwargs.items()}
        self._handlers = {name: handler for name, handler in handlers.items() if handler}
        for name, handler in self._handlers.items():
            object.__setattr__(self, name, handler.value)
        objects = {name: value for name, value in kwargs.items()
                   if name not in self._handlers}
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **objects)

    def save(self):
        """Keeps a copy of everything in memory. Raises HorovodInternalError instead if the job has failed."""
        if is_initialized():
            await_results()  # what a failed step has left must not replace the last copy
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self):
        """Goes back to what was saved last."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self):
        """Copies the state of rank 0 to every rank, and saves it."""
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def __setattr__(self, name, value):
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)
        super().__setattr__(name, value)


class StateHandler:
    """Saves, restores and synchronises values of a type."""

    def __init__(self, value):
        self.value = value

    def save(self):
        """Keeps a copy in memory."""
        raise NotImplementedError

    def restore(self):
        """Goes back to what was saved last."""
        raise NotImplementedError

    def sync(self):
        """Copies the value of rank 0 to every rank, and saves it."""
        raise NotImplementedError

    def set_value(self, value):
        """Replaces the value, and saves it."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """Saves the state_dict of a torch.nn.Module."""

    def __init__(self, model):
        super().__init__(model)
        self.save()

    def save(self):
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self):
        self.value.load_state_dict(self._saved)

    def sync(self):
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateHandler):
    """Saves the state_dict of a torch.optim.Optimizer."""

    def __init__(self, optimizer):
        super().__init__(optimizer)
        self.save()

    def save(self):
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self):
        self.value.load_state_dict(self._saved)

    def sync(self):
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(StateHandler):
    """Saves the processed samples of an epoch; for several ranks, those that any of them processed."""

    def __init__(self, sampler):
        super().__init__(sampler)
        self.save()

    def save(self):
        self._saved = self.value.state_dict()

    def restore(self):
        self.value.load_state_dict(self._saved)

    def sync(self):
        states = allgather_object(self.value.state_dict(), "sampler_state")
        epoch = states[0]["epoch"]
        processed = set().union(*(s["processed_indices"] for s in states if s["epoch"] == epoch))
        self.value.load_state_dict({"epoch": epoch, "processed_indices": processed})
        self.save()


_registry = [(ElasticSampler, SamplerStateHandler),
             (torch.optim.Optimizer, OptimizerStateHandler),
             (torch.nn.Module, ModelStateHandler)]


def get_handler_registry():
    """Returns a list of pairs (type, handler class). The first type that matches a value selects its handler."""
    return list(_registry)


def set_handler_registry(registry):
    """Replaces the registry, for states that are created from now on."""
    global _registry
    _registry = list(registry)


def _handler_for(value):
    for kind, handler in _registry:
        if isinstance(value, kind):
            return handler(value)
    return None
