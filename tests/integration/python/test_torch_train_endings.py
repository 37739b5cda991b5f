"""Exceptions and ends of the interpreter with operations outstanding leave no hang."""
import re

import pytest
import ranks


def ending(way):
    """The job of two ranks that ends so; the time limit is what fails when it hangs."""
    return ranks.mpirun(2, ranks.TORCH_PYTHON, ranks.HERE / "torch_endings.py", way, timeout=200)


@pytest.mark.parametrize("way", ["raise_in_one_rank", "raise_in_one_rank_during_backward"])
def test_an_exception_in_one_rank_ends_the_job(way):
    done = ending(way)
    assert done.returncode != 0 and "an exception of rank 1" in done.stderr, done


@pytest.mark.parametrize("way", ["exit_with_operations_outstanding", "exit_with_operations_done_and_not_waited_for"])
def test_an_interpreter_that_ends_with_operations_pending_ends(way):
    done = ending(way)
    assert done.returncode == 0, done
    # mpirun passes on what it reads, and may read a line before its end.
    assert sorted(re.findall("rank [0-9] ends", done.stdout)) == ["rank 0 ends", "rank 1 ends"], done


def test_a_rank_whose_peer_left_gets_an_exception():
    done = ending("go_on_after_the_failure_of_a_peer")
    assert done.returncode == 0 and "caught:" in done.stdout and "1" in done.stdout, done


def test_a_sparse_handle_outlives_an_interrupt():
    done = ending("go_on_after_an_interrupt_of_a_sparse_wait")
    result = "[[2.0, 0.0], [0.0, 2.0]]"
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == [result, result, "interrupted"], done
