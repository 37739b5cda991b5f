"""Which MPI there is, for scripts that ask Horovod's launcher."""
import subprocess


def _mpirun_version(env):
    """What mpirun shows as its version; empty where there is none."""
    try:
        done = subprocess.run(["mpirun", "--version"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def is_open_mpi(env=None):
    """Whether the mpirun in PATH is Open MPI's."""
    version = _mpirun_version(env)
    return "Open MPI" in version or "OpenRTE" in version


def mpi_available(env=None):
    """Whether there is an mpirun that ranks can be started with."""
    return is_open_mpi(env)


def is_spectrum_mpi(env=None):
    """Whether the mpirun in PATH is IBM Spectrum MPI's."""
    return "IBM Spectrum MPI" in _mpirun_version(env)


def is_mpich(env=None):
    """Whether the mpirun in PATH is MPICH's, which cannot be used here."""
    version = _mpirun_version(env)
    return "MPICH" in version or "HYDRA" in version


def is_intel_mpi(env=None):
    """Whether the mpirun in PATH is Intel's, which cannot be used here."""
    return "Intel(R) MPI" in _mpirun_version(env)
