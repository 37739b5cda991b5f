"""horovodrun on this machine alone, over the real mpirun."""

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time
import uuid

import pytest

import limits
import openmpi
from conftest import BUILD, HOROVODRUN, processes_with, wait_for

RANK = 'import os, sys, time, signal\nrank = int(os.environ["OMPI_COMM_WORLD_RANK"])\n'


def test_every_rank_runs_and_its_lines_carry_its_number(run):
    result = run("-np", 3, "sh", "-c", "echo out; echo err >&2")
    assert result.code == 0, result
    assert sorted(result.out.splitlines()) == [f"[{r}]<stdout>:out" for r in range(3)]
    assert sorted(result.err.splitlines()) == [f"[{r}]<stderr>:err" for r in range(3)]


def test_prefixes_can_be_turned_off(run):
    result = run("-np", 2, "--no-prefix-output", "echo", "plain")
    assert (result.code, result.out) == (0, "plain\nplain\n"), result


def test_lines_can_carry_the_time(run):
    result = run("-np", 1, "--prefix-output-with-timestamp", "echo", "x")
    stamp, rest = result.out.split(" ", 1)
    assert rest == "[0]<stdout>:x\n", result
    time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")


def test_nothing_is_lost_when_much_is_written(run):
    result = run("-np", 2, "seq", 1, 20000)
    assert result.code == 0, result
    # mpirun may put one rank's text into a line of the other, at 4 KiB of unread output; with its
    # own --tag-output thousands of these lines would be missing.
    expected = "".join(f"[{r}]<stdout>:{n}\n" for r in (0, 1) for n in range(1, 20001))
    assert sorted(result.out) == sorted(expected)


def test_lines_of_several_ranks_on_standard_error_are_whole(run):
    text = "import sys\nfor n in range(4000): sys.stderr.write(f'{n} ' + 'x' * (n % 100) + chr(10))"
    result = run("-np", 3, "python3", "-c", text)
    assert result.code == 0, result
    expected = [f"[{r}]<stderr>:{n} " + "x" * (n % 100) for r in range(3) for n in range(4000)]
    assert sorted(result.err.splitlines()) == sorted(expected)


FLOOD = """
import sys
for n in range(20000):
    sys.stdout.write(f'{n} ' + 'x' * (n % 100) + chr(10))
    if n % 1000 == 0:
        sys.stdout.write(f'{n} ' + 'y' * 3900 + chr(10))
sys.stdout.write('last')
"""


@pytest.mark.parametrize("is_slow", [False, True])
def test_lines_of_several_ranks_on_standard_output_are_whole_and_in_order(is_slow):
    with subprocess.Popen([str(HOROVODRUN), "-np", "3", "python3", "-c", FLOOD], stdout=subprocess.PIPE, text=True) as process:
        if is_slow:
            time.sleep(1)
        out = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    out = out.replace("<stdout>:last", "<stdout>:last\n")  # other ranks' lines may go on behind it
    for rank in range(3):
        expected = []
        for n in range(20000):
            expected += [f"{n} " + "x" * (n % 100)] + ([f"{n} " + "y" * 3900] if n % 1000 == 0 else [])
        mark = f"[{rank}]<stdout>:"
        seen = [line[len(mark):] for line in out.splitlines() if line.startswith(mark)]
        assert seen == [*expected, "last"], rank


BOTH = """
import sys
for n in range(6000):
    for stream in (sys.stdout, sys.stderr):
        stream.write(f"{n} " + "x" * (n % 150) + ";" + chr(10))
        if n % 500 == 0:
            stream.write(f"{n} " + "y" * 3900 + ";" + chr(10))
"""


