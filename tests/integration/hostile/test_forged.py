"""Objects that pretend: children of jobs that never had them, status that nobody reached, owners in other namespaces, a Lease
that a stranger writes, events that tell stories."""
import json
import time

import pytest

from kubeapi import ApiError, until
from tenants import LIMIT_S, finish, run_job, start_pods

MANAGED = {"app.kubernetes.io/managed-by": "horovod-operator"}


def labels(job, role=None):
    return {**MANAGED, "horovod.io/job-name": job, **({"horovod.io/role": role} if role else {})}


def pod(name, job, role="worker", **meta):
    return {"metadata": {"name": name, "labels": labels(job, role), **meta},
            "spec": {"containers": [{"name": role, "image": "i"}], "schedulingGates": [{"name": "example.com/never"}]}}


def hosts(ns, job="digits"):
    return [line.split(".")[0].split()[0] for line in ns.get("configmaps", f"{job}-hosts")["data"]["hostfile"].splitlines()]


def uids(ns, plural):
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in ns.list(plural)}


def try_request(*request):
    """The answer's code when the API server refuses."""
    try:
        return request[0](*request[1:]) and 200
    except ApiError as error:
        return error.code


# ---- pods ----

NUMBERS = ["00", "01", "-1", "2", "99999999999", "4294967296", "18446744073709551616", "1.0", "0x1", "1e0", "a"]


@pytest.mark.parametrize("when", ["before the master", "under the master"])
def test_pods_with_numbers_like_those_of_workers_are_no_workers(ns, operator, attack, bystander, when):
    with attack(at_most=24):
        ns.apply_job()
        ns.start_workers(2, timeout=LIMIT_S)
        if when == "under the master":
            master = start_pods(ns)
        for number in NUMBERS:
            ns.create("pods", pod(f"digits-worker-{number}", "digits"))
            ns.set_pod(f"digits-worker-{number}")
        for name in ("digits-master-zzzzz", "digits-master"):
            ns.create("pods", pod(name, "digits", "master"))
            ns.set_pod(name, phase="Succeeded", ready=False, container="master", terminated={"exitCode": 0})
        bystander.succeeds()
        assert ns.state() != "Succeeded"
        if when == "before the master":
            ns.until("the master's Job", lambda: ns.get("jobs", "digits-master"), timeout=LIMIT_S)
            master = until("its pod", lambda: next((name for name in uids(ns, "pods") if name.startswith("digits-master-")
                                                    and name != "digits-master-zzzzz"), None), LIMIT_S)
            ns.set_pod(master, container="master")
            ns.wait_state("Running", timeout=LIMIT_S)
        assert hosts(ns) == ["digits-worker-0", "digits-worker-1"]
        assert ns.status()["ready"] == "2/2"
        finish(ns, master=master)


def test_pods_and_children_of_jobs_that_are_not_there_cost_nothing(ns, operator, attack, bystander):
    with attack(at_most=0):
        for i, job in enumerate(["none", "a" * 63, "A.b_C", "", "x-master", "digits-worker"] * 5):
            ns.create("pods", pod(f"none-worker-{i}", job))
            ns.set_pod(f"none-worker-{i}", phase="Failed", ready=False, terminated={"exitCode": -2147483648})
            ns.create("configmaps", {"metadata": {"name": f"none-{i}-hosts", "labels": labels(job)}, "data": {"hostfile": "x"}})
            ns.create("secrets", {"metadata": {"name": f"none-{i}-ssh", "labels": labels(job)}})
            ns.create("services", {"metadata": {"name": f"none-{i}", "labels": labels(job)},
                                   "spec": {"clusterIP": "None", "selector": labels(job)}})
        bystander.succeeds()
        for plural in ("pods", "configmaps", "secrets"):
            for name in [name for name in uids(ns, plural) if name.startswith("none")]:
                ns.api.request("DELETE", ns.path(plural, name), {"gracePeriodSeconds": 0})
        bystander.succeeds()
        until("nothing waits", operator.is_at_rest, LIMIT_S)


