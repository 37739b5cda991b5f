"""What would be waited for without end: a rank that does not come any more."""

import os
import subprocess

import pytest

from conftest import BUILD, HOROVODRUN, processes_with, wait_for

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
    wait_for(lambda: not processes_with(str(CULPRIT)), "no process is left")


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
