"""GPUs in real pods, over the doubles of the driver and of NCCL: a node that advertises four, and a rank for each in one pod."""
import json
import os
import pathlib
import re
import shutil

import pytest

from conftest import ROOT, WORKER_IMAGE, hostfile

BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()
N_GPUS = 4
LINE = re.compile(r"gpu digits: rank (\d) of 4 on GPU (\d): accuracy ([0-9.]+), weights equal, "
                  r"NCCL (\d+) reduced (\d+) of (\d+) gradients")


@pytest.fixture
def gpus(cluster):
    """The node advertises GPUs, as a device plugin makes it do."""
    node = cluster.get("nodes")["items"][0]["metadata"]["name"]

    def patch(operation):
        steps = [{**operation, "path": f"/status/{field}/nvidia.com~1gpu"} for field in ("capacity", "allocatable")]
        cluster.kubectl("patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(steps))

    patch({"op": "add", "value": str(N_GPUS)})
    yield N_GPUS
    patch({"op": "remove"})


@pytest.fixture
def program(shared_folder):
    """The program, its data and the doubles, in the folder that pods mount."""
    shutil.copy(BUILD / "tests/integration/cuda/gpu_digits", shared_folder)
    shutil.copy(ROOT / "examples/digits/digits.csv", shared_folder)
    for name in ("libcuda.so.1", "libnccl.so.2"):
        shutil.copy(BUILD / "tests/fake/gpu" / name, shared_folder)


def job(n_gpus):
    """One worker with all GPUs, whose slots are automatic."""
    def pod(role, **more):
        return {"template": {"spec": {
            "containers": [{"name": role, "image": WORKER_IMAGE, "volumeMounts": [{"name": "shared", "mountPath": "/shared"}], **more}],
            "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}]}}}
    command = ["horovodrun", "--hostfile", "/etc/horovod/hosts/hostfile", "/shared/gpu_digits", "/shared/digits.csv"]
    environment = [{"name": "LD_LIBRARY_PATH", "value": "/shared"}, {"name": "HVD_FAKE_GPUS", "value": str(n_gpus)}]
    return {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": "gpus"},
            "spec": {"cleanPodPolicy": "None", "master": pod("master", command=command),
                     "worker": {"replicas": 1, **pod("worker", env=environment, resources={
                         "requests": {"cpu": "100m"}, "limits": {"memory": "1Gi", "nvidia.com/gpu": n_gpus}})}}}


@pytest.mark.usefixtures("program")
def test_a_rank_for_each_gpu_of_a_node_trains_in_one_pod(namespace, gpus):
    namespace.apply(job(gpus))
    namespace.wait_state("gpus", "Succeeded", "Failed", timeout=120)
    log = namespace.master_log("gpus")
    assert namespace.state("gpus") == "Succeeded", log + str(namespace.condition("gpus", "Failed"))
    assert hostfile(namespace, "gpus") == f"gpus-worker-0.gpus slots={gpus}\n"
    ranks = LINE.findall(log)
    assert sorted(rank[:2] for rank in ranks) == [(str(rank), str(rank)) for rank in range(gpus)], log
    assert all(float(rank[2]) >= 0.9 and int(rank[3]) >= 21800 and rank[4] == rank[5] for rank in ranks), log
    # Of the memory of the container, and not the 64 MiB that a runtime gives.
    mounted = namespace.kubectl("exec", "gpus-worker-0", "--", "df", "--output=fstype,size", "-BM", "/dev/shm").stdout.split()[-2:]
    assert mounted[0] == "tmpfs" and int(mounted[1].rstrip("M")) > 64, mounted
    events = [event["reason"] for event in namespace.items("events", "--field-selector", "involvedObject.name=gpus")]
    assert "MasterStarted" in events and "SlotsAssumed" not in events, events
