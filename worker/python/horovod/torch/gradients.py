"""Submits and receives the gradients of an optimizer.

PyTorch calls a hook of each parameter when backward() has finished its gradient. The hook submits the gradient at once, so
that gradients are reduced while backward() still computes others. Every rank submits all of its parameters between two
updates, and zeros for those without a gradient, because the ranks may use different parameters.

A sparse gradient is sent by two allgathers, and an empty stand-in takes its place among the dense ones. If another rank has a
dense gradient, or dense zeros for want of one, the shapes differ, and every rank gets an error. Then that rank sends its
gradient as a sparse one, for which the others wait.
"""
import contextlib
import weakref

import torch

from horovod import _core
from horovod.common import refusals
from horovod.common.exceptions import HorovodInternalError
from horovod.torch import grouping
from horovod.torch.adapter import all_written, used_here
from horovod.torch.buckets import Flat, Group, flat_lists
from horovod.torch.compression import NoneCompressor, copy_all, pack
from horovod.torch.mpi_ops import (Adasum, Average, Max, Sum, allreduce_, allreduce_async_, grouped_allreduce_async_,
                                   size, sparse_allreduce_async, synchronize)


class _Entry:
    """A parameter, its name in the job, and how many backward passes its gradient still needs."""
    __slots__ = ("parameter", "name", "group", "passes_left", "is_under_way", "sparse_dims", "hook",
                 "dense", "submitted", "gathering", "__weakref__")

    def __init__(self, parameter, name, passes, sparse_dims):
        self.parameter = parameter
        self.name = name
        self.group = None
        self.passes_left = passes
        self.is_under_way = False
        self.sparse_dims = sparse_dims  # of the last gradient, if that was sparse
        self.hook = None
        self.dense = None  # the dense form that is submitted in place of a sparse gradient
        self.submitted = None  # the parameter's gradient, while it is submitted and not received
        self.gathering = None  # the handle of a pending sparse gradient


class _Batch:
    """Gradients that were submitted together, with their compression contexts and the handle.

    A sparse gradient is None here, and its entry has the handle. Without contexts a copy to the gradients restores their type.
    """
    __slots__ = ("entries", "gradients", "contexts", "handle", "is_group")

    def __init__(self, entries, gradients, contexts, handle, is_group):
        self.entries = entries
        self.gradients = gradients
        self.contexts = contexts
        self.handle = handle
        self.is_group = is_group


class _Failures:
    """The errors of receiving gradients."""

    def __init__(self):
        self.first = None
        self.unlike = {}  # {entry, or batch of a group: the error of ranks that differ there}

    @contextlib.contextmanager
    def noted(self, what=None):
        """Records an exception of its body, for an entry or batch if that may be tried again, and suppresses it."""
        try:
            yield
        except (RuntimeError, ValueError) as error:
            if what is None or not _may_be_sparse_elsewhere(error):
                self.first = self.first or error
            elif isinstance(what, _Batch) and not what.is_group:
                self.unlike[what.entries[0]] = error
            else:
                self.unlike[what] = error


def _may_be_sparse_elsewhere(error):
    """Returns whether it is the error of ranks that differ there, but use the same reduction: a rank with Adasum would not take
    part in the collectives that follow."""
    text = str(error)
    return (isinstance(error, HorovodInternalError) and text.startswith("Mismatched ")
            and not text.startswith(("Mismatched reduction operation", "Mismatched prescale")))


