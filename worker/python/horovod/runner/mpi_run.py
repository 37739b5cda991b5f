"""Detects the MPI of this machine, for scripts that use these functions of Horovod's launcher."""
import subprocess


def _mpirun_version(env):
    """Returns mpirun's description of its version; empty if there is no mpirun."""
    try:
        done = subprocess.run(["mpirun", "--version"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def is_open_mpi(env=None):
    """Returns whether the mpirun in PATH is Open MPI's."""
    version = _mpirun_version(env)
    return "Open MPI" in version or "OpenRTE" in version


def mpi_available(env=None):
    """Returns whether there is an mpirun that can start ranks."""
    return is_open_mpi(env)


def is_spectrum_mpi(env=None):
    """Returns whether the mpirun in PATH is IBM Spectrum MPI's."""
    return "IBM Spectrum MPI" in _mpirun_version(env)


def is_mpich(env=None):
    """Returns whether the mpirun in PATH is MPICH's, which Horovod cannot use."""
    version = _mpirun_version(env)
    return "MPICH" in version or "HYDRA" in version


def is_intel_mpi(env=None):
    """Returns whether the mpirun in PATH is Intel's, which Horovod cannot use."""
    return "Intel(R) MPI" in _mpirun_version(env)
