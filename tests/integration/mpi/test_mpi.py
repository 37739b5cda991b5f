"""The runtime under mpirun: every behaviour is a mode of the program mpi_runtime."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()
PROGRAMS = BUILD / "tests" / "integration" / "mpi"
LIBRARY = BUILD / "worker" / "libhorovod.so"
SANITIZERS = ROOT / "tests" / "sanitizers"
TIMEOUT = 120

sys.path.insert(0, str(ROOT / "tests" / "support"))
import limits  # noqa: E402  (the path above)
import streams  # noqa: E402


def environment(**extra):
    env = dict(os.environ)
    # Open MPI has no frame pointers, and is not instrumented: the thread sanitizer cannot see its locks. What it leaks has the name
    # of its library within 10 frames; each rank would read the debug information of all libraries to name functions too, which
    # conftest.py does for tests that fail.
    for name, value in {
        "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:fast_unwind_on_malloc=0:malloc_context_size=10:symbolize=0",
        "LSAN_OPTIONS": f"suppressions={SANITIZERS}/lsan.supp:print_suppressions=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TSAN_OPTIONS": f"suppressions={SANITIZERS}/tsan.supp:ignore_noninstrumented_modules=1",
    }.items():
        env[name] = f"{env[name]}:{value}" if env.get(name) else value
    for name in [name for name in env if name.startswith("HOROVOD_")]:
        del env[name]
    env.update(extra)
    return env


def mpirun(n, *command, options=(), **extra):
    """The completed job of n ranks, whose output stands rank by rank before mpirun's own; `errors` has that of each rank.
    options: mpirun's."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(n), *options, *streams.apart(folder, command)],
            env=environment(**extra), capture_output=True, text=True, timeout=limits.seconds(TIMEOUT), check=False)
        streams.add_written(folder, done)
    return done


def runtime(n, mode, **extra):
    return mpirun(n, PROGRAMS / "mpi_runtime", mode, **extra)


def assert_ok(result):
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("mode", ["values", "gather", "threads", "arguments", "reuse", "again", "waits", "callbacks", "jobs"])
def test_behaviour_holds_on_every_rank(mode, n):
    assert_ok(runtime(n, mode))


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("shm", ["0", "1"])
def test_every_kind_of_collective_works_with_and_without_shared_memory(n, shm):
    assert_ok(runtime(n, "kinds", HOROVOD_SHM=shm))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("shm", ["0", "1"])
@pytest.mark.parametrize("fusion", [{}, {"HOROVOD_FUSION_THRESHOLD": "0"}], ids=["fused", "apart"])
def test_memory_of_several_tensors_is_reduced_as_if_each_were_alone(n, shm, fusion):
    assert_ok(runtime(n, "tied", HOROVOD_SHM=shm, **fusion))


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("shm", ["0", "1"])
def test_process_sets_work_side_by_side_with_and_without_shared_memory(n, shm):
    assert_ok(runtime(n, "sets", HOROVOD_SHM=shm))


def test_process_sets_change_only_where_that_was_asked_for():
    result = runtime(3, "fixed_sets")
    assert_ok(result)
    assert "Set HOROVOD_DYNAMIC_PROCESS_SETS=1 to allow adding process sets" in result.stderr


@pytest.mark.parametrize("name, value", [
    ("HOROVOD_DISABLE_GROUP_FUSION", 1), ("HOROVOD_DYNAMIC_PROCESS_SETS", 1), ("HOROVOD_ADASUM_MPI_CHUNK_SIZE", 4096),
    ("HOROVOD_COORDINATOR_FANOUT", 1), ("HOROVOD_MPI_ALLREDUCE_TABLE", "*:100:200"), ("HOROVOD_TORUS_ALLREDUCE", 1),
    ("HOROVOD_HIERARCHICAL_ALLREDUCE", 1)])
