"""Row 18 against a real kube-apiserver and kube-controller-manager, with nodes that kwok plays: 100 jobs of 4 workers.

The baseline is what that server needs for the objects alone: copies of the same 500 children are posted in the same run, by
as many connections as post the jobs. A ratio is ours / that. The server runs beside operator, controllers and kwok on the same
machine, so absolute times say little.
"""
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import jobs
import measure

sys.path.append(str(measure.ROOT / "tests/integration/operator"))
from fake import Operator, until  # noqa: E402  (jobs has set the path)
from kubeapi import Api, ApiError, PATHS  # noqa: E402

N_CONNECTIONS = 8
NODE = "kwok-0"
CHILDREN = ["secrets", "services", "statefulsets", "configmaps", "jobs"]  # the last ones wait for Ready workers
POSTING = "posting the same objects"
LIMIT_S = 300


class Pool:
    """Requests in parallel, each thread on a connection of its own."""

    def __init__(self, kubeconfig):
        self.kubeconfig, self.local = kubeconfig, threading.local()
        self.threads = concurrent.futures.ThreadPoolExecutor(N_CONNECTIONS)

    def api(self):
        if not hasattr(self.local, "api"):
            self.local.api = Api(self.kubeconfig)
        return self.local.api

    def post(self, objects):
        """Posts (path, object) pairs; seconds."""
        begin = time.monotonic()
        list(self.threads.map(lambda pair: self.api().request("POST", *pair), objects))
        return time.monotonic() - begin


class Watch:
    """Counts, in the background, the objects of a namespace that meet a condition; .last is when the last one came to."""

    def __init__(self, kubeconfig, plural, ns, counts=lambda item: True):
        api = Api(kubeconfig)
        self.items, self.counts, self.last = {}, counts, time.monotonic()
        path = f"{PATHS[plural]}/namespaces/{ns}/{plural}?watch=true&resourceVersion=0"
        connection = http.client.HTTPSConnection(api.server.hostname, api.server.port, context=api.context)
        connection.request("GET", path)
        self.response = connection.getresponse()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.response:
            item = json.loads(line)["object"]
            name = item["metadata"]["name"]
            if name not in self.items and self.counts(item):
                self.items[name] = item
                self.last = time.monotonic()


@contextlib.contextmanager
def cluster():
    """The kubeconfig of a real server with controllers, a node of kwok, and the CRD."""
    program = measure.ROOT / "tests/cluster/apiserver"
    kwok = subprocess.run([measure.ROOT / "tests/bench/kwok/build"], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip().splitlines()[-1]
    with tempfile.TemporaryDirectory(prefix="horovod-bench-") as folder:
        up = subprocess.run([program, "up", f"{folder}/server", "--with-controllers"], check=True, stdout=subprocess.PIPE, text=True)
        kubeconfig = up.stdout.strip().splitlines()[-1]
        with open(f"{folder}/kwok.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen([kwok, "--kubeconfig", kubeconfig, "--manage-all-nodes",
                                        "--node-lease-duration-seconds", "40"], stdout=log, stderr=log)
        try:
            prepare(kubeconfig)
            yield kubeconfig, folder
        finally:
            process.terminate()
            process.wait(30)
            subprocess.run([program, "down", f"{folder}/server"], check=True, stdout=subprocess.DEVNULL)


def prepare(kubeconfig):
    api = Api(kubeconfig)
    binaries = pathlib.Path(subprocess.run([measure.ROOT / "tests/cluster/build"], check=True, stdout=subprocess.PIPE,
                                           text=True).stdout.strip().splitlines()[-1])
    subprocess.run([binaries / "kubectl", f"--kubeconfig={kubeconfig}", "apply", "-f", measure.ROOT / "crds"], check=True,
                   stdout=subprocess.DEVNULL)
    api.request("POST", "/api/v1/nodes", {"metadata": {"name": NODE, "annotations": {"kwok.x-k8s.io/node": "fake"}}, "status": {
        "allocatable": {"cpu": "1000", "memory": "1000Gi", "pods": "10000"}}})

    def serves():
        with contextlib.suppress(ApiError, ValueError):  # until then the answer is text
            return "items" in api.request("GET", "/apis/horovod.io/v1/horovodjobs")
    until("the CRD is served", serves, 60)
    until("the node is ready", lambda: any(
        c["type"] == "Ready" and c["status"] == "True"
        for c in api.request("GET", f"/api/v1/nodes/{NODE}").get("status", {}).get("conditions", [])), 60)


