"""Values below job. that together set every field of a HorovodJob's spec, in its two forms.

Whoever adds a field to the CRD adds it to the chart, and here: test_job_values.py compares the three.
"""


def pod(name, **container):
    return {"spec": {"containers": [{"name": name, "image": "example.org/train:1", **container}]}}


GROUP = {"name": "big", "replicas": 1, "slotsPerWorker": 4}

COMMON = {
    "enabled": True,
    "name": "every",
    "worker": {"number": 3, "minReplicas": 2, "maxReplicas": 8},
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

# Composed of single values instead of templates.
COMPOSED = {**SHORT, "nodeSelector": {"disk": "ssd"}, "master": {"env": {"ROLE": "master"}}}
