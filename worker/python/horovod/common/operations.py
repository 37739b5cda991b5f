"""The collectives of all frameworks. They reach a framework's tensors by its adapter (adapter.py).

A framework's module has `operations = Operations(its adapter, __name__)` and exports these methods under their names. The
signatures are Horovod's; a module with other signatures wraps them.

All ranks of the process set submit the same names, in any order. A counter names tensors without a name, so the order of such
calls must be the same on all ranks.

Common parameters: `name`, unique among this rank's pending tensors; `process_set`, the ranks that take part; `op`, Average by
default; `prescale_factor` and `postscale_factor`, by which inputs and result are multiplied. `average` is Horovod's older form
of op.

A call with an error on this rank raises ValueError and submits nothing. If ranks disagree, synchronize raises
HorovodInternalError. The successful path of an operation in place is inlined, because a Python call costs more than the work.
"""
from functools import partial

from horovod import _core
from horovod.common import refusals
from horovod.common.adapter import each
from horovod.common.basics import Adasum, Average, HorovodBasics, Sum
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import global_process_set
from horovod.common.util import get_average_backwards_compatibility_fun

synchronize = _core.synchronize
keep = _core.attach  # (handle, the result of synchronize, or a function of the runtime's outputs) -> handle
_allreduce, _broadcast = _core.allreduce, _core.broadcast  # one lookup instead of two, where that counts

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(HorovodBasics)

TENSOR_TYPES_MAX = 64  # subclasses that are remembered: a program may make them anew each time
NO_TENSORS = (TypeError, RuntimeError, AttributeError)  # Adapter.written raises them for foreign objects


def reduction(op, average, process_set):
    """Returns the reduction that the arguments request, checked; op None means Average."""
    if average is not None:
        op = handle_average_backwards_compatibility(op, average)
    elif op is None:
        return Average
    if op == Adasum:
        size = process_set.size() or 1
        if size & (size - 1):
            raise NotImplementedError("Running Adasum with non-power of 2 ranks is not supported yet.")
    return op


def all_of(results):
    """Returns the result of synchronize for a group, from the tensors' results of Adapter.return_to or write_back."""
    if not any(callable(result) for result in results):
        return tuple(results)
    return lambda outputs: tuple(result(outputs) if callable(result) else result for result in results)


def poll(handle):
    """Returns whether `synchronize(handle)` would return at once. Raises ValueError for a handle that is not pending."""
    if callable(handle):
        return handle.poll()
    return _core.poll(handle)


def complete(begin, items):
    """Calls begin(item), which returns a handle, for each item, and then waits for all handles. Raises the first error at the end,
    because the other ranks submit all."""
    handles, failure = [], None
    for item in items:
        try:
            handles.append(begin(item))
        except (ValueError, TypeError, RuntimeError) as error:
            failure = failure or error
    for handle in handles:
        try:
            synchronize(handle)
        except RuntimeError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def barrier(process_set=global_process_set):
    """Waits until every rank of the process set has called it."""
    _core.barrier(process_set.process_set_id)


