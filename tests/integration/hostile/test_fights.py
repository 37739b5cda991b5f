"""Webhooks that change back what the operator repairs, deny what it writes, are slow, or answer nonsense."""
import contextlib
import threading
import time

import pytest

import webhook
from kubeapi import until
from tenants import LIMIT_S, finish, run_job

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
# A repair that is needed again and again is tried after 1 s, 2 s, 4 s and so on up to 5 min: 10 times in ten minutes; a
# condition and an event say so.
MOST_WRITES = 12
OBSERVED_S = 20  # in which 166 to 1,158 writes were seen
RESOURCES = {"services": "", "configmaps": "", "secrets": "", "pods": "", "events": "", "statefulsets": "apps", "jobs": "batch",
             "horovodjobs": "horovod.io", "horovodjobs/status": "horovod.io"}


@pytest.fixture
def hook_server(tmp_path):
    with webhook.serving(tmp_path) as server:
        yield server


def rules(operations, resources):
    return [{"apiGroups": [RESOURCES[plural]], "apiVersions": ["*"], "operations": list(operations), "resources": [plural]}
            for plural in resources]


@contextlib.contextmanager
def asked(server, ns, hook_server, operations=("UPDATE",), resources=tuple(RESOURCES), **more):
    """The webhook is asked about objects of the namespace, and has been asked once when this begins."""
    hook = {"metadata": {"name": ns.name}, "webhooks": [{
        "name": "fight.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns.name}},
        "rules": rules(operations, resources) + rules(["CREATE"], ["configmaps"]),
        "clientConfig": hook_server.client_config, **more}]}
    path = f"{ADMISSION}/mutatingwebhookconfigurations"
    answer, called = hook_server.answer, threading.Event()
    hook_server.answer = lambda request: called.set() or {}
    server.api.request("POST", path, hook)
    try:
        def is_asked():
            server.api.request("POST", ns.path("configmaps") + "?dryRun=All", {"metadata": {"name": "probe"}})
            return called.is_set()
        until("the webhook is asked", is_asked, LIMIT_S)
        hook_server.answer = answer
        yield
    finally:
        hook_server.answer = webhook.allow
        server.api.request("DELETE", f"{path}/{ns.name}")


def observe(bystander, seconds=OBSERVED_S):
    """That something is not done can only be seen by looking for some time; meanwhile the bystander works."""
    end = time.monotonic() + seconds
    while True:
        bystander.succeeds()
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, 3))


def put(path, value):
    """The JSON Patch for a path that may have a parent that is not there."""
    return lambda _: [{"op": "add", "path": path, "value": value}]


def without(path):
    def operations(item):
        for part in [p.replace("~1", "/") for p in path.split("/")[1:]]:
            item = item.get(part) if isinstance(item, dict) else item[int(part)] if len(item) > int(part) else None
            if item is None:
                return []
        return [{"op": "remove", "path": path}]
    return operations


