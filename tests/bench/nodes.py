"""Rows 18, 19 and 23 on a real kube-apiserver and kube-controller-manager, with nodes that kwok plays: 100 jobs of 4 workers.

There are two benchmarks: `limited` with the client limits of kube-controller-manager as they are (20 requests a second for each
of its controllers, which is what the pods of 100 StatefulSets wait for), and `nodes` with those limits lifted. The baseline is a
client without an operator, in the same run on the same server: it posts copies of the same children over as many connections as
posted the jobs, waits until all workers are Ready, posts the masters' Jobs and waits for their end. Everything happens on one
machine, so absolute times say little. All times are those of the server's audit log: a request counts from when it came in to
when it was answered.
"""
import concurrent.futures
import contextlib
import datetime
import json
import pathlib
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import jobs
import measure
import stages

from fake import Operator, until  # (jobs has set the path, fake that of tests/support)
from kubeapi import Api, ApiError, PATHS

N_CONNECTIONS = 8
NODE = "kwok-0"
NAMES, PATTERN = [f"j{i}" for i in range(jobs.N_JOBS)], "pattern"
EARLY = ["secrets", "services", "statefulsets", "configmaps"]
LATE = "jobs"  # those of the masters, which wait for Ready workers
AGENT = "horovod-operator/"
POSTING, CLIENT = "posting as many objects", "a client without an operator"
LIMIT_S = 300
EVERY_S = 0.25  # between two jobs, so that the processors are not busy all the time
PATIENCE_S = 10  # with a program that was told to end
# A node whose renewals come late on a busy machine must not count as lost: that would be about the machine.
PATIENT = ["--node-monitor-grace-period=15m"]
LIFTED = ["--kube-api-qps=5000", "--kube-api-burst=10000", "--concurrent-statefulset-syncs=50", "--concurrent-job-syncs=50",
          "--concurrent-service-endpoint-syncs=50", "--concurrent-endpoint-syncs=50"]


# --- what the server has seen --------------------------------------------------------------------------------------

def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def parse(line):
    """An entry of the audit log: who did what to which object; `at` when it came, `done` when it was answered."""
    entry = json.loads(line)
    what = entry.get("objectRef", {})
    return {"at": seconds(entry["requestReceivedTimestamp"]), "done": seconds(entry["stageTimestamp"]), "verb": entry["verb"],
            "resource": what.get("resource", ""), "sub": what.get("subresource", ""), "ns": what.get("namespace", ""),
            "name": what.get("name", ""), "code": entry.get("responseStatus", {}).get("code", 0),
            "agent": entry.get("userAgent", ""), "stage": entry["stage"]}


class Audit:
    """The requests of one namespace that were answered, in the order of their answers."""

    def __init__(self, path, ns):
        self.log, self.ns, self.rest, self.records = open(path, encoding="utf-8", errors="replace"), ns, "", []
        size = self.log.seek(0, 2)
        self.is_within = size > 0  # a line that was being written, or at the end of one
        self.log.seek(max(size - 1, 0))

    def close(self):
        self.log.close()

    def read(self):
        """All that is known by now."""
        lines = (self.rest + self.log.read()).split("\n")
        self.rest = lines.pop()
        if self.is_within and lines:
            lines.pop(0)
            self.is_within = False
        found = map(parse, (line for line in lines if f'"namespace":"{self.ns}"' in line))
        self.records += [r for r in found if r["ns"] == self.ns and r["stage"] == "ResponseComplete"]
        return self.records


def made(records, resources):
    """The requests that made objects of these kinds."""
    return [r for r in records if r["verb"] == "create" and r["resource"] in resources and not r["sub"] and r["code"] == 201]


def plays(records, role):
    """What kwok wrote about the pods of a role: name -> when each was known. Of a worker the first says that it is Ready; of a
    master the first that it runs, and the second that it has ended."""
    found = {}
    for r in records:
        if r["agent"].startswith("kwok/") and r["resource"] == "pods" and r["sub"] == "status" and f"-{role}-" in r["name"]:
            found.setdefault(r["name"], []).append(r["done"])
    return {name: sorted(times) for name, times in found.items()}


