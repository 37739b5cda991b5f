"""A GPU for PyTorch, over the doubles of CUDA and NCCL.

The first import restarts the program with a library in front of PyTorch, torch_gpu.c, which has the memory and the
streams. A tensor in such memory says that it is on cuda:0; PyTorch still computes on the CPU. Each of its operations
waits for its turn on the thread's current stream, and names there which memory it reads and writes. So the double finds
an operation that Horovod has not ordered, whatever the values are.

    import gpu          # before torch
    with gpu.present(): # in each thread
        tensor = torch.ones(3, device="cuda")
"""
import contextlib
import ctypes
import os
import pathlib
import sys
import threading
import warnings

_BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", pathlib.Path(__file__).resolve().parents[4] / "build")).resolve()
_LIBRARY = str(_BUILD / "tests/integration/python/libtorch_gpu.so")

if "torch" in sys.modules:
    raise ImportError("import gpu before torch")
if os.environ.get("LD_PRELOAD") != _LIBRARY:
    first = os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0")
    os.execve(sys.executable, [sys.executable, *sys.argv],
              {"HVD_FAKE_GPUS": "2", "HVD_FAKE_GPU_FIRST": str(2 * int(first)), "HVD_FAKE_GPU_DELAY_US": "20", "HVD_FAKE_GPU_FATAL": "0",
               **os.environ, "LD_PRELOAD": _LIBRARY})
del os.environ["LD_PRELOAD"]

import torch  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

_lib = ctypes.CDLL(_LIBRARY)
_lib.torch_gpu_has.argtypes = [ctypes.c_void_p]
_lib.torch_gpu_has.restype = _lib.torch_gpu_allocate.restype = _lib.torch_gpu_open.restype = ctypes.c_bool
_lib.torch_gpu_allocate.argtypes = _lib.torch_gpu_capture.argtypes = [ctypes.c_bool]
_lib.torch_gpu_create_stream.restype = _lib.torch_gpu_stream.restype = _lib.torch_gpu_exchange.restype = ctypes.c_void_p
_lib.torch_gpu_set_stream.argtypes = _lib.torch_gpu_wait_stream.argtypes = _lib.torch_gpu_open.argtypes = [ctypes.c_void_p]
_lib.torch_gpu_synchronize.argtypes = []
_lib.fake_gpu_stop_device.argtypes = [ctypes.c_int, ctypes.c_bool]
_lib.fake_gpu_settle.restype = ctypes.c_bool
_lib.torch_gpu_record.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

TYPE = torch.device("cuda", 0)
warnings.filterwarnings("ignore", "CUDA initialization")  # CUDA's runtime needs more than the double of the driver has
_here = threading.local()
_own_device = torch.Tensor.device
_own_is_cpu = torch.Tensor.is_cpu


def is_of(tensor):
    """Whether a tensor is on the GPU."""
    with torch._C.DisableTorchFunction():
        if tensor.layout is torch.sparse_coo:
            tensor = tensor._indices()
        try:
            return _lib.torch_gpu_has(tensor.untyped_storage().data_ptr())
        except (RuntimeError, NotImplementedError):  # without memory
            return False


def _device_of(tensor):
    return TYPE if is_of(tensor) else _own_device.__get__(tensor)


torch.Tensor.device = property(_device_of)
torch.Tensor.is_cuda = property(is_of)
torch.Tensor.is_cpu = property(lambda tensor: _own_is_cpu.__get__(tensor) and not is_of(tensor))

# --- Streams


class Stream:
    """A stream, as torch.cuda.Stream; without arguments a new one."""

    def __init__(self, handle=-1):
        self.cuda_stream = (_lib.torch_gpu_create_stream() if handle == -1 else handle) or 0
        self.device = TYPE

    def __eq__(self, other):
        return self.cuda_stream == other.cuda_stream

    def __hash__(self):
        return hash(self.cuda_stream)

    @contextlib.contextmanager
    def current(self):
        """Makes it the thread's current stream."""
        before = _lib.torch_gpu_stream()
        _lib.torch_gpu_set_stream(self.cuda_stream)
        try:
            yield self
        finally:
            _lib.torch_gpu_set_stream(before)

    def wait_stream(self, other):
        """Later work of this stream waits for the present work of the other one."""
        with self.current():
            _lib.torch_gpu_wait_stream(other.cuda_stream)


