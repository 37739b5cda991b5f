"""Rows 20 and 23 over a long run: jobs come and go on the fake API server, which now and then fails, for --minutes.

They succeed, fail, are tried again, resized, suspended, and deleted while they run; the operator removes them a second
after their end. Memory and handles are looked at when all are gone, a minute later, as the operator gives memory back once
a minute: first after a warm-up, then at the end. A ratio is the end / the beginning.
"""
import collections
import os
import time

from jobs import AGED_S, FOREVER, Quiet, at_rest, cpu_s, manifest, memory_mb, world
from fake import ApiError, until  # jobs has set the path

EACH_S = 0.05  # a job
WARM_UP_S = 60
SOON, LATER = 10, 20  # jobs made since
KINDS = ("plain", "failing", "plain", "retried", "plain", "deleted", "plain", "resized", "plain", "suspended")
PLAY = {"plain": '{"run_ms": 200}', "failing": '{"run_ms": 100, "exit_codes": [1]}', "resized": '{"run_ms": 1500}',
        "retried": '{"run_ms": 100, "exit_codes": [1, 0]}', "deleted": f'{{"run_ms": {FOREVER}}}',
        "suspended": '{"run_ms": 700}'}
CPU_MS = 4  # what row 23 allows for a job that succeeds at once; for orientation


def job(kind, name):
    """A job of that kind, which is removed a second after its end."""
    made = manifest(name, play=PLAY[kind])
    made["spec"] |= {"ttlSecondsAfterFinished": 1, "backoffLimit": 1 if kind == "retried" else 0}
    return made


def later(fake, kind, name):
    """What a user does with the job: (how many jobs later, what)."""
    def patch(**spec):
        return lambda: fake.patch("horovodjobs", name, {"spec": spec})
    return {"deleted": [(LATER, lambda: fake.delete("horovodjobs", name))],
            "resized": [(SOON, patch(worker={"replicas": 6})), (LATER, patch(worker={"replicas": 3}))],
            "suspended": [(SOON, patch(suspend=True)), (LATER, patch(suspend=False))]}.get(kind, [])


def do(action):
    try:
        action()
    except ApiError as error:
        if error.code != 404:  # a job on a slow machine may have gone meanwhile
            raise


def disturb(fake):
    """Failures of the API server from now on: about one in thirty writes."""
    for every, what in ((97, {"action": "answer", "code": 500}), (89, {"action": "answer", "code": 409}),
                        (83, {"action": "drop"}), (79, {"action": "drop", "executed": True})):
        fake.fault(verb="write", every=every, times=-1, **what)


def come_and_go(fake, prefix, seconds, look=lambda: None):
    """Makes as many jobs as come in so long at an even pace, and waits until all have gone; how many there were. A slow
    machine takes longer for them. Calls look() every hundred jobs."""
    todo, begin, n = collections.defaultdict(list), time.monotonic(), 0
    n_jobs = round(seconds / EACH_S)
    while n < n_jobs or todo:
        if n < n_jobs:
            kind, name = KINDS[n % len(KINDS)], f"{prefix}{n}"
            fake.put(job(kind, name))
            for wait, action in later(fake, kind, name):
                todo[n + wait].append(action)
        for action in todo.pop(n, []):
            do(action)
        n += 1
        if n % 100 == 0:
            look()
            fake.control("DELETE", "requests")
        if n % 600 == 0:
            fake.compact()
            fake.watches("gone" if n % 1200 else "drop")
        time.sleep(max(0.0, begin + EACH_S * n - time.monotonic()))
    until("all jobs are gone", lambda: not fake.state()["objects"].get("horovodjobs.horovod.io"), 120, 0.2)
    return n


def handles(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def left_over(fake):
    """Objects that should have gone with their jobs, by kind."""
    return {kind: n for kind, n in fake.state()["objects"].items() if n and kind not in ("events", "nodes")}


def long_run(seconds, warm_up=WARM_UP_S, aged=AGED_S):
    """One run: memory and handles at its beginning and end, its peak of memory, jobs, and processor time of a job."""
    with world() as (fake, start):
        operator = start()
        pid = operator.process.pid
        disturb(fake)

        def rested():
            at_rest(fake, operator)
            time.sleep(aged)
            return {"anonymous": memory_mb(pid)[0], "handles": handles(pid)}
        come_and_go(fake, "w", warm_up)
        found = {"begin": rested(), "peak": 0.0}

        def look():
            found["peak"] = max(found["peak"], memory_mb(pid)[0])
        used = cpu_s(pid)
        with Quiet(pid, fake.process.pid) as quiet:
            found["jobs"] = come_and_go(fake, "j", seconds, look)
            used = cpu_s(pid) - used
        found |= {"end": rested(), "cpu_ms": 1000 * used / found["jobs"], "where": quiet.name}
        assert not left_over(fake), f"left over: {left_over(fake)}"
        return found


def measure_rows(table, options):
    found = long_run(60 * options.minutes)
    begin, end = found["begin"], found["end"]
    for what, unit in (("anonymous", "MB"), ("handles", "handles")):
        table.add(20, f"long-run-{what}", "its beginning", unit, {"any": [(end[what], begin[what], end[what] / begin[what])]})
    table.add(23, "long-run-cpu-per-job", "row 23's job", "ms", {found["where"]: [(found["cpu_ms"], CPU_MS, found["cpu_ms"] / CPU_MS)]})
    print(f"      {found['jobs']} jobs in {options.minutes:g} minutes, at most {found['peak']:.2f} MB meanwhile", flush=True)
