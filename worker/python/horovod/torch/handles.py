"""Handles of the asynchronous forms, and the memory that the runtime works on.

The runtime reads and writes dense memory of the host. Where a tensor is that already, nothing is
copied; else the work is done on a copy, and what is left to do at the end (bringing the result to
where it belongs) is kept with the handle until `synchronize`, by the extension.
"""
import torch

from horovod import _core

synchronize = _core.synchronize
keep = _core.attach  # (handle, what synchronize returns, or a function of the runtime's outputs) -> handle


def is_supported(dtype):
    """Whether elements of this type can be sent."""
    return dtype in _DTYPES


_DTYPES = {getattr(torch, name) for name in
           ("uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64", "float16", "float32", "float64",
            "bfloat16", "bool") if hasattr(torch, name)}


def check_is_tensor(thing):
    """ValueError, which names the type, for what is no tensor."""
    if not isinstance(thing, torch.Tensor):
        kind = type(thing)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        raise ValueError(f"Tensor type {name} is not supported: a torch.Tensor is needed.")


def check_supported(tensor):
    """ValueError for what is no tensor, is not strided, or is of a type that cannot be sent."""
    check_is_tensor(tensor)
    if tensor.layout is not torch.strided or tensor.dtype not in _DTYPES:
        raise ValueError(f"Tensor type {_type_of(tensor)} is not supported.")


def _type_of(tensor):
    """What PyTorch calls the type; some layouts have no such word."""
    try:
        return tensor.type()
    except RuntimeError:
        return f"{tensor.layout} of {tensor.dtype}"


def dense(tensor):
    """The tensor itself if it is dense memory of the host, else a copy that is, of the same shape."""
    try:
        if tensor.is_cpu and tensor.is_contiguous():
            return tensor
    except (RuntimeError, AttributeError):  # compressed sparse layouts do not answer, nor does what is no tensor
        pass
    check_supported(tensor)
    return tensor.detach().to("cpu").contiguous()


def room_for(tensor, source):
    """Dense memory for a result with the shape of `tensor`; `source` is `dense(tensor)`, a copy is used again."""
    return torch.empty_like(source) if source is tensor else source


def _choose_bump():
    """A function of a tuple of tensors that has autograd see that they were written to."""
    increment = getattr(torch._C, "_increment_version", None)
    probe = torch.zeros(2, 2)
    try:
        increment((probe,))
        if probe._version == 1:
            return increment
    except (TypeError, RuntimeError):
        pass
    return _bump_by_view


def _bump_by_view(tensors):
    """The same for older versions of PyTorch: views and their tensor have one counter."""
    for tensor in tensors:
        if not tensor.is_inference():
            tensor.detach().view(-1)[:0].zero_()


bump = _choose_bump()
NO_TENSORS = (TypeError, RuntimeError, AttributeError)  # what it raises for an array of another library


def written(tensor):
    """Has autograd see that the runtime writes to a tensor: what was saved of it before cannot be used any more."""
    all_written((tensor,))
    return tensor


def all_written(tensors):
    """The same for several."""
    try:
        bump(tensors)
    except NO_TENSORS:
        pass


def return_to(tensor, result):
    """What synchronize is to return for a `result` in host memory: it, or a function that moves it to tensor's device."""
    if tensor.is_cpu:
        return result
    device = tensor.device
    return lambda _: result.to(device)


def write_back(tensor, result):
    """What synchronize is to return for an in-place operation that was done in `result`."""
    if result is tensor:
        return written(tensor)
    return lambda _: _overwritten(tensor, result)


def _overwritten(tensor, result):
    tensor.detach().copy_(result)
    return tensor


def all_of(results):
    """What synchronize is to return for a group, of each tensor's as return_to and write_back made them."""
    if not any(callable(result) for result in results):
        return tuple(results)
    return lambda outputs: tuple(result(outputs) if callable(result) else result for result in results)


def from_output(output, like):
    """The runtime's output as a tensor that owns it, on the device of `like`; no copy on the host."""
    if not _reads_dlpack(like.dtype):
        tensor = _from_buffer(output, like)
    else:
        tensor = torch.from_dlpack(output)
    return tensor if like.is_cpu else tensor.to(like.device)


_dlpack_dtypes = {}


def _reads_dlpack(dtype):
    """Whether this PyTorch takes elements of the type by DLPack; before 2.3, bool and others are refused."""
    known = _dlpack_dtypes.get(dtype)
    if known is None:
        try:
            torch.from_dlpack(torch.zeros(1, dtype=dtype))
            known = True
        except (RuntimeError, BufferError, TypeError):
            known = False
        _dlpack_dtypes[dtype] = known
    return known


def _from_buffer(output, like):
    shape = (output.rows, *like.shape[1:])
    if 0 in shape:
        return torch.empty(shape, dtype=like.dtype)
    return torch.frombuffer(memoryview(output).cast("B"), dtype=like.dtype).view(shape)


def poll(handle):
    """Whether `synchronize(handle)` would return at once. ValueError for a handle that is not pending."""
    if callable(handle):
        return handle.poll()
    return _core.poll(handle)


class SparseHandle:
    """Handle of a sparse allreduce: called, it waits and returns the sparse tensor; may be called again."""

    def __init__(self, handles, finish):
        self._handles = handles  # those that are not ended yet
        self._results = []  # of the others
        self._error = None  # the first one that one of them ended with
        self._finish = finish
        self._result = None

    def poll(self):
        """Whether calling the handle would return at once."""
        return all(map(poll, self._handles))

    def __call__(self):
        while self._handles:  # an interrupt leaves those that are not ended
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
