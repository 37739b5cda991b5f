"""Data-parallel training: every worker computes gradients, an allreduce averages them.

The package imports nothing before its first use: `horovod.torch` needs only PyTorch, `horovod.numpy` nothing,
`horovod.run` the modules that start processes.
"""

__all__ = ["run", "runtime_version", "__version__"]

# The version of Horovod that has this interface; scripts and packages compare it. runtime_version is the package's own.
__version__ = "0.28.1"


def __getattr__(name):
    """Loads `run`, `runtime_version` and `_core`, the C extension, on first use."""
    if name == "run":
        from horovod.runner import run  # pylint: disable=import-outside-toplevel
        return run
    if name == "runtime_version":
        from horovod import _core  # pylint: disable=import-outside-toplevel
        return _core.version()
    if name == "_core":
        from horovod.common.library import load  # pylint: disable=import-outside-toplevel
        return load()
    raise AttributeError(f"module 'horovod' has no attribute '{name}'")
