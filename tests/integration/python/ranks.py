"""Jobs of Python programs for the tests, and what their checks found.

Starting ranks is what costs, so many checks share a job: a folder has a program run.py, whose functions marked
with @check every rank calls one after the other (see checks.py); a job of a folder runs once for each number of ranks.
"""
import ast
import contextlib
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "horovod"
TORCH = CACHE / "python" / "torch-2.15.0"
PYTHON = "/usr/bin/python3"  # without a framework
TORCH_PYTHON = str(TORCH / "bin" / "python")
TIMEOUT = 240
sys.path.insert(0, str(ROOT / "tests" / "support"))
import limits  # noqa: E402  (the path above)
import streams  # noqa: E402
from entries import entry_names  # noqa: E402

ALONE = {"runner"}  # folders whose run.py is no rank: it starts jobs itself


def environment(**extra):
    """For a process that uses the build: nothing of Horovod's is set but what is asked for."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    env["PYTHONPATH"] = os.pathsep.join(map(str, (BUILD / "python", HERE, BUILD / "tests/integration/python")))
    env["PATH"] = f"{BUILD / 'worker'}{os.pathsep}{env['PATH']}"
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["OMP_NUM_THREADS"] = "1"
    env.update({name: str(value) for name, value in extra.items()})
    return env


def _session_of(process):
    """The processes that are left of those that a process with a session of its own started."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[3]) == process.pid and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


def _end(process):
    """Ends a job and its ranks, which mpirun gives process groups of their own; what it has written."""
    os.killpg(process.pid, signal.SIGTERM)  # mpirun ends its ranks then
    try:
        return process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        for pid in _session_of(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return process.communicate()


def mpirun(n, *command, timeout=None, options=(), **extra):
    """The completed job of n ranks, whose output stands rank by rank before mpirun's own, with options of mpirun; see call."""
    with tempfile.TemporaryDirectory() as folder:
        done = call("mpirun", "--allow-run-as-root", "--oversubscribe", *options, "-np", n, *streams.apart(folder, command),
                    timeout=timeout, **extra)
        streams.add_written(folder, done)
    return done


def call(*command, timeout=None, **extra):
    """The completed command; past the timeout it is ended, with all it started, and its status is 124."""
    command = list(map(str, command))
    timeout = limits.seconds(timeout or TIMEOUT)
    with subprocess.Popen(command, env=environment(**extra), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            output, errors = _end(process)
            status, errors = 124, f"{errors}\nended after {timeout:.0f} s"
    return subprocess.CompletedProcess(command, status, output, errors)


def _is_check(node):
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(mark, ast.Name) and mark.id == "check" for mark in node.decorator_list)


def checks_of(folder):
    """The names of the checks of a folder, read from its sources."""
    return [node.name for path in sorted((HERE / folder).glob("*.py"))
            for node in ast.parse(path.read_text(encoding="utf-8")).body if _is_check(node)]


def ranks_of(folder, n):
    """Who writes what the checks of a folder found, in a job of n ranks."""
    return range(1 if folder in ALONE else n)


@functools.lru_cache(maxsize=None)
def job(folder, n, python=PYTHON, **extra):
    """(the job, {rank: what it found, see checks.py}) of a folder's run.py, with extra in its environment; of one
    without end, what it came to."""
    with tempfile.TemporaryDirectory() as results:
        command = (python, HERE / folder / "run.py")
        done = call(*command, CHECK_RESULTS=results, CHECK_RANKS=n, **extra) if folder in ALONE else mpirun(
            n, *command, CHECK_RESULTS=results, **extra)
        found = {rank: json.loads(file.read_text(encoding="utf-8")) for rank in ranks_of(folder, n)
                 if (file := pathlib.Path(results, f"{rank}.json")).exists()}
    return done, found


def assert_checked(folder, n, name, python=PYTHON, **extra):
    """Fails unless the check ended well on every rank, and says how it failed on which; skips what is not defined there."""
    done, found = job(folder, n, python, **extra)
    for rank in ranks_of(folder, n):
        results = found.get(rank, {"checks": {}})["checks"]
        if name in found.get(rank, {}).get("skipped", {}):
            pytest.skip(found[rank]["skipped"][name])
        assert name in results, f"rank {rank} did not come to it:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
        assert results[name] is None, f"rank {rank}:\n{results[name]}"


def called_in(folder, n, python=PYTHON, **extra):
    """{entry of the public interface: parameters} of what checks that ended well called; see witness.py."""
    called = {}
    for results in job(folder, n, python, **extra)[1].values():
        for entry, parameters in results["called"].items():
            called.setdefault(entry, set()).update(parameters)
    return called


def errors_in(folder, n, python=PYTHON):
    """{(type, text)} of the errors that checks which ended well got."""
    return {tuple(error) for results in job(folder, n, python)[1].values() for error in results["errors"]}


def assert_ended_well(folder, n, python=PYTHON, **extra):
    """Fails unless the job did."""
    done, _ = job(folder, n, python, **extra)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


def tool(python, program, *arguments, **extra):
    """What a program of this folder prints, read as JSON."""
    done = call(python, HERE / program, *arguments, **extra)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def entries(*tables):
    """What tables of Horovod's interface list."""
    return [entry for table in tables for entry in entry_names(json.loads(table.read_text(encoding="utf-8")))]


def used_entries(*tables):
    """Those of them that checks have to use."""
    return [entry for entry in entries(*tables) if entry.split()[0] in ("export", "function", "method")]


def assert_used(entry, called, watched, n):
    """Fails unless checks at n ranks called an entry with every parameter, if it has code of its own: a class, a constant or a method
    that is inherited has nothing to watch."""
    if entry not in watched:
        return
    assert entry in called, f"no check calls it at {n} ranks"
    missing = set(watched[entry]) - called[entry]
    assert not missing, f"at {n} ranks no check gives another value than the default for {sorted(missing)}"
