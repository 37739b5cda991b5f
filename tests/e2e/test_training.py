"""A training that is stopped in the middle, by its user or by an accident, and goes on from its checkpoint."""
import re
import struct

import pytest

from conftest import WORKER_IMAGE, kill_container, wait_for

FOREVER = 1000000
TRAIN = "until [ -s /shared/epochs ]; do sleep 0.1; done; exec digits --checkpoint /shared --epochs $(cat /shared/epochs)"


def training(name, **spec):
    """Two ranks that train up to the epoch that the file "epochs" of the shared folder says, once there is one."""
    launch = ["horovodrun", "-np", "2", "--hostfile", "/etc/horovod/hosts/hostfile", "sh", "-c", TRAIN]
    worker = {"containers": [{"name": "worker", "image": WORKER_IMAGE,
                              "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}],
              "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}]}
    return {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": name},
            "spec": {"worker": {"replicas": 2, "template": {"spec": worker}},
                     "master": {"template": {"spec": {"containers": [
                         {"name": "master", "image": WORKER_IMAGE, "command": launch}]}}}, **spec}}


def epochs_done(folder):
    """What the checkpoint says; 0 when there is none yet."""
    path = folder / "digits.checkpoint"
    return struct.unpack_from("<Qq", path.read_bytes())[1] if path.exists() else 0


def set_goal(folder, epochs):
    (folder / "draft").write_text(f"{epochs}\n", encoding="utf-8")
    (folder / "draft").rename(folder / "epochs")


def start(namespace, folder, name, **spec):
    """A training in its middle, which waits for a goal when it starts again; the uids of its pods."""
    set_goal(folder, FOREVER)
    namespace.apply(training(name, **spec))
    wait_for(f"three epochs of {name}", lambda: epochs_done(folder) >= 3, timeout=180)
    (folder / "epochs").unlink()
    return uids(namespace)


def uids(namespace):
    return {pod["metadata"]["uid"] for pod in namespace.items("pods", "-l", "horovod.io/role=worker")}


def finish(namespace, folder, name):
    """A second attempt goes on from the checkpoint of the first and succeeds; its job."""
    stopped_at = epochs_done(folder)
    set_goal(folder, stopped_at + 5)
    namespace.wait_state(name, "Succeeded", "Failed", timeout=240)
    job = namespace.get("horovodjob", name)
    assert job["status"]["state"] == "Succeeded", job["status"]
    assert job["status"]["attempts"] == 2, job["status"]
    log = namespace.kubectl("logs", "-l", f"job-name={name}-master", "--tail=-1").stdout
    assert int(re.search(r"resuming after epoch (\d+)", log).group(1)) == stopped_at, log
    assert epochs_done(folder) == stopped_at + 5
    assert "accuracy" in log
    return job


def pod_of(namespace, name, role, index=0):
    selector = f"horovod.io/job-name={name},horovod.io/role={role}"
    pods = sorted(namespace.items("pods", "-l", selector), key=lambda pod: pod["metadata"]["name"])
    return pods[index]


def test_a_training_suspended_in_the_middle_goes_on_from_its_checkpoint(namespace, shared_folder):
    start(namespace, shared_folder, "pause")
    begun = namespace.get("horovodjob", "pause")["status"]["startTime"]
    namespace.kubectl("patch", "horovodjob", "pause", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    namespace.wait_state("pause", "Suspended")
    wait_for("no pod of a suspended job", lambda: not namespace.items("pods"), timeout=120)
    assert "startTime" not in namespace.get("horovodjob", "pause")["status"]
    namespace.kubectl("patch", "horovodjob", "pause", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    status = finish(namespace, shared_folder, "pause")["status"]
    assert status["startTime"] > begun and status.get("failures", 0) == 0, status


@pytest.mark.parametrize("role", ["worker", "master"])
def test_a_training_goes_on_after_a_kill_of_its(namespace, shared_folder, role):
    first = start(namespace, shared_folder, "kill", backoffLimit=1)
    kill_container(pod_of(namespace, "kill", role, 1 if role == "worker" else 0))
    wait_for("the end of all workers of the first attempt", lambda: not first & uids(namespace), timeout=150)
    status = finish(namespace, shared_folder, "kill")["status"]
    assert status["failures"] == 1, status
    story = " ".join(event["message"] for event in namespace.items("events") if event["reason"] == "Restarting")
    assert re.search({"worker": r"worker kill-worker-1 on node \S+: container worker exited with code 137",
                      "master": r"pod kill-master-\w+ container master exited with code 137"}[role], story), story
