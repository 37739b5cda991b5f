"""The launcher as scripts for Horovod import it. horovodrun is a program of its own, which is called here."""
import os
import subprocess
import sys
import warnings

from horovod.runner import _NO_GLOO, _flags, _horovodrun, _HorovodArgs, _joined, run

# Where the names of arguments are not those of the flags.
_OTHER_NAMES = {"nics": "network_interfaces", "use_mpi": "mpi", "tcp_flag": "tcp", "slots": "slots_per_host",
                "cooldown_range": "blacklist_cooldown_range"}
_NO_FLAGS = {"num_proc", "command", "run_func", "executable", "use_gloo"}


def run_commandline():
    """Goes on as horovodrun, with the arguments of this program."""
    path = _horovodrun()
    os.execv(path, ["horovodrun", *sys.argv[1:]])


def _options(args):
    """The flags that were filled in, {name with underscores: value}."""
    given = {name: value for name, value in vars(args).items() if name not in _NO_FLAGS and value is not None}
    if given.get("nics"):
        given["nics"] = _joined(given["nics"])
    return {_OTHER_NAMES.get(name, name): value for name, value in given.items()}


def _run(args):
    """Runs what the arguments, a _HorovodArgs, describe: a function, whose results it returns, or a command.

    RuntimeError when a command did not end well.
    """
    if args.use_gloo:
        warnings.warn(_NO_GLOO, stacklevel=2)
    if args.run_func is not None:
        options = {name: getattr(args, name) for name in (
            "hosts", "hostfile", "ssh_port", "ssh_identity_file", "start_timeout", "output_filename", "verbose",
            "mpi_args", "executable")}
        return run(args.run_func, num_proc=args.num_proc, network_interfaces=args.nics, **options)
    command = [_horovodrun(), "-np", str(args.num_proc), *_flags(_options(args)), *args.command]
    status = subprocess.call(command)
    if status:
        raise RuntimeError(f"horovodrun ended with {status}")
    return None


__all__ = ["run_commandline", "_HorovodArgs", "_run"]
