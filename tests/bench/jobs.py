"""Rows 17 to 23: the operator on the fake API server, which answers after 1 ms and makes pods Ready at once.

A ratio is measured / target. Times depend on what else the machine does: their class is "quiet" when operator and server
waited for a processor for less than a fifth of the time that they had one, else "busy". The class of counts and memory,
which do not depend on it, is "any".
"""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import measure

sys.path.append(str(measure.ROOT / "tests/fake"))
from fake import Fake, Operator, until  # noqa: E402  (the path above)

LATENCY_MS = 1
N_JOBS, N_WORKERS = 100, 4
N_MANY = 1000
N_PODS = 10000
PACE_S = 0.02
AGED_S = 62  # the operator gives memory back once a minute
TARGET = "target {:g}"
MAX_WAIT = 0.2
FOREVER = -1


# --- the machine ------------------------------------------------------------------------------------------------

def scheduled_s(pid):
    """(seconds that a process ran, seconds that it could have run but others did), to the nanosecond."""
    rows = [(task / "schedstat").read_text().split() for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return tuple(sum(int(row[i]) for row in rows) / 1e9 for i in (0, 1))


def cpu_s(pid):
    return scheduled_s(pid)[0]


def go_first():
    """Lets this session run before all others, as root can; what it starts as well. Whether it worked."""
    try:
        pathlib.Path("/proc/self/autogroup").write_text("-20")
        os.nice(-15)
        return True
    except OSError:
        return False


def memory_mb(pid):
    """(anonymous, total) resident memory."""
    values = {}
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, rest = line.partition(":")
        if key.startswith(("Rss", "VmRSS")):
            values[key] = int(rest.split()[0]) / 1024
    return values["RssAnon"], values["VmRSS"]


class Quiet:
    """Whether these programs ran when they could: `with Quiet(pids) as quiet: ...; quiet.name`."""

    def __init__(self, *pids):
        self.pids, self.name = pids, "busy"

    def __enter__(self):
        self.begin = [scheduled_s(pid) for pid in self.pids]
        return self

    def __exit__(self, *_):
        if any(not pathlib.Path(f"/proc/{pid}").exists() for pid in self.pids):
            return
        spent = [(run - run_0, wait - wait_0)
                 for (run, wait), (run_0, wait_0) in zip(map(scheduled_s, self.pids), self.begin)]
        self.name = "quiet" if sum(wait for _, wait in spent) < MAX_WAIT * sum(run for run, _ in spent) else "busy"


# --- what is driven ---------------------------------------------------------------------------------------------

def manifest(name, workers=N_WORKERS, ns="default", play=None):
    meta = {"name": name, "namespace": ns}
    if play:
        meta["annotations"] = {"fake.horovod.io/play": play}
    return {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": meta,
            "spec": {"image": "localhost/horovod-worker:0.1.0", "command": ["python", "train.py"],
                     "worker": {"replicas": workers}}}


@contextlib.contextmanager
def world(*, play=None, args=()):
    """(fake, a function that starts an operator and waits until it is ready)."""
    with tempfile.TemporaryDirectory(prefix="horovod-bench-") as folder, contextlib.ExitStack() as stack:
        fake = stack.enter_context(Fake(folder, latency_ms=LATENCY_MS, record_body=0, play=play or {}))
        kubeconfig = fake.kubeconfig()

        def start(*more, wait=True):
            operator = stack.enter_context(Operator(kubeconfig, folder, *args, *more))
            return operator.wait_ready() if wait else operator
        yield fake, start


def at_rest(fake, operator, seen=0):
    """Waits until nobody does anything any more."""
    def is_resting():
        before = fake.state()
        if before["playing"] or operator.metric("horovod_operator_queue_depth"):
            return False
        time.sleep(0.1)
        return (operator.metric("horovod_operator_reconcile_seconds_count") >= seen and
                fake.state()["requests"] == before["requests"])
    until("nothing happens any more", is_resting, 120, 0.1)


def mark(fake):
    """Now, on the clock of the fake's records."""
    fake.list("nodes")
    return fake.requests(fake.state()["requests"] - 1, agent=None)[0]["ms"]


# --- the rows ---------------------------------------------------------------------------------------------------

def writes_per_job(workers):
    """What the operator writes from a job's creation to its success, by verb and resource. The master runs long enough to be
    told of."""
    with world(play={"run_ms": 300}) as (fake, start):
        operator = start()
        before = fake.state()["requests"]
        fake.put(manifest("one", workers))
        fake.wait_state("Succeeded", "one", timeout=60)
        at_rest(fake, operator)
        counts = {}
        for write in fake.writes(before):
            key = f"{write['verb']} {write['resource']}{'/' + write['subresource'] if write['subresource'] else ''}"
            counts[key] = counts.get(key, 0) + 1
        return counts


def hundred_jobs():
    """Rows 18, 19 and 23 of one launch: times, delays in milliseconds, seconds of CPU, and who else ran."""
    with world() as (fake, start):
        operator = start()
        pid = operator.process.pid
        used = cpu_s(pid)
        with Quiet(pid, fake.process.pid) as quiet:
            begin_ms, first = mark(fake), fake.state()["requests"]
            fake.put(*(manifest(f"j{i}") for i in range(N_JOBS)))
            until("all are made", lambda: fake.state()["objects"]["jobs.batch"] == N_JOBS, 60, 0.02)
            until("all have succeeded", lambda: operator.metric("horovod_operator_jobs", state="Succeeded") == N_JOBS, 60, 0.05)
            at_rest(fake, operator)
        used = cpu_s(pid) - used
        records = fake.requests(first, agent=None)
        made = [r["ms"] for r in records if r["verb"] == "create" and r["code"] == 201 and r["resource"] != "events"]
        assert len(made) == 5 * N_JOBS, f"{len(made)} children of {N_JOBS} jobs"
        return {"made_s": (max(made) - begin_ms) / 1000, "delays_ms": delays(records), "cpu_s": used, "where": quiet.name}


def paced_jobs():
    """Row 19 as a real API server has it: the jobs come one after the other, in the two seconds that posting takes."""
    with world(play={"run_ms": 100}) as (fake, start):
        operator = start()
        with Quiet(operator.process.pid, fake.process.pid) as quiet:
            first, begin = fake.state()["requests"], time.monotonic()
            for i in range(N_JOBS):
                fake.put(manifest(f"j{i}"))
                time.sleep(max(0, begin + PACE_S * (i + 1) - time.monotonic()))
            until("all have succeeded", lambda: operator.metric("horovod_operator_jobs", state="Succeeded") == N_JOBS, 60, 0.05)
        return {"delays_ms": delays(fake.requests(first, agent=None)), "where": quiet.name}


def delays(records):
    """From the end of each master's pod to the status write that tells of it."""
    found, ended = [], {}
    for r in records:
        if r["verb"] == "play" and r["subresource"] == "ended":
            ended[r["name"].rsplit("-master-", 1)[0]] = r["ms"]
        elif r["verb"] == "patch" and r["resource"] == "horovodjobs" and r["name"] in ended:
            found.append(r["ms"] - ended.pop(r["name"]))
    return found


def quantile(values, q):
    return sorted(values)[min(int(q * len(values)), len(values) - 1)]


def put_many(fake, objects):
    for i in range(0, len(objects), 500):
        fake.put(*objects[i:i + 500])


def foreign_pod(i):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"other-{i}", "labels": {"app": "other"}},
            "spec": {"nodeName": f"node-{i % 100}", "containers": [{"name": "c", "image": "image", "env": [
                {"name": f"VARIABLE_{k}", "value": "value"} for k in range(20)]}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


def many_jobs():
    """Rows 20 to 22 of one launch: memory in several states, writes when nothing changed, the cold start."""
    found = {}
    with world(play={"run_ms": FOREVER}) as (fake, start):
        operator = start()
        time.sleep(1)
        found["idle"] = memory_mb(operator.process.pid)
        ends = '{"run_ms": 0}'
        put_many(fake, [manifest(f"j{i}", play=ends if i % 2 else None) for i in range(N_MANY)])
        until("all are made", lambda: fake.state()["objects"]["jobs.batch"] == N_MANY, 300, 0.2)
        until("half have succeeded", lambda: operator.metric("horovod_operator_jobs", state="Succeeded") == N_MANY / 2, 120, 0.2)
        at_rest(fake, operator)
        found["1000 jobs, just made"] = memory_mb(operator.process.pid)
        time.sleep(AGED_S)
        found["1000 jobs"] = memory_mb(operator.process.pid)
        operator.stop()
        found |= restart(fake, start)
    with world(play={"off": True}) as (fake, start):
        put_many(fake, [foreign_pod(i) for i in range(N_PODS)])
        operator = start()
        time.sleep(1)
        found["10000 pods"] = memory_mb(operator.process.pid)
    return found


def restart(fake, start):
    """A new operator finds 1,000 jobs, finished and running, and one that was made meanwhile."""
    before, begin_ms = fake.state()["requests"], 0.0
    operator = start()
    at_rest(fake, operator, N_MANY)
    found = {"writes after a restart": len(fake.writes(before)), "1000 jobs, restarted": memory_mb(operator.process.pid)}
    before, seen = fake.state()["requests"], operator.metric("horovod_operator_reconcile_seconds_count")
    fake.compact()
    assert fake.watches("gone") >= 7
    until("all is listed again", lambda: sum(r["verb"] == "list" for r in fake.requests(before)) >= 7, 60, 0.1)
    at_rest(fake, operator, seen)
    found["writes after a resync"] = len(fake.writes(before))
    operator.stop()
    fake.put(manifest("new"))
    with Quiet(fake.process.pid) as quiet:
        before = fake.state()["requests"]
        begin_ms = mark(fake)
        operator = start(wait=False)
        until("the first write", lambda: fake.state()["objects"]["jobs.batch"] > N_MANY, 60, 0.05)
    found["cold start ms"] = min(r["ms"] for r in fake.writes(before)) - begin_ms
    found["where"] = quiet.name
    return found


def takeover():
    """From SIGTERM of the leader to the first write of the other."""
    with world(args=["--leader-elect=true", "--lease-namespace=default"], play={"run_ms": FOREVER}) as (fake, start):
        leader = start(wait=False)
        until("a leader", lambda: fake.get("leases", "horovod-operator"), 30)
        other = start(wait=False)
        time.sleep(3)
        holder = fake.get("leases", "horovod-operator")["spec"]["holderIdentity"]
        with Quiet(other.process.pid, fake.process.pid) as quiet:
            begin_ms, before = mark(fake), fake.state()["requests"]
            leader.process.terminate()
            leader.process.wait(30)
            fake.put(manifest("new"))
            until("the other leads", lambda: fake.get("secrets", "new-ssh"), 60)
        assert fake.get("leases", "horovod-operator")["spec"]["holderIdentity"] != holder
        first = min(r["ms"] for r in fake.writes(before) if r["resource"] == "secrets")
        return {"s": (first - begin_ms) / 1000, "where": quiet.name}


# --- the table --------------------------------------------------------------------------------------------------

def has_election():
    out = subprocess.run([measure.BUILD / "operator/horovod-operator", "--help"], text=True, capture_output=True, check=True)
    return "--leader-elect" in out.stdout


def add(table, row, name, unit, target, samples):
    """samples: class -> values."""
    table.add(row, name, TARGET.format(target), unit,
              {where: [(value, target, value / target if target else value) for value in values]
               for where, values in samples.items()})


def add_writes(table):
    for workers in (N_WORKERS, 64):
        counts = writes_per_job(workers)
        add(table, 17, f"writes-{workers}-workers", "writes", 12, {"any": [sum(counts.values())]})
        print("      " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())), flush=True)