def read_with_pauses(words):
    """The same as subprocess.run() for a reader of both streams that pauses, each time longer than a line without an end is waited for."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        pieces = []
        while piece := process.stdout.read(1 << 18):
            pieces.append(piece)
            time.sleep(0.3)
    return subprocess.CompletedProcess(words, process.returncode, b"".join(pieces).decode())


@pytest.mark.parametrize("way", ["pipe", "paused pipe", "file", "two opens"])
def test_lines_of_both_streams_in_one_pipe_or_file_are_whole(tmp_path, way):
    path = tmp_path / "log"
    words = [str(HOROVODRUN), "-np", "4", "python3", "-c", BOTH]
    if way == "paused pipe":
        done = read_with_pauses(words)
        text = done.stdout
    elif way == "pipe":
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        text = done.stdout
    else:
        with path.open("a") as one, path.open("a") as two:
            done = subprocess.run(words, stdout=one, stderr=one if way == "file" else two, timeout=60, check=False)
        text = path.read_text()
    assert done.returncode == 0
    expected = [line for n in range(6000) for line in [f"{n} " + "x" * (n % 150) + ";"] + [f"{n} " + "y" * 3900 + ";"] * (n % 500 == 0)]
    seen = {f"[{rank}]<{stream}>": [] for rank in range(4) for stream in ("stdout", "stderr")}
    torn = []
    for line in text.splitlines():
        mark, _, rest = line.partition(":")
        seen.get(mark, torn).append(rest)
    assert not torn, torn[:3]
    for mark, lines in seen.items():
        assert lines == expected, mark


def test_a_line_without_an_end_holds_up_no_line_of_the_other_stream():
    text = "import sys, time; print('half', end='', flush=True); print('whole', file=sys.stderr, flush=True); time.sleep(600)"
    with subprocess.Popen([str(HOROVODRUN), "-np", "1", "python3", "-c", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        seen = b""
        while b"whole" not in seen or (openmpi.major() < 5 and b"half" not in seen):  # 5 passes on whole lines only
            seen += os.read(process.stdout.fileno(), 1000)
        process.terminate()


@pytest.mark.skipif(openmpi.major() == 5, reason="Open MPI 5 passes on whole lines only")
def test_progress_bars_of_several_ranks_hold_up_no_line_of_the_other_stream(script):
    # The wrapper of a rank waits for the end of a line for 100 ms; then four bars are one piece in 40 ms.
    program = script(RANK + """
time.sleep(rank * 0.04)
for n in range(100000):
    print(f"\\r{n}%", end="", file=sys.stderr, flush=True)
    if rank == 0 and n == 10:
        print("whole", flush=True)
    time.sleep(0.16)