MANAGED, JOB = "/metadata/labels/app.kubernetes.io~1managed-by", "/metadata/labels/horovod.io~1job-name"
# One job for each: what the webhook does to which of its children, at each update.
FIGHTS = {
    "service-managed": ("services", "{}", put(MANAGED, "policy")),
    "service-job": ("services", "{}", put(JOB, "policy")),
    "service-unlabelled": ("services", "{}", without(MANAGED)),
    "service-publish": ("services", "{}", put("/spec/publishNotReadyAddresses", False)),
    "service-selector": ("services", "{}", put("/spec/selector/policy", "x")),
    "service-selector-less": ("services", "{}", without("/spec/selector/horovod.io~1job-name")),
    "service-ports": ("services", "{}", put("/spec/ports", [{"name": "p", "port": 1}])),
    "set-managed": ("statefulsets", "{}-worker", put(MANAGED, "policy")),
    "set-replicas": ("statefulsets", "{}-worker", put("/spec/replicas", 3)),
    "set-strategy": ("statefulsets", "{}-worker", put("/spec/updateStrategy", {"type": "RollingUpdate"})),
    "set-image": ("statefulsets", "{}-worker", put("/spec/template/spec/containers/0/image", "policy")),
    "set-annotations": ("statefulsets", "{}-worker", without("/metadata/annotations")),
    "set-template-label": ("statefulsets", "{}-worker", put("/spec/template/metadata/labels/policy", "x")),
    "map-managed": ("configmaps", "{}-hosts", put(MANAGED, "policy")),
    "map-data": ("configmaps", "{}-hosts", put("/data/hostfile", "evil slots=1\n")),
    "map-more-data": ("configmaps", "{}-hosts", put("/data/policy", "x")),
    "map-no-data": ("configmaps", "{}-hosts", without("/data")),
    "map-annotations": ("configmaps", "{}-hosts", without("/metadata/annotations")),
    "job-managed": ("jobs", "{}-master", put(MANAGED, "policy")),
    "job-annotations": ("jobs", "{}-master", without("/metadata/annotations")),
    "job-ttl": ("jobs", "{}-master", put("/spec/ttlSecondsAfterFinished", 100000)),
    "secret-managed": ("secrets", "{}-ssh", put(MANAGED, "policy")),
    "secret-job": ("secrets", "{}-ssh", without(JOB)),
    "pod-managed": ("pods", "{}-worker-0", put(MANAGED, "policy")),
    "pod-job": ("pods", "{}-worker-0", without(JOB)),
    "pod-role": ("pods", "{}-worker-0", put("/metadata/labels/horovod.io~1role", "policy")),
    "orphaned-service": ("services", "{}", without("/metadata/ownerReferences")),
    "orphaned-map": ("configmaps", "{}-hosts", without("/metadata/ownerReferences")),
}
# The job itself, whose status the operator writes: mutating it must not make it write for ever either.
OWN = {
    "own-labels": ("horovodjobs", put("/metadata/labels", {"policy": "x"})),
    "own-annotations": ("horovodjobs", put("/metadata/annotations", {"policy": "x"})),
    "status-ready": ("horovodjobs/status", put("/status/ready", "9/9")),
    "status-message": ("horovodjobs/status", put("/status/message", "policy")),
    "status-state": ("horovodjobs/status", put("/status/state", "Pending")),
    "status-attempts": ("horovodjobs/status", put("/status/attempts", 7)),
    "status-conditions": ("horovodjobs/status", put("/status/conditions", [])),
    "status-gone": ("horovodjobs/status", without("/status")),
}


class Fighter:
    """Answers with the patch of the job to which the object belongs; `fought` are the jobs whose objects it has changed."""

    def __init__(self, fights):
        self.by_place = {(plural, name.format(job)): (job, operations) for job, (plural, name, operations) in fights.items()}
        self.fought = set()

    def __call__(self, request):
        plural = "/".join(filter(None, (request["resource"]["resource"], request.get("subResource"))))
        name = request["name"] or request["object"]["metadata"].get("name")
        job, operations = self.by_place.get((plural, name), (None, None))
        patch = operations(request["object"]) if job else []
        if patch:
            self.fought.add(job)
        return webhook.patch(patch) if patch else {}


def run_all(ns, names):
    return {job: run_job(ns, job) for job in names}


def writes_by_job(writes, jobs):
    """The most that belongs to each: the name of an object begins with that of its job."""
    by_job = {job: [] for job in jobs}
    for write in writes:
        for job in sorted(jobs, key=len, reverse=True):
            if write[2] == job or write[2].startswith((job + "-", job + ".")):
                by_job[job].append(write)
                break
    return by_job


def assert_each_below(server, ns, since, jobs, most=MOST_WRITES):
    by_job = writes_by_job(server.writes(ns.name, since), jobs)
    wrong = {job: (len(writes), writes[-3:]) for job, writes in by_job.items() if len(writes) > most}
    assert not wrong, wrong