def ready_workers(records):
    """job -> when the last of its workers was Ready; jobs that lack one are left out."""
    found = {}
    for name, times in plays(records, "worker").items():
        found.setdefault(name.rsplit("-worker-", 1)[0], []).append(times[0])
    return {job: max(times) for job, times in found.items() if len(times) == jobs.N_WORKERS}


def last_workers(records):
    """job -> (the worker that was Ready last, when)."""
    found = {}
    for name, times in plays(records, "worker").items():
        found.setdefault(name.rsplit("-worker-", 1)[0], []).append((times[0], name))
    return {job: max(pairs)[::-1] for job, pairs in found.items()}


def ended_masters(records):
    return {name: times[1] for name, times in plays(records, "master").items() if len(times) > 1}


def steps(records):
    """When, in seconds since the first object was posted, the last child that waits for nothing was there, the last worker
    Ready, the last master made, and the last one ended."""
    begin = min(r["at"] for r in made(records, ["horovodjobs", *EARLY]))
    last = {"early_s": max(r["done"] for r in made(records, EARLY)), "ready_s": max(ready_workers(records).values()),
            "made_s": max(r["done"] for r in made(records, [LATE])), "ended_s": max(ended_masters(records).values())}
    return {name: at - begin for name, at in last.items()}


def reactions(records):
    """What the operator adds, of each job in milliseconds: from the last worker's being Ready to the request for the master's
    Job, and to its existence; from the end of the master's pod to the status that tells of it. ValueError names the jobs without
    one of these."""
    ready, ended = ready_workers(records), ended_masters(records)
    found, missing = {"asked": [], "made": [], "told": []}, []
    for r in made(records, [LATE]):
        job = r["name"].rsplit("-master", 1)[0]
        if job not in ready:
            missing.append(f"{job}: its master was made, and not all of its workers were Ready")
            continue
        found["asked"].append(1000 * (r["at"] - ready[job]))
        found["made"].append(1000 * (r["done"] - ready[job]))
    for name, at in ended.items():
        job = name.rsplit("-master-", 1)[0]
        told = [r["done"] for r in records if is_told(r, job, at)]
        if told:
            found["told"].append(1000 * (min(told) - at))
        else:
            missing.append(f"{job}: no status was written after pod {name} had ended")
    if missing:
        raise ValueError(f"the audit log has no reaction of: " + "; ".join(missing))
    return found


def is_told(r, job, at):
    """Whether this is a status of the job that the operator wrote after that time."""
    return (r["agent"].startswith(AGENT) and r["verb"] == "patch" and r["done"] > at and
            (r["resource"], r["sub"], r["name"]) == ("horovodjobs", "status", job))


def count(records):
    """What the operator asked for, by verb and kind."""
    found = {}
    for r in records:
        if r["agent"].startswith(AGENT):
            key = f"{r['verb']} {r['resource']}{'/' + r['sub'] if r['sub'] else ''}"
            found[key] = found.get(key, 0) + 1
    return dict(sorted(found.items()))


# --- the server ----------------------------------------------------------------------------------------------------

class Pool:
    """Requests in parallel, each thread on a connection of its own."""

    def __init__(self, kubeconfig):
        self.kubeconfig, self.local = kubeconfig, threading.local()
        self.threads = concurrent.futures.ThreadPoolExecutor(N_CONNECTIONS)

    def send(self, pair):
        if not hasattr(self.local, "api"):
            self.local.api = Api(self.kubeconfig)
        try:
            self.local.api.request("POST", *pair)
        except ssl.SSLError:  # a connection that was idle for long; the server has closed it before it read anything
            self.local.api = Api(self.kubeconfig)
            self.local.api.request("POST", *pair)

    def post(self, objects):
        """Posts (path, object) pairs."""
        list(self.threads.map(self.send, objects))


def end(process):
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(PATIENCE_S)


