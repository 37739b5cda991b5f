"""How horovodrun ends in places that are not as it would like, and what is typed on its terminal."""

import os
import pty
import resource
import signal
import subprocess
import sys
import time
import uuid

import pytest

import openmpi
from conftest import HOROVODRUN, processes_with, wait_for

LARGEST = 16 << 20  # bytes of a file: more than mpirun's own files have
RANK = 'import os, sys, time, signal\nrank = int(os.environ["OMPI_COMM_WORLD_RANK"])\n'


@pytest.fixture(name="temporary", autouse=True)
def fixture_temporary(tmp_path_factory, monkeypatch):
    """However a job ends, nothing is left in its folder for temporary files."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    wait_for(lambda: not list(folder.iterdir()), f"nothing is left in {folder}")


def test_output_that_nobody_reads_any_more_ends_the_job_without_a_crash():
    mark = f"mark-{uuid.uuid4()}"
    with subprocess.Popen([str(HOROVODRUN), "-np", "2", "sh", "-c", "while :; do echo line; done", mark],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().endswith("line\n")
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(timeout=60) == 128 + signal.SIGPIPE, err
    assert err.splitlines()[-1] == "horovodrun: standard output has no reader: the job was stopped", err
    assert "Segmentation" not in err
    wait_for(lambda: not processes_with(mark), "no process is left")


def with_output_to(path, program, limit=None):
    """Runs two ranks of a program of sh with standard output to a file."""
    with open(path, "wb", buffering=0) as out:
        return subprocess.run([str(HOROVODRUN), "-np", "2", "sh", "-c", program], stdout=out, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, preexec_fn=limit, timeout=60, check=False)


@pytest.mark.parametrize("code", [0, 3])
def test_standard_output_on_a_full_disk_ends_no_job(tmp_path, code):
    program = (f"echo line; for i in 1 2 3; do echo more; done; echo done > {tmp_path}/$OMPI_COMM_WORLD_RANK;"
               f" test $OMPI_COMM_WORLD_RANK = 0 || exit {code}")
    done = with_output_to("/dev/full", program)
    lines = done.stderr.splitlines()
    assert done.returncode == code, done
    assert lines[0] == "horovodrun: standard output ends here, and the job goes on: No space left on device", done
    assert len(lines) == (2 if code else 1) and (not code or "rank 1 on host" in lines[1]), done
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


def test_standard_output_may_reach_the_largest_size_of_a_file(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, LARGEST))
    done = with_output_to(tmp_path / "out", "yes $(printf %0999d 0) | head -n 9000", limit)
    assert (done.returncode, done.stderr) == \
        (0, "horovodrun: standard output ends here, and the job goes on: File too large\n"), done
    assert (tmp_path / "out").stat().st_size == LARGEST


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_streams_that_are_closed_do_no_harm(closed, tmp_path):
    def close():
        for fd in closed:
            os.close(fd)
    done = subprocess.run([str(HOROVODRUN), "-np", "2", "sh", "-c", f"echo x > {tmp_path}/$OMPI_COMM_WORLD_RANK"],
                          preexec_fn=close, timeout=60, check=False)
    assert done.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


@pytest.mark.parametrize("name, value", [("HOME", None), ("HOME", ""), ("HOME", "/nonexistent"), ("PATH", None), ("PATH", "")])
def test_an_environment_without_the_usual_does_no_harm(name, value):
    if name == "PATH" and openmpi.major() == 5:
        pytest.skip("the mpirun of the tests lies in PATH alone")
    env = {key: text for key, text in os.environ.items() if key != name}
    if value is not None:
        env[name] = value
    done = subprocess.run([str(HOROVODRUN), "-np", "2", "/bin/true"], env=env, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done


def test_too_few_open_files_are_refused_with_the_number_that_is_needed():
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
    done = subprocess.run([str(HOROVODRUN), "-np", "2", "true"], preexec_fn=limit, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert done.returncode == 1 and "the limit of open files is 24, and mpirun needs" in done.stderr, done


def test_a_limit_of_open_files_that_may_be_raised_is_raised():
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    done = subprocess.run([str(HOROVODRUN), "-np", "4", "true"], preexec_fn=limit, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done


def limited_stack(soft_kib, hard_kib):
    """A job of two ranks with these limits of the stack."""
    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (soft_kib * 1024, hard_kib * 1024))
    return subprocess.run([str(HOROVODRUN), "-np", "2", "echo", "here"], preexec_fn=limit, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)


@pytest.mark.parametrize("soft_kib, hard_kib", [(96, 4096), (256, 256)])
def test_a_small_stack_is_enough_or_is_raised(soft_kib, hard_kib):
    done = limited_stack(soft_kib, hard_kib)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert sorted(done.stdout.splitlines()) == ["[0]<stdout>:here", "[1]<stdout>:here"], done


def test_a_stack_that_is_too_small_for_mpirun_is_refused_with_the_size_that_it_needs():
    done = limited_stack(96, 96)
    assert done.returncode == 1, done
    assert done.stderr == "horovodrun: the limit of the stack is 96 KiB, and mpirun needs 256: raise it (ulimit -s)\n", done


# --- A terminal -------------------------------------------------------------------------------------------------------


def on_terminal(words, talk):
    """Runs a command on a terminal of its own; talk(read_until, write) has the other end. Returns the exit code."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(words[0], words)
    seen = b""

    def read_until(text):
        nonlocal seen
        end = time.monotonic() + 60
        while text not in seen:
            assert time.monotonic() < end, seen
            seen += os.read(fd, 1000)
        seen = seen[seen.index(text) + len(text):]

    talk(read_until, lambda text: os.write(fd, text))
    try:
        while os.read(fd, 1000):
            pass
    except OSError:
        pass  # all others have closed it
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)
    return code


