"""What would be waited for without end: a rank that does not come any more."""

import re

import pytest

from conftest import BUILD, HOROVODRUN, own_processes_with, wait_for
from hanging import CULPRIT, HOST, run, started

PYTHON = BUILD / "python"
WAITED_FOR = "and other ranks wait for it in horovod_init"


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
