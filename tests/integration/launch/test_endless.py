"""A mpirun that does not end, and hosts that cannot be reached any more."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from conftest import HOROVODRUN, processes_with, uts_space, wait_for
from hanging import CULPRIT, HOST, run, started

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
    space = uts_space(hosts.holders[index].pid)
    return [pid for pid in processes_with(words) if uts_space(pid) == space]


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
