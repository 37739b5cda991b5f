"""Lists of ranks that do not fit together, in horovod_init: no process is ended by MPI, and none waits without a word."""
import os
import pathlib
import re

import pytest

from test_mpi import mpirun

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()
LISTS = BUILD / "tests" / "integration" / "mpi" / "mpi_lists"

OWN = pytest.mark.parametrize("own", ["horovod", "program"], ids=lambda own: f"mpi_of_the_{own}")


def ends(own, *lists):
    """What each rank writes at the end. A rank that fails for what another one reported may be ended before it writes."""
    done = mpirun(len(lists), LISTS, *lists, **({"LISTS_MPI": "1"} if own == "program" else {}))
    said = dict(line[1:].split("] ", 1) for line in done.stdout.splitlines() if line.startswith("["))
    return done, said


@OWN
@pytest.mark.parametrize("wrong, ranks", [("7", "0,1,7"), ("3", "0,3,1"), ("-1", "0,-1")])
def test_a_rank_that_does_not_exist_is_named_and_ends_no_process(own, wrong, ranks):
    done, said = ends(own, ranks, ranks, ranks)
    assert "MPI_ERR" not in done.stderr and said, done
    assert set(said.values()) == {f"rank {wrong} does not exist: the communicator has 3 ranks"}, done


def assert_told_both(done, said, one, other):
    rank = r"rank \d(?: on host \S+)?"
    told = [re.fullmatch(rf"The ranks passed to horovod_init differ: {rank} passes \[(.*?)\], and {rank} \[(.*?)\]\. "
                         r"All ranks of a job pass the same ranks, in the same order", words) for words in said.values()]
    assert told and all(told) and {tuple(sorted(match.groups())) for match in told} == {tuple(sorted((one, other)))}, done


@OWN
@pytest.mark.parametrize("lists, one, other", [
    (["0,1", "1,0"], "0, 1", "1, 0"),
    (["0,1,2", "0,2,1", "0,1,2"], "0-2", "0, 2, 1"),
    (["2,1,0", "2,1,0", "0,1,2"], "2, 1, 0", "0-2")])
def test_ranks_that_pass_one_list_in_different_orders_are_told_both(own, lists, one, other):
    assert_told_both(*ends(own, *lists), one, other)


@pytest.mark.parametrize("lists, one, other", [
    (["0,1", "0,1,2", "0,1,2"], "0, 1", "0-2"),
    (["0,1,2", "1,2", "0,1,2"], "0-2", "1, 2"),
    (["0,1,2", "all", "0,1,2"], "0-2", "all ranks")])
def test_ranks_that_pass_lists_with_different_members_are_told_both(lists, one, other):
    assert_told_both(*ends("horovod", *lists), one, other)


@OWN
def test_a_list_in_any_order_numbers_the_ranks(own):
    done, said = ends(own, "2,0,1", "2,0,1", "2,0,1")
    assert done.returncode == 0 and said == {"0": "rank 1 of 3", "1": "rank 2 of 3", "2": "rank 0 of 3"}, done
