"""Reduces the gradients of one optimizer of Keras, by horovod.tensorflow or horovod.torch.

A reducer is made for each distributed optimizer. The optimizer passes it the gradients of a step before anything else is done
with them: clipping, accumulation and the check for overflows see the reduced ones, so they decide alike on every rank.
"""
import contextlib
import dataclasses

from horovod._keras.variables import identity, natives


@dataclasses.dataclass(frozen=True)
class Settings:
    """The arguments of DistributedOptimizer."""
    name: str
    device_dense: str
    device_sparse: str
    compression: type
    sparse_as_dense: bool
    gradient_predivide_factor: float
    op: int
    backward_passes_per_step: int
    average_aggregated_gradients: bool
    groups: object
    process_set: object
    scale_local_gradients: bool
    local_layers: tuple = ()

    def differences(self, other):
        """Returns the names of the arguments in which other settings differ."""
        return [field.name for field in dataclasses.fields(self)
                if _comparable(getattr(self, field.name)) != _comparable(getattr(other, field.name))]


def _comparable(argument):
    """Returns a list of variables or layers as their identities, because TensorFlow compares values; any other argument as it is."""
    if isinstance(argument, (list, tuple)):
        return [_comparable(one) if isinstance(one, (list, tuple)) else id(one) for one in argument]
    return argument


class Reducer:
    """The part that does not depend on the framework.

    passes: counts backward passes; None if every pass updates variables.
    """

    passes = None

    def __init__(self, settings):
        self.settings = settings
        self._local = {}  # {identity: variable} of register_local_var
        self._computed = []  # {identity: variable} of each computed() whose gradients were not applied yet
        self._is_off = False

    def register_local(self, variable):
        """Excludes a variable's gradients from the reduction."""
        self._local[identity(variable)] = variable

    # --- One step

    def reduced(self, gradients, variables):
        """Returns the reduced gradients. Those of local variables are this rank's; None stays None."""
        variables = list(variables)
        kept = self._places_of_local(variables)
        shared = [place for place in range(len(variables)) if place not in kept]
        result = list(gradients)
        if shared:
            sent = self._reduce([result[place] for place in shared], natives(variables[place] for place in shared))
            for place, gradient in zip(shared, sent):
                result[place] = gradient
        if kept and self.settings.scale_local_gradients:
            for place in kept:
                result[place] = self._divided(result[place], self.settings.process_set.size())
        return result

    def _places_of_local(self, variables):
        local = set(self._local)
        for layer in self.settings.local_layers:
            local.update(identity(variable) for variable in layer.trainable_weights)
        return {place for place, variable in enumerate(variables) if identity(variable) in local}

    def _reduce(self, gradients, variables):
        raise NotImplementedError

    def _divided(self, gradient, number):
        raise NotImplementedError

    def aggregated(self, gradients, variables):
        """Returns the gradients with which to update: reduced, or added up so far if a later pass will reduce them."""
        if self.passes is not None:
            return self.passes.compute_gradients(list(gradients), natives(variables))
        return self.reduced(gradients, variables)

    def computed(self, gradients, variables):
        """aggregated() for gradients that the next update of these variables is to take as they are."""
        result = self.aggregated(gradients, variables)
        self.take_aggregated(variables)
        self._computed.append({identity(variable): variable for variable in variables})
        return result

    def take_aggregated(self, variables):
        """Returns whether computed() has aggregated the gradients of an update of these variables, and forgets it.

        A script may omit some of the variables, or change the gradients, before it applies them.
        """
        if not self._computed:
            return False
        updated = {identity(variable) for variable in variables}
        before = self._computed
        self._computed = [computed for computed in before if updated.isdisjoint(computed)]
        return len(self._computed) < len(before)

    def update(self, optimizer, update):
        """Calls update() in the pass that updates variables; the others count as an iteration of the optimizer only."""
        return update() if self.passes is None else self._update_in_last_pass(optimizer, update)

    def _update_in_last_pass(self, optimizer, update):
        return self.passes.apply_gradients(update, optimizer)

    # --- An optimizer inside of another one that has aggregated the gradients

    @property
    def is_off(self):
        """Whether the gradients that the optimizer gets now are aggregated."""
        return self._is_off

    @contextlib.contextmanager
    def off(self):
        """In its body the optimizer updates with the gradients that it gets."""
        before, self._is_off = self._is_off, True
        try:
            yield
        finally:
            self._is_off = before


def reducer_for(backend, settings):
    """Returns a reducer for the gradients of a backend of Keras."""
    if backend == "torch":
        from horovod._keras.torch_reducer import TorchReducer as kind
    else:
        from horovod._keras.tensorflow_reducer import TensorFlowReducer as kind
    return kind(settings)
