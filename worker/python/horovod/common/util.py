"""Helpers that the frameworks' modules share."""
import contextlib
import functools
import importlib.util
import os
import sysconfig
import warnings

from horovod import _core
from horovod.common.exceptions import HorovodVersionMismatchError, get_version_mismatch_message

_cache = functools.lru_cache(maxsize=None)  # for functions with constant results


def get_ext_suffix():
    """Returns the suffix of extension modules' file names."""
    return sysconfig.get_config_var("EXT_SUFFIX") or ".so"


def get_extension_full_path(pkg_path, *args):
    """Returns the file of the extension, which is the same for every framework."""
    del pkg_path, args
    return _core.__file__


def check_extension(ext_name, ext_env_var, pkg_path, *args):
    """Raises ImportError if the extension does not exist."""
    path = get_extension_full_path(pkg_path, *args)
    if not os.path.exists(path):
        raise ImportError(f"Extension {ext_name} has not been built: {path} not found. Install horovod again "
                          f"({ext_env_var} is not needed any more).")


def extension_available(ext_base_name, verbose=False):
    """Returns whether Horovod works with a framework, named by its package."""
    is_there = (importlib.util.find_spec(ext_base_name) is not None
                and importlib.util.find_spec(f"horovod.{ext_base_name}") is not None)
    if verbose:
        print(f"{ext_base_name}: {'available' if is_there else 'not available'}")
    return is_there


@_cache
def gpu_available(ext_base_name, verbose=False):
    """Returns whether the library reduces tensors of a GPU on the GPU."""
    del ext_base_name, verbose
    return _core.cuda_built() or _core.rocm_built()


@_cache
def mpi_built(verbose=False):
    """Returns whether the library was built with MPI."""
    del verbose
    return _core.mpi_built()


@_cache
def gloo_built(verbose=False):
    """Returns whether the library was built with Gloo."""
    del verbose
    return _core.gloo_built()


@_cache
def nccl_built(verbose=False):
    """Returns the version of NCCL that the library was built with, or 0."""
    del verbose
    return _core.nccl_built()


@_cache
def ddl_built(verbose=False):
    """Returns whether the library was built with DDL."""
    del verbose
    return _core.ddl_built()


@_cache
def ccl_built(verbose=False):
    """Returns whether the library was built with oneCCL."""
    del verbose
    return _core.ccl_built()


@contextlib.contextmanager
def env(**kwargs):
    """Sets environment variables for the block; None removes one."""
    before = {name: os.environ.get(name) for name in kwargs}
    _set_environment(kwargs)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(values):
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def get_average_backwards_compatibility_fun(reduce_ops):
    """Returns a function (op, average) -> op for calls with the old argument `average`."""

    def handle_average_backwards_compatibility(op, average):
        if op is not None:
            if average is not None:
                raise ValueError("The op parameter supersedes average. Please provide only one of them.")
            return op
        if average is None:
            return reduce_ops.Average
        warnings.warn("Parameter `average` has been replaced with `op` and will be removed in v1.0",
                      DeprecationWarning, stacklevel=4)
        return reduce_ops.Average if average else reduce_ops.Sum

    return handle_average_backwards_compatibility


def num_rank_is_power_2(num_rank):
    """Returns whether num_rank is 1, 2, 4, 8, ..."""
    return num_rank != 0 and num_rank & (num_rank - 1) == 0


def split_list(l, n):  # noqa: E741
    """Splits the list into n lists. If it does not divide evenly, the first ones are longer by one."""
    size, longer = divmod(len(l), n)
    return [l[i * size + min(i, longer):(i + 1) * size + min(i + 1, longer)] for i in range(n)]


def check_installed_version(name, version, exception=None):
    """Reports a framework whose version differs from that of the installation. `exception` is the failure of an import."""
    installed = os.environ.get(f"HOROVOD_{name.upper()}_VERSION")
    if not installed or installed == version:
        return
    if exception is None:
        warnings.warn(get_version_mismatch_message(name, version, installed))
    else:
        raise HorovodVersionMismatchError(name, version, installed) from exception


def is_iterable(x):
    """Returns whether x is iterable."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


def _numbers(version):
    return [int(part) if part.isdigit() else 0 for part in str(version).split("+", 1)[0].split(".")]


@_cache
def is_version_greater_equal_than(ver, target):
    """Returns whether a version, "2.15.0", is at least another one."""
    if not all(isinstance(one, str) and one for one in (ver, target)):
        raise ValueError("This function only accepts string arguments, like \"2.15.0\".")
    return _numbers(ver) >= _numbers(target)