torch.cuda.is_initialized = lambda: True
torch.cuda.synchronize = lambda device=None: _lib.torch_gpu_synchronize()
torch.cuda.current_stream = lambda device=None: Stream(_lib.torch_gpu_stream())
torch._C._cuda_getCurrentRawStream = lambda device: _lib.torch_gpu_stream() or 0
torch.Tensor.record_stream = lambda tensor, stream: _lib.torch_gpu_record(tensor.untyped_storage().data_ptr(), stream.cuda_stream)


@contextlib.contextmanager
def captured():
    """Captures the current stream."""
    _lib.torch_gpu_capture(True)
    try:
        yield
    finally:
        _lib.torch_gpu_capture(False)


# --- Operations

copies = {"to the host": 0, "to the GPU": 0}  # of PyTorch's own


@contextlib.contextmanager
def _allocating(for_gpu):
    """What the body allocates; None: as before."""
    if for_gpu is None:
        yield
        return
    before = _lib.torch_gpu_allocate(for_gpu)
    try:
        yield
    finally:
        _lib.torch_gpu_allocate(before)


def _parts(value):
    """The dense tensors in an argument or result."""
    if isinstance(value, torch.Tensor):
        if value.layout is torch.sparse_coo:
            return [value._indices(), value._values()]
        return [value] if value.layout is torch.strided else []
    return [part for item in value for part in _parts(item)] if isinstance(value, (list, tuple)) else []


def _extent(tensor):
    """The address of a tensor, and how many bytes lie between its first and its last element."""
    if tensor.numel() == 0:
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), (last + 1) * tensor.element_size()


def _run(accesses, is_awaited):
    """Puts an operation with [(tensor, is_write)] on the current stream."""
    n = len(accesses)
    extents = [_extent(tensor) for tensor, _ in accesses]
    _lib.torch_gpu_run(ctypes.c_size_t(n), (ctypes.c_void_p * n)(*(at for at, _ in extents)),
                       (ctypes.c_size_t * n)(*(size for _, size in extents)),
                       (ctypes.c_bool * n)(*(is_write for _, is_write in accesses)), ctypes.c_bool(is_awaited))


_writes = {}  # {function: {place or name of an argument that it writes}}


def _written_by(function):
    if function not in _writes:
        _writes[function] = {key for place, argument in enumerate(function._schema.arguments) for key in (place, argument.name)
                             if argument.alias_info is not None and argument.alias_info.is_write}
    return _writes[function]


class _Order(TorchDispatchMode):
    """Each operation waits for its turn on the current stream."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        del types
        kwargs = kwargs or {}
        written = _written_by(func)
        accesses = [(part, key in written) for key, value in (*enumerate(args), *kwargs.items()) for part in _parts(value)]
        on_gpu = [(part, is_write) for part, is_write in accesses if is_of(part)]
        if func.is_view or func._schema.name in ("aten::detach", "aten::_indices", "aten::_values"):
            return func(*args, **kwargs)
        if on_gpu:
            _run(on_gpu, True)
        self._count(func, accesses, on_gpu)
        target = getattr(_here, "target", None)
        with _allocating(target if target is not None else bool(on_gpu) if accesses else None):
            result = func(*args, **kwargs)
        made = [(part, True) for part in _parts(result) if is_of(part) and not any(part is other for other, _ in on_gpu)]
        if made:
            _run(made, False)
        return result

    @staticmethod
    def _count(func, accesses, on_gpu):
        if func._schema.name == "aten::_local_scalar_dense" and on_gpu:
            copies["to the host"] += 1
        elif func._schema.name in ("aten::copy_", "aten::_foreach_copy_") and 0 < len(on_gpu) < len(accesses):
            copies["to the GPU" if on_gpu[0][1] else "to the host"] += 1


class _Devices(TorchFunctionMode):
    """Arguments that name a device."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        del types
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cpu:
            return _moved(args[0], False)
        if func is torch.Tensor.cuda:
            return _moved(args[0], True)
        if func is torch.Tensor.tolist:  # which reads the memory without an operation
            return _moved(args[0], False).tolist()
        if func is torch.Tensor.backward:  # whose hooks need the mode, too
            with self:
                return _backward(*args, **kwargs)
        if func is torch.Tensor.to and isinstance(args[0], torch.Tensor):
            return _to(*args, **kwargs)
        device = kwargs.get("device")
        if device is None or torch.device(device).type == "meta":
            return func(*args, **kwargs)
        kwargs["device"] = "cpu"
        with _creating(torch.device(device).type == "cuda"):
            return func(*args, **kwargs)


