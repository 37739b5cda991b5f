"""Optimizers that update with the gradients of all ranks.

DistributedOptimizer converts an optimizer to one of a derived class, with the same parameters and state.
Schedulers of the former keep working.
"""
import contextlib
import copy
import math
import warnings
import weakref

import torch

from horovod.common.operations import reduction
from horovod.torch import grouping
from horovod.torch.compression import Compression
from horovod.torch.gradients import Gradients, Passes, copied_names
from horovod.torch.mpi_ops import (Adasum, Average, Max, Min, ProcessSet, Product, Sum, allreduce_async_,
                                   global_process_set, rocm_built, size, synchronize)


class _NotBegun:
    """Stands for attributes that __init__ or DistributedOptimizer sets, in an optimizer that was created without them."""

    def __get__(self, optimizer, kind=None):
        raise RuntimeError("this DistributedOptimizer was made without its arguments, as pickle does: it reduces no gradients. "
                           "Save optimizer.state_dict(), and load it into one that hvd.DistributedOptimizer has made.")


class _DistributedOptimizer(torch.optim.Optimizer):
    """The part of a distributed optimizer that comes before the class of the wrapped one.

    params are the parameter groups of an optimizer; DistributedOptimizer describes the others.
    """

    _gradients = _NotBegun()
    _should_synchronize = True

    def __init__(self, params, named_parameters, compression, backward_passes_per_step=1,
                 op=Average, gradient_predivide_factor=1.0, groups=None, sparse_as_dense=False,
                 process_set=global_process_set, flat_gradients=False):
        super().__init__(params)
        self._begin(named_parameters, compression, backward_passes_per_step, op,
                    gradient_predivide_factor, groups, sparse_as_dense, process_set, flat_gradients)

    def _begin(self, named_parameters, compression, backward_passes_per_step, op,
               gradient_predivide_factor, groups, sparse_as_dense, process_set, flat_gradients):
        with grouping.told(groups or flat_gradients, process_set):
            _check_passes(backward_passes_per_step)
            _check_reduction(compression, op, gradient_predivide_factor, process_set)
            _check_groups(groups)
            if flat_gradients:
                _check_flat(self, op, groups)
            _check_overridden(type(self))
            names = _all_names(self, _names(self, named_parameters))
        self.backward_passes_per_step = backward_passes_per_step
        self.op = op
        self.gradient_predivide_factor = gradient_predivide_factor
        self.sparse_as_dense = sparse_as_dense
        self.process_set = process_set
        self.flat_gradients = bool(flat_gradients)
        self._parameter_names = names
        self._gradients = Gradients(names, compression, backward_passes_per_step, op,
                                    gradient_predivide_factor, groups, sparse_as_dense, process_set, self.flat_gradients,
                                    is_sparse=isinstance(self, torch.optim.SparseAdam))
        self._register_hooks()

    def __copy__(self):
        return _shallow_copy(self)

    def __deepcopy__(self, memo):
        """Returns an optimizer of the copied parameters. Its first step attaches hooks to them: until then nothing is reduced."""
        copied = _deep_copy(self, memo)
        copied._gradients = self._gradients.copied(memo)
        return copied

    def _register_hooks(self):
        """Attaches hooks to parameters that have none, such as those of an added group; step() does it as well."""
        self._gradients.watch(self.param_groups)

    def load_state_dict(self, *args, **kwargs):
        """As the wrapped optimizer's, but drops gradients that are being reduced."""
        self._gradients.restart()
        self._should_synchronize = True
        super().load_state_dict(*args, **kwargs)

    @staticmethod
    def find_duplicates(lst):
        """Returns the set of the elements that lst has more than once."""
        seen = set()
        return {element for element in lst if element in seen or seen.add(element)}

    def set_backward_passes_per_step(self, passes):
        """Sets the number of backward passes after which gradients are reduced."""
        _check_passes(passes)
        self.backward_passes_per_step = passes
        self._gradients.set_passes(passes)

    def synchronize(self):
        """Waits until every gradient is reduced, so that the script can change gradients before step().

        Then call step() within skip_synchronize().
        """
        self._gradients.finish(self.param_groups)

    @contextlib.contextmanager
    def skip_synchronize(self):
        """In its body step() uses the current gradients: synchronize() was called before."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure=None, **kwargs):
        """Updates the parameters with the reduced gradients.

        The gradients that a closure computes are reduced each time the optimizer calls it.
        """
        if self._should_synchronize:
            closure = self._reduce_for_step(closure)
        arguments = () if closure is None else (closure,)
        result = super().step(*arguments, **kwargs)
        _note_step(self)
        self._gradients.is_reduced = False
        return result

    step.hooked = True  # torch calls the step hooks in the wrapped class's step()

    def _reduce_for_step(self, closure):
        """Reduces the current gradients. Returns the closure for the step, which reduces its own, or None."""
        if closure is not None:
            if self._gradients.is_pending():
                self.synchronize()
            return lambda: self._reduced(closure)
        if self._gradients.is_reduced:
            warnings.warn("optimizer.step() called without optimizer.skip_synchronize() after "
                          "optimizer.synchronize(). The gradients are not reduced a second time; "
                          "put step() into `with optimizer.skip_synchronize():`.", stacklevel=3)
        else:
            self.synchronize()
        return None

    def _reduced(self, closure):
        loss = closure()
        if not self._gradients.is_reduced:  # else the closure computed none, and the step reduced them before
            self.synchronize()
        return loss

    def zero_grad(self, *args, **kwargs):
        """As the wrapped optimizer's; raises AssertionError while gradients are being reduced."""
        if self._gradients.is_pending():
            raise AssertionError(
                "zero_grad() between backward() and step(): the gradients are being reduced. Call "
                "step() or synchronize() first, or zero_grad() before backward().")
        result = super().zero_grad(*args, **kwargs)
        self._gradients.clear()
        return result