@contextlib.contextmanager
def cluster(flags=()):
    """(kubeconfig, folder) of a real server with controllers that have these flags, a node of kwok, and the CRD."""
    program = measure.ROOT / "tests/cluster/apiserver"
    kwok = subprocess.run([measure.ROOT / "tests/bench/kwok/build"], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip().splitlines()[-1]
    with tempfile.TemporaryDirectory(prefix="horovod-bench-") as folder, contextlib.ExitStack() as stack:
        stack.callback(subprocess.run, [program, "down", f"{folder}/server"], check=True, stdout=subprocess.DEVNULL)
        up = subprocess.run([program, "up", f"{folder}/server", "--with-controllers", "--", *PATIENT, *flags], check=True,
                            stdout=subprocess.PIPE, text=True)
        kubeconfig = up.stdout.strip().splitlines()[-1]
        log = stack.enter_context(open(f"{folder}/kwok.log", "w", encoding="utf-8"))
        process = subprocess.Popen([kwok, "--kubeconfig", kubeconfig, "--manage-all-nodes", "--node-lease-duration-seconds", "40"],
                                   stdout=log, stderr=log)
        stack.callback(end, process)
        pathlib.Path(f"{folder}/server/kwok.pid").write_text(str(process.pid))
        prepare(kubeconfig)
        yield kubeconfig, folder


def programs(folder):
    """name -> process of those of the server."""
    return {record.stem: int(record.read_text().split()[0]) for record in sorted(pathlib.Path(folder).glob("*.pid"))}


def go_first(folder):
    """The server's programs have sessions of their own, which jobs.go_first does not reach."""
    for pid in programs(folder).values():
        pathlib.Path(f"/proc/{pid}/autogroup").write_text("-20")


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
            return "items" in api.request("GET", "/apis/horovod.io/v1beta1/horovodjobs")
    until("the CRD is served", serves, 60)
    until("the node is ready", lambda: any(
        c["type"] == "Ready" and c["status"] == "True"
        for c in api.request("GET", f"/api/v1/nodes/{NODE}").get("status", {}).get("conditions", [])), 60)


@contextlib.contextmanager
def new_namespace(kubeconfig, folder, name):
    """Its part of the audit log."""
    api = Api(kubeconfig)
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def has_account():
        with contextlib.suppress(ApiError):
            return api.request("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default")
    until("the service account", has_account, 60)
    with contextlib.closing(Audit(f"{folder}/server/audit.log", name)) as audit:
        yield audit


# --- who is measured -----------------------------------------------------------------------------------------------

def manifest(name):
    """A job on kwok's node; no scheduler is needed."""
    def template(container):
        return {"spec": {"nodeName": NODE, "containers": [{"name": container, "image": "i", "command": ["c"]}]}}
    return {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": name},
            "spec": {"master": {"template": template("master")},
                     "worker": {"replicas": jobs.N_WORKERS, "template": template("worker")}}}


def copy(plural, item, ns, name):
    """(path, object): a child of the job PATTERN as somebody else would post it for another one, into another namespace."""
    item = json.loads(json.dumps(item).replace(PATTERN, name))
    meta = item["metadata"]
    made_of = {key: value for key, value in item.items() if key not in ("status", "kind", "apiVersion")}
    made_of["metadata"] = {key: meta[key] for key in ("name", "labels", "annotations") if key in meta}
    if plural == "services":
        made_of["spec"] = {key: item["spec"][key] for key in ("clusterIP", "selector", "publishNotReadyAddresses", "ports")
                           if key in item["spec"]}
    if plural == LATE:
        made_of["spec"].pop("selector", None)
        labels = made_of["spec"]["template"]["metadata"]["labels"]
        for key in [key for key in labels if key.endswith(("controller-uid", "job-name")) and "horovod" not in key]:
            del labels[key]
    return f"{PATHS[plural]}/namespaces/{ns}/{plural}", made_of


def pattern(kubeconfig, folder):
    """The children of one job, by kind."""
    api, path = Api(kubeconfig), f"{PATHS['horovodjobs']}/namespaces/{PATTERN}/horovodjobs"
    job = manifest(PATTERN)
    job["spec"]["cleanPodPolicy"] = "None"
    with new_namespace(kubeconfig, folder, PATTERN), Operator(kubeconfig, folder, "--namespace", PATTERN) as operator:
        operator.wait_ready()
        api.request("POST", path, job)
        until("one job has succeeded", lambda: operator.metric("horovod_operator_jobs", state="Succeeded"), 60)
        operator.stop()
    found = {plural: [item for item in api.request("GET", f"{PATHS[plural]}/namespaces/{PATTERN}/{plural}")["items"]
                      if "horovod.io/job-name" in item["metadata"].get("labels", {})] for plural in [*EARLY, LATE]}
    assert all(len(items) == 1 for items in found.values()), found
    return {plural: items[0] for plural, items in found.items()}


def wait_for(what, audit, find, n):
    until(lambda: f"{n} {what}: {len(find(audit.read()))}", lambda: len(find(audit.read())) >= n, LIMIT_S, 0.2)


def with_operator(kubeconfig, folder, ns, pool):
    """100 jobs to their success: the steps, the reactions, the requests, and seconds of processor time."""
    with new_namespace(kubeconfig, folder, ns) as audit, Operator(kubeconfig, folder, "--namespace", ns) as operator:
        operator.wait_ready()
        used = jobs.cpu_s(operator.process.pid)
        pool.post([(f"{PATHS['horovodjobs']}/namespaces/{ns}/horovodjobs", manifest(name)) for name in NAMES])
        until(lambda: f"all have succeeded: {count(audit.read())}",
              lambda: operator.metric("horovod_operator_jobs", state="Succeeded") == jobs.N_JOBS, LIMIT_S, 0.2)
        used = jobs.cpu_s(operator.process.pid) - used
        operator.stop()
        records = audit.read()
        asked = count([r for r in records if r["at"] <= max(r["done"] for r in made(records, EARLY))])
        return {**steps(records), **reactions(records), "cpu_s": used, "count": count(records), "early_count": asked}


def with_client(kubeconfig, folder, ns, pool, child):
    """The same children without an operator: the steps, and the seconds of posting alone."""
    with new_namespace(kubeconfig, folder, ns) as audit:
        pool.post([copy(plural, child[plural], ns, name) for name in NAMES for plural in EARLY])
        wait_for("jobs with Ready workers", audit, ready_workers, jobs.N_JOBS)
        pool.post([copy(LATE, child[LATE], ns, name) for name in NAMES])
        wait_for("masters that ended", audit, ended_masters, jobs.N_JOBS)
        records = audit.read()
        posted = [made(records, EARLY), made(records, [LATE])]
        return {**steps(records), "posting_s": sum(max(r["done"] for r in some) - min(r["at"] for r in some) for some in posted)}


def hundred_jobs(kubeconfig, folder, child, number):
    """(with the operator, without)."""
    pool = Pool(kubeconfig)
    return (with_operator(kubeconfig, folder, f"jobs-{number}", pool),
            with_client(kubeconfig, folder, f"copies-{number}", pool, child))


def traced(kubeconfig, folder, ns, every_s):
    """100 jobs, one every so many seconds, to their success: their events of each kind, in stages, and who used the processors."""
    pool, api, found = Pool(kubeconfig), Api(kubeconfig), {"ready-to-request": [], "ready-to-master": [], "pod-to-status": []}
    offset_us = stages.boot_offset_us()
    with new_namespace(kubeconfig, folder, ns) as audit, \
            Operator(kubeconfig, folder, "--namespace", ns, "--log-level", "debug") as operator:
        operator.wait_ready()
        metrics = api.stream("/metrics").read().decode()
        pids = programs(f"{folder}/server") | {"operator": operator.process.pid}
        with stages.Follower(kubeconfig, ns, folder) as follower, stages.Processors(pids) as processors:
            begin = time.monotonic()
            for i in range(0, jobs.N_JOBS, 1 if every_s else jobs.N_JOBS):
                pool.post([(f"{PATHS['horovodjobs']}/namespaces/{ns}/horovodjobs", manifest(name))
                           for name in (NAMES[i:i + 1] if every_s else NAMES)])
                time.sleep(max(0, begin + (i + 1) * every_s - time.monotonic()))
            until(lambda: f"all have succeeded: {count(audit.read())}",
                  lambda: operator.metric("horovod_operator_jobs", state="Succeeded") == jobs.N_JOBS, LIMIT_S, 0.2)
        waits = stages.goroutine_waits(metrics, api.stream("/metrics").read().decode())
        operator.stop()
        records, trace = audit.read(), stages.Trace(operator.log.read_text(), offset_us)
    seen, ready = stages.read_follower(follower.text), last_workers(records)
    for r in made(records, [LATE]):
        if stage := stages.ready_stages(trace, seen, ready[r["name"].rsplit("-master", 1)[0]], r):
            found["ready-to-request"].append(stages.without(stage, stages.ANSWER))
            found["ready-to-master"].append(stage)
    for name, at in ended_masters(records).items():
        job = name.rsplit("-master-", 1)[0]
        status = min((r for r in records if is_told(r, job, at)), key=lambda r: r["done"])
        about = [r for r in made(records, ["events"]) if r["agent"].startswith(AGENT) and r["name"].startswith(f"{job}.")]
        if stage := stages.ended_stages(trace, seen, (name, at), status, about):
            found["pod-to-status"].append(stage)
    return found, processors, waits, (count(records).get("watch pods", 0), stages.openings(follower.text))


# --- the table -----------------------------------------------------------------------------------------------------

def measure_case(table, name, flags, launches, is_first):
    with cluster(flags) as (kubeconfig, folder):
        if is_first:
            go_first(f"{folder}/server")
        child = pattern(kubeconfig, folder)
        runs = [hundred_jobs(kubeconfig, folder, child, number) for number in range(launches)]

    def add(what, key, theirs_key, baseline):
        table.add(18, f"{name}-{what}", baseline, "s", {"any": [
            (ours[key], theirs[theirs_key], ours[key] / theirs[theirs_key]) for ours, theirs in runs]})
    add("children-but-masters", "early_s", "posting_s", POSTING)
    add("workers-ready", "ready_s", "ready_s", CLIENT)
    add("children-of-100-jobs", "made_s", "made_s", CLIENT)
    add("masters-ended", "ended_s", "ended_s", CLIENT)
    for what, key in (("ready-to-request", "asked"), ("ready-to-master", "made"), ("pod-to-status", "told")):
        for q in (0.5, 0.99):
            jobs.add(table, 19, f"{name}-{what}-p{100 * q:.0f}", "ms", 10, {"any": [jobs.quantile(ours[key], q) for ours, _ in runs]})
    jobs.add(table, 23, f"{name}-cpu-of-100-jobs", "s", 0.4, {"any": [ours["cpu_s"] for ours, _ in runs]})
    print("      " + ", ".join(f"{n} {what}" for what, n in runs[0][0]["count"].items()), flush=True)
    return runs


def goes_first(options):
    if options.first and not jobs.go_first():
        print("bench: --first needs root: measuring with the same priority as all others", file=sys.stderr)
        return False
    return options.first


def show_stages(options):
    """Prints where the time goes: 100 jobs at once, and one after the other."""
    with cluster(LIFTED) as (kubeconfig, folder):
        if goes_first(options):
            go_first(f"{folder}/server")
        pattern(kubeconfig, folder)  # a first job, for what is slow but once
        for name, every_s in (("at once", 0), (f"one every {EVERY_S} s", EVERY_S)):
            runs = [traced(kubeconfig, folder, f"traced-{'paced' if every_s else 'burst'}-{i}", every_s)
                    for i in range(max(1, options.launches // 3))]
            for what in runs[0][0]:
                stages.show(f"{what}, {jobs.N_JOBS} jobs {name}", [event for found, *_ in runs for event in found[what]])
            stages.show_processors(*runs[-1][1:])


def measure_rows(table, options):
    if options.stages:
        show_stages(options)
        return
    measure_case(table, "real", LIFTED, max(1, options.launches // 3), goes_first(options))


def measure_limited(table, options):
    """One launch: it takes minutes, of which kube-controller-manager waits for most."""
    measure_case(table, "real-limited", [], 1, goes_first(options))
