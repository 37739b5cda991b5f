"""The adapter of PyTorch: gives the runtime access to the memory of tensors.

The runtime reads and writes dense memory of the host and of NVIDIA's GPUs. A tensor in such memory is not copied. For
other tensors the runtime works on a copy: on the same GPU, or on the host for devices that the runtime does not
support. The extension keeps the last step (the copy of the result to its place) with the handle until `synchronize`.
"""
import contextlib
from functools import partial
from operator import attrgetter

import torch
import torch.utils.dlpack

from horovod import _core
from horovod.common.adapter import Adapter
from horovod.common.operations import NO_TENSORS

_DTYPES = {getattr(torch, name) for name in
           ("uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64", "float16", "float32", "float64",
            "bfloat16", "bool") if hasattr(torch, name)}


HAS_CUDA = torch.version.hip is None  # PyTorch names the GPUs of another vendor cuda, too
_is_cpu = attrgetter("is_cpu")
_is_cuda = attrgetter("is_cuda") if HAS_CUDA else lambda _: False


def check_is_tensor(thing):
    """Raises a ValueError that names the type, unless it is a tensor."""
    if not isinstance(thing, torch.Tensor):
        kind = type(thing)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        raise ValueError(f"Tensor type {name} is not supported: a torch.Tensor is needed.")


def check_supported(tensor, name=None):
    """Raises ValueError for an object that cannot be sent: no tensor, nested, not strided, of another type, or without memory."""
    check_is_tensor(tensor)
    if not tensor.is_nested and (tensor.layout is not torch.strided or tensor.dtype not in _DTYPES):
        raise ValueError(f"Tensor type {type_of(tensor)} is not supported. {_remedy(tensor)}")
    why = _unreadable(tensor)
    if why is not None:
        which = "A tensor" if name is None else f"Tensor {name}"
        raise ValueError(f"{which} of {type(tensor).__name__}, shape {_shape_of(tensor)}, cannot be sent: {why}.")


def _remedy(tensor):
    """Returns the remedy for a tensor whose layout or type is not supported."""
    if tensor.layout is torch.sparse_coo:
        return "Use hvd.sparse_allreduce_async(), or send tensor.to_dense()."
    if tensor.layout is not torch.strided:
        return "Send tensor.to_dense()."
    if tensor.is_quantized:
        return "Send tensor.dequantize(), or tensor.int_repr()."
    if tensor.is_complex():
        return "Send torch.view_as_real(tensor)."
    if str(tensor.dtype).startswith("torch.float8"):
        return "Send tensor.float(), or its bytes, tensor.view(torch.uint8)."
    return "Send its bytes, tensor.view(torch.uint8)."


def _raw_stream(device):
    """Returns the current stream of a GPU as an integer, for a PyTorch without a table of functions."""
    if torch.version.cuda is None:
        raise ValueError("this PyTorch was not built with CUDA")
    return torch._C._cuda_getCurrentRawStream(device)


def _current_stream(device):
    return torch.cuda.current_stream(device)


_core.use_gpu(_raw_stream, _current_stream)


def _unreadable(tensor):
    """Returns why the values of a nested or strided tensor are not accessible, with a remedy; None if they are."""
    if tensor.is_meta:
        return "the meta device has no values; give it memory with to_empty() first"
    if tensor.is_nested:
        return "it is nested; send its parts, tensor.unbind()"
    try:
        has_memory = tensor.is_neg() or _is_zero(tensor) or tensor.data_ptr() != 0 or tensor.numel() == 0
    except RuntimeError:
        return "it stands for another tensor within a transform (torch.func, vmap); call outside of the transform"
    if has_memory or not tensor.is_cpu:
        return None
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return "it is a wrapper without memory of its own; send the tensors that are inside"
    if torch._is_functional_tensor(tensor):
        return "it stands for another tensor within functionalization; call outside of it"
    return f"its storage was freed, {tensor.untyped_storage().nbytes()} bytes are left; give it memory first"


def _is_zero(tensor):
    """Returns whether it is one of PyTorch's zeros without memory."""
    return hasattr(tensor, "_is_zerotensor") and tensor._is_zerotensor()


def _shape_of(tensor):
    try:
        return tuple(tensor.shape)
    except RuntimeError:  # of a nested tensor
        return "unknown"