class Operations:
    """The collectives over an adapter. module: the name of the module that has this object as `operations`."""

    def __init__(self, adapter, module):
        self.__module__ = module
        self._dense, self._dense_in_place, self._all_dense = adapter.dense, adapter.dense_in_place, adapter.all_dense
        self._memory = adapter.dense, adapter.empty_like, adapter.dense_is_ours
        self.rows_for, self._rows_for_all, self._rooms_for = adapter.rows_for, adapter.rows_for_all, adapter.rooms_for
        self._from_output, self._from_outputs = adapter.from_output, adapter.from_outputs
        self._return_to, self._write_back, self._written = adapter.return_to, adapter.write_back, adapter.written
        self._split_counts, self._exchanged = adapter.split_counts, adapter.exchanged
        self._tensor_types = {adapter.tensor_type}  # and subclasses of it that were seen
        self._reduction = adapter.reduction or reduction
        self._adapter = adapter  # for the rarely used functions

    def __reduce__(self):
        """Pickles the object by its name, because modules export its methods as functions."""
        return "operations"

    # --- Refused calls

    def refused(self, error, word, tensors, name, process_set, n=0):
        """Returns the exception to raise for a call of n tensors of a group, or one, that this rank refuses with an error.

        Announces the refusal to the other ranks first, because they would wait, unless the runtime has announced it.
        """
        if isinstance(error, HorovodInternalError):  # not refused: it failed
            return error
        reason, place = self._adapter.explained(tensors, process_set, name)
        if not getattr(error, "is_told", False):
            text = refusals.reason_of(error if reason is None else reason)
            place = getattr(error, "place_in_group", place)
            if n > 1 and place is not None:
                text = f"tensor {place + 1} of {n}: {text}"
            refusals.announce(text, word, name, process_set, n)
        return error if reason is None else reason

    def group_of(self, tensors, word, name, process_set):
        """Returns the tensors of a group as a tuple. Without tensors raises ValueError, and makes the other ranks' group fail."""
        if type(tensors) in (list, tuple) and tensors:
            return tuple(tensors)
        try:
            return self._adapter.group(tensors)
        except Exception as error:  # pylint: disable=broad-except  # also a generator's own
            refusals.tell(error, word, name, process_set, refusals.EMPTY_GROUP)
            raise

    def _check_needs_copies(self, error, tensors):
        """Raises the error by which the runtime has refused tensors, unless it needs copies of some of them."""
        if (isinstance(error, HorovodInternalError) or getattr(error, "is_told", False)
                or all(self._dense(tensor) is tensor for tensor in tensors)):
            raise error

    def _as_they_are(self, call, tensors, *arguments):
        """Calls the runtime for a group without checking each tensor; returns None if it needs copies of some."""
        try:
            return call(tensors, *arguments)
        except Exception as error:  # pylint: disable=broad-except
            self._check_needs_copies(error, tensors)
        return None

    def _are_tensors(self, tensors):
        """Whether all are of the framework's type. Its functions make the results, which fails for others after the submission."""
        kinds = set(map(type, tensors))
        are_tensors = all(issubclass(kind, self._adapter.tensor_type) for kind in kinds)
        if are_tensors and len(self._tensor_types) < TENSOR_TYPES_MAX:
            self._tensor_types |= kinds
        return are_tensors

    def scatter_error(self, error, op):
        """Returns the exception to raise for an error of a reducescatter, which supports two reductions."""
        kind = self._adapter.unsupported
        if op in (Average, Sum) or not isinstance(error, ValueError) or isinstance(error, kind):
            return error
        unsupported = kind(str(error))
        unsupported.is_told = getattr(error, "is_told", False)
        unsupported.__suppress_context__ = True
        return unsupported

    # --- Memory

    def _factors(self, tensors, prescale, postscale):
        """Returns (tensors, prescale, postscale) for the runtime. It rejects a factor of 0, so zeros are reduced instead."""
        zeros_like = self._adapter.zeros_like
        if zeros_like is None or (prescale and postscale):
            return tensors, prescale, postscale
        float(prescale), float(postscale)  # raises TypeError unless it is a number
        return [zeros_like(tensor) for tensor in tensors], 1.0, 1.0

    def _rooms(self, tensors, sources):
        """Allocates memory for the results of a group; sources: dense() of each. Reuses private copies among them."""
        _, empty_like, is_ours = self._memory
        if not is_ours:
            return self._adapter.sequence(map(empty_like, sources))
        return self._adapter.sequence(empty_like(source) if source is tensor else source
                                      for tensor, source in zip(tensors, sources))

    def _keep_all(self, handle, tensors, targets):
        return handle if self._return_to is None else keep(handle, all_of([*map(self._return_to, tensors, targets)]))

    # --- Allreduce

    def allreduce_async(self, tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                        process_set=global_process_set):
        """Submits the reduction of `tensor` over the ranks; synchronize returns a new tensor of its shape and type."""
        dense, empty_like, is_ours = self._memory
        try:
            if op is None or op == Adasum or average is not None:
                op = self._reduction(op, average, process_set)
            if not (prescale_factor and postscale_factor):
                (tensor,), prescale_factor, postscale_factor = self._factors((tensor,), prescale_factor, postscale_factor)
            source = dense(tensor)
            target = source if is_ours and source is not tensor else empty_like(source)
            handle = _core.allreduce_async(source, target, name, op, prescale_factor, postscale_factor,
                                           process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(error, "allreduce", (tensor,), name, process_set)
        return_to = self._return_to
        return handle if return_to is None else keep(handle, return_to(tensor, target))

    def allreduce(self, tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                  process_set=global_process_set):
        """Returns the reduction of `tensor` over the ranks: a new tensor of its shape and type. Has no gradient."""
        dense, empty_like, is_ours = self._memory
        try:
            if op is None or op == Adasum or average is not None:
                op = self._reduction(op, average, process_set)
            if not (prescale_factor and postscale_factor):
                (tensor,), prescale_factor, postscale_factor = self._factors((tensor,), prescale_factor, postscale_factor)
            source = dense(tensor)
            target = source if is_ours and source is not tensor else empty_like(source)
            _core.allreduce(source, target, name, op, prescale_factor, postscale_factor, process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(error, "allreduce", (tensor,), name, process_set)
        return_to = self._return_to
        if return_to is None:
            return target
        result = return_to(tensor, target)
        return result if result is target else result(None)

    def allreduce_async_(self, tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                         process_set=global_process_set):
        """Submits the reduction of `tensor` over the ranks; the result replaces it once synchronized."""
        try:
            if op is None or op == Adasum or average is not None:
                op = self._reduction(op, average, process_set)
            try:  # the runtime refuses a tensor that it needs a copy of
                handle = _core.allreduce_async(tensor, tensor, name, op, prescale_factor, postscale_factor,
                                               process_set.process_set_id)
            except Exception as error:  # pylint: disable=broad-except
                if getattr(error, "is_told", False):
                    raise
                target = source = self._dense_in_place(tensor)
                (source,), before, after = self._factors((source,), prescale_factor, postscale_factor)
                if source is tensor:
                    raise
            else:
                written = self._written
                try:
                    written((tensor,))
                except NO_TENSORS:
                    pass
                return handle
            handle = _core.allreduce_async(source, target, name, op, before, after, process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(error, "allreduce", (tensor,), name, process_set)
        return keep(handle, self._write_back(tensor, target))

    def allreduce_(self, tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                   process_set=global_process_set):
        """Replaces `tensor` by its reduction over the ranks, and returns it. Has no gradient."""
        try:
            if op is None or op == Adasum or average is not None:
                op, average = self._reduction(op, average, process_set), None
            _allreduce(tensor, tensor, name, op, prescale_factor, postscale_factor, process_set.process_set_id)
        except HorovodInternalError:
            raise
        except Exception as error:  # pylint: disable=broad-except  # unless announced, the other form does that
            if getattr(error, "is_told", False):
                raise self.refused(error, "allreduce", (tensor,), name, process_set)
        else:
            written = self._written  # in two steps, which takes less time
            try:
                written((tensor,))
            except NO_TENSORS:
                pass
            return tensor
        return synchronize(self.allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set))

    def grouped_allreduce_async(self, tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                                process_set=global_process_set):
        """Submits tensors that are reduced together; synchronize returns a tuple of new tensors."""
        tensors = self.group_of(tensors, "allreduce", name, process_set)
        try:
            if op is None or op == Adasum or average is not None:
                op = self._reduction(op, average, process_set)
            if self._rooms_for is not None and prescale_factor and postscale_factor:
                handle = self._as_they_are(_core.grouped_allreduce_async, tensors, self._rooms_for(tensors), name, op,
                                           prescale_factor, postscale_factor, process_set.process_set_id)
                if handle is not None:
                    return handle
            tensors, before, after = self._factors(tensors, prescale_factor, postscale_factor)
            sources = self._all_dense(tensors)
            targets = self._rooms(tensors, sources)
            handle = _core.grouped_allreduce_async(sources, targets, name, op, before, after, process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(error, "allreduce", tensors, name, process_set, len(tensors))
        return self._keep_all(handle, tensors, targets)

    def grouped_allreduce_async_(self, tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                                 process_set=global_process_set):
        """Submits tensors that are reduced together; the results replace them once synchronized."""
        tensors = self.group_of(tensors, "allreduce", name, process_set)
        try:
            if op is None or op == Adasum or average is not None:
                op = self._reduction(op, average, process_set)
            if prescale_factor and postscale_factor:
                try:  # as _as_they_are, with one call less
                    handle = _core.grouped_allreduce_async(tensors, tensors, name, op, prescale_factor, postscale_factor,
                                                           process_set.process_set_id)
                except Exception as error:  # pylint: disable=broad-except
                    self._check_needs_copies(error, tensors)
                else:
                    written = self._written
                    try:
                        written(tensors)
                    except NO_TENSORS:
                        pass
                    return handle
            targets = each(self._dense_in_place, tensors)
            sources, before, after = self._factors(targets, prescale_factor, postscale_factor)
            handle = _core.grouped_allreduce_async(sources, targets, name, op, before, after, process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(error, "allreduce", tensors, name, process_set, len(tensors))
        return keep(handle, all_of([*map(self._write_back, tensors, targets)]))

    def grouped_allreduce_(self, tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                           process_set=global_process_set):
        """Replaces `tensors` by their reductions, done together, and returns them as a tuple. Has no gradients."""
        return synchronize(
            self.grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set))

    def group_reduced_in_place(self, tensors, average, name, op, prescale_factor, postscale_factor, process_set):
        """Reduces tensors that only the caller has, in their memory, and waits for the results."""
        if not (prescale_factor and postscale_factor):
            return self.grouped_allreduce_(tensors, average, name, op, prescale_factor, postscale_factor, process_set)
        try:
            if op is None or op == Adasum or average is not None:
                op = self._reduction(op, average, process_set)
            handle = _core.grouped_allreduce_async(tensors, tensors, name, op, prescale_factor, postscale_factor,
                                                   process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(error, "allreduce", tensors, name, process_set, len(tensors))
        return _core.wait(handle)

    # --- Allgather

    def allgather_async(self, tensor, name=None, process_set=global_process_set):
        """Submits the concatenation of the ranks' tensors along the first dimension, which may differ between them."""
        try:
            handle = _core.allgather_async(self._dense(tensor), name, process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(error, "allgather", (tensor,), name, process_set)
        from_output = self._from_output
        return keep(handle, lambda outputs: from_output(outputs[0], tensor))

    def gather_async(self, tensor, name, process_set, finish):
        """Submits an allgather; synchronize returns finish(the runtime's outputs)."""
        try:
            handle = _core.allgather_async(self._dense(tensor), name, process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(error, "allgather", (tensor,), name, process_set)
        return keep(handle, finish)

    def grouped_allgather_async(self, tensors, name=None, process_set=global_process_set):
        """Submits tensors that are gathered together; synchronize returns a tuple of tensors."""
        tensors = self.group_of(tensors, "allgather", name, process_set)
        from_outputs = self._from_outputs
        return self.grouped_gather_async(tensors, name, process_set, lambda outputs: from_outputs(outputs, tensors))

    def grouped_gather_async(self, tensors, name, process_set, finish):
        """Submits a grouped allgather; synchronize returns finish(the runtime's outputs)."""
        try:
            handle = None
            if self._rooms_for is not None and (set(map(type, tensors)) <= self._tensor_types or self._are_tensors(tensors)):
                handle = self._as_they_are(_core.grouped_allgather_async, tensors, name, process_set.process_set_id)
            if handle is None:
                handle = _core.grouped_allgather_async(self._all_dense(tensors), name, process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(error, "allgather", tensors, name, process_set, len(tensors))
        return keep(handle, finish)

    # --- Broadcast

    def broadcast_async(self, tensor, root_rank, name=None, process_set=global_process_set):
        """Submits a broadcast of root_rank's tensor; synchronize returns a new tensor of the same shape and type.

        root_rank is a rank of the job, also in a process set.
        """
        dense, empty_like, is_ours = self._memory
        try:
            source = dense(tensor)
            target = source if is_ours and source is not tensor else empty_like(source)
            handle = _core.broadcast_async(source, target, root_rank, name, process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(error, "broadcast", (tensor,), name, process_set)
        return_to = self._return_to
        return handle if return_to is None else keep(handle, return_to(tensor, target))

    def broadcast(self, tensor, root_rank, name=None, process_set=global_process_set):
        """Returns a new tensor with the values that `tensor` has on root_rank, a rank of the job. Has no gradient."""
        dense, empty_like, is_ours = self._memory
        try:
            source = dense(tensor)
            target = source if is_ours and source is not tensor else empty_like(source)
            _core.broadcast(source, target, root_rank, name, process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(error, "broadcast", (tensor,), name, process_set)
        return_to = self._return_to
        if return_to is None:
            return target
        result = return_to(tensor, target)
        return result if result is target else result(None)

    def broadcast_async_(self, tensor, root_rank, name=None, process_set=global_process_set):
        """Submits a broadcast of root_rank's tensor; it replaces `tensor` once synchronized."""
        try:
            target = self._dense_in_place(tensor)
            handle = _core.broadcast_async(target, target, root_rank, name, process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(error, "broadcast", (tensor,), name, process_set)
        return keep(handle, self._write_back(tensor, target))

    def broadcast_(self, tensor, root_rank, name=None, process_set=global_process_set):
        """Replaces `tensor` by the values that it has on root_rank, and returns it. Has no gradient."""
        try:
            _broadcast(tensor, tensor, root_rank, name, process_set.process_set_id)
        except HorovodInternalError:
            raise
        except Exception as error:  # pylint: disable=broad-except  # as in allreduce_
            if getattr(error, "is_told", False):
                raise self.refused(error, "broadcast", (tensor,), name, process_set)
        else:
            written = self._written  # in two steps, which takes less time
            try:
                written((tensor,))
            except NO_TENSORS:
                pass
            return tensor
        return synchronize(self.broadcast_async_(tensor, root_rank, name, process_set))

    # --- Alltoall

    def alltoall_async(self, tensor, splits=None, name=None, process_set=global_process_set):
        """Submits an alltoall that sends splits[r] rows of `tensor` to each rank r of the process set.

        splits: integers, as a tensor of one dimension or any sequence; without them every rank gets the same number of rows.
        synchronize returns (the received rows in rank order; how many rows came from each rank, of the type of splits, else
        int32).
        """
        try:
            counts = splits if self._split_counts is None else self._split_counts(splits)
            handle = _core.alltoall_async(self._dense(tensor), counts, name, process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(error, "alltoall", (tensor,), name, process_set)
        return keep(handle, partial(self._exchanged, tensor, splits, process_set.size()))

    # --- Reducescatter

    def reducescatter_async(self, tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                            postscale_factor=1.0):
        """Submits the average or sum of the ranks' tensors; synchronize returns this rank's part of the rows.

        Of N rows over n ranks each gets N / n, and the first N % n ranks one more.
        """
        try:
            if not (prescale_factor and postscale_factor):
                (tensor,), prescale_factor, postscale_factor = self._factors((tensor,), prescale_factor, postscale_factor)
            source = self._dense(tensor)
            target = self.rows_for(source, process_set)
            handle = _core.reducescatter_async(source, target, name, op, prescale_factor, postscale_factor,
                                               process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(self.scatter_error(error, op), "reducescatter", (tensor,), name, process_set)
        return_to = self._return_to
        return handle if return_to is None else keep(handle, return_to(tensor, target))

    def reducescatter(self, tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                      postscale_factor=1.0):
        """Returns this rank's rows of the average or sum of the ranks' tensors. Has no gradient."""
        try:
            if not (prescale_factor and postscale_factor):
                (tensor,), prescale_factor, postscale_factor = self._factors((tensor,), prescale_factor, postscale_factor)
            source = self._dense(tensor)
            target = self.rows_for(source, process_set)
            _core.reducescatter(source, target, name, op, prescale_factor, postscale_factor, process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(self.scatter_error(error, op), "reducescatter", (tensor,), name, process_set)
        return_to = self._return_to
        if return_to is None:
            return target
        result = return_to(tensor, target)
        return result if result is target else result(None)

    def grouped_reducescatter_async(self, tensors, name=None, op=Average, process_set=global_process_set,
                                    prescale_factor=1.0, postscale_factor=1.0):
        """Submits tensors that are reduced and scattered together; synchronize returns a tuple of tensors."""
        tensors = self.group_of(tensors, "reducescatter", name, process_set)
        try:
            if self._rows_for_all is not None and prescale_factor and postscale_factor and process_set.included():
                handle = self._as_they_are(_core.grouped_reducescatter_async, tensors,
                                           self._rows_for_all(tensors, process_set), name, op, prescale_factor,
                                           postscale_factor, process_set.process_set_id)
                if handle is not None:
                    return handle
            tensors, before, after = self._factors(tensors, prescale_factor, postscale_factor)
            sources = self._all_dense(tensors)
            targets = self._adapter.sequence(each(partial(self.rows_for, process_set=process_set), sources))
            handle = _core.grouped_reducescatter_async(sources, targets, name, op, before, after, process_set.process_set_id)
        except Exception as error:  # pylint: disable=broad-except
            raise self.refused(self.scatter_error(error, op), "reducescatter", tensors, name, process_set, len(tensors))
        return self._keep_all(handle, tensors, targets)


class SparseHandle:
    """The handle of a sparse allreduce. A call waits and returns the sparse tensor; it may be called again."""

    def __init__(self, handles, finish):
        self._handles = handles  # those that have not ended yet
        self._results = []  # of the others
        self._error = None  # the first failure of one of them
        self._finish = finish
        self._result = None

    def poll(self):
        """Returns whether a call of the handle would return at once."""
        return all(map(poll, self._handles))

    def __call__(self):
        while self._handles:  # an interrupt leaves the remaining ones
            self._end_first()
        if self._finish is not None:
            finish, self._finish = self._finish, None
            if self._error is not None:
                raise self._error
            self._result = finish(*self._results)
        return self._result

    def _end_first(self):
        try:
            self._results.append(synchronize(self._handles[0]))
        except RuntimeError as failure:
            self._error = self._error or failure
        del self._handles[0]
