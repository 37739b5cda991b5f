"""What would be waited for without end: a rank that does not come any more, a mpirun that does not end."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from conftest import BUILD, HOROVODRUN, own_processes_with, processes_with, wait_for

CULPRIT = BUILD / "tests" / "integration" / "launch" / "culprit"
PYTHON = BUILD / "python"
HOST = os.uname().nodename
WAITED_FOR = "and other ranks wait for it in horovod_init"


def started(hosts, way, n):
    """The words that start horovodrun with n ranks, and the host of rank 1."""
    if way == "one host":
        return [str(HOROVODRUN), "-np", str(n)], HOST
    return [*hosts.enter(0), str(HOROVODRUN), "-np", str(n), "-H", f"hvd-east:{n - 1},hvd-west:1", "-p", "2222", "-i",
            str(hosts.key)], hosts.NAMES[n == 2]


def run(command, **env):
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False)


# --- A rank that does not come to the next job -------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["one host", "two hosts"])
def test_a_rank_that_finalises_mpi_while_others_begin_the_next_job_is_named(hosts, way):
    command, host = started(hosts, way, 3)
    done = run([*command, str(CULPRIT)], CULPRIT_CAUSE="between", CULPRIT_RANK="1")
    assert done.stderr.splitlines()[-1] == f"horovodrun: rank 1 on host {host} is in MPI_Finalize, {WAITED_FOR}", done
    assert done.returncode == 1
    wait_for(lambda: not own_processes_with(str(CULPRIT)), "no process is left")


BETWEEN = """
import sys
import horovod.numpy as hvd
hvd.init()
rank = hvd.rank()
hvd.shutdown()
if rank == 1:
    ENDS
