"""Counts of a steady loop, which gate where times cannot: allocations, system calls, what an idle job does."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()
PROGRAM = BUILD / "tests" / "integration" / "counts" / "counts"
SYSTEM_CALLS_A_STEP = 2
STEP_TENSORS = 65


def launch(n, *command, **more):
    """The JSON lines of all ranks."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(n), "--mca",
                           "btl_vader_single_copy_mechanism", "none", *map(str, command)], text=True,
                          capture_output=True, timeout=120, check=False, env={**kept, **more})
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_steady_steps_allocate_nothing_in_the_whole_process(n):
    """Five windows of 100 steps on each rank: a new combination of tensors may cost memory once, a step must not."""
    lines = [line for line in launch(n, PROGRAM, 500) if "allocations" in line]
    assert len(lines) == 5 * n
    for rank in range(n):
        windows = [line for line in lines if line["rank"] == rank]
        assert all(line["tensors"] == 100 * STEP_TENSORS for line in windows)
        assert min(line["allocations"] for line in windows) == 0, windows
        assert sum(line["allocations"] for line in windows) < 100, windows


@pytest.mark.parametrize("n", [2, 3])
def test_an_idle_job_sends_nothing_and_wakes_nobody(n):
    lines = [line for line in launch(n, PROGRAM, 10, "idle") if "idle_wakeups" in line]
    assert len(lines) == n
    for line in lines:
        assert (line["idle_messages"], line["idle_sleeps"], line["idle_wakeups"]) == (0, 0, 0), line


def traced_calls(n_steps, folder):
    """System calls of each of two ranks over a whole run."""
    folder.mkdir()
    launch(2, "sh", "-c", 'exec strace -f -c -o "$0/rank.$OMPI_COMM_WORLD_RANK" "$@"', folder, PROGRAM, n_steps)
    return [int(path.read_text(encoding="utf-8").strip().splitlines()[-1].split()[3])
            for path in sorted(folder.glob("rank.*"))]


def test_a_steady_step_makes_two_system_calls_at_most(tmp_path):
    """The tracer makes threads wait that would not, as do other programs: more than that many would show all the more.
    What is made in each of three runs is made in every step.
    """
    assert shutil.which("strace"), "strace is missing: script/bootstrap test installs it"
    seen = []
    while len(seen) < 3:
        few, many = (traced_calls(n, tmp_path / f"{n}.{len(seen)}") for n in (200, 1200))
        seen.append([(more - less) / 1000 for less, more in zip(few, many)])
        if max(seen[-1]) <= SYSTEM_CALLS_A_STEP:
            return
    raise AssertionError(f"system calls of each rank in a step: {seen}")


# --- From Python -------------------------------------------------------------------------------------------------

OPERATIONS = [sys.executable, pathlib.Path(__file__).with_name("operations.py")]
PYTHON = {"PYTHONPATH": str(BUILD / "python")}


FORMS = pytest.mark.parametrize("form", ["once", "apart"])


def turns_of_another_thread(form, n_calls, length):
    (line,) = launch(1, *OPERATIONS, form, n_calls, length, **PYTHON)
    return line["turns"]


@FORMS
def test_a_small_operation_keeps_the_interpreter(form):
    """To give it up and take it again costs as much as the operation; a large one gives it up, or others would wait."""
    assert turns_of_another_thread(form, 20000, 1) <= 20000 / 100
    assert turns_of_another_thread(form, 0, 1 << 16) > 0


@FORMS
def test_a_small_operation_makes_no_system_call(form, tmp_path):
    """Of the thread that submits and waits: it wakes nobody and does not sleep."""
    def calls_of(n_calls):
        report = tmp_path / f"{n_calls}"
        launch(1, "strace", "-c", "-o", report, *OPERATIONS, form, n_calls, 1, **PYTHON)
        return int(report.read_text(encoding="utf-8").strip().splitlines()[-1].split()[3])

    few, many = calls_of(1000), calls_of(21000)
    assert (many - few) / 20000 <= 0.05, (few, many)
