"""Optimizers of Keras that update with the gradients of all ranks.

create() converts an optimizer: its class becomes a derived one of the same name and module. So the optimizer keeps its variables,
a saved file names the class of Keras alone and loads without Horovod, and the model may have been compiled before.

Keras 3 updates in apply(). Keras 2 has a method of its own for reductions, which its LossScaleOptimizer calls as well.
"""
import functools
import types

from horovod._keras import loss_scale
from horovod._keras.kinds import Kind, backend_of_object, checked_backend, innermost, kind_of, saving_of
from horovod._keras.reducers import reducer_for
from horovod._keras.variables import build, natives


class _DistributedOptimizer:
    """The part of a distributed optimizer that comes before the class of the wrapped one."""

    _horovod_settings = None  # of the class, so that from_config() of it makes a distributed optimizer, too

    @property
    def _horovod(self):
        """The reducer of this optimizer."""
        reducer = self.__dict__.get("_horovod_reducer")
        if reducer is None:
            reducer = reducer_for(backend_of_object(self), self._horovod_settings)
            object.__setattr__(self, "_horovod_reducer", reducer)  # Keras does not track it
        return reducer

    @property
    def _agg_helper(self):
        """What counts backward passes; None if every pass updates variables."""
        return self._horovod.passes

    def register_local_var(self, var):
        """Excludes a variable from the reduction: every rank updates it with its own gradients."""
        self._horovod.register_local(var)

    def compute_gradients(self, loss, var_list, tape=None):
        """Returns pairs (gradient, variable), reduced. The next update of these variables does not reduce again: apply the pairs.

        loss: a function without arguments, or a tensor that the tape has recorded.
        """
        return _paired(self._horovod.computed, self._own_gradients(loss, var_list, tape))

    def _own_gradients(self, loss, var_list, tape):
        """Returns the pairs (gradient, variable) of this rank, for a class whose optimizers do not compute gradients."""
        import tensorflow as tf
        tape = tf.GradientTape() if tape is None else tape
        if callable(loss):
            with tape:
                loss = loss()
        variables = list(var_list() if callable(var_list) else var_list)
        return zip(tape.gradient(loss, natives(variables)), variables)

    def get_gradients(self, loss, params):
        """Returns the reduced gradients of a loss in graph mode, for an optimizer of keras.optimizers.legacy."""
        own_gradients = getattr(super(), "get_gradients", None)
        if own_gradients is None:
            raise NotImplementedError(f"{type(self).__name__} has no get_gradients: only optimizers of keras.optimizers.legacy do. "
                                      "Use tf.GradientTape and apply_gradients().")
        params = list(params)
        return self._horovod.computed(own_gradients(loss, params), params)

    def apply_gradients(self, *args, **kwargs):
        """Reduces the gradients, then updates the variables with them. The arguments are those of the wrapped class."""
        return self._reduce_and_apply(*args, **kwargs)

    def _reduce_and_apply(self, *args, **kwargs):
        return super().apply_gradients(*args, **kwargs)


class _Keras3(_DistributedOptimizer):
    """Optimizers of Keras 3: everything ends in apply()."""

    def apply(self, grads, trainable_variables=None):
        """Reduces the gradients, then updates the variables with them."""
        if self._horovod.is_off:
            return super().apply(grads, trainable_variables)
        return reduce_then(self, self, super().apply, grads, trainable_variables)

    def scale_loss(self, loss):
        """Returns the loss as the wrapped class scales it. Keras calls this before it computes gradients."""
        return self._horovod.marked(super().scale_loss(loss))


class _Keras2(_DistributedOptimizer):
    """Optimizers of Keras 2.11 and later."""

    def _own_gradients(self, loss, var_list, tape):
        return super(_DistributedOptimizer, self).compute_gradients(_marked(self, loss, tape), var_list, tape)

    def aggregate_gradients(self, grads_and_vars):
        """Returns the pairs with reduced gradients. Keras calls it before it clips or checks them."""
        return _finite_before_update(self._horovod, _aggregated(self._horovod, grads_and_vars))

    def _reduce_and_apply(self, grads_and_vars, name=None, skip_gradients_aggregation=False, **kwargs):
        is_reduced = skip_gradients_aggregation or not kwargs.pop("experimental_aggregate_gradients", True)
        pairs = _ready(self, grads_and_vars, is_reduced)
        update = functools.partial(super()._reduce_and_apply, pairs, name=name, skip_gradients_aggregation=True, **kwargs)
        return self._horovod.update(self, update)


class _Legacy(_DistributedOptimizer):
    """Optimizers of keras.optimizers.legacy."""

    def _own_gradients(self, loss, var_list, tape):
        return super()._compute_gradients(_marked(self, loss, tape), var_list, tape=tape)

    def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
        loss = _marked(self, loss, tape)
        return _paired(self._horovod.computed, super()._compute_gradients(loss, var_list, grad_loss, tape))

    def _aggregate_gradients(self, grads_and_vars):
        return _finite_before_update(self._horovod, _aggregated(self._horovod, grads_and_vars))

    def _reduce_and_apply(self, grads_and_vars, name=None, experimental_aggregate_gradients=True):
        pairs = _ready(self, grads_and_vars, not experimental_aggregate_gradients)
        update = functools.partial(super()._reduce_and_apply, pairs, name=name, experimental_aggregate_gradients=False)
        return self._horovod.update(self, update)