class _DistributedAdasumOptimizer(torch.optim.Optimizer):
    """Each rank makes a step of its own; then Adasum reduces the changes.

    params are the parameter groups of an optimizer; DistributedOptimizer describes the others.
    """

    _passes = _parameter_names = _NotBegun()

    def __init__(self, params, named_parameters, compression, backward_passes_per_step=1):
        super().__init__(params)
        self._begin(named_parameters, compression, backward_passes_per_step)

    def _begin(self, named_parameters, compression, backward_passes_per_step):
        _check_passes(backward_passes_per_step)
        _check_reduction(compression, Adasum, 1.0, global_process_set)
        self._parameter_names = _all_names(self, _names(self, named_parameters))
        self.backward_passes_per_step = backward_passes_per_step
        self._compression = compression
        self._passes = Passes(backward_passes_per_step)
        self._register_hooks()

    def __copy__(self):
        return _shallow_copy(self)

    def __deepcopy__(self, memo):
        """Returns an optimizer of the copied parameters. Its first step attaches hooks to them, which count backward passes."""
        copied = _deep_copy(self, memo)
        copied._passes = Passes(self._passes.passes)
        return copied

    def set_backward_passes_per_step(self, passes):
        """Sets the number of backward passes that the script makes per step: gradients add up until step()."""
        _check_passes(passes)
        self.backward_passes_per_step = self._passes.passes = passes
        self._passes.restart()

    def _register_hooks(self):
        """Attaches hooks, which count backward passes, to parameters that have none; step() does it as well."""
        self._passes.watch(self._trained())

    def load_state_dict(self, *args, **kwargs):
        """As the wrapped optimizer's, but drops gradients that step() has not used."""
        self._passes.restart()
        super().load_state_dict(*args, **kwargs)

    def synchronize(self):
        """Does nothing: the changes to reduce exist only in step()."""

    def skip_synchronize(self):
        """Raises AssertionError: with Adasum only step() reduces."""
        raise AssertionError("skip_synchronize() is not for Adasum: there step() itself reduces, "
                             "after the update. Change gradients between backward() and step().")

    def step(self, closure=None, **kwargs):
        """Makes a step of this rank alone; then all ranks apply the Adasum of the changes."""
        reduction(Adasum, None, global_process_set)  # raises NotImplementedError before any change
        named = self._trained()
        self._passes.watch(named)
        for _, parameter in named:  # zeros for parameters that no backward pass has reached, as with Average
            if parameter.grad is None and closure is None:
                parameter.grad = torch.zeros_like(parameter, requires_grad=False)
        before = [parameter.detach().clone() for _, parameter in named]
        with self._passes.of_one_step():
            loss = super().step(*(() if closure is None else (closure,)), **kwargs)
        _note_step(self)
        with torch.no_grad():
            pending = [self._submit(name, parameter.detach() - start)
                       for (name, parameter), start in zip(named, before)]
            for (_, parameter), start, (handle, context) in zip(named, before, pending):
                change = self._compression.decompress(synchronize(handle), context)
                parameter.copy_(start + change)
        return loss

    step.hooked = True

    def _trained(self):
        return [(self._parameter_names.get(parameter, f"noname.{i}.{j}"), parameter)
                for i, group in enumerate(self.param_groups)
                for j, parameter in enumerate(group["params"]) if parameter.requires_grad]

    def _submit(self, name, change):
        packed, context = self._compression.compress(change)
        return allreduce_async_(packed, name=name, op=Adasum), context

    def zero_grad(self, *args, **kwargs):
        """As the wrapped optimizer's; raises AssertionError while there are gradients for step()."""
        if self._passes.await_step() and not self._passes.is_paused:
            raise AssertionError("zero_grad() between backward() and step(): step() would move nothing. Call step() first, or "
                                 "zero_grad() before backward().")
        return super().zero_grad(*args, **kwargs)


