"""HorovodJobs that nest deeper than a decoder likes, or hold values that one cannot represent. The API server takes them,
as the templates are kept as they are."""
import json
import re
import sys

import pytest

from kubeapi import until
from tenants import LIMIT_S, finish, run_job, start_pods

FINAL = ("Succeeded", "Failed")


@pytest.fixture(autouse=True)
def deep_python():
    """json, which is recursive, reads what the tests wrote."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(60000)
    yield
    sys.setrecursionlimit(before)


def objects(levels):
    return '{"a":' * levels + "1" + "}" * levels


def arrays(levels):
    return '{"a":' + "[" * levels + "]" * levels + "}"


def job_text(name, role="worker", place="affinity", value="{}"):
    """A job with the value, as a text, somewhere in the template of a role: in the pod's spec, or in its metadata."""
    pods = {r: {"metadata": {}, "spec": {"containers": [{"name": r, "image": "i"}]}} for r in ("worker", "master")}
    part, key = ("metadata", place.split(".")[1]) if place.startswith("metadata.") else ("spec", place)
    pods[role][part][key] = "HERE"
    spec = {"worker": {"replicas": 1, "template": pods["worker"]}, "master": {"template": pods["master"]}}
    text = json.dumps({"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": name}, "spec": spec})
    return text.replace('"HERE"', value)


def short_text(name, value):
    """A job of the short form with the value where a variable comes from."""
    text = json.dumps({"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": name}, "spec": {
        "image": "i", "command": ["c"], "env": [{"name": "N", "valueFrom": "HERE"}], "worker": {"replicas": 1}}})
    return text.replace('"HERE"', value)


DEEP = {
    "objects-990": job_text("objects-990", value=objects(990)),
    "objects-1000": job_text("objects-1000", value=objects(1000)),
    "objects-5000": job_text("objects-5000", value=objects(5000)),
    "objects-9000": job_text("objects-9000", value=objects(9000)),
    "arrays-9000": job_text("arrays-9000", value=arrays(9000)),
    "master-1000": job_text("master-1000", "master", value=objects(1000)),
    "metadata-1000": job_text("metadata-1000", place="metadata.annotations", value=objects(1000)),
    "variable-1000": short_text("variable-1000", objects(1000)),
}


def create(ns, texts):
    for text in texts.values():
        ns.create("horovodjobs", text)


def complaint(ns, name):
    """What the job's conditions have against it."""
    return " ".join(f"{c['type']} {c['reason']} {c['message']}" for c in ns.status(name).get("conditions", [])
                    if (c["type"], c["status"]) in (("Failed", "True"), ("Running", "False")))


def until_complaints(ns, names):
    """Each of the jobs says of itself that it is too deep, or what in its template is wrong."""
    for name in names:
        until(lambda n=name: f"a condition of {n} says why: {ns.status(n)}",
              lambda n=name: re.search(r"nest|deep|depth|level|unknown field|json", complaint(ns, n), re.I), LIMIT_S)


# Per deep job: a status, an event, and the children of one that can be decoded and is refused later.
WRITES_OF_A_DEEP_JOB = 12


def test_deep_jobs_that_are_there_at_the_start_stop_nobody(ns, run_operator, attack, bystander):
    create(ns, DEEP)
    with attack(at_most=WRITES_OF_A_DEEP_JOB * len(DEEP)):
        operator = run_operator()
        bystander.succeeds()
        until_complaints(ns, DEEP)
        log = operator.log.read_text()
        for name in DEEP:
            assert f"{ns.name}/{name}" in log or ns.status(name), name
        operator.stop()
        run_operator()  # and again, with what the first one wrote
        bystander.succeeds()


def test_deep_jobs_that_come_while_it_runs_stop_nobody_in_their_own_namespace_either(ns, operator, attack, bystander):
    with attack(at_most=WRITES_OF_A_DEEP_JOB * (len(DEEP) + 2)):
        master = run_job(ns, "before")
        create(ns, DEEP)
        finish(ns, "before", master)
        bystander.succeeds()
        finish(ns, "after", run_job(ns, "after"))
        until_complaints(ns, DEEP)


def test_deep_jobs_can_be_deleted_and_their_names_used_again(ns, operator, attack, bystander):
    names = ("objects-1000", "objects-9000", "variable-1000")
    with attack(at_most=WRITES_OF_A_DEEP_JOB * 2 * len(names)):
        create(ns, {name: DEEP[name] for name in names})
        until_complaints(ns, names)
        for name in names:
            ns.delete("horovodjobs", name)
            until(f"{name} is gone", lambda n=name: ns.get("horovodjobs", n) is None, LIMIT_S)
            finish(ns, name, run_job(ns, name, replicas=1))
        bystander.succeeds()


def test_a_job_that_becomes_deep_leaves_no_pods_behind(ns, operator, attack, bystander):
    with attack(at_most=30):
        ns.create("horovodjobs", job_text("digits"))
        start_pods(ns, replicas=1)
        ns.patch("horovodjobs", "digits", '{"spec":{"suspend":true,"worker":{"template":{"spec":{"affinity":%s}}}}}' %
                 objects(3000))
        until_complaints(ns, ["digits"])
        bystander.succeeds()
        until("no worker is left", lambda: not ns.workers(), LIMIT_S)
        ns.delete("horovodjobs", "digits")
        until("it is gone", lambda: ns.get("horovodjobs", "digits") is None, LIMIT_S)


ODD = {
    "huge-number": job_text("huge-number", value='{"a": 1e308, "b": 123456789012345678901234567890, "c": -0.0, "d": 5e-324}'),
    "nul": job_text("nul", value=r'{"a\u0000b": "c\u0000d", "": "\u0000"}'),
    "surrogate": job_text("surrogate", value=r'{"a": "\ud800", "b": "\udfff\ud800", "c": "\ud83d\ude00"}'),
    "controls": job_text("controls", value=r'{"a": "\u001b[2J\u0007\r\n\u2028\u202e"}'),
    "keys": job_text("keys", value=json.dumps({f"k{i}": None if i % 2 else i for i in range(60000)})),
    "wide": job_text("wide", value='{"a": [%s]}' % ",".join(["{}"] * 200000)),
    "null-template": job_text("null-template", place="containers", value='[{"name": null, "image": ["i"], "env": "x"}]'),
    "numbers-for-texts": job_text("numbers-for-texts", place="containers",
                                  value='[{"name": 1e300, "command": {"a": 1}, "ports": -1, "resources": []}]'),
}


def test_odd_values_in_templates_harm_nobody(ns, run_operator, attack, bystander):
    for text in ODD.values():
        ns.create("horovodjobs", text)
    with attack(at_most=WRITES_OF_A_DEEP_JOB * len(ODD)):
        run_operator()
        bystander.succeeds()
        for name in ODD:
            until(lambda n=name: f"{n} is looked after: {ns.status(n)}",
                  lambda n=name: ns.status(n).get("conditions"), LIMIT_S)
