"""The elastic state of a model of Keras 3 whose backend is PyTorch."""
import numpy

from horovod._keras import variables as of
from horovod._keras.callbacks import broadcast_all
from horovod.common.basics import rank
from horovod.common.elastic import ObjectState
from horovod.common.objects import broadcast_object


class KerasState(ObjectState):
    """Holds a model, its optimizer, and values that the keyword arguments name."""

    def __init__(self, model, optimizer=None, backend=None, **kwargs):
        self.model = model
        self.optimizer = optimizer if optimizer is not None else getattr(model, "optimizer", None)
        self._backend = backend
        self._saved_variables = None
        self._save_variables()
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **kwargs)

    def _variables(self):
        found = of.of_model(self.model)
        if self.optimizer is not None and self.model.built:
            of.build(self.optimizer, self.model.trainable_variables)
            found += of.of_optimizer(self.optimizer)
        return found

    def _save_variables(self):
        self._saved_variables = [numpy.array(variable.numpy()) for variable in self._variables()]

    def save(self):
        """Keeps a copy of the variables and the values in memory."""
        self._save_variables()
        super().save()

    def restore(self):
        """Goes back to what was saved last."""
        for variable, value in zip(self._variables(), self._saved_variables):
            variable.assign(value)
        super().restore()

    def sync(self):
        """Copies the variables and values of rank 0 to every rank, and saves them."""
        broadcast_all(self._backend, self._variables(), 0)
        self._save_variables()
        super().sync()
