"""Training that continues from its last commit: states of TensorFlow and Keras, and run."""
import contextlib
import functools
import re

import tensorflow as tf

from horovod.common.elastic import ObjectState, run_fn
from horovod.common.exceptions import HorovodInternalError
from horovod.tensorflow.functions import broadcast_object, broadcast_object_fn, broadcast_variables  # noqa: F401
from horovod.tensorflow.mpi_ops import init, is_node, rank, shutdown
from horovod.tensorflow.util import _executing_eagerly, variable_of

_KINDS = (tf.errors.FailedPreconditionError, tf.errors.AbortedError, tf.errors.UnknownError, tf.errors.InternalError)
_COMPILED = re.compile(r"\bHOROVOD_(PRECONDITION_ERROR|ABORTED|UNKNOWN_ERROR): ")  # begins a failure in a program of XLA, which has one kind


def is_ours(error):
    """Returns whether an exception of TensorFlow is the failure of a collective: it names the operation, the node or the status."""
    if not isinstance(error, _KINDS):
        return False
    text = str(error)
    if isinstance(error, (tf.errors.InternalError, tf.errors.UnknownError)) and _COMPILED.search(text):
        return True
    return "[Op:Horovod" in text or any(map(is_node, re.findall(r"{{node ([^}]+)}}", text)))


@contextlib.contextmanager
def internal_errors():
    """Raises HorovodInternalError in place of an exception of TensorFlow that is the failure of a collective."""
    try:
        yield
    except tf.errors.OpError as error:
        if not is_ours(error):
            raise
        raise HorovodInternalError(str(error)) from error


def run(func):
    """Decorates a training function whose first argument is a State.

    After a failure of a collective the function is called again with the state of the last commit.
    """

    @functools.wraps(func)
    def converted(state, *args, **kwargs):
        with internal_errors():
            return func(state, *args, **kwargs)

    return run_fn(converted, _reset)


def _reset():
    shutdown()
    init()


class _Values:
    """The values of variables: eager ones, or those of a session. list_variables() returns the variables."""

    def __init__(self, list_variables, session=None):
        self._list = list_variables
        self._session = session
        self._saved = []
        self._assignment = self._bcast_op = None

    def _variables(self):
        return [variable_of(variable) for variable in self._list()]

    def _run(self, *args):
        session = self._session or tf.compat.v1.get_default_session()
        if session is None:
            raise ValueError("The state of a graph needs a session: pass it, or make the state within one.")
        return session.run(*args)

    def save(self):
        """Copies the values."""
        variables = self._variables()
        self._saved = [variable.numpy() for variable in variables] if _executing_eagerly() else self._run(variables)

    def restore(self):
        """Goes back to the values that were saved last; variables that were made since then keep theirs."""
        if _executing_eagerly():
            for variable, value in zip(self._variables(), self._saved):
                variable.assign(value)
            return
        if self._assignment is None:
            variables = self._variables()
            places = [tf.compat.v1.placeholder(variable.dtype.base_dtype, variable.shape) for variable in variables]
            self._assignment = places, tf.group(*[variable.assign(place) for variable, place in zip(variables, places)])
        places, assign = self._assignment
        self._run(assign, dict(zip(places, self._saved)))

    def sync(self):
        """Copies the values of rank 0 to every rank, and saves them."""
        with internal_errors():
            if _executing_eagerly():
                broadcast_variables(self._variables(), root_rank=0)
            else:
                if self._bcast_op is None:
                    self._bcast_op = broadcast_variables(self._variables(), root_rank=0)
                self._run(self._bcast_op)
        self.save()


class _ValueState(ObjectState):
    """A State with values of variables beside plain objects."""

    def __init__(self, values, **kwargs):
        self._values = values
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **kwargs)

    def save(self):
        """Keeps a copy of everything in memory."""
        self._values.save()
        super().save()

    def restore(self):
        """Goes back to what was saved last."""
        self._values.restore()
        super().restore()

    def sync(self):
        """Copies the state of rank 0 to every rank, and saves it."""
        self._values.sync()
        super().sync()


def _all_of(optimizer):
    """Returns the variables of an optimizer of any Keras."""
    variables = getattr(optimizer, "variables", ())
    return list(variables() if callable(variables) else variables)


def _built(optimizer, variables):
    """Makes an optimizer's variables now, if it can, so that all ranks have them from the first broadcast on."""
    if hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
        optimizer.build(variables)
    return optimizer


class TensorFlowKerasState(_ValueState):
    """An elastic state of a model of Keras, its optimizer and anything else, by keyword.

    optimizer: the model's own without it. backend: the module keras.backend of a graph, whose session is used.
    """

    def __init__(self, model, optimizer=None, backend=None, **kwargs):
        if not getattr(model, "built", True):
            raise ValueError("The model has no variables yet: call model.build(input_shape), or the model, before.")
        self.model = model
        self.backend = backend
        self.optimizer = optimizer or getattr(model, "optimizer", None)
        if self.optimizer is not None and _executing_eagerly():
            _built(self.optimizer, model.trainable_variables)
        session = backend.get_session() if backend is not None and not _executing_eagerly() else None
        values = _Values(lambda: [*self.model.variables, *_all_of(self.optimizer)], session)
        values.save()
        super().__init__(values, **kwargs)

    def save(self):
        """Keeps a copy of model, optimizer and objects in memory."""
        super().save()

    def restore(self):
        """Goes back to what was saved last."""
        super().restore()

    def sync(self):
        """Copies the state of rank 0 to every rank, and saves it."""
        super().sync()


class TensorFlowState(_ValueState):
    """An elastic state of variables and anything else, by keyword.

    variables: those of the graph without it. session: of a graph; without it the default one.
    """

    def __init__(self, variables=None, session=None, **kwargs):
        self.variables = list(tf.compat.v1.global_variables() if variables is None else variables)
        self.session = session
        values = _Values(lambda: self.variables, session)
        values.save()
        super().__init__(values, **kwargs)

    def save(self):
        """Keeps a copy of variables and objects in memory."""
        super().save()

    def restore(self):
        """Goes back to what was saved last."""
        super().restore()

    def sync(self):
        """Copies the state of rank 0 to every rank, and saves it."""
        super().sync()