WORST = {
    "codes": {"containerStatuses": [{"name": "worker", "ready": False, "restartCount": 2147483647, "image": "", "imageID": "",
                                     "state": {"terminated": {"exitCode": -2147483648, "signal": 2147483647}},
                                     "lastState": {"terminated": {"exitCode": 2147483647}}}]},
    "times": {"startTime": "9999-12-31T23:59:59Z", "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "0001-01-01T00:00:00Z"},
        {"type": "Ready", "status": "False", "lastTransitionTime": "9999-12-31T23:59:59Z"},
        {"type": "DisruptionTarget", "status": "Unknown", "lastTransitionTime": None}]},
    "texts": {"phase": "Running", "reason": "\u0000\u001b[2J\r\n", "message": "<" * 500_000},
    "nothing": {"phase": "Pending", "conditions": None, "containerStatuses": None, "podIP": ""},
    "names": {"containerStatuses": [{"name": f"worker-{i}", "ready": True, "restartCount": -i, "image": "", "imageID": "",
                                     "state": {}} for i in range(5000)]},
}


def test_whatever_a_worker_says_of_itself_the_others_go_on(ns, operator, attack, bystander):
    """Pods whose status a hostile node writes, one kind of nonsense a job."""
    with attack(at_most=40 * len(WORST)):
        masters = {job: run_job(ns, job) for job in WORST}
        for job, status in WORST.items():
            assert try_request(ns.patch, "pods", f"{job}-worker-1", {"status": status}, "status") in (200, 422), job
        bystander.succeeds()
        for job, master in masters.items():
            ns.end_master(master)
            until(lambda j=job: f"{j} has ended: {ns.status(j)}", lambda j=job: ns.state(j) in ("Succeeded", "Failed",
                  "Restarting"), LIMIT_S)
            assert len(json.dumps(ns.status(job))) < 16384


# ---- status ----

FORGED = {
    "ready": {"ready": "9/9"},
    "counters": {"attempts": -2147483648, "failures": -2147483648, "interruptions": -2147483648, "cleaned": 2147483647},
    "large-counters": {"attempts": 2147483647, "failures": 2147483647, "interruptions": 2147483647, "failuresInARow": 2147483647},
    "state": {"state": "Succeeded"},
    "failed": {"state": "Failed", "message": "x" * 100_000},
    "workers": {"workers": {"desired": -1, "ready": 2147483647}, "hosts": -5},
    "times": {"startTime": "9999-12-31T23:59:59Z", "nextAttemptTime": "9999-12-31T23:59:59Z"},
    "past": {"startTime": "0001-01-01T00:00:00Z", "completionTime": "0001-01-01T00:00:00Z"},
    "log": {"failureLog": "<" * 100_000, "workerFailure": {"message": "\u0000", "attempt": -1, "exitCode": -2147483648}},
    "conditions": {"conditions": [{"type": f"Own{i}", "status": "True", "reason": "R", "message": "m" * 1000,
                                   "lastTransitionTime": "0001-01-01T00:00:00Z"} for i in range(100)]},
    "port": {"sshPort": -1, "selector": "x in (", "message": "\u001b[2J"},
    "nothing": None,
}
NEVER = [{"ready": []}, {"attempts": 1e300}, {"attempts": "1"}, {"conditions": {}}, {"state": "Done"}, {"workers": 1}]
# The job's life, its status restored, and one more event at the most.
WRITES_OF_A_FORGED_JOB = 24


def test_a_forged_status_is_restored_and_the_job_goes_on(ns, operator, attack, bystander):
    with attack(at_most=WRITES_OF_A_FORGED_JOB * len(FORGED)):
        masters = {job: run_job(ns, job, backoffLimit=1) for job in FORGED}
        right = {job: ns.status(job) for job in FORGED}
        for job, status in FORGED.items():
            assert try_request(ns.patch, "horovodjobs", job, {"status": status}, "status") in (200, 422), job
        for status in NEVER:
            assert try_request(ns.patch, "horovodjobs", "ready", {"status": status}, "status") == 422, status
        bystander.succeeds()
        for job in FORGED:
            until(lambda j=job: f"{j} runs again: {ns.status(j)}", lambda j=job: ns.state(j) == "Running", LIMIT_S)
            for key in ("ready", "attempts", "workers"):
                until(lambda j=job, k=key: f"{k} of {j} is {right[j][k]}: {ns.status(j)}",
                      lambda j=job, k=key: ns.status(j).get(k) == right[j][k], LIMIT_S)
        for job, master in masters.items():
            finish(ns, job, master)
            text = ns.condition("Succeeded", job)["message"]
            assert "(attempt 1 of " in text, text


