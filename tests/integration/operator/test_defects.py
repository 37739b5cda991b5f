"""What is known to go wrong in operators of such jobs, shown against the real API server and its controllers:
docs/defects.md names each."""
import subprocess
import time

import pytest
import yaml

import limits
from conftest import ROOT
from kubeapi import ApiError, until
from test_process import Identity, write_token_config


def uid(ns, plural, name):
    return (ns.get(plural, name) or {"metadata": {"uid": None}})["metadata"]["uid"]


def run(ns, name="digits", replicas=2, **spec):
    """A job that runs; the name of its master's pod."""
    ns.apply_job(name, replicas=replicas, **spec)
    ns.start_workers(replicas, name)
    master = ns.start_master(name)
    ns.wait_state("Running", name)
    return master


def rest(operator):
    until("rest", operator.is_at_rest)


def hosts(ns, name="digits"):
    return [line.split(".")[0] for line in ns.get("configmaps", f"{name}-hosts")["data"]["hostfile"].splitlines()]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_worker_that_ended_or_was_evicted_is_made_again(ns, operator, phase):
    ns.apply_job()
    ns.start_workers()
    until("both are ready", lambda: ns.status().get("ready") == "2/2")
    old = uid(ns, "pods", "digits-worker-1")
    ns.set_pod("digits-worker-1", phase=phase, ready=False, terminated={"exitCode": 1, "reason": "Evicted"})
    until("another worker", lambda: uid(ns, "pods", "digits-worker-1") not in (None, old))
    ns.start_pods(["digits-worker-1"])
    until("it is listed", lambda: hosts(ns) == ["digits-worker-0", "digits-worker-1"])
    assert ns.state() != "Failed" and operator.process.poll() is None


def test_suspension_removes_ended_workers_too_and_resuming_makes_new_ones(ns, operator):
    run(ns, cleanPodPolicy="Running")
    old = {name: uid(ns, "pods", name) for name in ns.workers()}
    ns.set_pod("digits-worker-0", phase="Failed", ready=False, terminated={"exitCode": 1})
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
    ns.wait_state("Suspended")
    until("no pods are left", lambda: not ns.list("pods"))
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
    ns.start_workers()
    assert all(uid(ns, "pods", name) != was for name, was in old.items())
    ns.start_master()
    ns.wait_state("Running")


def test_scaling_down_removes_the_highest_workers_and_no_other(server, ns, operator):
    run(ns, replicas=4)
    ns.patch("horovodjobs", "digits", {"spec": {"worker": {"minReplicas": 1}}})
    kept = [uid(ns, "pods", f"digits-worker-{i}") for i in (0, 1)]
    server.kubectl("scale", "horovodjob", "digits", "--replicas=2", "-n", ns.name)
    until("two are left", lambda: ns.workers() == {"digits-worker-0", "digits-worker-1"})
    until("two are listed", lambda: hosts(ns) == ["digits-worker-0", "digits-worker-1"])
    rest(operator)
    assert [uid(ns, "pods", f"digits-worker-{i}") for i in (0, 1)] == kept


def test_workers_above_a_count_reduced_while_no_operator_ran_do_not_stay(ns, run_operator):
    operator = run_operator()
    master = run(ns, replicas=4)
    operator.stop()
    ns.patch("horovodjobs", "digits", {"spec": {"worker": {"replicas": 1}}})
    ns.end_master(master)
    run_operator()
    ns.wait_state("Succeeded")
    until("no worker is left", lambda: not ns.workers())


def test_an_end_while_no_operator_ran_is_recorded_and_nothing_runs_again(server, ns, run_operator):
    operator = run_operator()
    master = run(ns, backoffLimit=3)
    was = uid(ns, "jobs", "digits-master")
    operator.stop()
    ns.end_master(master)
    until("the Job is complete", lambda: ns.get("jobs", "digits-master")["status"].get("completionTime"))
    second = run_operator()
    ns.wait_state("Succeeded")
    until("the workers are removed", lambda: not ns.workers())
    assert uid(ns, "jobs", "digits-master") == was and ns.get("horovodjobs", "digits")["status"]["attempts"] == 1
    second.stop()
    ns.delete("jobs", "digits-master")  # as a TTL of its own would have done
    before = len(server.writes(ns.name))
    third = run_operator()
    until("the job is looked at", lambda: third.metric("horovod_operator_reconcile_seconds_count") >= 1)
    rest(third)
    assert ns.get("jobs", "digits-master") is None and ns.state() == "Succeeded"
    assert len(server.writes(ns.name)) == before


def test_keys_cannot_change_under_a_running_job(server, ns, operator):
    run(ns)
    before = ns.get("secrets", "digits-ssh")
    with pytest.raises(ApiError) as refused:
        ns.patch("secrets", "digits-ssh", {"data": {"odd": "eA=="}})
    assert refused.value.code == 422
    ns.patch("secrets", "digits-ssh", {"metadata": {"annotations": {"odd": "x"}}})
    ns.patch("horovodjobs", "digits", {"metadata": {"annotations": {"odd": "x"}}})
    rest(operator)
    after = ns.get("secrets", "digits-ssh")
    assert after["data"] == before["data"] and after["metadata"]["uid"] == before["metadata"]["uid"]
    assert [w for w in server.writes(ns.name) if w[1] == "secrets/"] == [("create", "secrets/", "digits-ssh", 201)]


