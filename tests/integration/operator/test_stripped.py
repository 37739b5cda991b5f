"""Children and pods that lose all of their metadata, on the real API server with its controllers: labels, owner references and
annotations at once, as `kubectl replace` with a bare manifest does. What the operator has made stays the job's."""
import pytest

import webhook
from kubeapi import until

STRIP = {"metadata": {"ownerReferences": None, "annotations": None}}
STRIP_ALL = {"metadata": {"ownerReferences": None, "annotations": None, "labels": None}}
NO_LABELS = {"metadata": {"labels": None}}
CHILDREN = {"secrets": "{}-ssh", "services": "{}", "configmaps": "{}-hosts", "statefulsets": "{}-worker", "jobs": "{}-master"}
OWNED_BY_TEMPLATE = ["statefulsets", "jobs"]  # what a restarted operator knows to be the job's
LIMIT_S = 60


def run(ns, job, **spec):
    ns.apply_job(job, **spec)
    return job


def start(ns, jobs):
    for job in jobs:
        ns.start_workers(job=job)
    masters = {job: ns.start_master(job) for job in jobs}
    for job in jobs:
        ns.wait_state("Running", job, LIMIT_S)
    return masters


def pods(ns, job):
    return sorted(pod["metadata"]["name"] for pod in ns.list("pods") if pod["metadata"]["name"].startswith(f"{job}-"))


def uid(ns, plural, name):
    return (ns.get(plural, name) or {}).get("metadata", {}).get("uid")


def controllers(ns, plural, name):
    return [owner["kind"] for owner in (ns.get(plural, name) or {"metadata": {}})["metadata"].get("ownerReferences", [])
            if owner.get("controller")]


def told(ns, job, reason):
    return [count for event, count in ns.events(job) if event == reason]


def let_go_unseen(ns, run_operator, operator, jobs):
    """Each master loses every label while no operator runs: its Job lets it go and makes another one."""
    operator.stop()
    for job, master in jobs.items():
        ns.patch("pods", master, NO_LABELS)
        until("its Job lets it go", lambda master=master: not controllers(ns, "pods", master))


def test_a_master_that_loses_every_label_unseen_runs_beside_no_other_one(server, ns, run_operator):
    """The status names it: it is read by its name."""
    operator = run_operator()
    cases = {"restart": {"backoffLimit": 1}, "single": {}, "suspended": {"backoffLimit": 1}, "deleted": {"backoffLimit": 1}}
    for job, spec in cases.items():
        run(ns, job, **spec)
    masters = start(ns, cases)
    let_go_unseen(ns, run_operator, operator, masters)
    ns.patch("horovodjobs", "suspended", {"spec": {"suspend": True}})
    ns.delete("jobs", "deleted-master")
    until("its Job is gone", lambda: ns.get("jobs", "deleted-master") is None)
    run_operator()
    for job, master in masters.items():
        until(lambda job=job: f"the first master of {job} is gone: {ns.status(job)}",
              lambda master=master: ns.get("pods", master) is None, LIMIT_S)
    ns.wait_state("Failed", "single", LIMIT_S)
    assert f"pod {masters['single']} was let go by Job single-master" in ns.condition("Failed", "single")["message"]
    until("nothing of it is left", lambda: not pods(ns, "single"), LIMIT_S)
    until("it is suspended", lambda: ns.condition("Suspended", "suspended")["status"] == "True", LIMIT_S)
    assert pods(ns, "suspended") == []
    for job in ("restart", "deleted"):
        ns.start_new_workers(job)
        master = ns.start_master(job)
        ns.wait_state("Running", job, LIMIT_S)
        assert [pod for pod in pods(ns, job) if "-master-" in pod] == [master] != [masters[job]]
    for job in masters:
        ns.delete("horovodjobs", job)
    until("nothing outlives the jobs", lambda: not ns.list("pods"), LIMIT_S)


