"""A group that one rank has without tensors, and others with several: they wait, and are told of which rank and why."""
import re

import pytest
import ranks

CHECK_S = 3
SHUTDOWN_S = 5


@pytest.mark.parametrize("n, name, group, shm", [
    (2, "x", r"grouped_allreduce\.x", "1"), (2, "", r"grouped_allreduce\.noname\.2", "0"),
    (4, "x", r"grouped_allreduce\.x", "0"), (4, "", r"grouped_allreduce\.noname\.2", "1")])
def test_a_group_without_tensors_is_named_by_the_stall_that_it_brings_about(tmp_path, n, name, group, shm):
    slowness = min(2, ranks.limits.seconds(1))
    done = ranks.mpirun(n, ranks.PYTHON, ranks.HERE / "empty_group.py", name, MARK=tmp_path / "mark", HOROVOD_SHM=shm,
                        HOROVOD_STALL_CHECK_TIME_SECONDS=CHECK_S * slowness, HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=SHUTDOWN_S * slowness)
    text = done.stdout + done.stderr
    last = n - 1
    why = rf"Rank {last} on host \S+ refused tensor {group}_1of1: its group has no arrays"
    told = dict(re.findall(r"told (\d): (.*)", done.stdout))
    assert sorted(told) == [str(rank) for rank in range(last)], text
    for line in told.values():
        assert re.search(rf"Tensor {group}_\dof2 is stalled .*: it waits for rank {last} on host \S+: {why}", line), text
    assert re.search(rf"\\n{last} on host \S+: \[{group}_1of2, {group}_2of2\]: {why}", done.stderr), text