def by_class(runs, value):
    samples = {}
    for run in runs:
        samples.setdefault(run["where"], []).append(value(run))
    return samples


def add_hundred(table, options):
    runs = [hundred_jobs() for _ in range(options.launches)]
    paced = [paced_jobs() for _ in range(options.launches)]
    add(table, 18, "children-of-100-jobs", "s", 1, by_class(runs, lambda run: run["made_s"]))
    for name, of in (("pod-to-status", paced), ("burst-pod-to-status", runs)):
        for q in (0.5, 0.99):
            add(table, 19, f"{name}-p{100 * q:.0f}", "ms", 10, by_class(of, lambda run, q=q: quantile(run["delays_ms"], q)))
    add(table, 23, "cpu-of-100-jobs", "s", 0.4, by_class(runs, lambda run: run["cpu_s"]))


def add_many(table, options):
    runs = [many_jobs() for _ in range(max(1, options.launches // 5))]
    targets = {"idle": 3, "1000 jobs": 6, "1000 jobs, restarted": 6, "1000 jobs, just made": 6, "10000 pods": 6}
    for state, target in targets.items():
        name = state.replace(", ", "-").replace(" ", "-")
        add(table, 20, f"{name}-anonymous", "MB", target, {"any": [run[state][0] for run in runs]})
        add(table, 20, f"{name}-total", "MB", 16, {"any": [run[state][1] for run in runs]})
    for what in ("restart", "resync"):
        add(table, 21, f"writes-after-{what}", "writes", 0, {"any": [run[f"writes after a {what}"] for run in runs]})
    add(table, 22, "cold-start-1000-jobs", "ms", 200, by_class(runs, lambda run: run["cold start ms"]))


def add_takeover(table, options):
    if not has_election():
        table.miss(21, "takeover", "the operator has no --leader-elect")
        return
    runs = [takeover() for _ in range(max(1, options.launches // 2))]
    add(table, 21, "takeover-after-sigterm", "s", 1, by_class(runs, lambda run: run["s"]))


def measure_rows(table, options):
    if options.first and not go_first():
        print("bench: --first needs root: measuring with the same priority as all others", file=sys.stderr)
    add_writes(table)
    add_hundred(table, options)
    add_takeover(table, options)
    add_many(table, options)