def test_what_is_typed_reaches_rank_0_as_a_debugger_needs_it(script):
    program = script(RANK + "if rank == 0:\n    word = 'before'\n    breakpoint()\n    print('it is', word, flush=True)\n")

    def talk(read_until, write):
        read_until(b"(Pdb) ")
        write(b"p word + '!'\n")
        read_until(b"'before!'")
        read_until(b"(Pdb) ")
        write(b"word = 'after'\n")
        read_until(b"(Pdb) ")
        write(b"c\n")
        read_until(b"it is after")

    assert on_terminal([str(HOROVODRUN), "-np", "2", str(program)], talk) == 0


@pytest.mark.skipif(openmpi.major() == 5, reason="Open MPI 5.0 does not pass on the end of standard input")
def test_the_end_of_what_is_typed_is_passed_on():
    def talk(read_until, write):
        write(b"hello\n\x04")
        read_until(b"stdout>:hello")

    assert on_terminal([str(HOROVODRUN), "-np", "1", "cat"], talk) == 0


def test_in_the_background_of_a_terminal_it_runs_on_and_leaves_the_input_alone():
    # The interpreter stays in the foreground and reads; horovodrun has a process group of its own.
    code = ("import subprocess, sys\n"
            f"run = subprocess.Popen([{str(HOROVODRUN)!r}, '-np', '1', 'sh', '-c', 'echo up; sleep 2'], process_group=0)\n"
            "print('read', sys.stdin.readline().strip(), flush=True)\n"
            "sys.exit(run.wait())\n")

    def talk(read_until, write):
        read_until(b"up")
        write(b"mine\n")
        read_until(b"read mine")

    assert on_terminal([sys.executable, "-c", code], talk) == 0


# --- Being told to stop -----------------------------------------------------------------------------------------------

# Waits for the signal, blocked: Python runs a handler at the end of time.sleep when the signal comes right before it.
SAVES = RANK + """
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("up", flush=True)
signal.sigwait({signal.SIGTERM})
if rank == 0:
    time.sleep(2)
    open(sys.argv[1], "w").close()
sys.exit(rank)
"""

DEAF = RANK + 'signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint("up", flush=True)\ntime.sleep(600)\n'


def start(*arguments, n=2, **options):
    process = subprocess.Popen([str(HOROVODRUN), "-np", str(n), *map(str, arguments)], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    for _ in range(n):
        assert process.stdout.readline().endswith("up\n")
    return process


@pytest.mark.parametrize("flags, env", [
    (["--stop-grace", "60"], {}),
    ([], {"HOROVOD_STOP_GRACE": "60"}),
    ([], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}),
])
def test_programs_have_their_grace_and_no_more_than_they_need(script, tmp_path, flags, env):
    program = script(SAVES)
    with start(*flags, program, tmp_path / "checkpoint", env={**os.environ, **env}) as process:
        process.terminate()
        _, err = process.communicate(timeout=25)
    assert process.returncode == 128 + signal.SIGTERM, err
    assert err.splitlines()[-1] == "horovodrun: stopped by signal 15 (Terminated)", err
    assert "Forwarding signal" not in err and "-----" not in err, err
    assert (tmp_path / "checkpoint").exists()
    wait_for(lambda: not processes_with(str(program)), "no process is left")


def test_a_rank_that_had_ended_before_is_not_waited_for(script, tmp_path):
    program = script("import os, sys, time\n"
                     "if os.environ['OMPI_COMM_WORLD_RANK'] == '1':\n    print('up', flush=True)\n    sys.exit(0)\n" + SAVES)
    with start("--stop-grace", 60, program, tmp_path / "checkpoint") as process:
        process.terminate()
        _, err = process.communicate(timeout=25)
    assert process.returncode == 128 + signal.SIGTERM and (tmp_path / "checkpoint").exists(), err


def test_a_program_that_does_not_stop_is_killed_at_the_end_of_its_grace(script):
    program = script(DEAF)
    with start("--stop-grace", 1, program) as process:
        process.terminate()
        _, err = process.communicate(timeout=25)
    assert process.returncode == 128 + signal.SIGTERM, err
    wait_for(lambda: not processes_with(str(program)), "no process is left")


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_grace_and_nothing_is_left(script, temporary, first):
    program = script(DEAF)
    with start("--stop-grace", 600, program) as process:
        process.send_signal(first)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=25)
    assert process.returncode == 128 + first, err
    assert "Segmentation" not in err
    wait_for(lambda: not processes_with(str(program)), "no process is left")
    assert not list(temporary.iterdir())


def test_a_rank_on_another_host_has_its_grace_too(hosts, script, tmp_path):
    program = script(SAVES.replace("rank == 0", "rank == 1"))
    with subprocess.Popen([*hosts.enter(0), str(HOROVODRUN), "-np", "2", "-H", "hvd-east:1,hvd-west:1", "-p", "2222", "-i",
                           str(hosts.key), "--stop-grace", "60", str(program), str(tmp_path / "checkpoint")], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        for _ in range(2):
            assert process.stdout.readline().endswith("up\n")
        process.terminate()
        _, err = process.communicate(timeout=25)
    assert process.returncode == 128 + signal.SIGTERM, err
    assert (tmp_path / "checkpoint").exists()
