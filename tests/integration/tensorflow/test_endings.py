"""Ends of a training with Keras: a rank that is killed, raises or runs out of data is named on the others, or ends the job."""
import re

import pytest
import variants

BOUND_S = 30  # until the others are told, on a machine with nothing else to do


def ending(tmp_path, way, n=2, variant=variants.KERAS_3, recovery=True):
    """The job that ends so; with recovery the launcher leaves the other ranks running."""
    variants.needed(variant)
    return variants.ranks.mpirun(n, variant.python, variants.HERE / "endings.py", way, timeout=200,
                                 options=["--enable-recovery"] if recovery else [], **variant.settings(ENDINGS_LEFT=tmp_path / "left"))


def assert_named(done, n):
    """Fails unless every rank but rank 1 got an error within the time that names it."""
    got = re.findall(r"rank (\d) got (\w+) after ([-\d.]+) s: (.*)", done.stdout)
    assert sorted(rank for rank, *_ in got) == [str(rank) for rank in range(n) if rank != 1], done.stdout + done.stderr
    for _, kind, seconds, text in got:
        assert kind == "AbortedError" and re.search(r"\b[Rr]ank 1\b", text), text
        assert float(seconds) < variants.ranks.limits.seconds(BOUND_S), done.stdout


@pytest.mark.parametrize("way, n, variant", [
    ("kill_one_rank_during_fit", 2, variants.KERAS_3), ("kill_one_rank_during_fit", 3, variants.KERAS_3),
    ("kill_one_rank_during_fit", 2, variants.KERAS_2), ("kill_one_rank_during_eager_fit", 2, variants.KERAS_3)],
    ids=["2-keras-3", "3-keras-3", "2-tensorflow-2.15.1", "2-eager"])
def test_a_rank_killed_during_fit_is_named_on_the_others(tmp_path, way, n, variant):
    assert_named(ending(tmp_path, way, n, variant), n)


def test_a_rank_that_runs_out_of_data_is_named_on_the_others(tmp_path):
    done = ending(tmp_path, "run_out_of_data_on_one_rank")
    assert "rank 1 has trained" in done.stdout, done.stdout + done.stderr
    assert_named(done, 2)


def test_with_join_the_others_train_to_their_end(tmp_path):
    done = ending(tmp_path, "join_with_less_data_on_one_rank", recovery=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(re.findall(r"rank \d has trained", done.stdout)) == ["rank 0 has trained", "rank 1 has trained"], done.stdout
    assert re.findall(r"the last was (\d)", done.stdout) == ["0", "0"], done.stdout


def test_an_exception_of_one_rank_during_fit_ends_the_job(tmp_path):
    done = ending(tmp_path, "raise_in_one_rank_during_fit", recovery=False)
    assert done.returncode not in (0, 124) and "an exception of rank 1" in done.stderr, done.stdout + done.stderr
