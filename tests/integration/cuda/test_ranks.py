"""Ranks with a GPU each, across processes, over the doubles of the driver and of NCCL: what the program gpu_ranks says."""
import os
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "integration" / "mpi"))
from test_mpi import BUILD, assert_ok, mpirun  # noqa: E402

DOUBLES = BUILD / "tests" / "fake" / "gpu"
N_GPUS = 5


PROGRAM = BUILD / "tests" / "integration" / "cuda" / "gpu_ranks"
PATH = os.pathsep.join(filter(None, [str(DOUBLES), os.environ.get("LD_LIBRARY_PATH")]))


def ranks(n, mode, *options, **extra):
    return mpirun(n, PROGRAM, mode, options=options, LD_LIBRARY_PATH=PATH,
                  **{"HVD_FAKE_GPUS": str(N_GPUS), "HOROVOD_DYNAMIC_PROCESS_SETS": "1", **extra})


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_collectives_of_all_types_are_those_of_the_host(n):
    assert_ok(ranks(n, "collectives"))


@pytest.mark.parametrize("n", [2, 3])
def test_without_nccl_results_have_the_bits_of_the_host(n):
    assert_ok(ranks(n, "collectives", HOROVOD_GPU_OPERATIONS="MPI"))


@pytest.mark.parametrize("setting, says", [("HOROVOD_GPU_OPERATIONS=MPI", ""),
                                           ("HVD_FAKE_NCCL_VERSION=21703", "of rank 0 has no NCCL that can be used (NCCL 21703 is too old")])
def test_one_rank_without_nccl_stages_the_tensors_of_all(setting, says):
    program = [BUILD / "tests" / "integration" / "cuda" / "gpu_ranks", "steps"]
    result = ranks(1, "steps", "env", setting, *program, ":", "-np", "2")
    assert_ok(result)
    assert says in result.stderr and result.stderr.count("has no NCCL") == bool(says), result.stderr


def test_a_gpu_that_is_too_old_is_refused_with_a_sentence():
    result = ranks(1, "steps", HVD_FAKE_GPU_CAPABILITY="52")
    assert result.returncode == 1 and "has compute capability 5.2, and this library needs 6.0" in result.stderr, result.stderr


@pytest.mark.parametrize("waits", ["0", "1"])
@pytest.mark.parametrize("n", [1, 3])
def test_steps_of_a_training_loop(n, waits):
    assert_ok(ranks(n, "steps", HOROVOD_ENABLE_ASYNC_COMPLETION=waits))


@pytest.mark.parametrize("n", [2, 4])
def test_process_sets_work_side_by_side(n):
    assert_ok(ranks(n, "sets"))


def test_a_job_may_make_more_sets_than_a_gpu_has_room_for_at_once():
    assert_ok(ranks(3, "many_sets"))


@pytest.mark.parametrize("n, route", [(3, "NCCL"), (3, "MPI"), (4, "NCCL")])
def test_random_collectives_of_sets_and_of_the_job(n, route):
    assert_ok(ranks(n, "random", HOROVOD_GPU_OPERATIONS=route))


@pytest.mark.parametrize("n", [2, 4])
def test_ranks_join_before_they_have_used_a_gpu(n):
    assert_ok(ranks(n, "join"))


def test_a_rank_with_its_tensor_on_the_host_is_named():
    assert_ok(ranks(3, "mixed"))


@pytest.mark.parametrize("route", ["NCCL", "MPI"])
def test_outputs_in_memory_of_the_program_must_be_on_the_gpu(route):
    result = ranks(2, "callbacks", "--enable-recovery", HOROVOD_GPU_OPERATIONS=route)
    said = result.stdout + result.stderr
    assert said.count("is content") == 2, said


@pytest.mark.parametrize("n", [1, 2])
def test_wrong_calls_are_refused_on_every_rank(n):
    assert_ok(ranks(n, "refusals"))


def test_jobs_follow_one_another_and_outputs_outlive_them():
    assert_ok(ranks(2, "jobs"))


@pytest.mark.parametrize("route", ["NCCL", "MPI"])
def test_a_killed_rank_ends_the_work_that_waits_for_it_on_the_gpu(route):
    result = ranks(3, "killed", "--enable-recovery", HVD_FAKE_GPU_DELAY_US="400000", HOROVOD_GPU_OPERATIONS=route)
    told = re.findall(r"rank (\d) knows: (.*)", result.stdout + result.stderr)
    assert {rank for rank, _ in told} == {"0", "1"}, result.stdout + result.stderr
    assert all("ank 2 on host " in text and "lost" in text for _, text in told), told


@pytest.mark.parametrize("checks", [{}, {"HOROVOD_STALL_CHECK_DISABLE": "1"}, {"HOROVOD_SHM": "0"}], ids=["", "no-checks", "no-shm"])
@pytest.mark.parametrize("waiting", ["waits", "synchronizations"])
def test_a_killed_rank_is_noticed_by_ranks_that_wait_for_their_gpus(waiting, checks):
    result = ranks(3, f"killed_beside_{waiting}", "--enable-recovery", HVD_FAKE_GPU_DELAY_US="400000", **checks)
    told = re.findall(r"rank (\d) knows: (.*)", result.stdout + result.stderr)
    assert {rank for rank, _ in told} == {"0", "1"}, result.stdout + result.stderr
    assert all("ank 2 on host " in text and "lost" in text for _, text in told), told


def test_the_rank_whose_gpu_delays_the_others_is_named_and_ends_the_job():
    result = ranks(3, "late", "--enable-recovery", HOROVOD_STALL_CHECK_TIME_SECONDS="1", HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="2")
    late = (r"ensor gradient \(ALLREDUCE\) has been in transfer for [.\d]+ seconds(?: and has not moved for [.\d]+ seconds)?: "
            r"the GPU of rank 2 on host \S+ has not reached it: the program's work before it is not done")
    output = result.stdout + result.stderr
    assert len(re.findall(rf'level=warn .*"T{late}"', output)) == 3, output
    assert set(re.findall(rf"rank (\d) knows: [^\n]*down\. T{late}", output)) == {"0", "1", "2"}, output  # and no rank in front
