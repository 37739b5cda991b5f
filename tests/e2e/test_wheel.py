"""The Python package in pods of the plain worker image: its master installs the wheel, without a network, into an
environment that the workers share with it."""
import re

from conftest import ROOT, WORKER_IMAGE, run

PROGRAM = """
import array
import socket
import horovod.numpy as hvd

hvd.init()
values = array.array("d", [hvd.rank() + 1.0] * 1000)
hvd.allreduce_(values, op=hvd.Sum)
print("rank", hvd.rank(), "of", hvd.size(), "on", socket.gethostname(), "has", set(values), "by", hvd.__file__)
"""
INSTALL = """
set -e
python3 -m venv /shared/venv
/shared/venv/bin/pip install --no-cache-dir --no-index --find-links /shared/wheels horovod
exec /shared/venv/bin/horovodrun -np 2 --hostfile /etc/horovod/hosts/hostfile /shared/venv/bin/python /shared/program.py
"""


def job(name):
    """Two workers and a master that mount the shared folder."""
    def pod(role, **more):
        return {"template": {"spec": {
            "containers": [{"name": role, "image": WORKER_IMAGE, "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
                            **more}],
            "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}]}}}
    return {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": name},
            "spec": {"worker": {"replicas": 2, **pod("worker")}, "master": pod("master", command=["sh", "-c", INSTALL])}}


def test_pip_installs_the_wheel_in_the_plain_worker_image_and_two_pods_reduce(namespace, shared_folder):
    wheels = shared_folder / "wheels"
    run("/usr/bin/python3", "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(wheels), str(ROOT / "worker" / "python"))
    (shared_folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    namespace.apply(job("wheel"))
    namespace.wait_state("wheel", "Succeeded", "Failed", timeout=240)
    log = namespace.master_log("wheel")
    assert namespace.state("wheel") == "Succeeded", log + str(namespace.condition("wheel", "Failed"))
    said = re.findall(r"rank (\d) of 2 on (\S+) has \{3\.0\} by /shared/venv/lib", log)
    assert sorted(said) == [("0", "wheel-worker-0"), ("1", "wheel-worker-1")], log
