"""Two operators and one Lease: who works, how fast the other takes over, and that never two write."""
import math
import os
import signal
import threading
import time

import pytest
import yaml

import limits
from kubeapi import until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
ELECT = ("--leader-elect", "--lease-name", "horovod-operator")


@pytest.fixture
def run_candidate(ns, run_operator):
    """Starts an operator that takes part in the election of the test's namespace."""
    def run(*args, **options):
        return run_operator(*ELECT, "--lease-namespace", ns.name, *args, **options)
    return run


def lease(ns):
    path = LEASES.format(ns.name)
    items = ns.api.request("GET", path)["items"]
    return items[0]["spec"] if items else {}


def leads(operator):
    return operator.metric("horovod_operator_leader") == 1


def leader_and_standby(operators):
    until("one of them leads", lambda: sum(map(leads, operators)) == 1)
    return sorted(operators, key=leads, reverse=True)


def finish_job(ns, name):
    ns.apply_job(name, replicas=1)
    ns.start_workers(1, name)
    ns.start_master(name)
    ns.wait_state("Running", name)




def assert_each_event_once(ns, job, last):
    reasons = [reason for reason, count in ns.events(job) for _ in range(count)]
    assert reasons[-1] == last and len(set(reasons)) == len(reasons), reasons


def test_one_leads_and_the_other_is_warm_but_writes_nothing(ns, run_candidate):
    first, second = run_candidate(), run_candidate()
    leader, standby = leader_and_standby([first, second])
    for i in range(3):
        finish_job(ns, f"j{i}")
    until("the standby knows of the jobs", lambda: standby.metric("horovod_operator_jobs", state="Running") == 3)
    assert standby.n_writes() == 0 and leader.n_writes() > 10
    assert standby.get("/readyz") == (200, "ok\n")
    assert standby.metric("horovod_operator_watch_up", resource="leases") == 1
    assert lease(ns)["holderIdentity"].rsplit("_", 1)[0] == os.uname().nodename


def test_after_sigterm_the_other_leads_at_once(ns, run_candidate):
    leader, standby = leader_and_standby([run_candidate(), run_candidate()])
    ns.apply_job("before", replicas=1)
    ns.wait_state("Pending", "before")
    leader.process.send_signal(signal.SIGTERM)
    until("the other leads, without waiting for the Lease of 15 s to expire", lambda: leads(standby), 10)
    assert leader.process.wait(timeout=5) == 0
    assert lease(ns)["leaseTransitions"] == 1
    ns.start_workers(1, "before")
    ns.start_master("before")
    ns.wait_state("Running", "before")


def test_with_work_under_way_the_lease_is_released_too(ns, run_candidate):
    leader, standby = leader_and_standby([run_candidate(), run_candidate()])
    for i in range(30):
        ns.apply_job(f"j{i}", replicas=1)
    leader.process.send_signal(signal.SIGTERM)
    until("the other leads, without waiting for the Lease of 15 s to expire", lambda: leads(standby), 10)
    until("all jobs have what they need", lambda: len(ns.list("statefulsets")) == 30)
    until("nothing waits", lambda: standby.metric("horovod_operator_queue_depth") == 0)
    assert len(ns.list("secrets")) == 30


def test_after_a_kill_the_other_leads_within_twenty_seconds_and_goes_on(ns, run_candidate):
    leader, standby = leader_and_standby([run_candidate(), run_candidate()])
    ns.apply_job("half", replicas=1)
    until("its workers", lambda: ns.workers("half"))
    begin = time.monotonic()
    leader.kill()
    ns.start_workers(1, "half")
    until("the other leads", lambda: leads(standby), 25)
    took = time.monotonic() - begin
    assert 9 < took <= limits.seconds(20), took
    ns.start_master("half")
    ns.wait_state("Running", "half")
    assert_each_event_once(ns, "half", "MasterStarted")


def is_settled(server, ns, operators, n_writes):
    """Whether the jobs have had their writes, and the operators have heard so: nothing is on its way."""
    n_done = sum(not resource.startswith("leases") for _, resource, _, _ in server.writes(ns.name))
    return n_done == n_writes and sum(operator.n_writes() for operator in operators) == n_writes