_PARTS = {Kind.KERAS3: _Keras3, Kind.KERAS2: _Keras2, Kind.LEGACY: _Legacy}


def _marked(optimizer, loss, tape):
    """Returns a loss that a tape of Keras 2 has recorded, whose gradient marks the beginning of a backward pass."""
    if tape is None or callable(loss):
        return loss
    with tape:
        return optimizer._horovod.marked(loss)


def _paired(function, grads_and_vars):
    """Applies a function of a reducer to the gradients of pairs (gradient, variable)."""
    pairs = list(grads_and_vars)
    if not pairs:
        return pairs
    variables = [variable for _, variable in pairs]
    return list(zip(function([gradient for gradient, _ in pairs], variables), variables))


def _aggregated(reducer, grads_and_vars, is_reduced=False):
    """Returns the pairs (gradient, variable) with aggregated gradients. is_reduced: those passed are."""
    pairs = list(grads_and_vars)
    is_computed = reducer.take_aggregated([variable for _, variable in pairs])
    return pairs if is_reduced or is_computed else _paired(reducer.aggregated, pairs)


def _ready(optimizer, grads_and_vars, is_reduced):
    """Returns the pairs with which Keras 2 updates, and makes the optimizer's variables, which may not be made in a condition."""
    reducer = optimizer._horovod
    pairs = _aggregated(reducer, grads_and_vars, is_reduced)
    if pairs and reducer.passes is not None:
        import tensorflow as tf
        with tf.init_scope():
            build(optimizer, [variable for _, variable in pairs])
    return pairs


def _finite_before_update(reducer, pairs):
    """Returns zeros instead of gradients that a later pass will reduce.

    LossScaleOptimizer checks what it gets here. An overflow on one rank in such a pass would change the scale on that rank alone.
    """
    if reducer.passes is None:
        return pairs
    import tensorflow as tf
    is_due = tf.equal(reducer.passes.counter, 0)
    return [(gradient if gradient is None else tf.where(is_due, gradient, tf.zeros_like(gradient)), variable)
            for gradient, variable in pairs]


def reduce_then(outer, optimizer, update, gradients, variables):
    """Reduces gradients, then calls update(gradients, variables) in the pass that updates.

    outer: the optimizer of Keras 3 whose apply() was called, `optimizer` or a LossScaleOptimizer around it.
    """
    reducer = optimizer._horovod
    gradients = list(gradients)
    known = list(variables) if variables is not None else getattr(outer, "_trainable_variables", ())
    if not gradients or len(gradients) != len(known):  # update() raises the error of Keras
        return update(gradients, variables)
    if not outer.built:
        build(outer, known)
    if not reducer.take_aggregated(known):
        gradients = reducer.aggregated(gradients, known)
    return reducer.update(optimizer, functools.partial(update, gradients, known))


def is_distributed(optimizer):
    """Returns whether the optimizer, or the one inside of a LossScaleOptimizer, reduces gradients."""
    return isinstance(innermost(optimizer), _DistributedOptimizer)


def create(optimizer, settings):
    """Converts an optimizer and returns it. In a LossScaleOptimizer converts the optimizer inside.

    An optimizer that was converted before with equal settings is returned as it is: the cell of a notebook may run again. Raises
    ValueError if the settings differ, TypeError if it is no optimizer of Keras.
    """
    inner = innermost(optimizer)
    kind = kind_of(inner)
    if is_distributed(inner):
        differences = settings.differences(inner._horovod_settings)
        if differences:
            raise ValueError(f"This {type(inner).__name__} is a DistributedOptimizer already, with other values of "
                             f"{', '.join(differences)}: wrap an optimizer once, where the script makes it.")
        return optimizer
    backend = checked_backend(backend_of_object(inner))
    if kind is Kind.KERAS3:
        loss_scale.reduce_before_check(reduce_then, _DistributedOptimizer, backend)
    inner.__class__ = _derived(type(inner), _PARTS[kind], settings, backend)
    return optimizer


def _derived(base, part, settings, backend):
    """Returns a class with a part of this module before the class of an optimizer, under the name of that class."""
    names = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__,
             "_horovod_settings": settings}
    for name in ("apply", "apply_gradients", "compute_gradients"):  # with all that they call
        function = next((one.__dict__[name] for one in part.__mro__ if name in one.__dict__), None)
        if function is not None:
            names[name] = loss_scale.not_converted(function, backend)
    derived = types.new_class(base.__name__, (part, base), exec_body=lambda space: space.update(names))
    _register_as(base, derived)
    return derived


def _register_as(base, derived):
    """Gives a derived class the name under which Keras saves its base, if the base is registered. Loading finds the base."""
    saving = saving_of(base)
    name = saving.get_registered_name(base)
    package, separator, own_name = name.partition(">")
    if not separator:
        return
    found = saving.get_custom_objects()
    before = found.get(name)
    saving.register_keras_serializable(package, own_name)(derived)
    if before is None:
        del found[name]
    else:
        found[name] = before