def _backward(tensor, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    torch.autograd.backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)


@contextlib.contextmanager
def _creating(for_gpu):
    before = getattr(_here, "target", None)
    _here.target = for_gpu
    try:
        with _allocating(for_gpu):
            yield
    finally:
        _here.target = before


def _moved(tensor, to_gpu):
    if is_of(tensor) == to_gpu:
        return tensor
    copies["to the GPU" if to_gpu else "to the host"] += 1
    with _creating(to_gpu), _Order():
        return tensor.clone()


def _to(tensor, *args, **kwargs):
    """Tensor.to, whose first argument may name a device."""
    device = kwargs.pop("device", None)
    if args and isinstance(args[0], (str, torch.device, int)):
        device, args = args[0], args[1:]
    elif args and isinstance(args[0], torch.Tensor):
        device, args = _device_of(args[0]), (args[0].dtype, *args[1:])
    before = tensor
    if device is not None:
        tensor = _moved(tensor, torch.device(device).type == "cuda")
    flags = [argument for argument in args if isinstance(argument, bool)]  # non_blocking, copy
    dtype = kwargs.get("dtype") or next((argument for argument in args if isinstance(argument, torch.dtype)), None)
    layout = kwargs.get("memory_format")
    if dtype is not None or layout is not None:
        tensor = tensor.to(dtype=dtype or tensor.dtype, memory_format=layout or torch.preserve_format)
    is_copied = kwargs.get("copy", flags[1] if len(flags) > 1 else False)
    return tensor.clone() if is_copied and tensor is before else tensor


@contextlib.contextmanager
def present(by_default=False):
    """In its body the thread has a GPU; by_default: tensors are created there, unless their device is named."""
    before = _lib.torch_gpu_allocate(by_default)
    try:
        with _Order(), _Devices():
            yield
    finally:
        _lib.torch_gpu_allocate(before)


# --- DLPack

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_content_of = ctypes.pythonapi.PyCapsule_GetPointer
_content_of.restype, _content_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_empty_of = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object)(is_of)
_lib.torch_gpu_exchange.argtypes = [ctypes.c_void_p, type(_is_empty_of)]
TABLE = b"dlpack_exchange_api"
torch.Tensor.__dlpack_c_exchange_api__ = _new_capsule(
    _lib.torch_gpu_exchange(_content_of(torch.Tensor.__dlpack_c_exchange_api__, TABLE), _is_empty_of), TABLE, None)
_own_from_dlpack = torch._C._from_dlpack


def _from_dlpack(capsule, *args):
    if "dltensor_versioned" not in repr(capsule):  # which PyTorch's own are
        _lib.torch_gpu_open(_content_of(capsule, b"dltensor"))
    return _own_from_dlpack(capsule, *args)


torch._C._from_dlpack = _from_dlpack

# --- The doubles


@contextlib.contextmanager
def standing_still():
    """In its body the GPU does no work."""
    _lib.fake_gpu_stop_device(0, True)
    try:
        yield
    finally:
        go_on()


def stop():
    """Lets the GPU do no work from now on."""
    _lib.fake_gpu_stop_device(0, True)


def go_on():
    """Lets the GPU work again."""
    _lib.fake_gpu_stop_device(0, False)


class _Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("launches", "waits", "records", "queries", "allocations", "frees", "uploads",
                                                     "downloads", "blocking", "syncs")]


def counts():
    """What Horovod has called so far: {what: how often}."""
    found = _Counts()
    _lib.fake_gpu_counts(ctypes.byref(found))
    return {name: getattr(found, name) for name, _ in _Counts._fields_}


def forget():
    """Forgets counts and findings."""
    _lib.fake_gpu_forget()


def settle():
    """Waits until the GPU is idle; it orders nothing."""
    assert _lib.fake_gpu_settle(ctypes.c_uint(20000)), "the GPU is busy"


def findings():
    """(how many findings the doubles have, the text of the latest)."""
    text = ctypes.create_string_buffer(1024)
    _lib.fake_gpu_last_finding(text, ctypes.c_size_t(len(text)))
    return _lib.fake_gpu_found_any(), text.value.decode(errors="replace")


def address_of(tensor):
    """The address of a tensor's memory on the GPU."""
    return tensor.data_ptr() - (1 << 38)  # FAKE_GPU_ALIAS
