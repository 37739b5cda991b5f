"""Specs of HorovodJobs for the value job.spec: the smallest one, and two that together set every field, in the two forms."""


def pod(name, **container):
    return {"spec": {"containers": [{"name": name, "image": "example.org/train:1", **container}]}}


SMALL = {"image": "example.org/train:1", "command": ["python", "train.py"], "worker": {"replicas": 2}}

GROUP = {"name": "big", "replicas": 1, "slotsPerWorker": 4}

COMMON = {
    "worker": {"replicas": 3, "minReplicas": 2, "maxReplicas": 8},
    "runMasterAsWorker": True,
    "topologyKeys": ["topology.kubernetes.io/zone", "example.com/rack"],
    "slotsPerWorker": 2,
    "suspend": True,
    "managedBy": "example.com/other",
    "backoffLimit": 3,
    "failurePolicy": {"rules": [{"action": "Ignore", "onDisruption": True},
                                {"action": "Fail", "role": "Master",
                                 "onExitCodes": {"operator": "In", "values": [42]}}]},
    "activeDeadlineSeconds": 3600,
    "ttlSecondsAfterFinished": 600,
    "cleanPodPolicy": "All",
    "network": {"interfaces": ["eth0", "10.0.0.0/8"], "hostNames": "IP", "hostNetwork": True},
    "scheduling": {"queue": "training", "minAvailable": 2, "priorityClassName": "high", "scheduleTimeoutSeconds": 60},
    "ssh": {"port": 2200},
}

SHORT = {
    **COMMON,
    "image": "example.org/train:1",
    "command": ["python", "train.py"],
    "args": ["--epochs", "3"],
    "env": [{"name": "A", "value": "1"}, {"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    "resources": {"limits": {"cpu": 1}, "requests": {"cpu": "500m"}, "claims": [{"name": "gpu", "request": "one"}]},
    "workerGroups": [GROUP],
}

LONG = {
    **COMMON,
    "worker": {**COMMON["worker"], "template": {"metadata": {"labels": {"team": "a"}}, **pod("worker")}},
    "master": {"template": {"metadata": {"annotations": {"note": "b"}}, **pod("master", command=["horovodrun", "x"])}},
    "workerGroups": [{**GROUP, "template": {"metadata": {"labels": {"team": "a"}}, **pod("worker")}}],
}