def test_metrics_do_not_grow_with_the_jobs_that_were(ns, operator):
    def series():
        return {line.rsplit(" ", 1)[0] for line in operator.get("/metrics")[1].splitlines() if line[:1] != "#"}
    ns.apply_job("j0")
    ns.wait_state("Pending", "j0")
    ns.delete("horovodjobs", "j0")
    until("it is forgotten", lambda: operator.metric("horovod_operator_jobs") == 0)
    before = series()
    for i in range(1, 21):
        ns.apply_job(f"j{i}")
    until("all are seen", lambda: operator.metric("horovod_operator_jobs") == 20)
    for i in range(1, 21):
        ns.delete("horovodjobs", f"j{i}")
    until("all are forgotten", lambda: operator.metric("horovod_operator_jobs") == 0)
    assert not [name for name in series() if "j1" in name]
    assert {name for name in series() - before if "_jobs" in name or "job=" in name} == set()


def test_a_job_of_an_unknown_manager_is_left_alone_and_the_log_says_so(server, ns, operator):
    ns.apply_job("theirs", managedBy="example.com/somebody")
    ns.apply_job("ours")
    ns.wait_state("Pending", "ours")
    rest(operator)
    assert ns.status("theirs") == {}
    assert ns.get("statefulsets", "theirs-worker") is None and ns.events("theirs") == []
    told = [line for line in operator.log.read_text().splitlines() if "example.com/somebody" in line]
    assert len(told) == 1 and f"{ns.name}/theirs" in told[0]


def test_the_longest_name_gets_its_workers(ns, operator):
    name = "a" * 45
    ns.apply_job(name, replicas=11)
    until("its pods", lambda: len(ns.workers(name)) == 11)
    assert ns.get("pods", f"{name}-worker-10")["metadata"]["labels"]["controller-revision-hash"]


def test_an_edited_template_rolls_no_worker_of_a_running_job(ns, operator):
    run(ns)
    before = [uid(ns, "pods", name) for name in sorted(ns.workers())]
    ns.patch("statefulsets", "digits-worker", {"spec": {"template": {"metadata": {"labels": {"odd": "x"}}}}})
    until("its controller saw it", lambda: ns.get("statefulsets", "digits-worker")["status"].get(
        "observedGeneration") == ns.get("statefulsets", "digits-worker")["metadata"]["generation"])
    with pytest.raises(ApiError) as refused:
        ns.patch("horovodjobs", "digits", {"spec": {"image": "other"}})
    assert refused.value.code == 422
    rest(operator)
    assert [uid(ns, "pods", name) for name in sorted(ns.workers())] == before and ns.state() == "Running"


def test_the_discovery_script_prints_hosts_and_slots_in_numeric_order(ns, operator, tmp_path):
    ns.apply_job(replicas=11, slotsPerWorker=3)
    ns.start_workers(11)
    ns.start_master()
    ns.wait_state("Running")
    for name, text in ns.get("configmaps", "digits-hosts")["data"].items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(["sh", "-eu", tmp_path / "discover_hosts.sh"], check=True, stdout=subprocess.PIPE, text=True,
                          timeout=10)
    assert done.stdout.splitlines() == [f"digits-worker-{i}.digits:3" for i in range(11)]


def test_suspending_and_resuming_needs_no_right_to_the_status_of_jobs(server, ns, run_operator, tmp_path):
    token = tmp_path / "token"
    token.write_text(Identity(server, ns).token("rights"))
    write_token_config(tmp_path / "config", server, token)
    operator = run_operator(kubeconfig=tmp_path / "config")
    run(ns)
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
    ns.wait_state("Suspended")
    until("no pods are left", lambda: not ns.list("pods"))
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": False, "image": "other"}})
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    assert ns.get("statefulsets", "digits-worker")["spec"]["template"]["spec"]["containers"][0]["image"] == "other"
    assert operator.metric("horovod_operator_api_requests_total", code="403") == 0


def test_a_hundred_changes_at_once_wait_for_no_rate_limit(ns, operator):
    names = [f"j{i}" for i in range(150)]
    for name in names:
        ns.apply_job(name, replicas=1)
    until("all are seen", lambda: operator.metric("horovod_operator_jobs") == 150, 60)
    until("rest", operator.is_at_rest, 60)
    begin = time.monotonic()
    for name in names:
        ns.patch("horovodjobs", name, {"spec": {"suspend": True}})
    sent = time.monotonic()
    until("all are suspended", lambda: operator.metric("horovod_operator_jobs", state="Suspended") == 150, 60)
    # At 10 a second, as a limited queue hands them out after its burst, it would be 5 s more.
    assert time.monotonic() - sent < limits.seconds(4), f"changes took {sent - begin:.1f} s to make"


def test_the_definition_is_small_enough_for_apply_and_complete():
    text = (ROOT / "crds/horovodjobs.yaml").read_text(encoding="utf-8")
    version, = yaml.safe_load(text)["spec"]["versions"]
    assert len(text) < 262144 / 4, "kubectl apply keeps a copy in an annotation of at most 256 KiB"
    assert version["subresources"]["scale"] == {"specReplicasPath": ".spec.worker.replicas",
                                                "statusReplicasPath": ".status.replicas",
                                                "labelSelectorPath": ".status.selector"}
    assert [column["name"] for column in version["additionalPrinterColumns"]][:4] == ["State", "Ready", "Attempts", "Age"]
