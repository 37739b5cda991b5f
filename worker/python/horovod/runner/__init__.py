"""horovod.run(): calls a function on every rank of a new job, and returns the results of all ranks.

The function and the results are stored in files of a directory that only this user can read: no data from a network is
unpickled. For ranks on other hosts the directory is made in the working directory, which all hosts have to share.
"""
import dataclasses
import os
import pickle
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import warnings


@dataclasses.dataclass
class _Places:
    """The files of a call, which run() and every rank access."""
    folder: str

    @property
    def function(self):
        return os.path.join(self.folder, "function")

    def result(self, rank):
        return os.path.join(self.folder, f"result.{rank}")


_NO_GLOO = "horovod.run(use_gloo=True): there is no Gloo here; MPI does its work"


class _HorovodArgs:
    """The flags of horovodrun by their names in Horovod, for scripts that call the launcher from Python.

    `command` is a list of words, `run_func` a function without arguments; one of them is run.
    """

    def __init__(self):
        self.num_proc = 1
        self.hosts = self.hostfile = self.command = self.run_func = self.executable = None
        self.ssh_port = self.ssh_identity_file = self.start_timeout = self.disable_cache = None
        self.output_filename = self.prefix_output_with_timestamp = self.verbose = self.config_file = None
        self.nics = self.mpi_args = self.binding_args = self.tcp_flag = None
        self.use_mpi = self.use_gloo = None
        self.min_num_proc = self.max_num_proc = self.slots = self.reset_limit = None
        self.cooldown_range = self.elastic_timeout = self.host_discovery_script = None
        self.fusion_threshold_mb = self.cycle_time_ms = self.cache_capacity = self.thread_affinity = None
        self.timeline_filename = self.timeline_mark_cycles = self.log_level = None


def _horovodrun():
    """Returns this package's launcher, from a build tree or the scripts folder, else the one in PATH."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    beside = [os.path.realpath(os.path.join(package, "horovodrun")),
              os.path.join(sysconfig.get_path("scripts"), "horovodrun")]
    path = next(filter(os.path.exists, beside), None) or shutil.which("horovodrun")
    if not path:
        raise RuntimeError("horovodrun was found neither beside this Python nor in PATH")
    return path


def _flags(options):
    """Converts options of run() to flags of horovodrun, and omits those that are None or False."""
    for name, value in options.items():
        if value is None or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        if value is True:
            yield flag
        elif isinstance(value, (list, tuple)):
            yield from (flag, *map(str, value))
        else:
            yield from (flag, str(value))


def _joined(interfaces):
    """Joins network interfaces, a text or a list of names, to one word of a command line."""
    return interfaces if interfaces is None or isinstance(interfaces, str) else ",".join(interfaces)


def _are_elsewhere(options):
    """Returns whether ranks may run on other hosts."""
    if options.get("hostfile") or options.get("host_discovery_script"):
        return True
    names = {host.partition(":")[0] for host in (options.get("hosts") or "").split(",") if host}
    return not names <= {"localhost", "127.0.0.1", os.uname().nodename}


def _read(path):
    with open(path, "rb") as file:
        return pickle.load(file)


def _store(places, function, args, kwargs):
    try:
        import cloudpickle as pickler  # pylint: disable=import-outside-toplevel
    except ImportError:  # plain pickle cannot carry functions of the main script
        pickler = pickle
    with open(places.function, "wb") as file:
        pickle.dump(sys.path, file)
        pickler.dump((function, args, kwargs), file)


def _call(command):
    """Runs the launcher to its end; terminates it when this process is interrupted."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            raise


def _results(places, size, status, command):
    """Returns the results of the ranks. Raises RuntimeError with the traceback of the first rank that failed."""
    answers = {rank: _read(places.result(rank)) for rank in range(size) if os.path.exists(places.result(rank))}
    failed = [(when, rank, value) for rank, (is_fine, value, when) in answers.items() if not is_fine]
    if failed:
        _, rank, text = min(failed)
        raise RuntimeError(f"horovod.run: rank {rank} failed:\n{text}")
    missing = [rank for rank in range(size) if rank not in answers]
    if status or missing:
        raise RuntimeError(f"horovod.run: horovodrun ended with {status}, without a result of ranks {missing}; "
                           f"the command was: {shlex.join(command)}")
    return [answers[rank][1] for rank in range(size)]


def _command(options, num_proc, executable, places):
    return [_horovodrun(), "-np", str(num_proc), *_flags(options), executable or sys.executable,
            "-m", "horovod.runner.rank", places.folder]


def run(func, args=(), kwargs=None, num_proc=1, min_num_proc=None, max_num_proc=None, slots=None, reset_limit=None,
        cooldown_range=None, hosts=None, hostfile=None, host_discovery_script=None, start_timeout=None, ssh_port=None,
        ssh_identity_file=None, disable_cache=None, output_filename=None, verbose=None, use_gloo=None, use_mpi=None,
        mpi_args=None, network_interface=None, network_interfaces=None, executable=None, np=None, min_np=None,
        max_np=None):
    """Calls func(*args, **kwargs) on num_proc ranks; returns a list of their results, by rank.

    The other arguments are the flags of horovodrun by the same names. If a rank raises an exception, raises RuntimeError
    with its traceback.
    """
    num_proc = np or num_proc
    if use_gloo:
        warnings.warn(_NO_GLOO, stacklevel=2)
    options = {
        "min_num_proc": min_num_proc or min_np, "max_num_proc": max_num_proc or max_np, "slots_per_host": slots,
        "reset_limit": reset_limit, "blacklist_cooldown_range": cooldown_range, "hosts": hosts, "hostfile": hostfile,
        "host_discovery_script": host_discovery_script, "start_timeout": start_timeout, "ssh_port": ssh_port,
        "ssh_identity_file": ssh_identity_file, "disable_cache": disable_cache, "output_filename": output_filename,
        "verbose": bool(verbose), "mpi": use_mpi, "mpi_args": mpi_args,
        "network_interfaces": _joined(network_interfaces or network_interface),
    }
    return _run_function(func, args, kwargs or {}, num_proc, options, executable)


def _run_function(func, args, kwargs, num_proc, options, executable):
    """run() with the flags of horovodrun as options."""
    folder = tempfile.mkdtemp(prefix="horovod-run-", dir=os.getcwd() if _are_elsewhere(options) else None)
    places = _Places(folder)
    try:
        _store(places, func, args, kwargs)
        command = _command(options, num_proc, executable, places)
        status = _call(command)
        return _results(places, num_proc, status, command)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