def fight(server, ns, hook_server, bystander, fights):
    """Runs a job for each, lets the webhook have its way, and observes; the names of the masters."""
    masters = run_all(ns, fights)
    hook_server.answer = fighter = Fighter(fights)
    with asked(server, ns, hook_server):
        since = server.audit_size()
        for job, (plural, name, _) in fights.items():
            # A change of the spec makes the operator write the status, which such a fight is about.
            touched = {"spec": {"ttlSecondsAfterFinished": 86400}} if plural.endswith("/status") else {
                "metadata": {"annotations": {"test": "touched"}}}
            ns.patch(plural.split("/")[0], name.format(job), touched)
        observe(bystander)
        assert fighter.fought == set(fights)
        assert_each_below(server, ns, since, fights)
        for job, master in masters.items():
            ns.end_master(master)
        yield_to_end(ns, fights)


def yield_to_end(ns, fights):
    """Those whose own state is not what is fought over succeed while the fight goes on."""
    for job, (plural, _, _) in fights.items():
        if not plural.endswith("/status"):
            ns.wait_state("Succeeded", job, LIMIT_S)


def is_told(ns, job, words):
    """A condition or an event of the job names what is fought over."""
    texts = [c["message"] for c in ns.status(job).get("conditions", [])]
    texts += [e["message"] for e in ns.list("events") if e["involvedObject"]["name"] == job]
    return any(words in text for text in texts)


def test_a_webhook_that_undoes_every_repair_costs_few_writes(server, ns, operator, attack, bystander, hook_server):
    with attack(at_most=(MOST_WRITES + 16) * len(FIGHTS)):
        fight(server, ns, hook_server, bystander, FIGHTS)


def test_a_fight_over_a_child_is_told_with_its_name(server, ns, operator, attack, bystander, hook_server):
    fights = {job: FIGHTS[job] for job in ("service-managed", "service-publish", "service-selector", "set-strategy", "map-data",
                                           "job-managed", "secret-managed")}
    with attack(at_most=(MOST_WRITES + 16) * len(fights)):
        run_all(ns, fights)
        hook_server.answer = Fighter(fights)
        with asked(server, ns, hook_server):
            for job, (plural, name, _) in fights.items():
                ns.patch(plural, name.format(job), {"metadata": {"annotations": {"test": "touched"}}})
            for job, (_, name, _) in fights.items():
                until(lambda j=job: f"the fight over {j} is told: {ns.status(j)}",
                      lambda j=job, n=name: is_told(ns, j, n.format(j)), LIMIT_S)
            bystander.succeeds()


def test_a_webhook_that_changes_the_job_and_its_status_costs_few_writes(server, ns, operator, attack, bystander, hook_server):
    fights = {job: (plural, "{}", operations) for job, (plural, operations) in OWN.items()}
    with attack(at_most=(MOST_WRITES + 16) * len(fights)):
        fight(server, ns, hook_server, bystander, fights)


def test_a_webhook_that_changes_what_is_created_costs_few_writes(server, ns, operator, attack, bystander, hook_server):
    """No child of these jobs was ever as it should be."""
    hook_server.answer = Fighter(FIGHTS)
    with attack(at_most=(MOST_WRITES + 12) * len(FIGHTS)):
        with asked(server, ns, hook_server, operations=("CREATE", "UPDATE"), resources=[p for p in RESOURCES if p != "events"]):
            since = server.audit_size()
            for job in FIGHTS:
                ns.apply_job(job)
            observe(bystander)
            assert_each_below(server, ns, since, FIGHTS, MOST_WRITES + 12)


def drop_conditions(request):
    """Of `bare` all conditions, of the others those that say how a job has ended."""
    found = (request["object"].get("status") or {}).get("conditions") or []
    kept = [] if request["name"] == "bare" else [c for c in found if c["type"] not in ("Failed", "Succeeded")]
    return webhook.patch(put("/status/conditions", kept)(request["object"])) if kept != found else {}


