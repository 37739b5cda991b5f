"""horovod.mxnet: every check at 1, 2 and 4 ranks, and beside the table of Horovod's interface. One job for each number of ranks."""
import functools
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import ranks  # noqa: E402  (the path above)

OPS = "../mxnet/ops"  # beside the folders of horovod.torch
TABLE = ranks.ROOT / "tests" / "data" / "horovod_mxnet_api.json"
MXNET_PYTHON = str(ranks.CACHE / "python" / "mxnet-1.9.1" / "bin" / "python")
RANKS = [1, 2, 4]


@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize("name", ranks.checks_of(OPS))
def test_on_every_rank(name, n):
    ranks.assert_checked(OPS, n, name, MXNET_PYTHON)


@pytest.mark.parametrize("n", RANKS)
def test_the_job_of_all_checks_ends_well(n):
    ranks.assert_ended_well(OPS, n, MXNET_PYTHON)


@functools.lru_cache(maxsize=1)
def compared():
    return ranks.tool(MXNET_PYTHON, "interface.py", TABLE)


@functools.lru_cache(maxsize=1)
def watched():
    return ranks.tool(MXNET_PYTHON, "witness.py", TABLE.name)


@pytest.mark.parametrize("entry", ranks.entries(TABLE))
def test_the_interface_is_horovods(entry):
    assert compared()[entry] is None, compared()[entry]


@pytest.mark.parametrize("entry", ranks.used_entries(TABLE))
def test_checks_use_it_with_every_parameter_at_1_2_and_4_ranks(entry):
    for n in RANKS:
        ranks.assert_used(entry, ranks.called_in(OPS, n, MXNET_PYTHON), watched(), n)
