"""A training whose gradients are in the memory of GPUs, one for each rank, over the doubles of the driver and of NCCL."""
import re

import pytest
from test_ranks import BUILD, DOUBLES, ROOT, assert_ok, mpirun

LINE = re.compile(r"gpu digits: rank (\d) of (\d) on GPU (\d): accuracy ([0-9.]+), weights equal, "
                  r"NCCL (\d+) reduced (\d+) of (\d+) gradients")
PROGRAM = BUILD / "tests" / "integration" / "cuda" / "gpu_digits"


@pytest.mark.parametrize("n", [2, 4])
def test_digits_train_on_a_gpu_for_each_rank(n):
    done = mpirun(n, PROGRAM, ROOT / "examples/digits/digits.csv", LD_LIBRARY_PATH=DOUBLES, HVD_FAKE_GPUS="4")
    assert_ok(done)
    ranks = LINE.findall(done.stdout)
    assert sorted(rank[:3] for rank in ranks) == [(str(rank), str(n), str(rank)) for rank in range(n)], done.stdout + done.stderr
    assert all(float(rank[3]) >= 0.9 and int(rank[4]) >= 21800 and rank[5] == rank[6] for rank in ranks), done.stdout