def _names(optimizer, named_parameters):
    """Returns {parameter: name}, checked; empty if the caller names none."""
    named = list(named_parameters) if named_parameters is not None else []
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in named):
        raise ValueError("named_parameters must be pairs (name, parameter), as of "
                         "model.named_parameters().")
    twice = _DistributedOptimizer.find_duplicates([name for name, _ in named])
    if twice:
        raise ValueError("named_parameters must have each name once; these are there more often: "
                         + ", ".join(sorted(twice)))
    names = {parameter: name for name, parameter in named}
    missing = [f"{i}.{j}" for i, group in enumerate(optimizer.param_groups)
               for j, parameter in enumerate(group["params"]) if parameter not in names]
    if named_parameters is not None and missing:
        raise ValueError("named_parameters does not name every parameter of the optimizer; missing "
                         "are (group.position): " + ", ".join(missing))
    return names


def _all_names(optimizer, names):
    """Returns {parameter: name} for all parameters of the optimizer; those that `names` lacks get their place as name."""
    places = {parameter: f"noname.{i}.{j}" for i, group in enumerate(optimizer.param_groups)
              for j, parameter in enumerate(group["params"])}
    return {**places, **names}


_NOT_CALLED = ("_make_hook", "_allreduce_grad_async", "_grouped_allreduce_grad_async", "_sparse_allreduce_grad_async")


def _check_overridden(kind):
    """Raises NotImplementedError for a class that overrides a method of Horovod's optimizer that this one never calls."""
    for name in _NOT_CALLED:
        if any(name in vars(base) for base in kind.__mro__ if issubclass(base, _DistributedOptimizer)):
            raise NotImplementedError(f"{kind.__name__}.{name} would not be called: gradients are submitted elsewhere here. "
                                      "Give DistributedOptimizer a compression, or change gradients between synchronize() "
                                      "and step().")


def _check_passes(passes):
    if not isinstance(passes, int) or passes <= 0:
        raise ValueError(f"backward_passes_per_step must be > 0, a whole number: {passes!r}.")


def _check_reduction(compression, op, predivide_factor, process_set):
    """Raises TypeError or ValueError for options with which no gradient could be reduced."""
    if not all(callable(getattr(compression, method, None)) for method in ("compress", "decompress")):
        raise TypeError("compression must be one of hvd.Compression, as Compression.none or Compression.fp16, or have its methods "
                        f"compress and decompress: {compression!r}.")
    if not isinstance(process_set, ProcessSet):
        raise TypeError("process_set must be an hvd.ProcessSet, as hvd.global_process_set, which is the default: "
                        f"{process_set!r}.")
    if op is not None and op not in (Average, Sum, Adasum, Min, Max, Product):
        raise ValueError(f"op must be Average, Sum or Adasum, or Min, Max or Product: {op!r}.")
    _check_predivide_factor(predivide_factor, op)


def _check_predivide_factor(factor, op):
    try:
        inverse = 1.0 / float(factor)
    except ZeroDivisionError:
        inverse = math.inf
    except (TypeError, ValueError):
        raise TypeError(f"gradient_predivide_factor must be a number: {factor!r}.") from None
    if factor != 1.0:
        if rocm_built():
            raise ValueError("gradient_predivide_factor is not for ROCm.")
        if op != Average:
            raise ValueError("gradient_predivide_factor is for op=Average alone.")
    if not (math.isfinite(inverse) and inverse):
        raise ValueError(f"gradient_predivide_factor must be a finite number other than 0: {factor!r}.")


def _check_groups(groups):
    if groups is None:
        return
    if isinstance(groups, int) and not isinstance(groups, bool):
        if groups < 0:
            raise ValueError(f"groups must not be negative: {groups}.")
        if groups == 0:
            raise ValueError("groups must not be 0: leave it out, or give None, for no groups.")
        return
    if not isinstance(groups, list) or any(not isinstance(g, (list, tuple)) for g in groups):
        raise ValueError("groups must be a number of groups or a list of lists of torch.Tensor.")
    members = [tensor for group in groups for tensor in group]
    if any(not isinstance(tensor, torch.Tensor) for tensor in members):
        raise ValueError("groups must have nothing but torch.Tensor in its lists.")
    if len({id(tensor) for tensor in members}) != len(members):
        raise ValueError("groups must have each parameter once.")