""")
    with subprocess.Popen([str(HOROVODRUN), "-np", "4", str(program)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        seen = b""
        until = time.monotonic() + limits.seconds(10)
        while b"whole" not in seen and time.monotonic() < until:
            seen += os.read(process.stdout.fileno(), 1000)
        process.terminate()
        process.communicate(timeout=60)
    assert b"10%" in seen and b"whole" in seen, seen


def written_to_nobody(tmp_path, code=0, stderr=subprocess.DEVNULL):
    """A job that has written more than a pipe holds, and has ended, while nobody has read: horovodrun alone is left."""
    process = subprocess.Popen([str(HOROVODRUN), "-np", "1", "sh", "-c", f"seq 9000; exit {code}"], stdout=subprocess.PIPE, text=True,
                               stderr=stderr, env={**os.environ, "HOROVOD_TERMINATION_LOG": str(tmp_path / "log")})
    select.select([process.stdout], [], [])
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_for(lambda: not set(map(int, children.read_text().split())) - set(processes_with("--session-keep")), "mpirun has ended")
    return process


def fill(pipe):
    """Leaves no room for a single byte in it."""
    fd = os.open(f"/proc/self/fd/{pipe.fileno()}", os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(fd, b"x")
    os.close(fd)


def test_a_reader_who_is_slow_gets_all_that_was_written(tmp_path):
    with written_to_nobody(tmp_path) as process:
        time.sleep(3)  # longer than what mpirun has left in its pipes is waited for
        assert process.communicate(timeout=60)[0].splitlines() == [f"[0]<stdout>:{n}" for n in range(1, 9001)]
    assert process.returncode == 0


@pytest.mark.parametrize("stderr", [subprocess.DEVNULL, subprocess.STDOUT])
def test_a_reader_who_never_reads_keeps_no_job_from_being_stopped(tmp_path, stderr):
    with written_to_nobody(tmp_path, stderr=stderr) as process:
        fill(process.stdout)
        process.terminate()
        try:
            assert process.wait(timeout=10) == 128 + signal.SIGTERM
        finally:
            process.kill()


def test_the_last_line_waits_for_a_slow_reader_of_both_streams(tmp_path):
    with written_to_nobody(tmp_path, code=3, stderr=subprocess.STDOUT) as process:
        lines = process.communicate(timeout=60)[0].splitlines()
    assert process.returncode == 3
    assert lines[:-1] == [f"[0]<stdout>:{n}" for n in range(1, 9001)]
    assert lines[-1] == f"horovodrun: rank 0 on host {os.uname().nodename} exited with code 3, last output: 9000"


@pytest.mark.parametrize("code", [0, 3])
def test_a_reader_who_leaves_after_the_end_of_the_job_takes_no_result_with_it(tmp_path, code):
    (tmp_path / "log").touch()
    with written_to_nobody(tmp_path, code, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(timeout=60) == code, err
    says = f"horovodrun: rank 0 on host {os.uname().nodename} exited with code 3, last output: 9000\n" if code else ""
    assert err == says
    assert (tmp_path / "log").read_text().endswith(says)


# horovodrun has no room for all of it, and mpirun, which writes both streams in turn, is not blocked: a pipe holds 64 KiB.
MUCH = 'print(("x" * 999 + "\\n") * 165, end="", flush=True)'


@pytest.mark.skipif(openmpi.major() == 4, reason="with Open MPI 4 both streams come in one")
def test_a_reader_of_standard_output_who_pauses_holds_up_no_standard_error():
    text = f"import sys, time; {MUCH}; time.sleep(1); print('late', file=sys.stderr, flush=True); time.sleep(600)"
    with subprocess.Popen([str(HOROVODRUN), "-np", "1", "python3", "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        assert select.select([process.stderr], [], [], limits.seconds(10))[0], "nothing comes"
        assert process.stderr.readline().endswith("late\n")
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.skipif(openmpi.major() == 4, reason="with Open MPI 4 the report is behind what nobody reads")
def test_a_reader_who_leaves_after_a_rank_has_failed_does_not_hide_that(tmp_path):
    text = f"""{MUCH}
with open("{tmp_path}/new", "w") as new:
    new.write(f"{{os.getpid()}} {{os.getppid()}}")
os.rename("{tmp_path}/new", "{tmp_path}/pids")
os.kill(os.getpid(), signal.SIGKILL)
"""
    with subprocess.Popen([str(HOROVODRUN), "-np", "1", "python3", "-c", RANK + text], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        wait_for((tmp_path / "pids").exists, "the rank has written all")
        pids = (tmp_path / "pids").read_text().split()
        wait_for(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids), "the rank and its wrapper have ended")
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(timeout=60) == 128 + signal.SIGKILL, err
    assert "was killed by signal 9" in err.splitlines()[-1], err


def test_bytes_of_any_kind_pass_through_standard_output(tmp_path):
    data = os.urandom(200000) + b"\035\036\0\n" * 1000
    (tmp_path / "data").write_bytes(data)
    done = subprocess.run([str(HOROVODRUN), "-np", "1", "--no-prefix-output", "cat", str(tmp_path / "data")], stdout=subprocess.PIPE,
                          timeout=60, check=False)
    assert done.returncode == 0 and done.stdout == data


@pytest.mark.skipif(openmpi.major() == 5, reason="Open MPI 5 passes on whole lines only, but at a terminal")
def test_a_line_that_does_not_end_is_shown_before_the_program_ends(tmp_path):
    with subprocess.Popen([str(HOROVODRUN), "-np", "1", "sh", "-c", "printf 'half'; sleep 600"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        seen = b""
        while b"half" not in seen:
            seen += os.read(process.stdout.fileno(), 100)
        assert seen == b"[0]<stdout>:half"
        process.terminate()


def test_the_exit_code_is_that_of_the_first_rank_that_fails(run, script):
    program = script(RANK + """
if rank == 2:
    sys.exit(3)
