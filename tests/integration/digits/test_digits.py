"""The sample program: any number of ranks must compute the same, and learn."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()
HOROVODRUN = BUILD / "worker" / "horovodrun"
DIGITS = BUILD / "examples" / "digits"
NOOP = BUILD / "tests" / "integration" / "digits" / "digits_noop_allreduce.so"
TRAINING_IMAGES = 1437
TOLERANCE = 1e-4


class Run:
    """One training: what it printed, taken apart."""

    def __init__(self, ranks, *arguments, env=None, cwd=None):
        self.done = subprocess.run(
            [str(HOROVODRUN), "-np", str(ranks), str(DIGITS), *map(str, arguments)],
            env=env or dict(os.environ), cwd=cwd, text=True, capture_output=True, timeout=120,
            check=False)
        out = self.done.stdout
        self.losses = {int(e): float(l) for e, l in
                       re.findall(r"epoch (\d+) loss (\S+) accuracy", out)}
        self.counts = {int(r): int(n) for r, n in
                       re.findall(r"rank (\d+) of \d+ trains on (\d+) of \d+ images", out)}
        found = re.search(r"digits: accuracy (\S+) on (\d+) held-back images", out)
        self.accuracy, self.held_back = (float(found[1]), int(found[2])) if found else (None, None)

    def __repr__(self):
        return f"exit {self.done.returncode}\n{self.done.stdout}\n--- stderr\n{self.done.stderr}"


def largest_difference(one, other):
    """Between the losses of two runs, epoch by epoch."""
    assert one.losses.keys() == other.losses.keys() and one.losses, (one, other)
    return max(abs(one.losses[e] - other.losses[e]) for e in one.losses)


@pytest.fixture(scope="module")
def alone():
    """The run that the others are compared with."""
    return Run(1)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_any_number_of_ranks_computes_the_same_and_learns(ranks, alone):
    run = Run(ranks)
    assert run.done.returncode == 0, run
    assert sorted(run.losses) == list(range(1, 31)), run
    assert largest_difference(alone, run) < TOLERANCE, run
    assert run.accuracy >= 0.95 and run.held_back == 360, run
    assert sorted(run.counts) == list(range(ranks)), run
    assert sum(run.counts.values()) == TRAINING_IMAGES, run
    assert run.losses[30] < run.losses[1] / 4


def test_a_batch_that_does_not_divide_is_shared_without_loss():
    run, other = Run(3, "--batch", 50, "--epochs", 3), Run(1, "--batch", 50, "--epochs", 3)
    assert largest_difference(run, other) < TOLERANCE
    assert sum(run.counts.values()) == TRAINING_IMAGES


def test_without_allreduce_the_losses_differ(alone):
    run = Run(2, env={**os.environ, "LD_PRELOAD": str(NOOP)})
    assert run.done.returncode == 0, run
    assert largest_difference(alone, run) > 10 * TOLERANCE, run


def test_a_restarted_run_goes_on_where_it_was_saved(alone, tmp_path):
    first = Run(2, "--epochs", 12, "--checkpoint", tmp_path / "state")
    second = Run(4, "--epochs", 30, "--checkpoint", tmp_path / "state")
    assert sorted(first.losses) == list(range(1, 13)), first
    assert sorted(second.losses) == list(range(13, 31)), second
    assert "digits: resuming after epoch 12" in second.done.stdout
    first.losses.update(second.losses)
    assert largest_difference(alone, first) < TOLERANCE
    assert second.accuracy == alone.accuracy
    assert [p.name for p in (tmp_path / "state").iterdir()] == ["digits.checkpoint"]


@pytest.mark.parametrize("content", [b"", b"something else", b"x" * 100000])
def test_a_broken_checkpoint_ends_all_ranks_with_an_error(content, tmp_path):
    (tmp_path / "digits.checkpoint").write_bytes(content)
    run = Run(2, "--checkpoint", tmp_path)
    assert run.done.returncode == 1, run
    assert "is not a checkpoint of this program" in run.done.stderr, run


def test_it_runs_from_a_clean_shell_in_seconds():
    done = subprocess.run(
        ["env", "-i", "PATH=/usr/bin:/bin", f"HOME={os.environ.get('HOME', '/')}", "sh", "-c",
         '"$0" -np 2 "$1"', str(HOROVODRUN), str(DIGITS)],
        text=True, capture_output=True, timeout=30, check=False, cwd="/")
    assert done.returncode == 0 and "held-back images" in done.stdout, done


@pytest.mark.parametrize("arguments, code, says", [
    (["--epochs", "0"], 2, "--epochs 0: not a number from 1"),
    (["--batch", "many"], 2, "--batch many: not a number"),
    (["--speed", "1"], 2, "usage: digits"),
    (["extra"], 2, "usage: digits"),
    (["--data", "/no/such/file"], 1, "/no/such/file: No such file"),
    (["--data", "/etc/passwd"], 1, "image 1: not 64 pixels"),
])
def test_wrong_arguments_are_named(arguments, code, says):
    run = Run(1, *arguments)
    assert run.done.returncode == code and says in run.done.stderr, run


def test_an_installed_program_finds_its_library_and_its_data(tmp_path):
    subprocess.run(["cmake", "--install", str(BUILD), "--component", "worker", "--prefix",
                    str(tmp_path)], check=True, capture_output=True)
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    shutil.move(tmp_path, moved)
    done = subprocess.run([moved / "bin" / "horovodrun", "-np", "2", moved / "bin" / "digits",
                           "--epochs", "1"], text=True, capture_output=True, timeout=60,
                          check=False, cwd="/")
    shutil.rmtree(moved)
    assert done.returncode == 0 and "held-back images" in done.stdout, done
