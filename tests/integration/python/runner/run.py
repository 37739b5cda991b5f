"""Checks of horovod.run(), for jobs of CHECK_RANKS ranks: this program is none of them, and calls it."""
import contextlib
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

from checks import check, raises, run_checks_alone

import horovod
import horovod.runner
from horovod.runner import launch

N = int(os.environ["CHECK_RANKS"])


def rank_times(factor=1, plus=0):
    """What every rank computes."""
    import horovod.numpy as hvd  # pylint: disable=import-outside-toplevel
    hvd.init()
    return hvd.rank() * factor + plus, hvd.size()


def said(function, *arguments, **options):
    """(what the call raised or returned, what the launcher wrote): its streams are this process's."""
    with tempfile.TemporaryFile() as file:
        kept = [os.dup(1), os.dup(2)]
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            result = function(*arguments, **options)
        finally:
            for to, fd in enumerate(kept, 1):
                os.dup2(fd, to)
                os.close(fd)
        file.seek(0)
        return result, file.read().decode()


def refused(**options):
    """What is said when no rank starts: RuntimeError names the command, the launcher the flag."""
    text, written = said(raises, RuntimeError, horovod.run, rank_times, num_proc=N, **options)
    assert "horovodrun ended with 2, without a result of ranks" in text, text
    return written


@check
def the_launcher_of_a_build_is_found():
    build = pathlib.Path(horovod.__file__).parent.parent.parent
    elsewhere = os.environ["PATH"]
    os.environ["PATH"] = "/nowhere"
    try:
        assert horovod.runner._horovodrun() == os.path.realpath(build / "worker" / "horovodrun")
    finally:
        os.environ["PATH"] = elsewhere


@check
def every_rank_returns_what_it_computed():
    assert horovod.run(rank_times, num_proc=N) == [(rank, N) for rank in range(N)]
    assert horovod.runner.run is horovod.run


@check
def arguments_arrive_and_functions_may_be_made_on_the_spot():
    assert horovod.run(rank_times, (10,), {"plus": 5}, np=N) == [(10 * rank + 5, N) for rank in range(N)]
    captured = {"of": "the caller"}
    assert horovod.run(lambda *words, **more: (words, more, captured), args=(1, None), kwargs={"a": [2]}, num_proc=N) == \
        [((1, None), {"a": [2]}, captured)] * N


@check
def hosts_and_what_the_launcher_does_with_them_may_be_told():
    with in_a_folder() as folder:
        (folder / "hostfile").write_text(f"localhost slots={N}\n", encoding="utf-8")
        for where in ({"hosts": f"localhost:{N}", "network_interfaces": ["lo"]},
                      {"hostfile": "hostfile", "network_interface": "lo"}):
            answers, written = said(horovod.run, greet, num_proc=N, start_timeout=60, ssh_port=2222, ssh_identity_file="none",
                                    disable_cache=True, verbose=2, use_mpi=True, mpi_args="--mca btl_base_verbose 0",
                                    output_filename="output", **where)
            assert answers == [True] * N
            assert "mpirun" in written and "--mca btl_base_verbose 0" in written and "btl_tcp_if_include lo" in written, written
            lines = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("output/rank.*/stdout"))]
            assert lines == ["hello\n"] * N, lines
        assert sorted(path.name for path in folder.iterdir()) == ["hostfile", "output"]


def greet():
    """Writes a line."""
    print("hello")
    return True