def _check_flat(optimizer, op, groups):
    """Raises ValueError for what cannot be reduced in one memory."""
    if groups:
        raise ValueError("flat_gradients makes groups of its own: leave out groups.")
    if op == Adasum:
        raise ValueError("flat_gradients is not for Adasum, which combines each gradient by itself.")
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise ValueError("flat_gradients is for dense gradients: SparseAdam takes sparse ones.")


def _adopt(kind, optimizer):
    """Returns an object of `kind` and of the optimizer's class, with all attributes of the optimizer."""
    original = type(optimizer)
    if issubclass(original, (_DistributedOptimizer, _DistributedAdasumOptimizer)):
        raise ValueError("this optimizer is a DistributedOptimizer already.")
    derived = type(original.__name__, (kind, original),
                   {"__doc__": original.__doc__, "__module__": original.__module__})
    adopted = derived.__new__(derived)
    adopted.__dict__.update(optimizer.__dict__)
    adopted.__dict__.pop("step", None)  # a scheduler's, which counts steps of the original
    adopted._adopted = weakref.ref(optimizer)
    return adopted


_OPTIONS = ("backward_passes_per_step", "op", "gradient_predivide_factor", "sparse_as_dense", "process_set", "flat_gradients",
            "_compression")


def _shallow_copy(optimizer):
    """Returns an optimizer of the same parameters, whose gradients are reduced once for both."""
    make, arguments, state, *_ = optimizer.__reduce_ex__(4)
    copied = make(*arguments)
    copied.__setstate__(dict(state))
    for name, value in vars(optimizer).items():
        if name != "step":  # a scheduler's, which counts steps of this one
            vars(copied).setdefault(name, value)
    return copied


def _deep_copy(optimizer, memo):
    """Returns a copy as the wrapped class makes it, with this module's options."""
    make, arguments, state, *_ = optimizer.__reduce_ex__(4)
    copied = memo[id(optimizer)] = make(*arguments)
    copied.__setstate__(copy.deepcopy(state, memo))
    for name in _OPTIONS:
        if name in vars(optimizer):
            setattr(copied, name, getattr(optimizer, name))
    copied._parameter_names = copied_names(optimizer._parameter_names, memo)
    return copied


def _note_step(adopted):
    """Marks a step in the original optimizer, where its scheduler checks that a step came before its own."""
    original = getattr(adopted, "_adopted", lambda: None)()
    if original is not None:
        original._opt_called = True


def DistributedOptimizer(optimizer, named_parameters=None, compression=Compression.none,
                         backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0,
                         num_groups=0, groups=None, sparse_as_dense=False,
                         process_set=global_process_set, flat_gradients=False):
    """Returns an optimizer of the same class that updates with the gradients of all ranks.

    named_parameters: pairs (name, parameter), as of model.named_parameters(); names pair gradients
        across ranks. Without them the places in the parameter groups are the names.
    compression: the compressor of gradients that are sent.
    backward_passes_per_step: the number of passes whose gradients add up before they are reduced.
    op: Average, Sum or Adasum.
    gradient_predivide_factor: with Average, gradients are divided by it before the sum,
        and multiplied by it when the sum is divided by the number of ranks.
    groups: gradients that are reduced as one, once all of them are ready: a number of groups, or
        lists of parameters. num_groups is its former name. Ranks with groups compare them here.
    sparse_as_dense: converts sparse gradients to dense ones before. Without it a gradient that is sparse on
        some ranks and dense on others, or missing there, becomes sparse on all.
    process_set: the ranks that train this model.
    flat_gradients: gradients are views of a few large tensors, which are reduced in place of them, so nothing is packed. Between
        two steps, gradients are zeros instead of None, and sparse ones become dense. Not part of Horovod 0.28.
    """
    if num_groups:
        warnings.warn("num_groups is called groups now.", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    with grouping.told(groups or flat_gradients, process_set):
        _check_passes(backward_passes_per_step)
        _check_reduction(compression, op, gradient_predivide_factor, process_set)
        if flat_gradients:
            _check_flat(optimizer, op, groups)
        if op == Adasum and process_set != global_process_set:
            raise NotImplementedError("Adasum is for the whole job: it takes no process set here.")
        is_adasum = op == Adasum and size() > 1
        adopted = _adopt(_DistributedAdasumOptimizer if is_adasum else _DistributedOptimizer, optimizer)
    if is_adasum:
        adopted._begin(named_parameters, compression, backward_passes_per_step)
    else:
        adopted._begin(named_parameters, compression, backward_passes_per_step, op,
                       gradient_predivide_factor, groups, sparse_as_dense, process_set, flat_gradients)
    return adopted