def test_ranks_with_settings_that_cannot_go_together_are_told_so(name, value):
    program = [PROGRAMS / "mpi_runtime", "refused"]
    result = mpirun(1, "env", f"{name}={value}", *program, ":", "-np", "2", *program)
    assert_ok(result)
    assert result.stdout.count(f"The ranks differ in {name}: ") == 3


def test_a_torus_on_one_rank_and_a_hierarchy_on_the_others_cannot_go_together():
    program = [PROGRAMS / "mpi_runtime", "refused"]
    result = mpirun(1, "env", "HOROVOD_TORUS_ALLREDUCE=1", *program, ":", "-np", "2", "env", "HOROVOD_HIERARCHICAL_ALLREDUCE=1", *program)
    assert_ok(result)
    assert result.stdout.count("The ranks differ in HOROVOD_TORUS_ALLREDUCE, HOROVOD_HIERARCHICAL_ALLREDUCE: ") == 3


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_jobs_of_some_of_the_processes_run_side_by_side(n):
    assert_ok(runtime(n, "halves"))


@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.parametrize("shm", ["0", "1"])
def test_a_job_and_its_process_sets_may_be_communicators(n, shm):
    assert_ok(runtime(n, "comms", HOROVOD_SHM=shm))


@pytest.mark.parametrize("shm", ["0", "1"])
def test_a_process_that_is_left_out_of_the_job_is_told_so_and_ends_well(shm):
    assert_ok(runtime(4, "some", HOROVOD_SHM=shm))


@pytest.mark.parametrize("shm", ["0", "1"])
def test_a_forked_process_is_no_part_of_the_job_and_harms_nothing(shm, tmp_path):
    timeline = tmp_path / "timeline.%d.json"
    assert_ok(runtime(2, "fork", HOROVOD_SHM=shm, HOROVOD_TIMELINE=str(timeline)))
    for rank in range(2):
        assert json.loads((tmp_path / f"timeline.{rank}.json").read_text())


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("shm", ["0", "1"])
def test_a_process_that_a_rank_started_is_told_that_the_rank_has_the_place(shm, n):
    assert_ok(runtime(n, "started", HOROVOD_SHM=shm))


# What a rank may find in HOROVOD_RANK_PROCESS: a process of a job around it, its own from before an exec, rubbish.
FOUND = {"itself": "$$ $PMIX_RANK $PMIX_NAMESPACE", "gone": "$(sh -c 'echo $$') $PMIX_RANK $PMIX_NAMESPACE",
         "another-rank": "$PPID $((PMIX_RANK + 1)) $PMIX_NAMESPACE", "another-job": "$PPID $PMIX_RANK x$PMIX_NAMESPACE",
         "no-place": "$PPID", "no-process": "-1 $PMIX_RANK $PMIX_NAMESPACE", "empty": "", "text": "all of them"}


@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND.keys())
def test_a_rank_joins_whatever_else_has_left_the_variable(found):
    assert_ok(mpirun(2, "sh", "-c", f'export HOROVOD_RANK_PROCESS="{found}"; exec "$0" gather', PROGRAMS / "mpi_runtime"))


def test_a_living_process_in_the_same_place_is_refused():
    assert_ok(mpirun(2, "sh", "-c", 'export HVD_TEST_PARENT=$PMIX_RANK\n'
                     'HOROVOD_RANK_PROCESS="$$ $PMIX_RANK $PMIX_NAMESPACE" "$0" inside || exit 1', PROGRAMS / "mpi_runtime"))


def test_a_process_alone_may_start_others_that_are_alone():
    assert_ok(subprocess.run([PROGRAMS / "mpi_runtime", "alone"], env=environment(), capture_output=True, text=True,
                             timeout=limits.seconds(TIMEOUT), check=False))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_communicators_that_cannot_be_process_sets_are_refused_on_every_rank(n):
    assert_ok(runtime(n, "bad_comms"))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("shm", ["0", "1"])