@contextlib.contextmanager
def in_a_folder():
    """A folder of its own as the working directory."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield pathlib.Path(folder)
        finally:
            os.chdir(before)


@check
def ranks_may_run_another_python():
    with in_a_folder() as folder:
        other = folder / "python"
        other.write_text(f'#!/bin/sh\nTRIED=yes exec {sys.executable} "$@"\n', encoding="utf-8")
        other.chmod(0o755)
        assert horovod.run(lambda: os.environ["TRIED"], num_proc=N, executable=str(other)) == ["yes"] * N


@check
def more_ranks_than_slots_are_refused():
    text, written = said(raises, RuntimeError, horovod.run, rank_times, num_proc=N + 1, hosts=f"localhost:{N}")
    assert "without a result of ranks" in text and f"{N + 1}" in written and "slot" in written, written


@check
def what_over_open_mpi_is_fixed_is_refused_with_the_flag_named():
    for options, flag in (({"min_num_proc": 1}, "--min-num-proc"), ({"max_num_proc": 4}, "--max-num-proc"),
                          ({"min_np": 1}, "--min-num-proc"), ({"max_np": 4}, "--max-num-proc"),
                          ({"slots": 1}, "--slots-per-host"), ({"reset_limit": 3}, "--reset-limit"),
                          ({"cooldown_range": [1, 2]}, "--blacklist-cooldown-range"),
                          ({"host_discovery_script": "./discover"}, "--host-discovery-script")):
        written = refused(**options)
        assert f"flag {flag}: " in written, written


@check
def what_is_wrong_is_told_by_the_launcher():
    for options, word in (({"ssh_port": 0}, "-p"), ({"start_timeout": "soon"}, "--start-timeout"),
                          ({"hosts": "a:b"}, "a:b"), ({"mpi_args": "'open"}, "--mpi-args")):
        text, written = said(raises, RuntimeError, horovod.run, rank_times, num_proc=N, **options)
        assert "horovodrun ended with" in text and word in written, (options, written)


@check
def a_job_that_is_to_use_gloo_warns_and_goes_on():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert horovod.run(rank_times, args=(2,), num_proc=N, use_gloo=True) == [(2 * r, N) for r in range(N)]
    warned, = caught
    assert "there is no Gloo here; MPI does its work" in str(warned.message) and warned.filename == __file__, warned


def filled_in(**values):
    """The arguments of a launcher that is called from Python."""
    args = horovod.runner._HorovodArgs()
    args.num_proc = N
    for name, value in values.items():
        setattr(args, name, value)
    return args


@check
def a_launcher_is_called_from_python():
    results = launch._run(filled_in(run_func=rank_times, hosts=f"localhost:{N}", use_mpi=True, verbose=False))
    assert results == [(r, N) for r in range(N)], results
    _, written = said(launch._run, filled_in(command=["sh", "-c", "echo $HOROVOD_CYCLE_TIME"], cycle_time_ms=2,
                                             hosts=f"localhost:{N}", use_mpi=True))
    assert written.count("<stdout>:2\n") == N, written
    text, written = said(raises, RuntimeError, launch._run, filled_in(command=["sh", "-c", "exit 3"], nics=["lo"]))
    assert text == "horovodrun ended with 3", text
    _, written = said(raises, RuntimeError, launch._run, filled_in(command=["true"], slots=2))
    assert "flag --slots-per-host: " in written, written


def settings(names):
    """What a rank finds in its environment."""
    return [os.environ.get(name) for name in names]


@check
def a_function_gets_every_flag_that_a_command_gets():
    flags = {"timeline_filename": "/tmp/timeline", "fusion_threshold_mb": 3, "cycle_time_ms": 4, "cache_capacity": 5, "verbose": 1,
             "timeline_mark_cycles": True, "log_level": "error", "hosts": f"localhost:{N}"}
    names = ("HOROVOD_TIMELINE", "HOROVOD_FUSION_THRESHOLD", "HOROVOD_CYCLE_TIME", "HOROVOD_CACHE_CAPACITY",
             "HOROVOD_TIMELINE_MARK_CYCLES", "HOROVOD_LOG_LEVEL")
    (found, *others), _ = said(launch._run, filled_in(run_func=functools.partial(settings, names), **flags))
    assert None not in found and found[0] == "/tmp/timeline" and all(other == found for other in others), found
    shown = 'echo ' + ' '.join(f"${name}" for name in names)
    _, written = said(launch._run, filled_in(command=["sh", "-c", shown], **flags))
    assert written.count(" ".join(found) + "\n") == N, (found, written)
    said(launch._run, filled_in(run_func=rank_times, disable_cache=True))
    for name, value, flag in (("min_num_proc", N + 1, "--min-num-proc"), ("slots", 2, "--slots-per-host")):
        _, written = said(raises, RuntimeError, launch._run, filled_in(run_func=functools.partial(settings, names), **{name: value}))
        assert f"flag {flag}: " in written, (flag, written)


@check
def the_launcher_goes_on_in_place_of_a_script():
    program = "import sys; sys.argv[1:] = ['--version']; from horovod.runner.launch import run_commandline; run_commandline()"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.strip().endswith(horovod.runtime_version), done


def fails(rank):
    """Raises on one rank."""
    import horovod.numpy as hvd  # pylint: disable=import-outside-toplevel
    hvd.init()
    if hvd.rank() == rank:
        raise KeyError(f"rank {rank} is unhappy")
    hvd.barrier()


@check
def the_exception_of_a_rank_is_the_callers():
    text, _ = said(raises, RuntimeError, horovod.run, fails, (N - 1,), num_proc=N)
    assert f"horovod.run: rank {N - 1} failed:" in text and f"KeyError: 'rank {N - 1} is unhappy'" in text, text


@check
def a_rank_that_ends_without_a_result_is_named():
    text, _ = said(raises, RuntimeError, horovod.run, os._exit, (3,), num_proc=N)
    assert f"horovodrun ended with 3, without a result of ranks {list(range(N))}" in text, text


@check
def what_cannot_travel_is_told():
    text, _ = said(raises, RuntimeError, horovod.run, lambda: (n for n in range(3)), num_proc=N)
    assert "what the function returned cannot be pickled" in text, text
    raises(TypeError, horovod.run, rank_times, args=((n for n in range(3)),), num_proc=N)


@check
def nothing_is_left_behind():
    assert not [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("horovod-run-")]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as own:  # beside those of other programs
        tempfile.tempdir = own
        run_checks_alone()
