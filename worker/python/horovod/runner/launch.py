"""The launcher's Python interface, for scripts that import it from Horovod. It calls the program horovodrun."""
import os
import subprocess
import sys
import warnings

from horovod.runner import _NO_GLOO, _flags, _horovodrun, _HorovodArgs, _joined, _run_function

# Arguments whose names differ from those of the flags.
_OTHER_NAMES = {"nics": "network_interfaces", "use_mpi": "mpi", "tcp_flag": "tcp", "slots": "slots_per_host",
                "cooldown_range": "blacklist_cooldown_range"}
_NO_FLAGS = {"num_proc", "command", "run_func", "executable", "use_gloo"}


def run_commandline():
    """Replaces this process by horovodrun, with the arguments of this program."""
    path = _horovodrun()
    os.execv(path, ["horovodrun", *sys.argv[1:]])


def _options(args):
    """Returns the flags that were set, {name with underscores: value}."""
    given = {name: value for name, value in vars(args).items() if name not in _NO_FLAGS and value is not None}
    given["nics"] = _joined(given.get("nics"))
    given["verbose"] = bool(given.get("verbose"))  # a level in Horovod
    return {_OTHER_NAMES.get(name, name): value for name, value in given.items()}


def _run(args):
    """Runs the function of the arguments, a _HorovodArgs, and returns its results; or runs their command.

    Raises RuntimeError if the command fails.
    """
    if args.use_gloo:
        warnings.warn(_NO_GLOO, stacklevel=2)
    if args.run_func is not None:
        return _run_function(args.run_func, (), {}, args.num_proc, _options(args), args.executable)
    command = [_horovodrun(), "-np", str(args.num_proc), *_flags(_options(args)), *args.command]
    status = subprocess.call(command)
    if status:
        raise RuntimeError(f"horovodrun ended with {status}")
    return None


__all__ = ["run_commandline", "_HorovodArgs", "_run"]