def test_adasum_works_over_two_to_the_k_ranks_and_is_refused_over_others(n, shm):
    assert_ok(runtime(n, "adasum", HOROVOD_SHM=shm))


def test_adasum_works_in_messages_of_any_size():
    assert_ok(runtime(4, "adasum", HOROVOD_ADASUM_MPI_CHUNK_SIZE="4096"))


@pytest.mark.parametrize("n", [2, 4])
def test_a_mismatch_reaches_every_rank_and_the_job_goes_on(n):
    assert_ok(runtime(n, "mismatch"))


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("shm", ["0", "1"])
def test_what_one_rank_refuses_fails_on_the_others_with_its_reason(n, shm):
    assert_ok(runtime(n, "refusals", HOROVOD_SHM=shm, HOROVOD_DYNAMIC_PROCESS_SETS="1"))


@pytest.mark.parametrize("n", [2, 4])
def test_a_rank_that_shuts_down_is_named_to_the_others(n):
    assert_ok(runtime(n, "leave"))


@pytest.mark.parametrize("n", [2, 4])
def test_a_rank_that_exits_ends_the_job_instead_of_hanging_it(n):
    result = runtime(n, "exit")
    assert result.returncode != 0
    assert "never" not in result.stderr or "Horovod has been shut down" in result.stderr


def test_mpi_initialised_for_one_thread_is_refused_with_the_level_found():
    assert_ok(runtime(2, "single"))


def test_without_mpi_threads_only_the_main_thread_may_wait():
    assert_ok(runtime(2, "funneled", HOROVOD_MPI_THREADS_DISABLE="1"))


def test_a_program_started_alone_is_a_job_of_one():
    result = subprocess.run([PROGRAMS / "mpi_runtime", "values"], env=environment(),
                            capture_output=True, text=True, timeout=limits.seconds(TIMEOUT), check=False)
    assert_ok(result)


@pytest.mark.parametrize("cycle", ["0", "0.5", "50"])
def test_the_cycle_time_changes_no_result(cycle):
    assert_ok(runtime(2, "threads", HOROVOD_CYCLE_TIME=cycle))


@pytest.mark.parametrize("name, value, words", [
    ("HOROVOD_CYCLE_TIME", "fast", "not a number of milliseconds"),
    ("HOROVOD_CYCLE_TIME", "-1", "not a number of milliseconds"),
    ("HOROVOD_STALL_CHECK_TIME_SECONDS", "1m", "not a number of seconds"),
    ("HOROVOD_LOG_LEVEL", "loud", "trace, debug, info"),
])
def test_a_setting_that_is_none_is_refused_by_name(name, value, words):
    result = subprocess.run([PROGRAMS / "mpi_runtime", "refused"], env=environment(**{name: value}),
                            capture_output=True, text=True, timeout=limits.seconds(TIMEOUT), check=False)
    assert_ok(result)
    assert f"{name}={value}" in result.stdout
    assert words in result.stdout


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("chunk", [0, 7])
def test_the_mpi_transport_keeps_what_the_port_promises(n, chunk):
    assert_ok(mpirun(n, PROGRAMS / "mpi_conformance", chunk))


def bits(result):
    """The number that stands for the bits of all sums of the mode `bits`."""
    assert_ok(result)
    return re.search(r"^bits (\w+) of \d+ bytes$", result.stdout, re.M).group(1)


# From no fusion to as much as there is: what a run leaves to chance and more.
FUSIONS = ["0", "100000", "134217728", "134217728"]


@pytest.mark.parametrize("n, shm", [(3, "1"), (4, "1"), (2, "0"), (4, "0")])
def test_sums_have_the_same_bits_in_every_run(n, shm):
    assert len({bits(runtime(n, "bits", HOROVOD_SHM=shm, HOROVOD_FUSION_THRESHOLD=fusion)) for fusion in FUSIONS}) == 1


