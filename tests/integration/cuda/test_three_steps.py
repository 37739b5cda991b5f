"""Ranks with a GPU each on two emulated hosts, over the doubles of the driver and of NCCL: long allreduces take three steps."""
import json
import re

import pytest
from test_ranks import N_GPUS, PATH, PROGRAM, assert_ok
from test_two_hosts import hosts, run_on  # noqa: F401

# mpirun passes on what HOROVOD_ begins, so the rest is set on each host. NCCL knows a host by its NCCL_HOSTID.
START = f'NCCL_HOSTID=$(hostname) LD_LIBRARY_PATH={PATH} HVD_FAKE_GPUS={N_GPUS} exec "$0" "$@"'


def ranks(hosts, mode, setting="HOROVOD_HIERARCHICAL_ALLREDUCE", **extra):  # noqa: F811
    return run_on(hosts, (2, 2), "sh", "-c", START, PROGRAM, mode,
                  **{"HOROVOD_DYNAMIC_PROCESS_SETS": "1", setting: "1", **extra})


@pytest.mark.parametrize("setting, mode", [
    *(("HOROVOD_HIERARCHICAL_ALLREDUCE", mode) for mode in ("sets", "join", "random")),
    *(("HOROVOD_TORUS_ALLREDUCE", mode) for mode in ("collectives", "random"))])
def test_results_are_those_of_the_host(hosts, setting, mode):  # noqa: F811
    assert_ok(ranks(hosts, mode, setting))


def test_collectives_are_those_of_the_host_and_the_timeline_has_horovods_names(hosts, tmp_path):  # noqa: F811
    path = tmp_path / "timeline.json"
    assert_ok(ranks(hosts, "collectives", HOROVOD_TIMELINE=str(path)))
    lives = {}  # of each tensor, the last one last: the activities in order
    for event in json.loads(path.read_text(encoding="utf-8")):
        if event["ph"] == "B" and event["name"].startswith("NEGOTIATE_"):
            lives.setdefault(event["pid"], []).append([])
        if event["ph"] == "B":
            lives[event["pid"]][-1].append(event["name"])
    seen = {tuple(life) for of_tensor in lives.values() for life in of_tensor}
    begin = ("NEGOTIATE_ALLREDUCE", "ALLREDUCE", "QUEUE")
    assert (*begin, "NCCL_REDUCESCATTER", "SHM+MPI_ALLREDUCE", "NCCL_ALLGATHER") in seen, seen
    assert (*begin, "NCCL_ALLREDUCE") in seen and (*begin, "SHM+MPI_ALLREDUCE") in seen, seen  # short ones, and those of the host


def test_all_hosts_name_the_rank_whose_gpu_delays_the_others(hosts):  # noqa: F811
    result = ranks(hosts, "late", HOROVOD_STALL_CHECK_TIME_SECONDS="1", HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="2")
    late = (r"ensor gradient \(ALLREDUCE\) has been in transfer for [.\d]+ seconds(?: and has not moved for [.\d]+ seconds)?: "
            r"the GPU of rank 3 on host \S+ has not reached it: the program's work before it is not done")
    output = result.stdout + result.stderr
    assert len(re.findall(rf'level=warn .*"T{late}"', output)) == 4, output
    assert re.search(rf"rank \d knows: .*[Tt]{late}", output), output  # mpirun ends the other ranks when the first one has ended