def assert_ended_once(server, ns, job):
    """The job ends as it should, without the condition that says so, and no further attempt begins."""
    since = server.audit_size()
    ns.end_master(run_job(ns, job), code=int(job != "succeeding"))
    until(f"the workers of {job} are removed", lambda: not ns.get("statefulsets", f"{job}-worker"), LIMIT_S)
    until(f"{job} is reported", lambda: ("StatusNotKept", 1) in ns.events(job), LIMIT_S)
    assert ns.state(job) == ("Succeeded" if job == "succeeding" else "Failed")
    assert ns.condition("Failed", job) is None and ns.condition("Succeeded", job) is None
    time.sleep(5)  # in which another attempt would begin
    assert ns.status(job)["attempts"] == 1 and not ns.get("statefulsets", f"{job}-worker")
    writes = [write for write in server.writes(ns.name, since) if write[1] in ("horovodjobs/status", "events/")]
    assert len(writes) <= MOST_WRITES, writes


def test_a_job_whose_conditions_a_webhook_drops_ends_after_its_last_attempt(server, ns, operator, attack, bystander, hook_server):
    jobs = ("bare", "failing", "succeeding")
    hook_server.answer = drop_conditions
    with attack(at_most=(MOST_WRITES + 16) * len(jobs)):
        with asked(server, ns, hook_server, resources=["horovodjobs/status"]):
            for job in jobs:
                assert_ended_once(server, ns, job)
            bystander.succeeds()


# ---- webhooks that deny, are slow, or are mad ----

def slow(_):
    time.sleep(8)
    return {}


ANSWERS = {
    "denies": (lambda _: {"allowed": False, "status": {"code": 403, "message": "no"}}, {}),
    "denies at length": (lambda _: {"allowed": False, "status": {"code": 500, "message": "\u0000<\u001b" * 100_000}}, {}),
    "times out": (slow, {"timeoutSeconds": 1}),
    "answers late": (slow, {"timeoutSeconds": 10}),
    "answers nonsense": (lambda _: b"\x00{[[[", {}),
    "answers with nothing": (lambda _: b"", {}),
    "patches what is not there": (lambda _: webhook.patch([{"op": "remove", "path": "/no/such"}]), {}),
    "makes it invalid": (lambda _: webhook.patch([{"op": "add", "path": "/metadata/labels", "value": {"-": "-/-"}}]), {}),
    "asks to come again": (lambda _: {"allowed": False, "status": {"code": 429, "message": "later", "details":
                                                                    {"retryAfterSeconds": 100000}}}, {}),
}
# The tenant has so many jobs that wait: more than what the operator may have under way. Each tries its four first children
# at once, after 1 s, 2 s, 4 s, 8 s and so on, and says so.
N_WAITING = 30
WRITES_OF_A_WAITING_JOB = 6 * 4 + 4


@pytest.mark.parametrize("mode", ANSWERS)
def test_a_webhook_that_is_no_help_delays_only_its_own_tenant(server, ns, operator, attack, bystander, hook_server, mode):
    answer, more = ANSWERS[mode]
    with attack(at_most=(MOST_WRITES + 16) * 2 + WRITES_OF_A_WAITING_JOB * N_WAITING):
        masters = run_all(ns, ["running", "ending"])
        hook_server.answer = answer
        with asked(server, ns, hook_server, operations=("CREATE", "UPDATE"),
                   resources=["services", "statefulsets", "secrets", "jobs"], **more):
            since = server.audit_size()
            for i in range(N_WAITING):
                ns.apply_job(f"waiting-{i}")
            for child in (("services", "running"), ("statefulsets", "running-worker")):
                with contextlib.suppress(Exception):
                    ns.patch(*child, {"metadata": {"labels": {"horovod.io/job-name": "x"}}})
            for _ in range(3):
                bystander.succeeds()
            finish(ns, "ending", masters["ending"])
            assert_each_below(server, ns, since, ["running", "ending"])
            assert_each_below(server, ns, since, [f"waiting-{i}" for i in range(N_WAITING)], WRITES_OF_A_WAITING_JOB)
        assert all(len(c["message"]) <= 4096 for c in ns.status("waiting-0").get("conditions", []))
        finish(ns, "running", masters["running"])