def new_namespace(api, name):
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def has_account():
        with contextlib.suppress(ApiError):
            return api.request("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default")
    until("the service account", has_account, 60)


def manifest(name):
    """A job on kwok's node; no scheduler is needed."""
    def template(container):
        return {"spec": {"nodeName": NODE, "containers": [{"name": container, "image": "i", "command": ["c"]}]}}
    return {"apiVersion": "horovod.io/v1", "kind": "HorovodJob", "metadata": {"name": name},
            "spec": {"master": {"template": template("master")},
                     "worker": {"replicas": jobs.N_WORKERS, "template": template("worker")}}}


def copy(plural, item, ns):
    """(path, object): a child as somebody else would post it into another namespace."""
    meta = item["metadata"]
    made = {key: value for key, value in item.items() if key not in ("status", "kind", "apiVersion")}
    made["metadata"] = {key: meta[key] for key in ("name", "labels", "annotations") if key in meta}
    if plural == "services":
        made["spec"] = {"clusterIP": "None", "selector": {"a": "b"}, "publishNotReadyAddresses": True}
    if plural == "jobs":
        made["spec"].pop("selector", None)
        labels = made["spec"]["template"]["metadata"]["labels"]
        for key in [key for key in labels if key.endswith(("controller-uid", "job-name")) and "horovod" not in key]:
            del labels[key]
    return f"{PATHS[plural]}/namespaces/{ns}/{plural}", made


def hundred_jobs(kubeconfig, folder, number):
    """(until all children exist, until all have succeeded, posting the children alone), in seconds."""
    api, pool, ns = Api(kubeconfig), Pool(kubeconfig), f"jobs-{number}"
    new_namespace(api, ns)
    new_namespace(api, f"copies-{number}")
    with Operator(kubeconfig, folder, "--namespace", ns) as operator:
        operator.wait_ready()
        made = [Watch(kubeconfig, plural, ns, lambda item: "horovod.io/job-name" in item["metadata"].get("labels", {}))
                for plural in CHILDREN]
        done = Watch(kubeconfig, "horovodjobs", ns, lambda item: item.get("status", {}).get("state") == "Succeeded")
        begin = time.monotonic()
        pool.post([(f"{PATHS['horovodjobs']}/namespaces/{ns}/horovodjobs", manifest(f"j{i}")) for i in range(jobs.N_JOBS)])
        until(lambda: f"all have succeeded: {len(done.items)}, children: {[len(w.items) for w in made]}",
              lambda: len(done.items) == jobs.N_JOBS, LIMIT_S, 0.1)
        found = {plural: len(watch.items) for plural, watch in zip(CHILDREN, made)}
        assert set(found.values()) == {jobs.N_JOBS}, f"children: {found}"
        used = jobs.cpu_s(operator.process.pid)
        operator.stop()
    posting = pool.post([copy(plural, item, f"copies-{number}") for plural, watch in zip(CHILDREN, made)
                         for item in watch.items.values()])
    return {"early_s": max(watch.last for watch in made[:-1]) - begin, "made_s": made[-1].last - begin, "done_s": done.last - begin, "posting_s": posting, "cpu_s": used}


def measure_rows(table, options):
    with cluster() as (kubeconfig, folder):
        runs = []
        for number in range(max(1, options.launches // 3)):
            try:
                runs.append(hundred_jobs(kubeconfig, folder, number))
            except AssertionError as error:  # on a busy machine kwok is late, and its node is taken for lost
                table.miss(18, "real-children-of-100-jobs", str(error))
    if not runs:
        return
    for name, key in (("real-children-but-masters", "early_s"), ("real-children-of-100-jobs", "made_s"), ("real-100-jobs-succeeded", "done_s")):
        table.add(18, name, POSTING, "s", {"any": [(run[key], run["posting_s"], run[key] / run["posting_s"]) for run in runs]})
    jobs.add(table, 23, "real-cpu-of-100-jobs", "s", 0.4, {"any": [run["cpu_s"] for run in runs]})
    print("      " + ", ".join(f"{jobs.N_JOBS / run['done_s']:.1f}" for run in runs) + " jobs per second", flush=True)