def test_a_frozen_leader_that_thaws_writes_nothing_more(server, ns, run_candidate):
    args = ("--lease-duration", "3")
    leader, standby = leader_and_standby([run_candidate(*args), run_candidate(*args)])
    for i in range(5):
        ns.apply_job(f"j{i}", replicas=1)
    until("four children and a status of each job", lambda: is_settled(server, ns, (leader, standby), 5 * 5))
    leader.process.send_signal(signal.SIGSTOP)
    until("the other leads", lambda: leads(standby), 10)
    for i in range(5):
        ns.start_workers(1, f"j{i}")
        ns.start_master(f"j{i}")
        ns.wait_state("Running", f"j{i}")
    writes = standby.n_writes()
    leader.process.send_signal(signal.SIGCONT)
    until("it has noticed", lambda: "not leading any more" in leader.log.read_text(), 10)
    leader_writes = leader.n_writes()
    ns.apply_job("later", replicas=1)
    ns.wait_state("Pending", "later")
    assert leader.n_writes() == leader_writes
    assert standby.n_writes() > writes
    assert not leads(leader) and leads(standby)


def test_two_that_take_turns_make_what_one_would_have_made(server, ns, run_candidate):
    """Frozen and thawed in turn while jobs run: each event once, each status as it should be."""
    args = ("--lease-duration", "3")
    operators = [run_candidate(*args), run_candidate(*args)]
    stop = threading.Event()

    def freeze_in_turn():
        while not stop.is_set():
            leading = [o for o in operators if leads(o)]
            if leading:
                leading[0].process.send_signal(signal.SIGSTOP)
                until("another leads", lambda: any(leads(o) for o in operators if o is not leading[0]), 15)
                leading[0].process.send_signal(signal.SIGCONT)
            stop.wait(0.3)

    thread = threading.Thread(target=freeze_in_turn)
    thread.start()
    try:
        for i in range(6):
            name = f"j{i}"
            ns.apply_job(name, replicas=1)
            until("its workers", lambda name=name: ns.workers(name), 30)
            ns.start_workers(1, name)
            master = ns.start_master(name)
            ns.wait_state("Running", name, 30)
            ns.end_master(master)
            ns.wait_state("Succeeded", name, 30)
    finally:
        stop.set()
        thread.join(30)
    assert lease(ns)["leaseTransitions"] >= 2
    for i in range(6):
        assert_each_event_once(ns, f"j{i}", "Succeeded")
    assert len([j for j in ns.list("jobs")]) == 6


def test_a_lease_that_is_deleted_is_made_anew_by_the_one_that_holds_it(ns, run_candidate):
    leader, standby = leader_and_standby([run_candidate(), run_candidate()])
    holder = lease(ns)["holderIdentity"]
    ns.api.request("DELETE", LEASES.format(ns.name) + "/horovod-operator")
    until("it is there again", lambda: lease(ns))
    assert lease(ns)["holderIdentity"] == holder
    assert leads(leader) and not leads(standby)


def test_clocks_that_differ_do_not_matter(ns, run_candidate):
    """A Lease whose times lie an hour in the past is as good as any while it changes."""
    duration = math.ceil(limits.seconds(3))
    leader, standby = leader_and_standby([run_candidate("--lease-duration", str(duration)) for _ in range(2)])
    end = time.monotonic() + 2 * duration
    n_renewals = 0
    while time.monotonic() < end:
        old = {"spec": {"renewTime": "2020-01-01T00:00:00.000000Z", "acquireTime": "2020-01-01T00:00:00.000000Z"}}
        ns.api.request("PATCH", LEASES.format(ns.name) + "/horovod-operator", old, "application/merge-patch+json")
        n_renewals += 1
        time.sleep(0.2)
        assert leads(leader) and not leads(standby)
    assert n_renewals > 10 and lease(ns).get("leaseTransitions", 0) == 0


def test_without_the_right_to_the_lease_it_says_so_and_does_nothing(server, ns, run_operator, tmp_path):
    config = yaml.safe_load(open(server.kubeconfig))
    server.kubectl("create", "clusterrolebinding", f"view-{ns.name}", "--clusterrole=view",
                   f"--serviceaccount={ns.name}:default")
    token = server.kubectl("create", "token", "default", "-n", ns.name).stdout.strip()
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    operator = run_operator(*ELECT, "--lease-namespace", ns.name, kubeconfig=tmp_path / "config", wait=False)
    until("readyz names what may not be read, and why", lambda: "HTTP 403" in operator.get("/readyz")[1])
    code, text = operator.get("/readyz")
    assert code == 503 and "watch of leases: not listed yet" in text
    assert operator.n_writes() == 0 and not leads(operator)


def test_outside_a_pod_the_leases_namespace_has_to_be_named(server, run_operator):
    operator = run_operator("--leader-elect", wait=False)
    assert operator.process.wait(timeout=10) == 1
    assert "--lease-namespace" in operator.log.read_text()