def check_writable(tensor):
    """Raises ValueError for a tensor that an in-place operation cannot write to element by element."""
    if _is_zero(tensor):
        raise ValueError("A zero tensor without memory cannot be changed in place; clone() it first.")
    if tensor.layout is torch.strided and not tensor.is_nested and _overlaps(tensor):
        raise ValueError(f"A tensor of shape {tuple(tensor.shape)} with strides {tensor.stride()} has several elements in "
                         "one place of memory and cannot be changed in place; clone() it first.")


def _overlaps(tensor):
    """Returns whether elements of a tensor share memory: it was expanded, or made by as_strided."""
    if tensor.numel() == 0:
        return False
    reach, is_apart = 0, True
    places = sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size > 1)
    for stride, size in places:
        is_apart = is_apart and stride > reach
        reach += stride * (size - 1)
    if is_apart:
        return False
    offsets = torch.zeros(1, dtype=torch.int64)
    for stride, size in places:
        offsets = (offsets[:, None] + torch.arange(size) * stride).flatten()
    return offsets.unique().numel() < offsets.numel()


def type_of(tensor):
    """Returns PyTorch's name of the type, or for layouts without a name the layout and element type."""
    try:
        return tensor.type()
    except RuntimeError:
        return f"{tensor.layout} of {tensor.dtype}"


def dense(tensor):
    """Returns the tensor itself if it is dense memory of the host or a GPU with its values, else such a copy of the same shape."""
    try:
        if (tensor.is_cpu or _is_cuda(tensor)) and tensor.is_contiguous() and not tensor.is_neg() and not _is_zero(tensor):
            return tensor
    except (RuntimeError, AttributeError):  # compressed sparse layouts do not answer, nor do other objects
        pass
    check_supported(tensor)
    if _is_zero(tensor):
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device if _is_cuda(tensor) else "cpu")
    held = tensor.detach()
    return (held if _is_cuda(tensor) else held.to("cpu")).resolve_neg().contiguous()


def dense_in_place(tensor):
    """dense(tensor) for a tensor that may be written to, so that write_back can copy the result to it."""
    target = dense(tensor)
    if target is not tensor:
        check_writable(tensor)
    return target


def _choose_bump():
    """Returns a function that notifies autograd of writes to a tuple of tensors."""
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
    """Notifies autograd in older versions of PyTorch: a write to a view increments the version counter of its tensor."""
    for tensor in tensors:
        if not tensor.is_inference():
            tensor.detach().view(-1)[:0].zero_()


bump = _choose_bump()


def written(tensor):
    """Notifies autograd that the runtime writes to a tensor, so that autograd rejects values that it saved before."""
    all_written((tensor,))
    return tensor


def all_written(tensors):
    """written() for several tensors."""
    try:
        bump(tensors)
    except NO_TENSORS:
        pass


def return_to(tensor, result):
    """Returns the result of synchronize for a `result`: it, or a function that moves it to tensor's device."""
    return result if tensor.is_cpu or tensor.device == result.device else partial(_moved, result, tensor.device)


def _moved(result, device, _):
    return result.to(device)


def write_back(tensor, result):
    """Returns the result of synchronize for an in-place operation that was done in `result`."""
    if result is tensor:
        return written(tensor)
    return partial(_overwritten, tensor, result)


def _overwritten(tensor, result, _):
    with torch.inference_mode() if tensor.is_inference() else contextlib.nullcontext():
        tensor.detach().copy_(result)
    used_here((tensor,))
    return tensor


def used_here(tensors):
    """Tells PyTorch's allocator that the current stream has written to tensors that may be of another stream: it gives their
    memory to others only behind this one."""
    for tensor in tensors:
        if tensor is not None and tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))


def from_output(output, like):
    """Returns the runtime's output as a tensor that owns it, on the device of `like`; without a copy on the host or a GPU."""
    if not _reads_dlpack(like.dtype):
        tensor = _from_buffer(output, like)
    else:
        tensor = _from_capsule(output.__dlpack__())
    return tensor if like.is_cpu or _is_cuda(like) else tensor.to(like.device)


def from_outputs(outputs, likes):
    """from_output() for a group, as a tuple; without Python code for each output if all are on the host, or on a GPU."""
    if len(outputs) > 1 and (all(map(_is_cpu, likes)) or all(map(_is_cuda, likes))) and all(map(_reads_dlpack, set(map(_dtype_of, likes)))):
        return tuple(map(_from_capsule, map(_core.Output.__dlpack__, outputs)))
    return tuple(map(from_output, outputs, likes))


