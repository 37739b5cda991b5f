"""Children that cannot be changed, cannot go, or belong to somebody else all of a sudden."""
import pytest

from kubeapi import ApiError, until
from tenants import LIMIT_S, finish, run_job, start_pods

CHILDREN = (("secrets", "digits-ssh"), ("services", "digits"), ("statefulsets", "digits-worker"), ("configmaps", "digits-hosts"),
            ("jobs", "digits-master"))
FINALIZER = "example.com/stays"
WRITES_OF_A_JOB = 16
MOST_WRITES = 12  # of a fight, beside those of the job's life


def hosts(ns, name="digits"):
    return [line.split(".")[0] for line in ((ns.get("configmaps", f"{name}-hosts") or {}).get("data") or {}).get(
        "hostfile", "").splitlines()]


def uids(ns, items):
    return {item: (ns.get(*item) or {"metadata": {"uid": None}})["metadata"]["uid"] for item in items}


def exists(ns, item):
    found = ns.get(*item)
    return found and "deletionTimestamp" not in found["metadata"]


# ---- what cannot change ----

def start_what_is_there(ns, names=("digits-worker-0", "digits-worker-1")):
    """Kubelets that start each pod once; the name of the master's pod when there is one."""
    for pod in ns.list("pods"):
        if pod["metadata"]["name"] in names and "containerStatuses" not in pod["status"]:
            ns.try_set_pod(pod["metadata"]["name"])
    return ns.master()


def test_a_host_list_made_immutable_before_the_start_is_made_anew(ns, operator, attack, bystander):
    with attack(at_most=2 * WRITES_OF_A_JOB + MOST_WRITES):
        ns.apply_job()
        until("the list", lambda: ns.get("configmaps", "digits-hosts"), LIMIT_S)
        ns.patch("configmaps", "digits-hosts", {"immutable": True})
        bystander.succeeds()
        until(lambda: f"a master: {ns.status()}", lambda: start_what_is_there(ns), LIMIT_S)
        master = ns.start_master(timeout=LIMIT_S)
        assert hosts(ns) == ["digits-worker-0", "digits-worker-1"]
        finish(ns, master=master)


@pytest.mark.parametrize("data", [None, {"hostfile": "evil slots=64\n"}], ids=["as it was", "with other contents"])
def test_a_host_list_made_immutable_under_the_master_does_not_end_the_job(ns, operator, attack, bystander, data):
    with attack(at_most=WRITES_OF_A_JOB + MOST_WRITES):
        master = run_job(ns, worker={"replicas": 2, "minReplicas": 1, "maxReplicas": 4})
        ns.patch("configmaps", "digits-hosts", {"immutable": True, **({"data": data} if data else {})})
        ns.patch("horovodjobs", "digits", {"spec": {"worker": {"replicas": 3}}})
        ns.start_workers(3, timeout=LIMIT_S)
        bystander.succeeds()
        assert ns.state() == "Running", ns.status()
        finish(ns, master=master)


def test_a_secret_that_a_stranger_put_in_the_place_of_the_keys_ends_nothing_that_runs(ns, operator, attack, bystander):
    with attack(at_most=WRITES_OF_A_JOB + MOST_WRITES):
        master = run_job(ns)
        pods = uids(ns, [("pods", name) for name in (master, "digits-worker-0", "digits-worker-1")])
        for _ in range(5):  # ours may be faster
            ns.delete("secrets", "digits-ssh")
            try:
                ns.create("secrets", {"metadata": {"name": "digits-ssh"}, "stringData": {"id": "evil"}, "immutable": True})
            except ApiError as error:
                assert error.code == 409
        bystander.succeeds()
        assert uids(ns, pods) == pods and ns.state() == "Running"
        finish(ns, master=master)


# ---- what cannot go ----

def hold(ns, items):
    for item in items:
        ns.patch(*item, {"metadata": {"finalizers": [FINALIZER]}})


def release(ns, items):
    for item in items:
        if ns.get(*item):
            ns.patch(*item, {"metadata": {"finalizers": None}})


def pods_of(ns):
    return [("pods", pod["metadata"]["name"]) for pod in ns.list("pods")]


@pytest.mark.parametrize("policy", ["Running", "All"])
def test_finalizers_of_strangers_hold_up_the_removal_and_cost_no_loop(ns, operator, attack, bystander, policy):
    with attack(at_most=WRITES_OF_A_JOB + MOST_WRITES):
        master = run_job(ns, cleanPodPolicy=policy)
        held = [*CHILDREN, *pods_of(ns)]
        hold(ns, held)
        finish(ns, master=master)
        for _ in range(3):
            bystander.succeeds()
        assert ns.state() == "Succeeded"
    release(ns, held)
    until("the workers are gone", lambda: not ns.workers(), LIMIT_S)