time.sleep(60)
""")
    result = run("-np", 3, program)
    assert result.code == 3, result
    assert result.last == f"horovodrun: rank 2 on host {os.uname().nodename} exited with code 3, without output"
    assert result.seconds < limits.seconds(20)


@pytest.mark.parametrize("name, text", [
    ("SIGKILL", "killed by signal 9 (Killed)"),
    ("SIGSEGV", "killed by signal 11 (Segmentation fault)"),
])
def test_a_rank_that_a_signal_kills_is_named_with_the_signal(run, script, name, text):
    program = script(RANK + f"""
if rank == 1:
    os.kill(os.getpid(), signal.{name})
time.sleep(60)
""")
    result = run("-np", 2, program)
    assert result.code == 128 + getattr(signal, name), result
    assert result.last.endswith(f"rank 1 on host {os.uname().nodename} was {text}"), result


def test_a_wrapper_that_is_killed_is_still_reported(run, script):
    program = script(RANK + """
if rank == 1:
    os.kill(os.getppid(), signal.SIGKILL)
time.sleep(60)
""")
    result = run("-np", 2, program)
    assert result.code == 137, result
    assert "rank 1 on host" in result.last and "signal 9 (Killed)" in result.last, result


def memory_cgroup(limit_bytes):
    """A cgroup of our own below this process's, with that limit; None where there is none."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            folder = pathlib.Path("/sys/fs/cgroup/memory" + path)
            if not folder.is_dir():
                folder = pathlib.Path("/sys/fs/cgroup/memory")
            folder = folder / f"hvd-test-{os.getpid()}"
            folder.mkdir()
            (folder / "memory.limit_in_bytes").write_text(str(limit_bytes))
            return folder
    controllers = pathlib.Path("/sys/fs/cgroup/cgroup.subtree_control")
    if controllers.exists() and "memory" in controllers.read_text().split():
        folder = pathlib.Path(f"/sys/fs/cgroup/hvd-test-{os.getpid()}")
        folder.mkdir()
        (folder / "memory.max").write_text(str(limit_bytes))
        if (folder / "memory.swap.max").exists():
            (folder / "memory.swap.max").write_text("0")
        return folder
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="making a memory cgroup needs root")
def test_a_rank_that_the_kernel_kills_for_memory_is_named_with_the_limit(run, script):
    folder = memory_cgroup(64 << 20)
    if folder is None:
        pytest.skip("no memory controller")
    program = script(RANK + """
hog = []
while rank == 1:
    hog.append(bytearray(os.urandom(1 << 20)))
time.sleep(60)
""")
    try:
        result = run("-np", 2, program,
                     before=["sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh"])
    finally:
        wait_for(lambda: not (folder / "cgroup.procs").read_text(), "the cgroup is empty")
        folder.rmdir()
    assert result.code == 137, result
    assert result.last == (f"horovodrun: rank 1 on host {os.uname().nodename} was killed by "
                           "signal 9 (Killed): out of memory (limit 64Mi)"), result


def test_a_kill_without_memory_trouble_is_not_called_that(run):
    result = run("-np", 1, "sh", "-c", "kill -9 $$")
    assert result.code == 137 and "memory" not in result.last, result


ODD = ["a b", "", "it's", '"quoted"', "line\nbreak", "$HOME `id` ; & | > x", "*", "\\", "-np",
       "--", "é\t!"]


def test_arguments_arrive_as_they_were_written(run):
    result = run("-np", 1, "--no-prefix-output", "/usr/bin/python3", "-c",
                 "import json, sys; print(json.dumps(sys.argv[1:]))", *ODD)
    assert result.code == 0, result
    assert json.loads(result.out) == ODD


def test_the_environment_arrives_as_it_was_set(run):
    value = "a;b\nc='d' \"e\" %41 & $x \\ é"
    result = run("-np", 1, "--no-prefix-output", "-x", "FROM_FLAG=1;2 3", "-x", "FROM_ENV", "-x",
                 "CUDA_VISIBLE_DEVICES", "/usr/bin/python3", "-c",
                 "import json, os; print(json.dumps(dict(os.environ)))",
                 env={"FROM_ENV": value, "ALSO": value, "HOROVOD_CYCLE_TIME": "2",
                      "CUDA_VISIBLE_DEVICES": "5"})
    assert result.code == 0, result
    seen = json.loads(result.out)
    assert seen["FROM_FLAG"] == "1;2 3"
    assert seen["FROM_ENV"] == value and seen["ALSO"] == value
    assert seen["HOROVOD_CYCLE_TIME"] == "2" and seen["CUDA_VISIBLE_DEVICES"] == "5"
    assert seen["PATH"] == os.environ["PATH"]
    assert not [name for name in seen if name.startswith("HOROVOD_LAUNCH")]