hvd.init()
"""


@pytest.mark.parametrize("end, words", [
    ("raise KeyError('oops')", f"failed: KeyError: 'oops', {WAITED_FOR}"),
    ("sys.exit('no data')", f"is in MPI_Finalize, {WAITED_FOR}"),
    ("sys.exit(0)", f"is in MPI_Finalize, {WAITED_FOR}"),
])
def test_a_python_program_that_ends_between_two_jobs_is_named(script, end, words):
    if not (PYTHON / "horovod" / "_core.abi3.so").exists():
        pytest.skip("the Python package is not built")
    program = script(BETWEEN.replace("ENDS", end))
    done = run([str(HOROVODRUN), "-np", "2", str(program)], PYTHONPATH=str(PYTHON))
    assert done.stderr.splitlines()[-1].replace("last output: no data, ", "") == f"horovodrun: rank 1 on host {HOST} {words}", done
    assert done.returncode == 1


def test_ranks_that_wait_for_each_other_alone_wait_for_nobody_who_has_left(hosts):
    command, _ = started(hosts, "one host", 3)
    done = run([*command, str(CULPRIT)], CULPRIT_CAUSE="aside", CULPRIT_RANK="1")
    assert (done.returncode, done.stderr) == (0, ""), done


# --- A rank that has not come, where others are in horovod_init already ---------------------------------------------------

SHORT = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "2", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "10"}
STOPPED = r"is stopped, and other ranks have waited for it in horovod_init for \d+ s"
NOT_COME = r"has not come to horovod_init for \d+ s, in which other ranks wait for it"


@pytest.mark.parametrize("way, cause, words", [
    ("one host", "still", STOPPED), ("one host", "init", STOPPED), ("two hosts", "still", STOPPED), ("two hosts", "late", NOT_COME)])
def test_a_rank_that_stands_still_before_mpi_is_there_is_named_and_ends_the_job(hosts, way, cause, words):
    command, host = started(hosts, way, 3)
    rank = 1 if way == "one host" else 2
    host = "localhost" if way == "one host" else hosts.NAMES[1]
    done = run([*command, str(CULPRIT)], CULPRIT_CAUSE=cause, CULPRIT_RANK=str(rank), **SHORT)
    named = [line for line in done.stderr.splitlines() if re.fullmatch(f"horovodrun: rank {rank} on host {host} {words}", line)]
    assert len(named) >= 2, done  # a warning, and the last line
    assert done.stderr.splitlines()[-1] == named[-1], done
    assert done.returncode == 1
    wait_for(lambda: not own_processes_with(str(CULPRIT)), "no process is left")


def test_a_rank_that_comes_late_is_named_and_the_job_goes_on(hosts):
    command, _ = started(hosts, "one host", 3)
    done = run([*command, str(CULPRIT)], CULPRIT_CAUSE="late", CULPRIT_RANK="1", HOROVOD_STALL_CHECK_TIME_SECONDS="2")
    assert re.fullmatch(f"horovodrun: rank 1 on host localhost {NOT_COME}\n", done.stderr), done
    assert done.returncode == 0


@pytest.mark.parametrize("way", ["one host", "two hosts"])
def test_a_rank_that_is_stopped_before_mpi_finalize_is_named_and_ends_the_job(hosts, way):
    command, host = started(hosts, way, 3)
    rank = 1 if way == "one host" else 2
    host = "localhost" if way == "one host" else hosts.NAMES[1]
    done = run([*command, str(CULPRIT)], CULPRIT_CAUSE="stays", CULPRIT_RANK=str(rank), **SHORT)
    said = rf"horovodrun: rank {rank} on host {host} is stopped, and other ranks have waited for it in MPI_Finalize for \d+ s"
    named = [line for line in done.stderr.splitlines() if re.fullmatch(said, line)]
    assert len(named) >= 2, done  # a warning, and the last line
    assert done.stderr.splitlines()[-1] == named[-1], done
    assert done.returncode == 1
    wait_for(lambda: not own_processes_with(str(CULPRIT)), "no process is left")


def test_a_rank_that_comes_late_to_mpi_finalize_is_named_and_ends_no_job(hosts):
    command, _ = started(hosts, "one host", 3)
    done = run([*command, str(CULPRIT)], CULPRIT_CAUSE="lingers", CULPRIT_RANK="1", **SHORT)
    said = r"rank 1 on host localhost has not come to MPI_Finalize for \d+ s, in which other ranks wait for it"
    assert re.fullmatch(f"horovodrun: {said}\n", done.stderr), done
    assert done.returncode == 0


def test_a_rank_that_comes_later_than_others_is_not_named_before_the_warning_time(hosts):
    command, _ = started(hosts, "one host", 3)
    done = run([*command, str(CULPRIT)], CULPRIT_CAUSE="late", CULPRIT_RANK="1")
    assert (done.returncode, done.stderr) == (0, ""), done


# Each rank that waits is heard of after 2 to 6 s, on a busy machine later; the launcher's own line would come after 10.
@pytest.mark.parametrize("shutdown, cause, words", [("0", "late", NOT_COME), ("8", "late", NOT_COME), ("8", "still", STOPPED)])
def test_where_the_program_has_initialised_mpi_the_rank_that_has_not_come_is_named_too(hosts, shutdown, cause, words):
    command, _ = started(hosts, "one host", 3)
    words = f"horovodrun: rank 1 on host localhost {words}"
    env = {**SHORT, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": shutdown, "CULPRIT_CAUSE": cause, "CULPRIT_RANK": "1", "CULPRIT_MPI": "1"}
    done = run([*command, str(CULPRIT)], **env)
    named = [line for line in done.stderr.splitlines() if re.fullmatch(words, line)]
    assert len(named) == 1, done
    if shutdown == "0":
        assert "horovod_init has waited for" in done.stderr, done  # the library's own words, without a name
    else:
        assert done.stderr.splitlines()[-1] == named[0], done
        assert done.returncode == 1


# --- A mpirun that does not end ----------------------------------------------------------------------------------------

# As the mpirun of the tests, but it never ends.
ENDLESS = """#!/bin/sh
MPIRUN "$@"
code=$?
case " $* " in *" --version "*) exit $code;; esac
TRAP
while :; do sleep 0.1; done
"""


@pytest.mark.parametrize("trap", ["", "trap '' TERM"])
def test_a_mpirun_that_does_not_end_after_a_failure_is_ended(tmp_path, trap):
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(ENDLESS.replace("MPIRUN", shutil.which("mpirun")).replace("TRAP", trap))
    mpirun.chmod(0o755)
    done = run([str(HOROVODRUN), "-np", "2", str(CULPRIT)], CULPRIT_CAUSE="exit", CULPRIT_RANK="1",
               PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.stderr.splitlines()[-1] == f"horovodrun: rank 1 on host {HOST} exited with code 3: no data", done
    assert done.returncode == 3
    assert "mpirun has not ended 10 s after a rank failed: it is stopped" in done.stderr, done
    wait_for(lambda: not processes_with(str(mpirun)), "no process is left")


def in_space_of(hosts, index, words):
    """Processes of one of the hosts with these words in their command line."""
    space = os.stat(f"/proc/{hosts.holders[index].pid}/ns/uts").st_ino
    found = []
    for pid in processes_with(words):
        try:
            if os.stat(f"/proc/{pid}/ns/uts").st_ino == space:
                found.append(pid)
        except OSError:
            pass
    return found


def lines_until(process, words):
    """Reads standard error up to the line with these words."""
    line = ""
    while words not in line:
        line = process.stderr.readline()
        assert line, "the job ended too soon"


def end_what_is_left(hosts):
    """What horovodrun could not reach on the other host."""
    for words in (str(CULPRIT), "orted", "prted"):
        for pid in in_space_of(hosts, 1, words):
            os.kill(pid, signal.SIGKILL)


def test_a_rank_that_is_cut_off_in_mpi_init_is_named(hosts):
    """Rank 0 comes late; before it does, the network of rank 2, which waits in MPI_Init, is gone."""
    link = [*hosts.enter(0), "ip", "link", "set", "hvd0"]
    command, _ = started(hosts, "two hosts", 3)
    env = {**os.environ, "CULPRIT_CAUSE": "late", "CULPRIT_RANK": "0", "HOROVOD_STALL_CHECK_TIME_SECONDS": "2",
           "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "26"}
    with subprocess.Popen([*command, str(CULPRIT)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines_until(process, "rank 0 on host hvd-east has not come")  # and rank 2 has
            subprocess.run([*link, "down"], check=True)
            _, err = process.communicate(timeout=120)
        finally:
            subprocess.run([*link, "up"], check=True)
            end_what_is_left(hosts)
    words = r"rank 2 on host hvd-west is not reporting, and other ranks have waited for it in horovod_init for \d+ s"
    assert re.fullmatch(f"horovodrun: {words}", err.splitlines()[-1]), err
    assert process.returncode == 1, err


@pytest.mark.parametrize("spread, others", [((1, 1), ""), ((2, 2), ""), ((1, 1), "handle"), ((2, 2), "handle")])
def test_a_host_whose_link_goes_down_is_not_waited_for(hosts, spread, others):
    """Whether the ranks that are left exit with 1, or handle the error and exit with 0."""
    link = [*hosts.enter(0), "ip", "link", "set", "hvd0"]
    names = ",".join(f"{name}:{n}" for name, n in zip(hosts.NAMES, spread))
    command = [*hosts.enter(0), str(HOROVODRUN), "-np", str(sum(spread)), "-H", names, "-p", "2222", "-i", str(hosts.key),
               str(CULPRIT)]
    env = {**os.environ, "CULPRIT_CAUSE": "none", "CULPRIT_RANK": "-1", "CULPRIT_OTHERS": others,
           "HOROVOD_STALL_CHECK_TIME_SECONDS": "2", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "4"}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            n_ready = 0
            while n_ready < sum(spread):
                line = process.stderr.readline()
                assert line, "the job ended too soon"
                n_ready += "under way" in line
            subprocess.run([*link, "down"], check=True)
            out, err = process.communicate(timeout=120)
            left_here = [pid for words in (str(CULPRIT), "hvd-west") for pid in in_space_of(hosts, 0, words)]
        finally:
            subprocess.run([*link, "up"], check=True)
            end_what_is_left(hosts)
    lost = [f"rank {rank} on host hvd-west is lost: " for rank in range(spread[0], sum(spread))]
    aborted = [f"rank {rank} on host hvd-east aborted the job: " for rank in range(spread[0])]  # as lost, or by the stalled tensor
    lost = [f"horovodrun: {words}" for words in (aborted if others else lost)]
    last = err.splitlines()[-1]
    assert last.startswith(tuple(lost)), err
    for rank in range(spread[0], sum(spread)):
        assert f"ank {rank} on host hvd-west" in last, err
    assert "-----" not in err + out and "***" not in err + out, err + out
    assert process.returncode == 1, err
    assert not left_here, left_here
