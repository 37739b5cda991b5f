"""A stall ends the job: with 0 where every rank handles it and leaves, else with a name."""
import os
import re
import signal
import subprocess
import threading

import pytest
from test_mpi import BUILD, PROGRAMS, environment, limits

TIMEOUT = 90
# Who has not answered for half of the first one is silent, and ends the job otherwise: a busy machine has twice the time.
CHECK_S = 2
SHUTDOWN_S = 3
LAUNCHERS = {"mpirun": ["mpirun", "--allow-run-as-root", "--oversubscribe"],
             "horovodrun": [str(BUILD / "worker" / "horovodrun"), "--no-prefix-output"]}
STALL = r"Tensor \S+ is stalled for longer than \S+ seconds \(HOROVOD_STALL_SHUTDOWN_TIME_SECONDS\): it waits for"


@pytest.fixture(name="stalled")
def fixture_stalled(tmp_path):
    """stalled(launcher, what, n, victim, **settings): the job's exit code, and what it wrote."""
    def play(launcher, what, n=3, victim=1, **more):
        slowness = min(2, limits.seconds(1))
        env = environment(HOROVOD_STALL_CHECK_TIME_SECONDS=f"{CHECK_S * slowness:.1f}",
                          HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=f"{SHUTDOWN_S * slowness:.1f}", HOROVOD_DYNAMIC_PROCESS_SETS="1", MARK=str(tmp_path / "mark"), **more)
        text = ""
        command = [*LAUNCHERS[launcher], "-np", str(n), str(PROGRAMS / "mpi_stalled"), what, str(victim)]
        with subprocess.Popen(command, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as job:
            timer = threading.Timer(limits.seconds(TIMEOUT), job.kill)
            timer.start()
            try:
                text = job.stdout.read()
                code = job.wait()
            finally:
                timer.cancel()
                for pid in re.findall(rf"here {victim} (\d+)", text):
                    end_stopped(int(pid))
        return code, text

    return play


def end_stopped(pid):
    """A rank that is stopped may outlive its mpirun."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"mpi_stalled" in file.read():
                os.kill(pid, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        pass


def assert_all_told(text, ranks):
    told = dict(re.findall(r"^told (\d+) HOROVOD_ABORTED: (.*)", text, re.M))
    assert set(map(int, told)) == set(ranks), text
    for line in told.values():
        assert re.match(f"Horovod has been shut down. {STALL} rank", line), text
    # mpirun ends all as soon as one has left without MPI_Finalize.
    assert set(map(int, re.findall(r"^down (\d+)", text, re.M))) & set(ranks), text


def assert_left_in_order(code, text, n):
    assert code == 0, text
    assert_all_told(text, range(n))
    assert sorted(map(int, re.findall(r"^down (\d+)", text, re.M))) == list(range(n)), text
    assert re.search(rf"level=error .*{STALL} rank .*Will shutdown", text), text
    assert "did not call" not in text and " is lost" not in text, text


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("what, n, victim, more", [
    ("other", 3, 1, {}), ("other", 2, 0, {"HOROVOD_SHM": "0"}), ("late", 4, 0, {"HOROVOD_COORDINATOR_FANOUT": "1"}),
    ("late", 3, 2, {}), ("set", 4, 2, {}), ("set", 3, 1, {"HOROVOD_SHM": "0"}), ("late", 3, 1, {"HOROVOD_CACHE_CAPACITY": "0"}), ("late", 3, 1, {"STALLED_OWNS": "1"})])
def test_a_stall_that_every_rank_handles_ends_the_job_with_0(stalled, launcher, what, n, victim, more):
    assert_left_in_order(*stalled(launcher, what, n, victim, **more), n)


@pytest.mark.parametrize("victim", [0, 1])
def test_of_a_group_the_tensor_that_is_missing_is_named(stalled, victim):
    code, text = stalled("horovodrun", "group", 3, victim)
    assert_left_in_order(code, text, 3)
    assert re.search(rf"level=error .*Tensor second is stalled .*: it waits for rank {victim} on host \S+\. Will shutdown", text), text


@pytest.mark.parametrize("more", [{}, {"STALLED_OWNS": "1"}], ids=["", "the_program_owns_mpi"])
def test_after_a_stall_another_job_begins_in_the_same_processes(stalled, more):
    code, text = stalled("horovodrun", "again", **more)
    assert_left_in_order(code, text, 3)
    assert sorted(re.findall(r"^again (\d)", text, re.M)) == ["0", "1", "2"], text


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("n, victim, more", [(3, 1, {}), (3, 0, {}), (4, 3, {"HOROVOD_COORDINATOR_FANOUT": "1"})])
def test_a_rank_that_does_not_leave_after_a_stall_is_named_and_holds_nobody(stalled, launcher, n, victim, more):
    code, text = stalled(launcher, "stay", n, victim, **more)
    assert code != 0, text
    assert_all_told(text, set(range(n)) - {victim})
    assert re.search(rf"level=error .*Rank {victim} on host \S+ did not call horovod_shutdown in the \S+ seconds since the "
                     rf"job was to end: {STALL} rank {victim} on host", text), text
    if launcher == "horovodrun":
        last = text.rstrip().splitlines()[-1]
        assert re.search(rf"aborted the job: Rank {victim} on host .*{STALL} rank {victim} on host \S+$", last), text


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_is_stopped_after_a_stall_is_named_and_holds_nobody(stalled, victim):
    code, text = stalled("horovodrun", "hang", 3, victim)
    assert code != 0, text
    assert re.search(rf"Rank {victim} on host \S+ is lost: it has not answered for \S+ seconds while the job shuts down",
                     text.rstrip().splitlines()[-1]), text
    assert_all_told(text.replace(f"told {victim}", ""), {0, 1, 2} - {victim})


def test_nobody_waits_after_a_stall_for_a_rank_that_was_stopped_before(stalled):
    code, text = stalled("horovodrun", "stop")
    assert code != 0, text
    assert_all_told(text, {0, 2})
    assert "did not call" not in text and "while the job shuts down" not in text, text
    assert re.search(f"{STALL} rank 1 on host", text.rstrip().splitlines()[-1]), text


@pytest.mark.parametrize("what", ["fail", "quit"])
def test_a_stall_that_ranks_do_not_survive_names_whom_they_waited_for(stalled, what):
    code, text = stalled("horovodrun", what)
    assert code == 1, text
    last = text.rstrip().splitlines()[-1]
    assert re.fullmatch(rf"horovodrun: rank 1 on host \S+ kept other ranks waiting: {STALL} rank 1 on host \S+", last), text