_dtype_of = attrgetter("dtype")
_from_capsule = getattr(torch._C, "_from_dlpack", torch.utils.dlpack.from_dlpack)  # the fallback checks each and calls the former


_dlpack_dtypes = {}


def _reads_dlpack(dtype):
    """Returns whether this PyTorch accepts elements of the type by DLPack; before 2.3 it refuses bool and others."""
    known = _dlpack_dtypes.get(dtype)
    if known is None:
        try:
            torch.from_dlpack(torch.zeros(1, dtype=dtype, device="cpu"))
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


def rooms_for(tensors):
    """Allocates memory for the results of a group; raises ValueError unless all are tensors."""
    try:
        return tuple(map(torch.empty_like, tensors))
    except TypeError:
        for tensor in tensors:
            check_is_tensor(tensor)
        raise


_shape_of_each = attrgetter("shape")


def split_counts(splits):
    """Returns splits as a list of integers, or None for equal parts."""
    if splits is None:
        return None
    if not isinstance(splits, torch.Tensor):
        try:
            splits = torch.tensor(splits, dtype=None if len(splits) else torch.int64, device="cpu")
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(f"alltoall expects splits to be integers, one for each rank, not {splits!r}.") from None
    if splits.dim() != 1:
        raise ValueError("alltoall expects a 1D splits tensor")
    if splits.is_floating_point() or splits.is_complex() or splits.dtype == torch.bool:
        raise ValueError("alltoall expects splits to contain integer elements.")
    return splits.tolist() or None


def exchanged(tensor, splits, size, outputs):
    """Returns (received rows, rows per rank) of an alltoall; the counts have splits' type and device, else int32."""
    received = [outputs[0].rows_of(rank) for rank in range(size)]
    if isinstance(splits, torch.Tensor):
        received = torch.tensor(received, dtype=splits.dtype, device=splits.device)
    else:
        received = torch.tensor(received, dtype=torch.int32, device="cpu")
    return from_output(outputs[0], tensor), received


class UnsupportedReduction(ValueError, RuntimeError):
    """The collective does not support that reduction. Also a RuntimeError, because scripts for Horovod expect that."""

    __module__ = "horovod.torch.asynchronous"  # where users find it


class TorchAdapter(Adapter):
    """The Adapter of PyTorch."""

    dense = staticmethod(dense)
    empty = staticmethod(torch.Tensor.new_empty)
    empty_like = staticmethod(torch.empty_like)
    from_output = staticmethod(from_output)
    dense_is_ours = True
    dense_in_place = staticmethod(dense_in_place)
    write_back = staticmethod(write_back)
    written = staticmethod(bump)
    return_to = staticmethod(return_to)
    from_outputs = staticmethod(from_outputs)
    rooms_for = staticmethod(rooms_for)
    tensor_type = torch.Tensor
    zeros_like = staticmethod(torch.zeros_like)
    unsupported = UnsupportedReduction
    split_counts = staticmethod(split_counts)
    exchanged = staticmethod(exchanged)

    def rows_for_all(self, tensors, process_set):
        """rows_for() for each tensor of a group, computed once per shape; raises ValueError unless all are tensors."""
        rank, size = process_set.rank(), process_set.size()
        try:
            shapes = tuple(map(_shape_of_each, tensors))
            scattered = {shape: (_core.reducescatter_rows(shape[0], rank, size), *shape[1:]) for shape in set(shapes)}
            return tuple(map(torch.Tensor.new_empty, tensors, map(scattered.__getitem__, shapes)))
        except (AttributeError, TypeError, IndexError):  # no tensor, or one without dimensions: the runtime refuses that
            for tensor in tensors:
                check_is_tensor(tensor)
            return tuple(self.rows_for(tensor, process_set) for tensor in tensors)

    @staticmethod
    def explained(tensors, process_set, name=None):
        """Adapter's result, but reports tensors that cannot be sent before a process set that is not registered."""
        for place, tensor in enumerate(tensors):
            try:
                check_supported(tensor, name)
            except Exception as reason:  # pylint: disable=broad-except  # PyTorch's own exceptions, too
                return reason, place
        return Adapter.explained(tensors, process_set, name)
