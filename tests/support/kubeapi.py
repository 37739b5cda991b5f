"""A small client of the Kubernetes API, with which the tests play users and kubelets."""
import base64
import http.client
import json
import pathlib
import ssl
import tempfile
import time
import urllib.parse

import yaml

import limits
from waiting import until

CORE = "/api/v1"
PATHS = {
    "pods": CORE, "services": CORE, "configmaps": CORE, "secrets": CORE, "events": CORE, "serviceaccounts": CORE,
    "statefulsets": "/apis/apps/v1", "jobs": "/apis/batch/v1", "horovodjobs": "/apis/horovod.io/v1beta1",
    "leases": "/apis/coordination.k8s.io/v1",
}


CONTROLLERS_S = 60  # for a pod: all tests share the request rate of one kube-controller-manager


def is_ready(pod):
    """Whether it runs, and all its containers are ready."""
    status = pod["status"]
    conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
    containers = status.get("containerStatuses") or []
    return status.get("phase") == "Running" and conditions.get("Ready") == "True" and containers and all(c["ready"] for c in containers)


class ApiError(Exception):
    def __init__(self, code, body):
        super().__init__(f"HTTP {code}: {body.get('message', body)}")
        self.code = code


class Api:
    """One connection, as the administrator of the kubeconfig."""

    def __init__(self, kubeconfig):
        config = yaml.safe_load(pathlib.Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.server = urllib.parse.urlsplit(cluster["server"])
        self.ca = self._text(cluster, "certificate-authority")
        self.context = ssl.create_default_context(cadata=self.ca)
        with tempfile.NamedTemporaryFile("w") as pem:
            pem.write(self._text(user, "client-certificate") + "\n" + self._text(user, "client-key"))
            pem.flush()
            self.context.load_cert_chain(pem.name)
        self.connection = None

    @staticmethod
    def _text(section, key):
        if f"{key}-data" in section:
            return base64.b64decode(section[f"{key}-data"]).decode()
        return pathlib.Path(section[key]).read_text()

    def request(self, method, path, body=None, content_type="application/json"):
        """The document of the answer. A body that is a text is sent as it is."""
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        for attempt in (1, 2):
            try:
                self.connection = self.connection or http.client.HTTPSConnection(
                    self.server.hostname, self.server.port, context=self.context, timeout=limits.seconds(30))
                self.connection.request(method, path, text, {"Content-Type": content_type})
                response = self.connection.getresponse()
                document = json.loads(response.read() or b"{}")
                break
            except (http.client.HTTPException, ConnectionError):
                self.connection = None
                if attempt == 2:
                    raise
        if response.status >= 300:
            raise ApiError(response.status, document)
        return document

    def stream(self, path):
        """The answer of a watch, which gives its lines as they come, on a connection of its own."""
        connection = http.client.HTTPSConnection(self.server.hostname, self.server.port, context=self.context)
        connection.request("GET", path)
        response = connection.getresponse()
        if response.status >= 300:
            raise ApiError(response.status, json.loads(response.read() or b"{}"))
        return response


class Namespace:
    """The objects of one namespace, by plural name."""

    def __init__(self, api, name):
        self.api, self.name = api, name
        self.started = {}  # by job: names of the workers that its kubelets start

    def path(self, plural, name=None, sub=None):
        parts = [PATHS[plural], "namespaces", self.name, plural] + [p for p in (name, sub) if p]
        return "/".join(parts)

    def get(self, plural, name):
        try:
            return self.api.request("GET", self.path(plural, name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def list(self, plural):
        return self.api.request("GET", self.path(plural))["items"]

    def create(self, plural, body):
        return self.api.request("POST", self.path(plural), body)

    def patch(self, plural, name, body, sub=None):
        return self.api.request("PATCH", self.path(plural, name, sub), body, "application/merge-patch+json")

    def delete(self, plural, name):
        return self.api.request("DELETE", self.path(plural, name), {"propagationPolicy": "Background"})

    # What users do.

    def apply_job(self, name="digits", replicas=2, **spec):
        spec = {"image": "localhost/horovod-worker:0.1.0", "command": ["python", "train.py"],
                "worker": {"replicas": replicas}, **spec}
        return self.create("horovodjobs", {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob",
                                           "metadata": {"name": name}, "spec": spec})

    def state(self, name="digits"):
        return self.status(name).get("state")

    def status(self, name="digits"):
        """Empty until the operator has written it: until then the server shows the definition's default."""
        status = (self.get("horovodjobs", name) or {}).get("status", {})
        return {} if status == {"state": "Pending"} else status

    def condition(self, kind, name="digits"):
        for condition in self.status(name).get("conditions", []):
            if condition["type"] == kind:
                return condition
        return None

    def wait_state(self, state, name="digits", timeout=20):
        until(lambda: f"{name} is {state}, it is {self.state(name)}", lambda: self.state(name) == state, timeout)

    def events(self, name="digits"):
        """Reasons of the operator's events about the job, in the order of their creation."""
        items = [e for e in self.list("events") if e["involvedObject"].get("kind") == "HorovodJob"
                 and e["involvedObject"]["name"] == name]
        items.sort(key=lambda e: int(e["metadata"]["resourceVersion"]))
        return [(e["reason"], e.get("count", 1)) for e in items]

    # What kubelets do.

    def set_pod(self, name, phase="Running", ready=True, terminated=None, container="worker"):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        state = {"terminated": {"finishedAt": now, "startedAt": now, **terminated}} if terminated else \
            {"running": {"startedAt": now}}
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": now}
        return self.patch("pods", name, {"status": {
            "phase": phase, "conditions": [condition], "podIP": "10.1.2.3", "startTime": now,
            "containerStatuses": [{"name": container, "ready": ready, "restartCount": 0, "image": "i",
                                   "imageID": "i", "state": state}]}}, "status")

    def try_set_pod(self, name, **state):
        """As set_pod; None for a pod that is gone, of the attempt before, whose set makes another."""
        try:
            return self.set_pod(name, **state)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def pods_of(self, job, role):
        """Those that nobody removes."""
        return [p for p in self.list("pods") if "deletionTimestamp" not in p["metadata"]
                and p["metadata"].get("labels", {}).get("horovod.io/role") == role
                and p["metadata"]["labels"].get("horovod.io/job-name") == job]

    def describe_pods(self):
        """For messages: name, phase, and whether it is Ready or on its way out."""
        return [(p["metadata"]["name"], p["status"].get("phase"), "Ready" if is_ready(p) else "not ready",
                 "deleted" if "deletionTimestamp" in p["metadata"] else "") for p in self.list("pods")]

    def workers(self, job="digits"):
        return {p["metadata"]["name"] for p in self.list("pods")
                if p["metadata"].get("labels", {}).get("horovod.io/role") == "worker"
                and p["metadata"]["labels"].get("horovod.io/job-name") == job}

    def start_pods(self, names, job="digits", timeout=CONTROLLERS_S):
        """The kubelets start these workers, whatever pods of these names go and come meanwhile and until the master runs."""
        names = set(names)
        self.started.setdefault(job, set()).update(names)

        def all_are_ready():
            found = {p["metadata"]["name"]: p for p in self.pods_of(job, "worker") if p["metadata"]["name"] in names}
            waiting = [name for name, pod in sorted(found.items()) if not is_ready(pod)]
            return found.keys() >= names and all([self.try_set_pod(name) for name in waiting])
        until(f"the worker pods {sorted(names)}", all_are_ready, timeout)

    def start_workers(self, replicas=2, job="digits", timeout=CONTROLLERS_S):
        """The kubelets start the first workers of a job, and no others."""
        self.started[job] = set()
        self.start_pods([f"{job}-worker-{i}" for i in range(replicas)], job, timeout)

    def master(self, job="digits"):
        pods = self.pods_of(job, "master")
        return pods[0]["metadata"]["name"] if pods else None

    def start_new_workers(self, job):
        """The kubelets start those pods that have replaced workers which were started."""
        for pod in self.pods_of(job, "worker"):
            if pod["metadata"]["name"] in self.started.get(job, ()) and pod["status"].get("phase") == "Pending":
                self.try_set_pod(pod["metadata"]["name"])

    def until(self, what, check, job="digits", timeout=CONTROLLERS_S):
        """until() while kubelets go on starting what replaces workers: a set may be made twice, and its pods with it."""
        def checked():
            self.start_new_workers(job)
            return check()
        return until(what, checked, timeout)

    def start_master(self, job="digits", timeout=CONTROLLERS_S):
        """The name of the pod, of an attempt that has not ended."""
        def started():
            self.start_new_workers(job)
            names = [pod["metadata"]["name"] for pod in self.pods_of(job, "master")
                     if pod["status"].get("phase") not in ("Succeeded", "Failed")]
            return names and self.try_set_pod(names[0], container="master") and names[0]
        return until(lambda: f"the master's pod of {job}, {self.status(job)} with {self.describe_pods()}", started, timeout)

    def end_master(self, name, code=0, message=""):
        self.set_pod(name, phase="Failed" if code else "Succeeded", ready=False, container="master",
                     terminated={"exitCode": code, "reason": "Error" if code else "Completed", "message": message})
