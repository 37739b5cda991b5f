"""The collectives of horovod.torch."""
import pytest

from ranks import HERE, TORCH_PYTHON, assert_checked, assert_ended_well, checks_of, mpirun


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("name", checks_of("torch_ops"))
def test_on_every_rank(name, n):
    assert_checked("torch_ops", n, name, TORCH_PYTHON)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_job_of_all_checks_ends_well(n):
    assert_ended_well("torch_ops", n, TORCH_PYTHON)


def ending(way, n):
    return mpirun(n, TORCH_PYTHON, HERE / "torch_ops" / "endings.py", way)


def test_functions_say_when_there_is_no_job():
    done = ending("before", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    said = {" ".join(words[:2]): words[2] for words in (line.split(" ", 2) for line in done.stdout.splitlines())}
    text = "Horovod has not been initialized; use hvd.init()."
    for time in ("before", "after"):
        for name in ("size", "rank"):
            assert said[f"{time} {name}"] == f"ValueError {text}"
        for name in ("allreduce", "allreduce_", "allgather", "broadcast", "alltoall", "join", "barrier"):
            kind, _, rest = said[f"{time} {name}"].partition(" ")
            assert kind in ("HorovodInternalError", "ValueError") and rest == text, said


def test_a_script_may_end_with_operations_that_nobody_waits_for():
    """Alone; several ranks do in test_torch_train_endings.py."""
    done = ending("pending", 1)
    assert done.returncode == 0 and done.stdout.count("ends") == 1, done.stdout + done.stderr