def test_forged_counters_neither_end_a_job_nor_let_it_try_for_ever(ns, operator, attack, bystander):
    """The attempt after the forgery fails: with one retry allowed there is one."""
    with attack(at_most=120):
        for job, counters in (("few", {"failures": -2147483648, "attempts": -2147483648}),
                              ("many", {"failures": 2147483647, "attempts": 2147483647})):
            master = run_job(ns, job, replicas=1, backoffLimit=1)
            ns.patch("horovodjobs", job, {"status": counters}, "status")
            ns.end_master(master, 1)
            until(lambda j=job: f"the workers of {j} go: {ns.status(j)}", lambda j=job: ns.state(j) != "Running", LIMIT_S)
            bystander.succeeds()
            assert ns.status(job)["attempts"] in (1, 2) and ns.status(job)["failures"] in (0, 1), ns.status(job)


def test_a_condition_that_a_stranger_keeps_writing_is_no_loop(server, ns, operator, attack, bystander):
    """Whatever is made of a forged end: a stranger who writes again and again makes the operator write so often at the most."""
    ns.apply_job()
    start_pods(ns)
    end = {"type": "Succeeded", "status": "True", "reason": "Forged", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"}
    n_forged = 40
    with attack(at_most=n_forged + 12):
        for i in range(n_forged):
            ns.patch("horovodjobs", "digits", {"status": {"ready": f"{i}/7", "state": "Suspended", "conditions": [end]}},
                     "status")
        bystander.succeeds()

        def writes():
            return [w for place, w in server.all_writes() if place == ns.name]

        def rests():
            before = writes()
            bystander.succeeds()
            return writes() == before
        until("rest", rests, LIMIT_S)  # a correction that backed off comes later


# ---- owners ----

def owner(kind, api, name, uid, controller=True):
    return {"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": controller, "blockOwnerDeletion": True}


def test_objects_that_name_a_job_of_another_namespace_as_their_owner_touch_nobody(ns, operator, attack, bystander):
    theirs = bystander.ns
    master = run_job(theirs, "victim")
    uid = theirs.get("horovodjobs", "victim")["metadata"]["uid"]
    set_uid = theirs.get("statefulsets", "victim-worker")["metadata"]["uid"]

    def victim():
        pods = {name: uid for name, uid in uids(theirs, "pods").items() if name.startswith("victim")}
        return hosts(theirs, "victim"), pods, theirs.get("configmaps", "victim-hosts")["data"]

    before = victim()
    job = [owner("HorovodJob", "horovod.io/v1beta1", "victim", uid)]
    with attack(at_most=0):
        for i in range(10):
            ns.create("configmaps", {"metadata": {"name": f"victim-hosts-{i}" if i else "victim-hosts", "labels": labels("victim"),
                                                  "ownerReferences": job}, "data": {"hostfile": "evil slots=1"}})
            ns.create("pods", pod(f"victim-worker-{i}", "victim",
                                  ownerReferences=[owner("StatefulSet", "apps/v1", "victim-worker", set_uid)]))
            ns.create("secrets", {"metadata": {"name": f"victim-ssh-{i}" if i else "victim-ssh", "labels": labels("victim"),
                                               "ownerReferences": job}})
        bystander.succeeds()
        assert victim() == before
        theirs.end_master(master)
        theirs.wait_state("Succeeded", "victim", LIMIT_S)


def test_children_that_lie_about_an_owner_in_their_own_namespace_are_left_alone(ns, operator, attack, bystander):
    """The names of the next job's children, owned by another job and by one that was never there; both wait and both say so."""
    ns.apply_job("first", suspend=True)
    ns.wait_state("Suspended", "first", LIMIT_S)
    uid = ns.get("horovodjobs", "first")["metadata"]["uid"]
    with attack(at_most=24):
        ns.create("secrets", {"metadata": {"name": "second-ssh", "labels": labels("second"),
                                           "ownerReferences": [owner("HorovodJob", "horovod.io/v1beta1", "first", uid)]}})
        ns.create("services", {"metadata": {"name": "third", "labels": labels("third")},
                               "spec": {"clusterIP": "None", "selector": {"a": "b"}}})
        foreign = {"secrets": uids(ns, "secrets"), "services": uids(ns, "services")}
        ns.apply_job("second")
        ns.apply_job("third")
        for job in ("second", "third"):
            until(lambda j=job: f"a conflict: {ns.status(j)}",
                  lambda j=job: (ns.condition("Running", j) or {}).get("reason") == "Conflict", LIMIT_S)
        bystander.succeeds()
        assert all(uids(ns, plural).get(name) == uid for plural, items in foreign.items() for name, uid in items.items())


# ---- leases and events ----

def test_a_stranger_who_writes_the_lease_stops_nobody_for_long(server, ns, run_operator, attack, bystander):
    """A tenant must not have this right; who has it by mistake delays, and cannot end, the work."""
    operator = run_operator("--leader-elect", "--lease-namespace", ns.name, "--lease-duration", "5")
    until("it leads", lambda: operator.metric("horovod_operator_leader") == 1, LIMIT_S)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{ns.name}/leases/horovod-operator"
    with attack(at_most=60):  # renewals, every 5/3 s
        for spec in ({"holderIdentity": "stranger", "leaseDurationSeconds": 10, "renewTime": "9999-12-31T23:59:59.000000Z"},
                     {"holderIdentity": "", "leaseDurationSeconds": None, "renewTime": None, "leaseTransitions": 2147483647},
                     {"holderIdentity": "x" * 100_000, "leaseDurationSeconds": 1, "acquireTime": "0001-01-01T00:00:00.000000Z"}):
            server.api.request("PATCH", lease, {"spec": spec}, "application/merge-patch+json")
            until("it leads again", lambda s=spec: operator.metric("horovod_operator_leader") == 1 and server.api.request(
                "GET", lease)["spec"].get("holderIdentity") != s["holderIdentity"], LIMIT_S)
        bystander.succeeds()


def event(ns, i, text):
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"metadata": {"name": f"forged-{i}"}, "type": "Warning", "reason": "FailedCreate", "message": text,
            "firstTimestamp": now, "lastTimestamp": now, "count": 2147483647, "source": {"component": "statefulset-controller"},
            "involvedObject": {"kind": "StatefulSet", "apiVersion": "apps/v1", "namespace": ns.name, "name": "digits-worker",
                               "uid": ns.get("statefulsets", "digits-worker")["metadata"]["uid"]}}


def test_events_that_tell_long_stories_are_cut(ns, operator, attack, bystander):
    """Events are read about a set whose pods are missing: here for a quota of no pods."""
    ns.api.request("POST", f"/api/v1/namespaces/{ns.name}/resourcequotas",
                   {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    with attack(at_most=24):
        ns.apply_job()
        until("the set", lambda: ns.get("statefulsets", "digits-worker"), LIMIT_S)
        for i in range(40):
            ns.create("events", event(ns, i, "\u0000\u001b[2J\n<" * 50_000))
        until(lambda: f"a reason: {ns.status()}", lambda: "cannot be made" in (ns.condition("WorkersReady") or {}).get(
            "message", ""), LIMIT_S)
        bystander.succeeds()
        assert all(len(c["message"]) <= 4096 for c in ns.status()["conditions"])
        assert "\u001b" not in json.dumps(ns.status(), ensure_ascii=False)
        assert "\u001b" not in operator.log.read_text(errors="replace")