@pytest.mark.parametrize("n", [3, 5])
def test_sums_have_the_same_bits_in_every_run_if_asked_to(n):
    assert len({bits(runtime(n, "bits", HOROVOD_SHM="0", HOROVOD_DETERMINISTIC="1", HOROVOD_FUSION_THRESHOLD=fusion))
                for fusion in FUSIONS}) == 1


def test_sums_by_the_ring_have_bits_that_depend_on_what_was_fused():
    assert len({bits(runtime(3, "bits", HOROVOD_SHM="0", HOROVOD_MPI_ALLREDUCE="ring", HOROVOD_FUSION_THRESHOLD=fusion))
                for fusion in FUSIONS}) > 1


@pytest.mark.parametrize("algorithm", ["doubling", "rabenseifner", "ring", "mpi"])
def test_collectives_work_with_every_algorithm(algorithm):
    assert_ok(runtime(3, "kinds", HOROVOD_SHM="0", HOROVOD_MPI_ALLREDUCE=algorithm))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_every_algorithm_sums_up_right_in_steps_of_any_size(n):
    assert_ok(mpirun(n, PROGRAMS / "mpi_algorithms"))


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_the_ranks_of_a_communicator_that_is_handed_in_are_the_job(n):
    assert_ok(mpirun(n, PROGRAMS / "mpi_communicator"))


@pytest.mark.parametrize("n, scale", [(2, 1), (2, 100), (3, 30), (4, 30), (5, 1), (8, 1)])
def test_ranks_of_one_host_share_memory_by_default(n, scale):
    assert_ok(mpirun(n, PROGRAMS / "shm_conformance", "shm+mpi", scale))


def test_a_rank_that_is_alone_shares_nothing():
    assert_ok(mpirun(1, PROGRAMS / "shm_conformance", "mpi", 1))


def test_shared_memory_is_off_for_all_when_one_rank_has_it_off():
    program = [PROGRAMS / "shm_conformance", "mpi", "1"]
    assert_ok(mpirun(1, "env", "HOROVOD_SHM=0", *program, ":", "-np", "2", *program))


def test_a_rank_that_shares_less_than_mpi_takes_for_granted_is_told():
    program = [PROGRAMS / "mpi_runtime", "values"]
    result = mpirun(1, "env", "HOROVOD_SHM=0", *program, ":", "-np", "2", *program)
    assert_ok(result)
    assert len(re.findall("shares memory with 0 of the 2 other ranks that MPI takes to be on its host",
                          result.stderr)) == 2, result.stderr


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("mode", ["values", "gather", "threads", "mismatch"])
def test_behaviour_is_the_same_without_shared_memory(mode, n):
    assert_ok(runtime(n, mode, HOROVOD_SHM="0"))


@pytest.mark.parametrize("mode", ["values", "gather"])
@pytest.mark.parametrize("n", [3, 8])
def test_behaviour_holds_with_more_ranks_than_processors(mode, n):
    assert_ok(runtime(n, mode))


def declared_functions():
    header = (ROOT / "worker" / "include" / "horovod" / "horovod.h").read_text()
    return re.findall(r"^HOROVOD_API [^;]*?\b(horovod_\w+)\(", header, re.MULTILINE)


def test_a_plain_c_program_finds_every_function_of_the_header():
    names = declared_functions()
    assert len(names) > 40
    result = subprocess.run([PROGRAMS / "mpi_exports", LIBRARY, *names], env=environment(),
                            capture_output=True, text=True, timeout=limits.seconds(TIMEOUT), check=False)
    assert_ok(result)


def test_the_library_exports_the_functions_of_the_header_and_nothing_else():
    symbols = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", LIBRARY],
                             capture_output=True, text=True, check=True).stdout
    functions = [line.split()[0] for line in symbols.splitlines() if line.split()[1] == "T"]
    assert {name.split("@")[0] for name in functions} == set(declared_functions())
    assert {name.partition("@@")[2] for name in functions} == {"HOROVOD_0"}, "the version of the interface"