@pytest.mark.parametrize("away", [False, True], ids=["seen", "unseen"])
@pytest.mark.parametrize("strip", [STRIP, STRIP_ALL], ids=["labelled", "bare"])
def test_a_child_that_loses_owner_and_annotations_stays_the_jobs(server, ns, run_operator, strip, away):
    kinds = OWNED_BY_TEMPLATE if away else list(CHILDREN)
    operator = run_operator()
    jobs = {f"{plural[:3]}-{end}": (plural, end) for plural in kinds for end in ("end", "fail", "suspend")}
    for job in jobs:
        run(ns, job)
    masters = start(ns, jobs)
    known = {job: uid(ns, plural, CHILDREN[plural].format(job)) for job, (plural, _) in jobs.items()}
    if away:
        operator.stop()
    for job, (plural, _) in jobs.items():
        ns.patch(plural, CHILDREN[plural].format(job), strip)
    if away:
        run_operator()
    before = len(server.writes(ns.name))
    for job, (plural, _) in jobs.items():
        name = CHILDREN[plural].format(job)
        until(lambda job=job: f"{job} has its owner again: {ns.status(job)}",
              lambda plural=plural, name=name: controllers(ns, plural, name) == ["HorovodJob"], LIMIT_S)
        assert uid(ns, plural, name) == known[job] and ns.state(job) == "Running", ns.status(job)
        assert told(ns, job, "Conflict") == [], ns.events(job)
    assert len(server.writes(ns.name)) - before <= 6 * len(jobs)
    for job, (_, end) in jobs.items():
        if end == "suspend":
            ns.patch("horovodjobs", job, {"spec": {"suspend": True}})
        else:
            ns.end_master(masters[job], 3 if end == "fail" else 0)
    for job, (_, end) in jobs.items():
        ns.wait_state({"suspend": "Suspended", "fail": "Failed", "end": "Succeeded"}[end], job, LIMIT_S)
        kept = [] if end == "suspend" else [masters[job]]
        until(lambda job=job: f"what {job} leaves: {pods(ns, job)}", lambda job=job, kept=kept: pods(ns, job) == kept, LIMIT_S)
        if end == "suspend":
            until("it is suspended", lambda job=job: ns.condition("Suspended", job)["status"] == "True", LIMIT_S)
        ns.delete("horovodjobs", job)
    until("nothing outlives the jobs", lambda: not ns.list("pods"), LIMIT_S)


def test_a_job_that_another_controller_claims_stays_the_jobs(ns, operator):
    """Its uid is noted in the status."""
    run(ns, "digits")
    masters = start(ns, ["digits"])
    other = ns.create("configmaps", {"metadata": {"name": "other"}})
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other["metadata"]["uid"], "controller": True}
    ns.patch("jobs", "digits-master", {"metadata": {"ownerReferences": [owner], "annotations": None}})
    until("it has its owner again", lambda: controllers(ns, "jobs", "digits-master") == ["HorovodJob"], LIMIT_S)
    ns.end_master(masters["digits"])
    ns.wait_state("Succeeded", "digits", LIMIT_S)


def strip_at_creation(request):
    meta = request["object"]["metadata"]
    keys = [key for key in ("ownerReferences", "annotations") if meta.get(key)]
    return webhook.patch([{"op": "remove", "path": f"/metadata/{key}"} for key in keys]) if keys else {}


def test_what_a_webhook_strips_at_creation_is_told_as_such_and_gets_its_owner(server, ns, operator, tmp_path):
    """The operator knows what it has made a moment ago."""
    rule = {"apiGroups": ["", "apps", "batch"], "apiVersions": ["*"], "operations": ["CREATE"], "scope": "Namespaced",
            "resources": list(CHILDREN)}
    with webhook.serving(tmp_path) as serving:
        serving.answer = strip_at_creation
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        server.api.request("POST", path, {"metadata": {"name": ns.name}, "webhooks": [{
            "name": "strip.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "clientConfig": serving.client_config, "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns.name}}}]})
        try:
            run(ns, "digits")
            masters = start(ns, ["digits"])
            for plural, name in CHILDREN.items():
                until(f"{plural} has its owner", lambda plural=plural, name=name: controllers(
                    ns, plural, name.format("digits")) == ["HorovodJob"], LIMIT_S)
            ns.end_master(masters["digits"])
            ns.wait_state("Succeeded", "digits", LIMIT_S)
        finally:
            server.api.request("DELETE", f"{path}/{ns.name}")
    texts = [event["message"] for event in ns.list("events") if event["reason"] == "OwnerRestored"]
    assert len(texts) == len(CHILDREN) and all("admission webhook" in text for text in texts), texts
    assert told(ns, "digits", "Conflict") == []
