"""Starts the fake API server and speaks to it; see README.md."""
import http.client
import json
import pathlib
import subprocess
import sys
import urllib.parse

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from operator_process import BUILD, OperatorProcess, PROGRAM as OPERATOR  # noqa: E402  (the path above)
from waiting import until  # noqa: E402

PROGRAM = BUILD / "tests/fake/apiserver/fake-apiserver"
AGENT = "horovod-operator"

ROOTS = {"horovodjobs": "/apis/horovod.io/v1beta1", "statefulsets": "/apis/apps/v1", "jobs": "/apis/batch/v1",
         "leases": "/apis/coordination.k8s.io/v1"}
CLUSTER_WIDE = ("nodes", "namespaces")


class ApiError(Exception):
    """An answer that is no success: .code and .body (the Status)."""

    def __init__(self, code, body):
        super().__init__(f"HTTP {code}: {body.get('message', body) if isinstance(body, dict) else body}")
        self.code, self.body = code, body


class Fake:
    """A fake API server in a process of its own; it ends with ours. Use it in a `with` statement, or stop() it."""

    def __init__(self, directory=None, program=PROGRAM, command=(), **config):
        self.process = subprocess.Popen([*command, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.strip():
            raise RuntimeError(f"{program} does not start: exit code {self.process.wait()}")
        self.port = int(line)
        self.url = f"http://127.0.0.1:{self.port}"
        self.connection = None
        self.directory = pathlib.Path(directory) if directory else None
        if config:
            self.configure(**config)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends the server; its exit code (other than 0 when a sanitizer found something)."""
        if self.connection:
            self.connection.close()
        self.process.terminate()
        self.process.stdin.close()
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        return code

    def kubeconfig(self, token=None, token_file=None, directory=None):
        """Writes a kubeconfig for this server; its path."""
        user = {"token": token} if token else {"tokenFile": str(token_file)} if token_file else {}
        path = pathlib.Path(directory or self.directory) / f"kubeconfig-{self.port}"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": user}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}]}), encoding="utf-8")
        return path

    # --- requests ---

    def raw(self, method, path, body=None, headers=None):
        """(code, document) of one request; text when it is not JSON."""
        data = json.dumps(body) if body is not None and not isinstance(body, (str, bytes)) else body
        for attempt in (1, 2):
            try:
                self.connection = self.connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                self.connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
                response = self.connection.getresponse()
                text = response.read().decode()
                break
            except (http.client.HTTPException, ConnectionError):
                self.connection = None
                if attempt == 2:
                    raise
        try:
            return response.status, json.loads(text or "{}")
        except ValueError:
            return response.status, text

    def request(self, method, path, body=None, **headers):
        code, document = self.raw(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        if code >= 300:
            raise ApiError(code, document)
        return document

    def control(self, method, path, body=None):
        return self.request(method, "/-/" + path, body)

    @staticmethod
    def path(plural, name=None, ns="default", sub=None):
        root = ROOTS.get(plural, "/api/v1")
        parts = [root] + ([] if plural in CLUSTER_WIDE or ns is None else ["namespaces", ns]) + [plural]
        return "/".join(parts + [part for part in (name, sub) if part])

    def get(self, plural, name, ns="default"):
        """The object, or None."""
        code, document = self.raw("GET", self.path(plural, name, ns))
        if code == 404:
            return None
        if code >= 300:
            raise ApiError(code, document)
        return document

    def list(self, plural, ns=None, **query):
        return self.request("GET", self.path(plural, None, ns) + "?" + urllib.parse.urlencode(query))["items"]

    def create(self, plural, body, ns="default"):
        return self.request("POST", self.path(plural, None, ns), body)

    def patch(self, plural, name, body, ns="default", sub=None):
        kind = "json-patch" if isinstance(body, list) else "merge-patch"
        return self.request("PATCH", self.path(plural, name, ns, sub), body, Content_Type=f"application/{kind}+json")

    def delete(self, plural, name, ns="default", propagation="Background"):
        return self.request("DELETE", self.path(plural, name, ns), {"propagationPolicy": propagation})

    # --- control: see README.md ---

    def configure(self, **config):
        self.control("POST", "config", config)

    def play(self, **script):
        self.control("POST", "config", {"play": script})

    def fault(self, action, **rule):
        """Adds a fault; its number."""
        return self.control("POST", "faults", [{"action": action, **rule}])[0]

    def faults(self):
        return self.control("GET", "faults")

    def clear_faults(self, number=None):
        self.control("DELETE", "faults" + (f"?id={number}" if number else ""))

    def requests(self, after=0, agent=AGENT):
        """What the program under test (agent None: anybody) has asked for, behind the request of that number."""
        return [r for r in self.control("GET", f"requests?after={after}") if agent is None or r["agent"].startswith(agent)]

    def writes(self, after=0, agent=AGENT):
        return [r for r in self.requests(after, agent) if r["verb"] in ("create", "update", "patch", "delete")]

    def objects(self, resource=None, ns=None):
        query = {k: v for k, v in (("resource", resource), ("namespace", ns)) if v}
        return self.control("GET", "objects?" + urllib.parse.urlencode(query))

    def put(self, *objects):
        """Makes or replaces objects, status and all, without any check."""
        self.control("POST", "objects", list(objects))

    def remove(self, **which):
        """Takes objects away without any ceremony: resource, namespace, name."""
        return self.control("DELETE", "objects?" + urllib.parse.urlencode(which))["removed"]

    def watches(self, action, resource=None):
        """Does something to the open watches: gone, drop, half, garbage, hang, bookmark. How many there were."""
        return self.control("POST", "watches", {"action": action, **({"resource": resource} if resource else {})})["watches"]

    def compact(self):
        self.control("POST", "compact")

    def freeze(self):
        self.control("POST", "freeze")

    def unfreeze(self):
        self.control("POST", "unfreeze")

    def disconnect(self):
        self.control("POST", "disconnect")

    def state(self):
        return self.control("GET", "state")

    # --- what users do ---

    def apply_job(self, name="digits", replicas=2, ns="default", play=None, **spec):
        """A HorovodJob in the short form; play: how its pods fare, before the configured script."""
        meta = {"name": name}
        if play is not None:
            meta["annotations"] = {"fake.horovod.io/play": json.dumps(play)}
        return self.create("horovodjobs", {
            "apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": meta,
            "spec": {"image": "localhost/horovod-worker:0.1.0", "command": ["python", "train.py"],
                     "worker": {"replicas": replicas}, **spec}}, ns)

    def job_state(self, name="digits", ns="default"):
        return (self.get("horovodjobs", name, ns) or {}).get("status", {}).get("state")

    def wait_state(self, state, name="digits", ns="default", timeout=20):
        until(lambda: f"{ns}/{name} is {state}, it is {self.job_state(name, ns)}",
              lambda: self.job_state(name, ns) == state, timeout)


class Operator(OperatorProcess):
    """An operator of a fake API server."""

    def __init__(self, kubeconfig, directory, *args, **options):
        super().__init__(directory, "--kubeconfig", str(kubeconfig), *args, **options)