def test_a_job_whose_old_pods_cannot_go_is_suspended_and_deleted_without_a_loop(ns, operator, attack, bystander):
    with attack(at_most=WRITES_OF_A_JOB + MOST_WRITES):
        run_job(ns)
        held = [("pods", "digits-worker-0"), ("jobs", "digits-master"), ("horovodjobs", "digits")]
        hold(ns, held)
        ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
        bystander.succeeds()
        ns.delete("horovodjobs", "digits")
        bystander.succeeds()
        assert ns.get("horovodjobs", "digits")["metadata"]["deletionTimestamp"]
    release(ns, held)
    until("the job is gone", lambda: ns.get("horovodjobs", "digits") is None, LIMIT_S)


def test_an_attempt_whose_worker_cannot_go_waits_and_the_next_one_succeeds(ns, operator, attack, bystander):
    with attack(at_most=2 * WRITES_OF_A_JOB + MOST_WRITES):
        master = run_job(ns, backoffLimit=1)
        held = [("pods", "digits-worker-1")]
        old = uids(ns, held)
        hold(ns, held)
        ns.end_master(master, 1)
        until("the restart", lambda: ns.state() == "Restarting", LIMIT_S)
        bystander.succeeds()
        assert uids(ns, held) == old
        release(ns, held)
        until("a new worker", lambda: uids(ns, held) != old and exists(ns, held[0]), LIMIT_S)
        finish(ns, master=start_pods(ns))


# ---- owners ----

@pytest.fixture
def anchor(ns):
    """A reference to an owner that stays."""
    item = ns.create("configmaps", {"metadata": {"name": "anchor"}})
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "anchor", "uid": item["metadata"]["uid"]}


def test_a_further_owner_that_blocks_its_deletion_changes_nothing(ns, operator, attack, bystander, anchor):
    with attack(at_most=WRITES_OF_A_JOB + MOST_WRITES):
        master = run_job(ns)
        before = uids(ns, CHILDREN)
        for plural, name in CHILDREN:
            mine = ns.get(plural, name)["metadata"]["ownerReferences"]
            ns.patch(plural, name, {"metadata": {"ownerReferences": [*mine, {**anchor, "blockOwnerDeletion": True}]}})
        bystander.succeeds()
        assert uids(ns, CHILDREN) == before
        finish(ns, master=master)


def disown(ns, items, owner):
    for plural, name in items:
        ns.patch(plural, name, {"metadata": {"ownerReferences": owner}})


@pytest.mark.parametrize("owned", ["by nobody", "by another"])
def test_children_that_lose_their_owner_do_not_end_what_runs(ns, operator, attack, bystander, anchor, owned):
    with attack(at_most=WRITES_OF_A_JOB + 2 * MOST_WRITES):
        master = run_job(ns)
        disown(ns, [child for child in CHILDREN if child[0] != "jobs"], [{**anchor, "controller": True}] if owned == "by another"
               else None)
        for _ in range(2):
            bystander.succeeds()
        finish(ns, master=master)


@pytest.mark.parametrize("owned", ["by nobody", "by another"])
def test_a_masters_job_that_loses_its_owner_is_told_and_runs_on(ns, operator, attack, bystander, anchor, owned):
    with attack(at_most=WRITES_OF_A_JOB + MOST_WRITES):
        master = run_job(ns)
        pods = {("pods", name) for name in (master, "digits-worker-0", "digits-worker-1")}
        before = uids(ns, pods)
        disown(ns, [("jobs", "digits-master")], [{**anchor, "controller": True}] if owned == "by another" else None)
        bystander.succeeds()
        until(lambda: f"a condition names the Job: {ns.status()}", lambda: ns.state() == "Running" or any(
            "digits-master" in c["message"] for c in ns.status()["conditions"] if c["status"] == "False"), LIMIT_S)
        assert uids(ns, pods) == before and ns.state() not in ("Succeeded", "Failed")


def test_a_master_that_somebody_suspends_by_hand_does_not_stay_so(ns, operator, attack, bystander):
    with attack(at_most=3 * WRITES_OF_A_JOB + MOST_WRITES):
        run_job(ns)
        old = uids(ns, [("jobs", "digits-master")])
        ns.patch("jobs", "digits-master", {"spec": {"suspend": True}})
        bystander.succeeds()

        def is_made_anew():
            start_what_is_there(ns)
            job = ns.get("jobs", "digits-master")
            return job and job["metadata"]["uid"] not in old.values() and not job["spec"].get("suspend")
        until(lambda: f"another master: {ns.status()}", is_made_anew, LIMIT_S)
        finish(ns, master=ns.start_master(timeout=LIMIT_S))
