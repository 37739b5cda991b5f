"""Variables of models and optimizers, and an optimizer's learning rate, for every Keras."""
import numpy

from horovod._keras.kinds import Kind, innermost, is_keras3, kind_of

_WITH_VELOCITY = ("SGD", "RMSprop")  # their slots of momentum contain the learning rate


def native(variable):
    """Returns the framework's variable of one of Keras 3; any other object is returned unchanged."""
    return variable._value if is_keras3(variable) else variable


def natives(variables):
    """Returns native() for each variable."""
    return [native(variable) for variable in variables]


def identity(variable):
    """Returns a key that is equal for a variable of Keras 3 or tf_keras and the framework's variable inside of it."""
    variable = native(variable)
    return id(getattr(variable, "_variable", variable))  # tf_keras' AutoCastVariable has it there


def _listed(variables):
    return list(variables() if callable(variables) else variables)  # a method in some versions


def of_optimizer(optimizer):
    """Returns the variables of an optimizer: steps, learning rate, slots, loss scale. It has all of them only once built."""
    found = _listed(optimizer.variables)
    scale = getattr(optimizer, "_loss_scale", None)  # of Keras 2: no variable of the optimizer
    found += [one for one in (getattr(scale, name, None) for name in ("current_loss_scale", "counter")) if one is not None]
    return found


def of_model(model):
    """Returns the variables of a model that ranks share. The states of random generators are not: masks of dropout differ."""
    return [variable for variable in model.variables if getattr(variable, "name", "") != "seed_generator_state"]


def build(optimizer, variables):
    """Makes an optimizer's variables now instead of in its first step."""
    variables = list(variables)
    inner = innermost(optimizer)
    if kind_of(inner) is Kind.LEGACY:
        inner._create_all_weights(variables)
    elif kind_of(inner) is Kind.KERAS2:
        if not getattr(inner, "_built", False):
            inner.build(variables)
    elif not optimizer.built:
        optimizer.build(variables)


def learning_rate(optimizer):
    """Returns the learning rate as a number."""
    return float(numpy.asarray(_value(optimizer.learning_rate)))


def _value(variable):
    variable = native(variable)
    return variable.detach().cpu() if hasattr(variable, "detach") else variable


def set_learning_rate(optimizer, value):
    """Sets the learning rate; raises ValueError if the optimizer computes it by a schedule."""
    try:
        optimizer.learning_rate = value
    except (TypeError, AttributeError) as error:
        raise ValueError(f"The learning rate of {type(optimizer).__name__} cannot be set, because the optimizer was made with a "
                         "schedule. Make it with a number, or omit the learning-rate callback.") from error


def velocities(optimizer):
    """Returns the slots of momentum that contain the learning rate; none if the optimizer has no such slots."""
    inner = innermost(optimizer)
    if not any(one.__name__ in _WITH_VELOCITY for one in type(inner).__mro__) or not _has_momentum(inner):
        return []
    if kind_of(inner) is Kind.LEGACY:
        return [slots["momentum"] for slots in inner._slots.values() if "momentum" in slots]
    found = getattr(inner, "momentums", None) or getattr(inner, "_momentums", None) or []
    return [slot for slot in found if slot is not None]


def _has_momentum(optimizer):
    if kind_of(optimizer) is Kind.LEGACY:  # there `momentum` is a number, a variable once built, or a function
        return bool(optimizer._momentum)
    return bool(optimizer.momentum)
