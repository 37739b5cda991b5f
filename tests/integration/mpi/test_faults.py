"""A rank that ends badly: the others are told soon, by name, and can end."""
import re
import subprocess
import time

import pytest

from test_mpi import PROGRAMS, limits, mpirun

# Seconds until every other rank has been told, and until it has shut down: generous, for machines with more ranks than processors.
BOUND = 10


def faults(n, when, how, victim, ms, *options, **extra):
    """Runs it so that the launcher lets the others go on; what each said."""
    result = mpirun(n, PROGRAMS / "mpi_faults", when, how, victim, ms, options=["--enable-recovery", *options], **extra)
    told = re.findall(r"told: (\w+) after ([\d.]+) s: (.*)", result.stdout)
    down = re.findall(r"down: HOROVOD_OK after ([\d.]+) s: another", result.stdout)
    return told, down, result


def assert_told(n, victim, ms, told, down, result):
    everything = result.stdout + result.stderr
    assert len(told) == n - 1, everything
    assert len(down) == n - 1, f"a rank hung in horovod_shutdown: {everything}"
    for status, seconds, message in told:
        assert status == "HOROVOD_ABORTED", message
        assert re.match(rf"Horovod has been shut down\. Rank {victim} on host \S+ is lost: .*tensor missing", message), message
        assert float(seconds) < BOUND + ms / 1000, message
    for seconds in down:
        assert float(seconds) < BOUND, everything


@pytest.mark.parametrize("how", ["kill", "exit"])
@pytest.mark.parametrize("n, victim", [(2, 0), (2, 1), (4, 0), (4, 3)])
def test_a_rank_that_ends_while_the_others_wait_is_named_to_them(n, victim, how):
    assert_told(n, victim, 300, *faults(n, "waiting", how, victim, 300))


@pytest.mark.parametrize("n, victim", [(2, 0), (3, 2)])
def test_a_rank_that_ends_while_the_others_sleep_is_named_when_they_wake(n, victim):
    assert_told(n, victim, 800, *faults(n, "idle", "kill", victim, 300))


@pytest.mark.parametrize("ms", [40, 170, 333, 501])
@pytest.mark.parametrize("n, victim", [(2, 1), (3, 0)])
def test_a_rank_that_is_killed_in_the_middle_of_moving_data_is_named(n, victim, ms):
    assert_told(n, victim, ms, *faults(n, "moving", "kill", victim, ms))


@pytest.mark.parametrize("n, victim", [(2, 0), (4, 3)])
def test_a_rank_that_is_killed_between_small_tensors_is_named(n, victim):
    assert_told(n, victim, 150, *faults(n, "small", "kill", victim, 150))


@pytest.mark.parametrize("victim", [0, 3])
def test_a_rank_that_is_killed_in_an_adasum_is_named(victim):
    assert_told(4, victim, 250, *faults(4, "adasum", "kill", victim, 250))


# Where no two ranks share memory, MPI reports no lost rank: the others watch its process.
@pytest.mark.parametrize("n, victim, when, how, ms", [
    (2, 0, "waiting", "exit", 100), (2, 1, "moving", "kill", 170), (3, 1, "idle", "kill", 100), (3, 0, "moving", "kill", 40),
    (4, 2, "waiting", "kill", 100), (4, 3, "small", "kill", 150), (4, 1, "adasum", "kill", 150)])
def test_a_rank_that_ends_is_named_to_ranks_that_share_no_memory(n, victim, when, how, ms):
    assert_told(n, victim, ms + 500, *faults(n, when, how, victim, ms, HOROVOD_SHM="0"))


@pytest.mark.parametrize("shm", ["0", "1"])
def test_ranks_that_submit_different_tensors_end_with_their_names_when_that_is_asked_for(shm):
    told, down, result = faults(3, "diverging", "none", 1, 0, HOROVOD_SHM=shm, HOROVOD_STALL_CHECK_TIME_SECONDS="0.5",
                                HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="1")
    assert len(told) == 3, result.stdout + result.stderr
    for status, seconds, message in told:
        assert status == "HOROVOD_ABORTED", message
        assert "missing" in message or "other" in message, message
        assert float(seconds) < BOUND


@pytest.mark.parametrize("shm", ["0", "1"])
@pytest.mark.parametrize("n", [2, 4])
def test_the_launcher_ends_a_job_that_lost_a_rank(n, shm):
    since = time.monotonic()
    result = mpirun(n, PROGRAMS / "mpi_faults", "waiting", "kill", n - 1, 200, HOROVOD_SHM=shm)
    assert result.returncode != 0
    assert time.monotonic() - since < limits.seconds(2 * BOUND)


@pytest.mark.parametrize("bad", [0, 2])
@pytest.mark.parametrize("name, value, words", [
    ("HOROVOD_CYCLE_TIME", "fast", "is not a number of milliseconds"),
    ("HOROVOD_THREAD_AFFINITY", "99999", "is not a list of processor numbers"),
    ("HOROVOD_THREAD_AFFINITY", "4095,4095,4095", "processor 4095 cannot be used on this host"),
])
def test_a_rank_that_cannot_begin_makes_horovod_init_fail_on_every_rank(bad, name, value, words):
    program = [PROGRAMS / "mpi_faults", "waiting", "none", -1, 0]
    parts = []
    for rank in range(3):
        # Not -x: with Open MPI 5 it speaks to the programs behind the next colon too.
        parts += ([":", "-np", 1] if rank else []) + (["env", f"{name}={value}"] if rank == bad else []) + program
    result = mpirun(1, *parts)
    told = re.findall(r"init: (\w+) after ([\d.]+) s: (.*)", result.stdout)
    assert len(told) == 3, result.stdout + result.stderr
    assert sum(f"Rank {bad} on host " in message for _, _, message in told) == 2, told
    for status, _, message in told:
        assert status != "HOROVOD_OK"
        assert words in message, message


def test_after_an_abort_a_new_job_is_refused_with_the_reason():
    result = mpirun(2, PROGRAMS / "mpi_runtime", "after_abort", options=["--enable-recovery"])
    assert "after an abort: as it should be" in result.stdout, result.stdout + result.stderr


def test_the_program_says_how_it_is_used():
    assert subprocess.run([PROGRAMS / "mpi_faults"], check=False).returncode == 2