def test_flags_set_the_variables_of_the_library(run, monkeypatch):
    monkeypatch.setenv("HOROVOD_AUTOTUNE", "0")
    result = run("-np", 1, "--no-prefix-output", "--autotune", "--autotune-log-file", "/tmp/a b.csv", "--fusion-threshold-mb=2",
                 "sh", "-c", 'echo "$HOROVOD_AUTOTUNE,$HOROVOD_AUTOTUNE_LOG,$HOROVOD_FUSION_THRESHOLD"')
    assert result.code == 0 and result.out.splitlines() == ["1,/tmp/a b.csv,2097152"], result


def test_a_large_environment_arrives_whole(run):
    value = "x%;" * 40000
    result = run("-np", 1, "--no-prefix-output", "/usr/bin/python3", "-c",
                 "import os; print(os.environ['LARGE'] == 'x%;' * 40000)", env={"LARGE": value})
    assert (result.code, result.out) == (0, "True\n"), result


def test_verbose_shows_the_command_but_no_value(run):
    result = run("-np", 1, "--verbose", "true", env={"MY_TOKEN": "do-not-show-this"})
    assert "horovodrun: mpirun " in result.err and "-x HOROVOD_LAUNCH_ENV" in result.err, result
    assert "do-not-show-this" not in result.err


@pytest.mark.skipif(openmpi.major() == 5, reason="Open MPI 5.0 does not pass on the end of standard input")
def test_standard_input_reaches_rank_0():
    done = subprocess.run([str(HOROVODRUN), "-np", "1", "--no-prefix-output", "cat"],
                          input="hello\n", text=True, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT],
                                     [signal.SIGTERM, signal.SIGTERM], [signal.SIGKILL]])
