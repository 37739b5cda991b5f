"""The Python package in pods: the master installs the wheel, without a network, into an environment that the workers share with it.
The pods are of the plain worker image, and of the one with TensorFlow."""
import re

import pytest

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
TENSORFLOW_PROGRAM = """
import socket
import tensorflow as tf
import horovod.tensorflow as hvd

hvd.init()

@tf.function
def total(value):
    return hvd.allreduce(value, op=hvd.Sum)

values = set(total(tf.fill([1000], hvd.rank() + 1.0)).numpy().tolist())
print("rank", hvd.rank(), "of", hvd.size(), "on", socket.gethostname(), "has", values, "by", hvd.__file__)
"""
INSTALL = """
set -e
python3 -m venv --system-site-packages /shared/venv
/shared/venv/bin/pip install --no-cache-dir --no-index --find-links /shared/wheels horovod
exec /shared/venv/bin/horovodrun -np 2 --hostfile /etc/horovod/hosts/hostfile /shared/venv/bin/python /shared/program.py
"""


@pytest.fixture
def wheel(shared_folder):
    """The wheel, in the shared folder."""
    wheels = shared_folder / "wheels"
    run("/usr/bin/python3", "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(wheels), str(ROOT / "worker" / "python"))
    return wheels


def job(name, image):
    """Two workers and a master that mount the shared folder."""
    def pod(role, **more):
        return {"template": {"spec": {
            "containers": [{"name": role, "image": image, "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
                            **more}],
            "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}]}}}
    return {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": name},
            "spec": {"worker": {"replicas": 2, **pod("worker")}, "master": pod("master", command=["sh", "-c", INSTALL])}}


def check_sum(namespace, wheel, name, image, program):
    """Both pods of a job have the sum, by the installed package."""
    (wheel.parent / "program.py").write_text(program, encoding="utf-8")
    namespace.apply(job(name, image))
    namespace.wait_state(name, "Succeeded", "Failed", timeout=240)
    log = namespace.master_log(name)
    assert namespace.state(name) == "Succeeded", log + str(namespace.condition(name, "Failed"))
    said = re.findall(r"rank (\d) of 2 on (\S+) has \{3\.0\} by /shared/venv/lib", log)
    assert sorted(said) == [("0", f"{name}-worker-0"), ("1", f"{name}-worker-1")], log


def test_pip_installs_the_wheel_in_the_plain_worker_image_and_two_pods_reduce(namespace, wheel):
    check_sum(namespace, wheel, "wheel", WORKER_IMAGE, PROGRAM)


@pytest.mark.usefixtures("tensorflow_image")
def test_pip_installs_the_wheel_beside_tensorflow_and_two_pods_reduce_in_a_graph(namespace, wheel):
    check_sum(namespace, wheel, "wheel-tensorflow", WORKER_IMAGE.replace("horovod-worker", "horovod-worker-tensorflow"), TENSORFLOW_PROGRAM)