def _attach(parameter, function):
    """Registers function(parameter) to be called whenever a backward pass has finished its gradient."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(function)
    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    its = weakref.ref(parameter)
    return accumulator, accumulator.register_hook(lambda *_: function(its()))  # lives as long as the caller keeps both


def _one_pass_more(name, passes, since):
    """Returns the exception for one backward pass too many."""
    return AssertionError(f"the gradient of {name} was computed once more before step(), {since}: this optimizer takes "
                          f"backward_passes_per_step={passes} passes. Give DistributedOptimizer a larger "
                          "backward_passes_per_step to add up gradients.")


def copied_names(names, memo):
    """Returns {parameter: name} for the deep copies of the parameters in memo."""
    return {memo[id(parameter)]: name for parameter, name in names.items() if id(parameter) in memo}


class Passes:
    """Counts the backward passes of each parameter between two steps, for an optimizer that reduces only in step()."""

    def __init__(self, passes):
        self.passes = passes
        self.is_paused = False  # within a step
        self._hooks = {}
        self._made = {}

    def watch(self, named):
        """Counts the passes of further pairs (name, parameter) from now on."""
        for name, parameter in named:
            if parameter not in self._hooks:
                self._hooks[parameter] = self._hook(parameter, name)

    def _hook(self, parameter, name):
        ours = weakref.ref(self)  # a model does not keep its optimizer

        def arrived(parameter):
            passes = ours()
            if passes is not None and not passes.is_paused:
                passes._count(parameter, name)

        return _attach(parameter, arrived)

    def _count(self, parameter, name):
        made = self._made.get(parameter, 0)
        if made >= self.passes and size() > 1:
            raise _one_pass_more(name, self.passes, "after its last pass")
        self._made[parameter] = made + 1

    def await_step(self):
        """Returns whether there is a complete gradient that step() has not used yet."""
        return size() > 1 and any(made >= self.passes for made in self._made.values())

    def restart(self):
        """Resets the counts."""
        self._made.clear()

    @contextlib.contextmanager
    def of_one_step(self):
        """Suspends counting in its body, where closures may make any number of passes, and resets the counts afterwards."""
        self.is_paused = True
        try:
            yield
        finally:
            self.is_paused = False
            self.restart()


class Gradients:
    """Reduces the gradients of an optimizer.

    names: {parameter: name}. groups: None, a number of groups, or lists of parameters that are reduced together.
    is_flat: gradients share memory, and are reduced there. is_sparse: the optimizer accepts only sparse gradients.
    """

    def __init__(self, names, compression, passes, op, predivide_factor, groups, sparse_as_dense,
                 process_set, is_flat=False, is_sparse=False):
        self.passes = passes
        self.is_reduced = False  # no gradient was computed since the last finish()
        self._options = (compression, op, predivide_factor, sparse_as_dense, process_set, is_flat, is_sparse)
        self._is_flat = is_flat
        self._names = names
        self._compression = compression
        self._sparse_as_dense = sparse_as_dense
        self._sparse_dims = 1 if is_sparse else 0  # for a parameter without a gradient so far
        self._process_set = process_set
        self._how = {"op": op, "process_set": process_set}
        if op == Average:
            self._how.update(prescale_factor=1.0 / predivide_factor, postscale_factor=predivide_factor)
        self._op = op
        self._arguments = ()  # of the fast path
        self._groups = groups
        self._is_compared = False  # the groups were compared with those of the other ranks
        self._entries = {}
        self._batches = []
        # Gradients that are reduced in place, one by one, and need only a wait: (entry, handle). They take the fast path once
        # the first one of a backward pass has passed all checks.
        self._handles = []
        self._takes_short_way = False
        self._is_marked = False  # the timeline has the beginning of a backward pass
        self._watched = []

    def copied(self, memo):
        """Returns Gradients for a deep copy of the optimizer with the parameters in memo. The first finish() attaches hooks."""
        groups = self._groups
        if groups is not None and not isinstance(groups, int):
            groups = [[memo[id(parameter)] for parameter in members if id(parameter) in memo] for members in groups]
        compression, op, predivide_factor, *others = self._options
        return Gradients(copied_names(self._names, memo), compression, self.passes, op, predivide_factor, groups, *others)

    def is_pending(self):
        """Returns whether gradients were submitted and not received yet."""
        return bool(self._handles or self._batches)

    def _takes_part(self):
        """Returns whether this rank is in the process set. Raises ValueError if the set is not registered (any more): the rank
        would train alone."""
        is_in = self._process_set.included()
        if is_in is None:
            raise ValueError(f"{self._process_set} is not registered: use hvd.add_process_set or "
                             "hvd.init(process_sets=...).")
        return is_in

    def watch(self, param_groups):
        """Attaches hooks to the parameters that require a gradient and have no hook yet."""
        if not self._takes_part() or self._are_watched(param_groups):
            return
        new = {parameter: self._names.get(parameter, f"noname.{i}.{j}")
               for i, group in enumerate(param_groups) for j, parameter in enumerate(group["params"])
               if parameter.requires_grad and parameter not in self._entries}
        groups = self._agreed_groups(new)  # raises before there are hooks
        for parameter, name in new.items():
            self._entries[parameter] = self._enter(parameter, name)
        for members in groups:
            group = (Flat if self._is_flat else Group)([self._entries[parameter] for parameter in members])
            for entry in group.entries:
                entry.group = group
        self._watched = [(group["params"], len(group["params"])) for group in param_groups]

    def _are_watched(self, param_groups):
        """Returns whether these are the lists of the last call, all of whose parameters have hooks. A check of each of many
        parameters would take longer than the rest of a step here."""
        watched = self._watched
        return (len(watched) == len(param_groups) and len(self._entries) == sum(n for _, n in watched)
                and all(group["params"] is known and len(known) == n
                        for group, (known, n) in zip(param_groups, watched)))

    def _enter(self, parameter, name):
        entry = _Entry(parameter, name, self.passes, self._sparse_dims)
        ours, its = weakref.ref(self), weakref.ref(entry)  # a model does not keep its optimizer
        submit = _core.allreduce_async

        def arrived(parameter):
            """Called for every gradient of every step: contains the whole fast path."""
            gradients = ours()
            if gradients is None:
                return
            entry = its()
            if not (gradients._takes_short_way and entry.passes_left == 1):
                gradients.arrived(entry)
                return
            gradient = parameter.grad
            try:
                gradients._handles.append((entry, submit(gradient, gradient, entry.name, *gradients._arguments)))
            except HorovodInternalError:
                raise
            except Exception as error:  # pylint: disable=broad-except  # sparse, on a device, ...: the slow path reports that
                if getattr(error, "is_told", False):
                    raise
                gradients.arrived(entry)
                return
            entry.passes_left = 0
            entry.is_under_way = True

        entry.hook = _attach(parameter, arrived)
        return entry

    def _begin_pass(self):
        """Prepares the fast path. Called for gradients on the slow path, such as the first one of a backward pass."""
        how = self._how
        self._takes_short_way = (not self._groups and not self._is_flat and self._compression is NoneCompressor
                                 and self._op != Adasum)
        self._arguments = (self._op, how.get("prescale_factor", 1.0), how.get("postscale_factor", 1.0),
                           self._process_set.process_set_id)
        if not self._is_marked and _core.timeline_mark("BACKWARD", True):
            self._is_marked = True
            torch.autograd.Variable._execution_engine.queue_callback(self._end_pass)

    def _end_pass(self):
        """Marks the end of a backward pass in the timeline, if its beginning was marked."""
        if self._is_marked:
            _core.timeline_mark("BACKWARD", False)
        self._is_marked = self._takes_short_way = False

    def _agreed_groups(self, new):
        """Returns the groups of the new parameters, {parameter: name}, as lists, the same on all ranks. Only the first parameters
        are grouped; later ones are reduced alone."""
        if not (self._groups or self._is_flat) or self._entries or (self._is_compared and not new):
            return []
        self._is_compared = True
        groups = flat_lists(list(new)) if self._is_flat else self._groups
        if not isinstance(groups, int):
            groups = [[new[parameter] for parameter in members if parameter in new] for members in groups]
        frozen = [name for parameter, name in self._names.items() if parameter not in new and not parameter.requires_grad]
        of_name = {name: parameter for parameter, name in new.items()}
        plan = grouping.Plan(list(of_name), frozen, groups, "flat_gradients" if self._is_flat else "groups")
        return [[of_name[name] for name in members] for members in grouping.agreed(plan, self._process_set)]

    def set_passes(self, passes):
        """Sets the number of backward passes after which a gradient is complete."""
        self.passes = passes
        self._count_anew()

    def arrived(self, entry):
        """Called when a backward pass has finished this gradient: submits it after the last pass."""
        if self._process_set.size() == 1:
            return
        if entry.passes_left <= 0:
            raise _one_pass_more(entry.name, self.passes, "after it was submitted")
        self._begin_pass()
        self.is_reduced = False
        entry.passes_left -= 1
        if entry.passes_left == 0:
            self._ready(entry)

    def _ready(self, entry):
        group = entry.group
        if group is None:
            self._submit([entry])
            return
        group.n_missing -= 1
        if self._is_flat:
            group.take_in(entry)
        group.note_stream(entry.parameter.grad)
        if group.n_missing == 0:
            self._submit(group.entries)

    def _submit(self, entries):
        if entries[0].group is not None:
            entries[0].group.join_streams()
        if self._is_flat and entries[0].group is not None:
            self._submit_flat(entries[0].group)
            return
        gradients = []
        for entry in entries:
            entry.is_under_way = True
            gradients.append(self._gradient_of(entry))
        self._check_sparse(entries, gradients)
        self._submit_dense(entries, gradients)
        for entry, gradient in zip(entries, gradients):
            if gradient.is_sparse:
                entry.gathering = sparse_allreduce_async(gradient, entry.name, self._op, self._process_set)

    def _submit_flat(self, flat):
        for entry in flat.entries:
            entry.is_under_way = True
        packed, context = self._compression.compress(flat.take_in_all())
        handle = allreduce_async_(packed, name=flat.name, **self._how)
        self._batches.append(_Batch(flat.entries, [flat.memory], [context], handle, False))

    def _check_sparse(self, entries, gradients):
        """Raises ValueError, on the other ranks too, if the reduction does not support sparse gradients."""
        if self._op in (Average, Sum) or not any(gradient.is_sparse for gradient in gradients):
            return
        error = ValueError("Sparse tensors can be averaged and summed only.")
        refusals.tell(error, "allreduce", entries[0].name, self._process_set, len(entries) if entries[0].group else 0)
        raise error

    def _gradient_of(self, entry):
        """Returns the gradient to submit for a parameter, or zeros of the same kind."""
        parameter = entry.parameter
        if parameter.grad is None:
            parameter.grad = _zeros(parameter, entry.sparse_dims)
        elif parameter.grad.is_sparse:
            entry.sparse_dims = parameter.grad.sparse_dim()
        entry.submitted = parameter.grad
        gradient = parameter.grad.detach() if parameter.grad.requires_grad else parameter.grad
        if gradient.is_sparse and self._sparse_as_dense:
            gradient = entry.dense = gradient.to_dense()
        return gradient

    def _submit_dense(self, entries, gradients):
        packed, contexts = self._all_packed(entries, gradients)
        name, is_group = entries[0].name, entries[0].group is not None
        if is_group:
            handle = grouped_allreduce_async_(list(packed), name=name, **self._how)
        else:
            handle = allreduce_async_(packed[0], name=name, **self._how)
        gradients = [None if gradient.is_sparse else gradient for gradient in gradients]
        self._batches.append(_Batch(entries, gradients, contexts, handle, is_group))

    def _all_packed(self, entries, gradients):
        """Returns (the tensors to send, the contexts for decompress; None if a copy to the gradients restores them)."""
        packed = pack(gradients, self._compression)
        if packed is not None:
            return packed, None
        return zip(*map(self._packed, entries, gradients))

    def _packed(self, entry, gradient):
        """Returns (the tensor to send among the dense gradients, its context for decompress)."""
        if gradient is None or gradient.is_sparse:
            return _stand_in(entry.parameter), None
        return self._compression.compress(gradient)

    def finish(self, param_groups):
        """Submits the gradients that no backward pass has reached, and waits until every gradient is reduced.

        If one fails, waits for the others too; then raises the first failure.
        """
        if not self._takes_part() or self._process_set.size() == 1:
            return
        self.watch(param_groups)
        self._submit_the_rest()
        failure = self._receive_all()
        self.is_reduced = failure is None
        if failure is not None:
            raise failure

    def _submit_the_rest(self):
        for entry in self._entries.values():
            if not entry.is_under_way and entry.parameter.requires_grad:
                self._submit([entry] if entry.group is None else entry.group.entries)

    def _receive_all(self):
        self._end_pass()  # if the pass ended with an exception
        handles, self._handles = self._handles, []
        batches, self._batches = self._batches, []
        found = _Failures()
        reduced = []
        for entry, handle in handles:
            with found.noted(entry):
                reduced.append(_core.wait(handle))
                if entry.parameter.grad is not reduced[-1]:
                    _replace(entry, reduced[-1])
        all_written(reduced)
        with torch.no_grad():
            for batch in batches:
                is_flat = self._is_flat and batch.entries[0].group is not None
                with found.noted(None if is_flat else batch):
                    (self._receive_flat if is_flat else self._receive)(batch)
            if found.unlike:
                self._agree(found)
        self._count_anew()
        return found.first

    def _receive(self, batch):
        received = synchronize(batch.handle)
        if not batch.is_group:
            received = [received]
        failure = None
        if batch.contexts is None:
            copy_all(batch.gradients, received)
            used_here(batch.gradients)
            for entry, gradient in zip(batch.entries, batch.gradients):
                self._take_over(entry, gradient, gradient)
            return
        for entry, gradient, packed, context in zip(batch.entries, batch.gradients, received, batch.contexts):
            if gradient is not None:
                self._take_over(entry, gradient, self._compression.decompress(packed, context))
                continue
            try:
                _take_gathered(entry)
            except (RuntimeError, ValueError) as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _receive_flat(self, batch):
        flat = batch.entries[0].group
        reduced = self._compression.decompress(synchronize(batch.handle), batch.contexts[0])
        if reduced is not flat.memory:
            flat.memory.copy_(reduced)
        used_here((flat.memory,))
        for entry, view in flat.views.items():
            if entry.parameter.grad is not view and entry.parameter.requires_grad:
                _replace(entry, view)

    @staticmethod
    def _take_over(entry, gradient, reduced):
        if entry.dense is gradient:  # the optimizer gets the kind of gradient that it expects
            entry.parameter.grad = reduced.to_sparse(entry.sparse_dims)
        elif reduced is not gradient:
            gradient.copy_(reduced)
            used_here((gradient,))
        if entry.dense is None and entry.parameter.grad is not entry.submitted:
            _replace(entry, gradient)

    def _agree(self, found):
        """Reduces gradients that failed for different shapes: if they are sparse on some ranks, as sparse; else raises the error.

        Groups are tried again one by one. Every rank has the same errors, and so takes the same steps.
        """
        self._try_again(found)
        unlike = sorted(found.unlike.items(), key=lambda pair: pair[0].name)
        if not unlike:
            return
        dims = torch.tensor([entry.sparse_dims if entry.gathering is not None else 0 for entry, _ in unlike], device="cpu")
        try:
            allreduce_(dims, name=f"{unlike[0][0].name}.sparse_dims", op=Max, process_set=self._process_set)
        except RuntimeError as error:
            found.first = found.first or error
            return
        for (entry, error), n in zip(unlike, dims.tolist()):
            with found.noted():
                if n == 0:
                    raise error
                if entry.gathering is None:
                    entry.gathering = sparse_allreduce_async(_as_sparse(entry.parameter, n), entry.name, self._op,
                                                             self._process_set)
                    entry.sparse_dims = n
        for (entry, _), n in zip(unlike, dims.tolist()):
            with found.noted():
                if n > 0:
                    _take_gathered(entry)

    def _try_again(self, found):
        """Submits the gradients of groups with different shapes one by one, and receives them."""
        groups = [batch for batch in found.unlike if isinstance(batch, _Batch)]
        again = []
        for batch in groups:
            del found.unlike[batch]
            for entry, gradient in zip(batch.entries, batch.gradients):
                with found.noted():
                    packed, context = self._packed(entry, gradient)
                    handle = allreduce_async_(packed, name=entry.name, **self._how)
                    again.append(_Batch([entry], [gradient], [context], handle, False))
        for batch in again:
            with found.noted(batch):
                self._receive(batch)

    def clear(self):
        """Sets flat gradients to zeros."""
        for group in {id(entry.group): entry.group for entry in self._entries.values()}.values() if self._is_flat else ():
            if group is not None:
                group.clear()

    def restart(self):
        """Waits for all pending gradients, ignores their errors, and resets the counts."""
        self._receive_all()
        self.is_reduced = False

    def _count_anew(self):
        for entry in self._entries.values():
            entry.passes_left = self.passes
            entry.is_under_way = False
            entry.dense = entry.submitted = entry.gathering = None
            if entry.group is not None:
                entry.group.restart()


def _replace(entry, reduced):
    """Sets the reduced gradient of a parameter whose gradient was replaced after the submission."""
    if entry.parameter.grad is None:
        raise ValueError(f"the gradient of {entry.name} was set to None between backward() and step(), while it was being reduced. "
                         "Call step() or synchronize() first, or do that before backward().")
    entry.parameter.grad = reduced


def _take_gathered(entry):
    """Sets a parameter's sparse gradient. Does nothing if the submission failed, which raised an error then."""
    if entry.gathering is not None:
        entry.parameter.grad = entry.gathering()


def _stand_in(parameter):
    """Returns the tensor that is reduced in place of a sparse gradient: without elements, and of another shape than a dense one."""
    return parameter.new_empty((0, 0) if parameter.dim() == 1 else (0,), requires_grad=False)


def _as_sparse(parameter, sparse_dims):
    """Returns the gradient of a parameter as a sparse one."""
    if parameter.grad is None:
        return _zeros(parameter, sparse_dims)
    return parameter.grad.detach().to_sparse(sparse_dims)


def _zeros(parameter, sparse_dims):
    """Returns a gradient of zeros: dense, or sparse as the parameter's last one."""
    if not sparse_dims:
        return torch.zeros_like(parameter, requires_grad=False)
    indices = torch.empty((sparse_dims, 0), dtype=torch.int64, device=parameter.device)
    values = torch.empty((0, *parameter.shape[sparse_dims:]), dtype=parameter.dtype,
                         device=parameter.device)
    return torch.sparse_coo_tensor(indices, values, parameter.shape, check_invariants=False)