def test_a_signal_ends_all_ranks_and_leaves_no_process(signals, script):
    mark = f"mark-{uuid.uuid4()}"
    # Deaf to SIGTERM, and with a child of its own.
    program = script(RANK + """
import subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
subprocess.run(["sh", "-c", "sleep 600; :", *sys.argv[1:]])
""")
    with subprocess.Popen([str(HOROVODRUN), "-np", "2", str(program), mark],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        # horovodrun, mpirun, and for each rank wrapper, guard, program and its shell.
        wait_for(lambda: len(processes_with(mark)) >= 10, "the ranks run")
        for number in signals:
            process.send_signal(number)
            time.sleep(0.1)
        _, err = process.communicate(timeout=30)
    wait_for(lambda: not processes_with(mark), "no process is left")
    if signals[0] != signal.SIGKILL:
        assert process.returncode == 128 + signals[0], err
        assert "horovodrun: stopped by signal" in err.splitlines()[-1], err


def test_a_user_signal_is_passed_to_every_rank(script, tmp_path):
    program = script(RANK + f"""
def hit(*_):
    open("{tmp_path}/hit-%d" % rank, "w").close()
    sys.exit(0)
signal.signal(signal.SIGUSR1, hit)
open("{tmp_path}/up-%d" % rank, "w").close()
time.sleep(60)
""")
    with subprocess.Popen([str(HOROVODRUN), "-np", "2", str(program)]) as process:
        wait_for(lambda: len(list(tmp_path.glob("up-*"))) == 2, "the ranks run")
        process.send_signal(signal.SIGUSR1)
        assert process.wait(timeout=30) == 0
    assert len(list(tmp_path.glob("hit-*"))) == 2


# In a process namespace of its own: another process gets the number of an mpirun that has ended, while horovodrun waits for a reader.
REUSED = """
import pathlib, select, signal, subprocess, sys, time
job = "seq 9000; until test -e go; do sleep 0.1; done"
process = subprocess.Popen([sys.argv[1], "-np", "1", "sh", "-c", job], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
select.select([process.stdout], [], [])
def command(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # it has ended since
        return "--session-keep"
def others():
    pids = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in pids if "--session-keep" not in command(pid)]
while len(others()) != 1:  # one that was forked just now looks like horovodrun
    time.sleep(0.01)
mpirun, = others()
pathlib.Path("go").touch()
while others():
    time.sleep(0.01)
bystander = None
while not bystander or bystander.pid != mpirun:
    pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(mpirun - 1))
    bystander = subprocess.Popen(["sleep", "600"])
process.send_signal(signal.SIGUSR1)
process.terminate()
print(process.wait(), bystander.poll())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a process namespace needs root")
def test_a_user_signal_after_the_end_of_mpirun_reaches_no_other_process(tmp_path):
    done = subprocess.run(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private", "python3", "-c", REUSED,
                           str(HOROVODRUN)], cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, f"{128 + signal.SIGTERM} None\n"), done


def test_children_of_a_rank_that_failed_are_ended(run):
    mark = f"mark-{uuid.uuid4()}"
    result = run("-np", 1, "sh", "-c", "sh -c 'sleep 600; :' \"$0\" & exit 4", mark)
    assert result.code == 4, result
    wait_for(lambda: not processes_with(mark), "no process is left")


@pytest.mark.parametrize("code, arguments, says", [
    (2, ["-np", 2, "--log-level", "foo", "true"], 'flag --log-level: "foo" is not trace, debug'),
    (2, ["-np", 2, "--gloo-timeout", "true"], 'unknown flag "--gloo-timeout"'),
    (127, ["-np=2", "no-such-program-here"], 'program "no-such-program-here" is not in PATH'),
    (127, ["-np", 2, "./no-such-program-here"], 'program "./no-such-program-here" cannot be run: No such file'),
    (126, ["-np", 2, "/etc/passwd"], 'program "/etc/passwd" cannot be run: Permission denied'),
    (126, ["-np", 2, "/tmp"], 'program "/tmp" cannot be run: Is a directory'),
    (2, ["-np", 5, "-H", "localhost:4", "true"], "-np 5 is more than the 4 slots of 1 host"),
    (2, ["-np", 2, "-H", "localhost:x", "true"], 'host entry "localhost:x" (write HOST:SLOTS)'),
    (2, ["-np", 2, "-H", "a b:2", "true"], '"a b" is not a host name or address'),
    (2, ["-np", 2, "--hostfile", "/no/such/file", "true"], "cannot read /no/such/file"),
    (2, ["-np", 2, "--hostfile", "/proc/self/status", "true"], "hostfile /proc/self/status: line 1"),
    (2, ["-np", 2, "--network-interface", "nosuch0", "true"], "flag --network-interface: this host has no nosuch0"),
    (2, ["-np", 2, "--network-interfaces", "nosuch0,nosuch1", "true"], "this host has no nosuch0,nosuch1"),
    (2, ["-np", 1, "-x", "NO_SUCH_VARIABLE", "true"], "NO_SUCH_VARIABLE is not set here"),
])
def test_what_cannot_work_is_refused_before_anything_starts(run, code, arguments, says):
    result = run(*arguments)
    assert result.code == code and says in result.err, result
    assert len(result.err.splitlines()) == 1, result


def test_what_is_named_in_an_error_writes_nothing_on_a_terminal(run):
    for arguments in (["-np", 1, "--hostfile", "/no/\033[2Jsuch\r\u009bfile", "true"], ["-np", 1, "no\033]0;such\a\nprogram"],
                      ["--timeline-report", "/no/\033[2Jsuch", "/no/\nsuch"], ["--\033[2J", "true"],
                      ["-np", 1, "--output-filename", "/dev/null/\033[2J", "true"]):
        result = run(*arguments)
        assert result.code != 0 and result.err.endswith("\n"), result
        assert all(line.isprintable() for line in result.err.splitlines()), result


LISTENS = RANK + f"""
import ctypes
library = ctypes.CDLL("{BUILD}/worker/libhorovod.so")
assert library.horovod_init(None, 0, None, None, 0)
links = [os.readlink(f"/proc/self/fd/{{fd}}") for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{{fd}}")]
for table in "tcp", "tcp6", "udp", "udp6":
    for line in open(f"/proc/self/net/{{table}}").readlines()[1:]:
        words = line.split()
        if f"socket:[{{words[9]}}]" in links and (words[3] == "0A" or table.startswith("udp")):
            print(table, words[1])
library.horovod_shutdown()
"""


def test_ranks_of_one_host_open_no_port_unless_an_interface_is_named(run, script, monkeypatch):
    for name in ("OMPI_MCA_btl", "OMPI_MCA_pml"):
        monkeypatch.delenv(name, raising=False)
    result = run("-np", 2, "--no-prefix-output", script(LISTENS))
    assert (result.code, result.out) == (0, ""), result
    result = run("-np", 2, "--no-prefix-output", "--network-interface", "lo", script(LISTENS))
    assert result.code == 0 and "tcp" in result.out, result


@pytest.mark.parametrize("interfaces", ["nosuch0,lo", "127.0.0.0/8"])
def test_hosts_need_not_have_each_interface(run, interfaces):
    result = run("-np", 2, "--network-interfaces", interfaces, "true")
    assert result.code == 0, result


def test_a_missing_mpirun_is_answered_with_what_to_install(run, tmp_path):
    result = run("-np", 1, "/bin/true", env={"PATH": str(tmp_path)})
    assert result.code == 1 and "install Open MPI" in result.err, result


def test_the_mpirun_beside_it_is_used_where_path_has_none(tmp_path):
    """As in a virtual environment that is not activated. Open MPI 4 asks for an ssh, used or not."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "path").mkdir()
    shutil.copy2(HOROVODRUN, tmp_path / "bin")
    (tmp_path / "bin" / "mpirun").symlink_to(shutil.which("mpirun"))
    (tmp_path / "path" / "ssh").symlink_to(shutil.which("ssh"))
    done = subprocess.run([tmp_path / "bin" / "horovodrun", "-np", "1", "/bin/sh", "-c", "echo $PATH"], text=True,
                          env={**os.environ, "PATH": str(tmp_path / "path")}, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and f"{tmp_path}/bin:{tmp_path}/path" in done.stdout, done


def test_another_mpi_is_refused(run, tmp_path):
    fake = tmp_path / "mpirun"
    fake.write_text("#!/bin/sh\necho 'HYDRA build details: Version: 4.0.2'\n")
    fake.chmod(0o755)
    result = run("-np", 1, "/bin/true", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert result.code == 1 and "not Open MPI's" in result.err and "HYDRA" in result.err, result


def test_a_hostfile_decides_where_and_how_many(run, tmp_path):
    (tmp_path / "hostfile").write_text("# all here\nlocalhost slots=3\n")
    result = run("--hostfile", tmp_path / "hostfile", "echo", "x")
    assert result.code == 0 and result.out.count("\n") == 3, result


def configmap_volume(folder):
    """A folder as Kubernetes mounts a ConfigMap; returns publish(text), which exchanges what is in it."""
    (folder / "hostfile").symlink_to("..data/hostfile")

    def publish(text, version):
        (folder / version).mkdir()
        (folder / version / "hostfile").write_text(text)
        (folder / "..data_tmp").symlink_to(version)
        (folder / "..data_tmp").rename(folder / "..data")
    return publish


def test_a_hostfile_that_kubernetes_keeps_is_waited_for(tmp_path):
    publish = configmap_volume(tmp_path)
    publish("localhost slots=1\n", "..1")
    process = subprocess.Popen([HOROVODRUN, "-np", "2", "--hostfile", tmp_path / "hostfile", "echo", "x"], text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "waiting for hosts" in process.stderr.readline()
    publish("localhost slots=2\n", "..2")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and out.count("x") == 2, err


def test_the_wait_for_hosts_ends_with_the_start_timeout(run, tmp_path):
    configmap_volume(tmp_path)("localhost slots=1\n", "..1")
    result = run("-np", 2, "--start-timeout", 1, "--hostfile", tmp_path / "hostfile", "true")
    assert result.code != 0 and "-np 2 is more than the 1 slots" in result.last, result
    assert result.seconds >= 1


def test_version_and_help(run):
    assert run("--version").out.startswith("horovodrun 0.")
    assert "--hostfile" in run("--help").out
