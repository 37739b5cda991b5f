"""Who places pods, and where: gang schedulers, a controller that queues jobs as Kueue does, priorities, the nodes'
network, Pod Security. Against the real API server; the tests play schedulers, queues and kubelets."""
import json
import signal
import subprocess
import time

import pytest
import yaml

from conftest import ROOT
from gangs import GANGS, group, group_path, install, patch_group, uninstall
from kubeapi import ApiError, until

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def rest(operator):
    """Until all that has happened was looked at and nothing is left to do."""
    def idle():
        seen = operator.metric("horovod_operator_reconcile_seconds_count")
        if not operator.is_at_rest():
            return False
        time.sleep(0.2)
        return operator.metric("horovod_operator_reconcile_seconds_count") == seen
    until("the operator rests", idle)


def looked_at(operator, change):
    """Makes a change, and waits until the operator has looked at it and rests."""
    seen = operator.metric("horovod_operator_reconcile_seconds_count")
    change()
    until("the operator has looked", lambda: operator.metric("horovod_operator_reconcile_seconds_count") > seen)
    rest(operator)


def pods(ns, role):
    return [p for p in ns.list("pods") if p["metadata"]["labels"].get("horovod.io/role") == role]


def template(role, cpu="1", **spec):
    return {"metadata": {}, "spec": {"containers": [
        {"name": role, "image": "localhost/horovod-worker:0.1.0", "resources": {"requests": {"cpu": cpu}},
         **({"command": ["horovodrun", "python", "train.py"]} if role == "master" else {})}], **spec}}


def long_form(ns, replicas=2, labels=None, worker=None, **spec):
    spec = {"master": {"template": template("master", cpu="64")},
            "worker": {"replicas": replicas, "template": worker or template("worker")}, **spec}
    return ns.create("horovodjobs", {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob",
                                     "metadata": {"name": "digits", "labels": labels or {}}, "spec": spec})


# Gang schedulers


@pytest.fixture(params=sorted(GANGS))
def gang(request, server):
    install(server, request.param)
    return request.param


def test_workers_are_placed_together_and_the_master_is_made_after_them(ns, run_operator, gang):
    run_operator(f"--gang-scheduler={gang}")
    job = long_form(ns, replicas=3)
    made = until("the PodGroup", lambda: group(ns, gang))
    assert made["spec"]["minMember"] == 3 and made["spec"]["minResources"] == {"cpu": "3"}
    owner, = made["metadata"]["ownerReferences"]
    assert owner["uid"] == job["metadata"]["uid"] and owner["controller"] is True
    until("3 worker pods", lambda: len(pods(ns, "worker")) == 3)
    where, key = GANGS[gang]["member"]
    for pod in pods(ns, "worker"):
        assert pod["spec"]["schedulerName"] == GANGS[gang]["scheduler"]
        assert pod["metadata"][where][key] == "digits"
    # All members are there before any is Ready: nothing that the gang scheduler waits for waits for it.
    assert not pods(ns, "master")
    ns.start_workers(3)
    master = ns.start_master()
    pod = ns.get("pods", master)
    assert pod["spec"]["schedulerName"] == "default-scheduler" and key not in pod["metadata"].get(where, {})
    ns.wait_state("Running")
    ns.end_master(master)
    ns.wait_state("Succeeded")
    until("the PodGroup is removed with the workers", lambda: group(ns, gang) is None)


def test_a_group_follows_its_job_and_nothing_else(server, ns, run_operator, gang):
    operator = run_operator(f"--gang-scheduler={gang}")
    long_form(ns)
    ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    rest(operator)
    old = group(ns, gang)
    # What the gang scheduler and others write stays, and is no reason to write.
    before = operator.settled_writes()
    for body, sub in (({"metadata": {"labels": {"other": "x"}}}, ""), ({"status": {"phase": "Running", "running": 2}}, "/status")):
        looked_at(operator, lambda: patch_group(ns, gang, body, sub))
    assert operator.settled_writes() == before
    # What is ours is repaired.
    patch_group(ns, gang, {"spec": {"minMember": 1, "minResources": {"memory": "1Gi"}}})
    until("the repair", lambda: group(ns, gang)["spec"]["minMember"] == 2)
    assert group(ns, gang)["spec"]["minResources"] == {"cpu": "2"}
    # More workers, another queue.
    ns.patch("horovodjobs", "digits", {"spec": {"worker": {"replicas": 4, "minReplicas": 4}}})
    until("4 members", lambda: group(ns, gang)["spec"]["minMember"] == 4)
    assert group(ns, gang)["spec"]["minResources"] == {"cpu": "4"}
    ns.patch("horovodjobs", "digits", {"spec": {"scheduling": {"minAvailable": 3}}})
    until("3 members", lambda: group(ns, gang)["spec"]["minMember"] == 3)
    # Suspended, a job claims no room; resumed, it does again.
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
    ns.wait_state("Suspended")
    until("no PodGroup", lambda: group(ns, gang) is None)
    until("no pods", lambda: not ns.list("pods"))
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": False, "scheduling": None}})
    until("a new PodGroup", lambda: group(ns, gang))
    assert group(ns, gang)["spec"]["minMember"] == 4
    assert group(ns, gang)["metadata"]["uid"] != old["metadata"]["uid"]
    ns.start_workers(4)
    ns.until("another master", lambda: ns.master() not in (None, master))
    rest(operator)
    # A restart writes nothing, whatever runs.
    operator.stop()
    audited = server.writes(ns.name)
    second = run_operator(f"--gang-scheduler={gang}")
    rest(second)
    assert second.n_writes() == 0 and server.writes(ns.name) == audited


def test_a_group_without_room_is_told_of(ns, run_operator, gang):
    run_operator(f"--gang-scheduler={gang}")
    long_form(ns)
    until("the PodGroup", lambda: group(ns, gang))
    patch_group(ns, gang, {"status": {"phase": "Pending"}}, "/status")
    until("the message", lambda: "PodGroup digits is Pending" in (ns.condition("WorkersReady") or {}).get(
        "message", ""), 40)
    patch_group(ns, gang, {"status": {"phase": "Inqueue"}}, "/status")
    until("it is over", lambda: ns.condition("WorkersReady")["message"] == "0 of 2 workers are ready", 40)


def test_a_foreign_group_of_that_name_is_left_alone_and_no_worker_is_made(ns, run_operator, gang):
    kind, api = "PodGroup", GANGS[gang]["api"]
    ns.api.request("POST", group_path(ns, gang).rsplit("/", 1)[0],
                   {"apiVersion": api, "kind": kind, "metadata": {"name": "digits"}, "spec": {"minMember": 7}})
    run_operator(f"--gang-scheduler={gang}")
    long_form(ns)
    until("the condition", lambda: (ns.condition("Running") or {}).get("reason") == "Conflict")
    assert "PodGroup" in ns.condition("Running")["message"]
    assert group(ns, gang)["spec"]["minMember"] == 7 and ns.get("statefulsets", "digits-worker") is None


def test_volcano_gets_queue_and_priority(server, ns, run_operator):
    install(server, "volcano")
    server.api.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses",
                       {"metadata": {"name": f"p-{ns.name}"}, "value": 1234})
    run_operator("--gang-scheduler=volcano", "--gang-scheduler-name=volcano-two")
    ns.apply_job(resources={"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": 2}},
                 scheduling={"queue": "training", "priorityClassName": f"p-{ns.name}"})
    spec = until("the PodGroup", lambda: group(ns, "volcano"))["spec"]
    assert spec == {"minMember": 2, "queue": "training", "priorityClassName": f"p-{ns.name}",
                    "minResources": {"cpu": "1", "memory": "2147483648", "nvidia.com/gpu": "4"}}
    ns.start_workers()
    ns.start_master()
    for pod in ns.list("pods"):
        assert pod["spec"]["priority"] == 1234
    assert {pod["spec"]["schedulerName"] for pod in pods(ns, "worker")} == {"volcano-two"}


def test_a_gang_scheduler_that_is_not_installed_is_named_and_waited_for(server, ns, run_operator):
    uninstall(server, "scheduler-plugins")
    operator = run_operator("--gang-scheduler=scheduler-plugins")
    ns.apply_job()
    until("the condition", lambda: (ns.condition("Running") or {}).get("reason") == "GangSchedulerMissing")
    message = ns.condition("Running")["message"]
    assert "scheduling.x-k8s.io/v1alpha1" in message and "--gang-scheduler=none" in message
    until("the event", lambda: ("GangSchedulerMissing", 1) in ns.events())
    rest(operator)
    assert ns.get("statefulsets", "digits-worker") is None, "its pods would wait for ever"
    assert "PodGroup is not installed" in operator.log.read_text()
    install(server, "scheduler-plugins")
    until("the PodGroup", lambda: group(ns, "scheduler-plugins"), 40)
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    # Removed while a job runs, it does no harm.
    uninstall(server, "scheduler-plugins")
    until("it is noticed", lambda: operator.log.read_text().count("PodGroup is not installed") == 2, 40)
    rest(operator)
    assert ns.state() == "Running" and ns.condition("Running")["status"] == "True"
    ns.end_master(ns.master())
    ns.wait_state("Succeeded")


def test_a_group_that_goes_with_its_definition_holds_no_job_up(server, ns, run_operator):
    """The operator sees the end of the PodGroup when the API server does not know the kind any more: a bare 404."""
    install(server, "scheduler-plugins")
    operator = run_operator("--gang-scheduler=scheduler-plugins")
    ns.apply_job()
    until("the PodGroup", lambda: group(ns, "scheduler-plugins"), 40)
    ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    rest(operator)
    until("the audit log is complete", lambda: len(server.writes(ns.name)) >= operator.settled_writes())
    since = server.audit_size()
    operator.process.send_signal(signal.SIGSTOP)
    try:
        uninstall(server, "scheduler-plugins")
    finally:
        operator.process.send_signal(signal.SIGCONT)
    until("it is noticed", lambda: "PodGroup is not installed" in operator.log.read_text(), 40)
    rest(operator)
    # Until it is noticed a new group may be asked for, in vain; nothing else is written, and nothing from then on.
    before = operator.settled_writes()
    until("the audit log is complete", lambda: len(server.writes(ns.name)) >= before)
    assert set(server.writes(ns.name, since)) <= {("create", "podgroups/", "", 404)}
    looked_at(operator, lambda: ns.patch("horovodjobs", "digits", {"metadata": {"labels": {"team": "a"}}}))
    assert ns.state() == "Running" and operator.settled_writes() == before
    ns.end_master(master)
    ns.wait_state("Succeeded")
    assert "job not done, retrying" not in operator.log.read_text()


def test_without_a_gang_scheduler_nobody_asks_for_groups(ns, operator):
    ns.apply_job()
    ns.wait_state("Pending")
    assert operator.metric("horovod_operator_api_requests_total", resource="podgroups") == 0
    spec = ns.get("statefulsets", "digits-worker")["spec"]["template"]["spec"]
    assert spec["schedulerName"] == "default-scheduler"


# A controller that queues jobs


class Queue:
    """Does with a HorovodJob what Kueue does with a job of an external framework: suspends it, puts what the flavors
    of its quota say into the pod templates when it admits it, and takes that out again when it evicts it. It knows
    the job by its spec and conditions only."""

    def __init__(self, ns):
        self.ns, self.original = ns, None

    def submit(self, **spec):
        return long_form(self.ns, labels={QUEUE_LABEL: "team-a", "team": "a"}, suspend=True, **spec)

    def job(self):
        return self.ns.get("horovodjobs", "digits")

    def is_active(self):
        return bool(self.ns.list("pods"))

    def admit(self, flavor, replicas=None, gates=()):
        """RunWithPodSetsInfo, in one update."""
        spec = self.job()["spec"]
        self.original = json.loads(json.dumps({role: spec[role] for role in ("master", "worker")}))
        patch = {"suspend": False}
        for role in ("master", "worker"):
            changed = spec[role]["template"]
            for field, value in (("labels", {"kueue.x-k8s.io/podset": role}),
                                 ("annotations", {"kueue.x-k8s.io/workload": "horovodjob-digits-1"})):
                changed.setdefault("metadata", {}).setdefault(field, {}).update(value)
            changed["spec"]["nodeSelector"] = {"flavor": flavor}
            changed["spec"]["tolerations"] = [{"key": flavor, "operator": "Exists", "effect": "NoSchedule"}]
            if gates:
                changed["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
            patch[role] = {**spec[role], "template": changed}
        if replicas:
            patch["worker"]["replicas"] = replicas
        self.ns.patch("horovodjobs", "digits", {"spec": patch})

    def evict(self):
        self.ns.patch("horovodjobs", "digits", {"spec": {"suspend": True}})
        until("no pods", lambda: not self.is_active())

    def restore(self):
        """RestorePodSetsInfo, by an update, as a merge patch cannot know what to remove."""
        job = self.job()
        job["spec"].update(self.original)
        self.ns.api.request("PUT", self.ns.path("horovodjobs", "digits"), job)


@pytest.fixture
def queue(ns):
    return Queue(ns)


def placed(pod, flavor):
    tolerations = [t["key"] for t in pod["spec"]["tolerations"]]
    return pod["spec"]["nodeSelector"] == {"flavor": flavor} and flavor in tolerations and \
        pod["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == "horovodjob-digits-1" and \
        pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] == pod["metadata"]["labels"]["horovod.io/role"]


def test_a_queued_job_has_no_pods_until_it_is_admitted_and_then_where_it_is_told(ns, operator, queue):
    job = queue.submit()
    ns.wait_state("Suspended")
    rest(operator)
    assert not queue.is_active() and ns.condition("Suspended")["status"] == "True"
    assert "startTime" not in queue.job()["status"]
    queue.admit("spot")
    ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    assert ns.condition("Running")["status"] == "True" and ns.condition("Suspended")["status"] == "False"
    assert all(placed(pod, "spot") for pod in ns.list("pods")) and len(ns.list("pods")) == 3
    # Each child has this job as its controller, and no queue of its own.
    children = [o for plural in ("statefulsets", "jobs", "services", "configmaps", "secrets")
                for o in ns.list(plural) if o["metadata"]["name"].startswith("digits")]
    assert len(children) == 5
    for child in children:
        owner, = child["metadata"]["ownerReferences"]
        assert owner["uid"] == job["metadata"]["uid"] and owner["controller"] is True
        assert owner["kind"] == "HorovodJob" and owner["apiVersion"] == "horovod.io/v1beta1"
    for item in children + ns.list("pods"):
        assert QUEUE_LABEL not in item["metadata"].get("labels", {}) and "team" not in item["metadata"]["labels"]
    ns.end_master(master)
    ns.wait_state("Succeeded")
    assert ns.condition("Succeeded")["status"] == "True" and (ns.condition("Running") or {}).get("status") == "False"


def test_an_evicted_job_is_down_at_once_and_comes_back_elsewhere(ns, operator, queue):
    queue.submit()
    ns.wait_state("Suspended")
    before = queue.job()["spec"]
    queue.admit("spot")
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    started = queue.job()["status"]["startTime"]
    queue.evict()
    until("Running is false", lambda: (ns.condition("Running") or {}).get("status") == "False")
    assert "startTime" not in queue.job()["status"]
    until("its pods are gone, and it is suspended", lambda: ns.condition("Suspended")["status"] == "True")
    assert not queue.is_active()
    queue.restore()
    assert queue.job()["spec"] == {**before, "suspend": True}
    rest(operator)
    assert not queue.is_active()
    time.sleep(max(0.0, 1.1 - (time.time() % 1)))  # times have whole seconds
    queue.admit("reserved", replicas=1)
    ns.start_workers(1)
    ns.start_master()
    ns.wait_state("Running")
    assert all(placed(pod, "reserved") for pod in ns.list("pods")) and len(pods(ns, "worker")) == 1
    assert queue.job()["status"]["startTime"] > started
    status = queue.job()["status"]
    assert (status["attempts"], status["failures"], status["interruptions"]) == (2, 0, 1), "an eviction does not count"


def test_scheduling_gates_hold_the_pods_until_they_are_lifted(ns, operator, queue):
    gate = "kueue.x-k8s.io/topology"
    queue.submit()
    ns.wait_state("Suspended")
    queue.admit("spot", gates=[gate])
    until("2 worker pods", lambda: len(ns.workers()) == 2)
    indexes = set()
    for pod in pods(ns, "worker"):
        assert [g["name"] for g in pod["spec"]["schedulingGates"]] == [gate]
        indexes.add(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"])
        ns.patch("pods", pod["metadata"]["name"], {"spec": {"schedulingGates": [],
                                                            "nodeSelector": {"flavor": "spot", "rack": "r1"}}})
    assert indexes == {"0", "1"}
    ns.start_workers()
    until("the master's pod", ns.master)
    assert ns.get("pods", ns.master())["spec"]["schedulingGates"]
    rest(operator)
    assert not ns.get("pods", "digits-worker-0")["spec"].get("schedulingGates")


def test_templates_change_only_while_the_job_is_suspended(ns, operator, queue):
    queue.submit()
    ns.wait_state("Suspended")
    queue.admit("spot")
    ns.wait_state("Pending")
    changed = queue.job()["spec"]["worker"]
    changed["template"]["spec"]["nodeSelector"] = {"flavor": "other"}
    with pytest.raises(ApiError) as refused:
        ns.patch("horovodjobs", "digits", {"spec": {"worker": changed}})
    assert refused.value.code == 422 and "suspend" in str(refused.value)


@pytest.mark.parametrize("change", [{"priorityClassName": "high"}, {"queue": "b"}])
def test_what_is_in_running_pods_does_not_change(ns, operator, change):
    ns.apply_job(scheduling={"queue": "a"})
    ns.wait_state("Pending")
    if "queue" in change:
        ns.patch("horovodjobs", "digits", {"spec": {"scheduling": change}})
        return
    with pytest.raises(ApiError) as refused:
        ns.patch("horovodjobs", "digits", {"spec": {"scheduling": change}})
    assert refused.value.code == 422 and "priorityClassName" in str(refused.value)


def test_a_job_that_another_cluster_runs_is_mirrored_by_its_manager_alone(server, ns, operator):
    long_form(ns, labels={QUEUE_LABEL: "team-a"}, suspend=True, managedBy="kueue.x-k8s.io/multikueue")
    ns.apply_job("ours", replicas=1)
    ns.wait_state("Pending", "ours")
    ns.patch("horovodjobs", "digits", {"spec": {"suspend": False}})
    ns.patch("horovodjobs", "digits", {"status": {"state": "Running", "conditions": [
        {"type": "Running", "status": "True", "reason": "Remote", "message": "", "lastTransitionTime":
         "2025-01-01T00:00:00Z"}]}}, "status")
    rest(operator)
    assert not [w for w in server.writes(ns.name) if "digits" in w[2]]
    assert ns.state() == "Running" and not ns.events("digits")


# Priority


def test_a_priority_class_is_for_all_pods_whose_template_names_none(server, ns, operator):
    for name, value in (("one", 10), ("two", 20)):
        server.api.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses",
                           {"metadata": {"name": f"{name}-{ns.name}"}, "value": value})
    long_form(ns, worker=template("worker", priorityClassName=f"two-{ns.name}"),
              scheduling={"priorityClassName": f"one-{ns.name}"})
    ns.start_workers()
    ns.start_master()
    assert {p["spec"]["priority"] for p in pods(ns, "worker")} == {20}
    assert {p["spec"]["priority"] for p in pods(ns, "master")} == {10}


# The nodes' network


def port_of(ns, name):
    return (ns.get("horovodjobs", name) or {}).get("status", {}).get("sshPort")


def ssh_settings(ns, name):
    """The port of a job's sshd, wherever it is told."""
    worker = ns.get("statefulsets", f"{name}-worker")["spec"]["template"]["spec"]["containers"][0]
    command = worker["command"]
    config = ns.get("configmaps", f"{name}-hosts")["data"]["ssh_config"]
    return {int(command[command.index("-p") + 1]), worker["ports"][0]["containerPort"],
            worker["startupProbe"]["tcpSocket"]["port"], worker["readinessProbe"]["tcpSocket"]["port"],
            int(config.split("Port ")[1].split()[0]),
            int(next(v["value"] for v in worker["env"] if v["name"] == "HOROVOD_SSH_PORT"))}


def test_jobs_on_the_nodes_network_get_ports_of_their_own_for_their_whole_life(ns, run_operator):
    operator = run_operator("--ssh-ports=21000-21019")
    names = [f"net-{i}" for i in range(20)]
    for name in names:
        ns.apply_job(name, replicas=1, network={"hostNetwork": True})
    until("all have workers", lambda: len(ns.list("pods")) == 20)
    ports = {name: port_of(ns, name) for name in names}
    assert sorted(ports.values()) == list(range(21000, 21020))
    for name in names:
        assert ssh_settings(ns, name) == {ports[name]}
    pod = ns.get("pods", "net-0-worker-0")["spec"]
    assert pod["hostNetwork"] is True and pod["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert pod["containers"][0]["ports"][0]["hostPort"] == ports["net-0"], "the scheduler must see it"
    # No port is left; one that is set is nobody else's business.
    ns.apply_job("net-late", replicas=1, network={"hostNetwork": True})
    until("the condition", lambda: (ns.condition("Running", "net-late") or {}).get("reason") == "NoFreePort")
    assert "--ssh-ports" in ns.condition("Running", "net-late")["message"]
    assert ns.get("statefulsets", "net-late-worker") is None
    # The ports outlive the operator that chose them.
    operator.kill()
    operator = run_operator("--ssh-ports=21000-21019")
    rest(operator)
    assert {name: port_of(ns, name) for name in names} == ports
    # A job that is gone, or suspended, leaves its port to the one that has waited longest.
    ns.delete("horovodjobs", "net-7")
    until("the port is taken over", lambda: port_of(ns, "net-late") == ports["net-7"])
    until("it has its worker", lambda: ns.get("statefulsets", "net-late-worker"))
    ns.apply_job("net-later", replicas=1, network={"hostNetwork": True})
    until("the condition", lambda: (ns.condition("Running", "net-later") or {}).get("reason") == "NoFreePort")
    ns.patch("horovodjobs", "net-3", {"spec": {"suspend": True}})
    until("the port is taken over", lambda: port_of(ns, "net-later") == ports["net-3"], 60)
    # It gets one again when there is one: of a job that has ended, whose workers are gone.
    ns.patch("horovodjobs", "net-3", {"spec": {"suspend": False}})
    until("net-3 waits", lambda: (ns.condition("Running", "net-3") or {}).get("reason") == "NoFreePort")
    ns.start_workers(1, "net-5")
    ns.end_master(ns.start_master("net-5"))
    ns.wait_state("Succeeded", "net-5")
    until("net-3 is back", lambda: ns.workers("net-3"), 60)
    assert ssh_settings(ns, "net-3") == {ports["net-5"]} and port_of(ns, "net-5") == ports["net-5"]


def test_a_port_of_the_jobs_choice_is_kept_and_taken(ns, run_operator):
    run_operator("--ssh-ports=22000-22001")
    ns.apply_job("chosen", replicas=1, network={"hostNetwork": True}, ssh={"port": 22000})
    until("its worker", lambda: ns.workers("chosen"))
    ns.apply_job("other", replicas=1, network={"hostNetwork": True})
    until("its worker", lambda: ns.workers("other"))
    assert ssh_settings(ns, "chosen") == {22000} and port_of(ns, "chosen") is None
    assert ssh_settings(ns, "other") == {22001} and port_of(ns, "other") == 22001


def test_ports_of_jobs_that_run_nothing_and_those_set_by_hand_keep_no_job_waiting(ns, run_operator):
    """Each port of the range is set by hand: by jobs that are suspended, of another manager, or run."""
    run_operator("--ssh-ports=24000-24005")
    for i in range(6):
        more = [{"suspend": True}, {"managedBy": "example.com/other"}, {}][i % 3]
        ns.apply_job(f"greedy-{i}", replicas=1, network={"hostNetwork": True}, ssh={"port": 24000 + i}, **more)
    until("theirs run", lambda: ns.workers("greedy-2") and ns.workers("greedy-5"))
    for i in range(6):
        ns.apply_job(f"net-{i}", replicas=1, network={"hostNetwork": True})
    until("all have workers", lambda: all(ns.workers(f"net-{i}") for i in range(6)))
    assert sorted(port_of(ns, f"net-{i}") for i in range(6)) == list(range(24000, 24006))


def test_an_operator_that_is_killed_while_it_chooses_ports_gives_none_twice(ns, run_operator):
    names = [f"net-{i}" for i in range(12)]
    for name in names:
        ns.apply_job(name, replicas=1, network={"hostNetwork": True})
    for delay in (0.0, 0.01, 0.02, 0.03, 0.05, 0.08):
        operator = run_operator("--ssh-ports=23000-23012", wait=False)
        until("it has listed", lambda o=operator: o.get("/readyz")[0] == 200)
        time.sleep(delay)  # where in its work the kill hits it
        operator.kill()
    run_operator("--ssh-ports=23000-23012")
    until("all have workers", lambda: len(ns.list("pods")) == 12)
    assert len({port_of(ns, name) for name in names}) == 12
    for name in names:
        assert ssh_settings(ns, name) == {port_of(ns, name)}


# Pod Security


@pytest.fixture
def restricted(server, ns):
    server.api.request("PATCH", f"/api/v1/namespaces/{ns.name}", {"metadata": {"labels": {
        "pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"}}},
        "application/merge-patch+json")
    with pytest.raises(ApiError) as refused:
        ns.create("pods", {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    assert refused.value.code == 403 and "restricted" in str(refused.value), "the namespace must enforce it"
    return ns


@pytest.mark.parametrize("form", ["short", "long", "gang"])
def test_workers_and_master_pass_where_restricted_is_enforced(server, restricted, run_operator, form):
    ns = restricted
    if form == "gang":
        install(server, "volcano")
    run_operator(*(["--gang-scheduler=volcano"] if form == "gang" else []))
    if form == "long":
        long_form(ns)
    else:
        ns.apply_job(replicas=2, env=[{"name": "A", "value": "b"}])
    ns.start_workers()
    master = ns.start_master()
    ns.wait_state("Running")
    for pod in ns.list("pods"):
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert all(c["securityContext"]["allowPrivilegeEscalation"] is False for c in pod["spec"]["containers"])
    ns.end_master(master)
    ns.wait_state("Succeeded")


def test_the_operator_of_the_chart_passes_where_restricted_is_enforced(server, restricted, tmp_path):
    ns = restricted
    done = subprocess.run([server.binaries / "helm", "template", "op", ROOT / "charts/horovod", "--namespace", ns.name],
                          stdout=subprocess.PIPE, check=True, text=True, timeout=60,
                          env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    objects = [o for o in yaml.safe_load_all(done.stdout) if o and o["kind"] in ("Deployment", "ServiceAccount")]
    assert {o["kind"] for o in objects} == {"Deployment", "ServiceAccount"}
    server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump_all(objects))
    pod, = until("the operator's pod", lambda: [p for p in ns.list("pods")
                                                if p["metadata"]["labels"].get("app.kubernetes.io/component") ==
                                                "operator" or "operator" in p["metadata"]["name"]])
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


def test_the_nodes_network_is_refused_where_restricted_is_enforced(restricted, operator):
    ns = restricted
    ns.apply_job(replicas=1, network={"hostNetwork": True})
    until("the set", lambda: ns.get("statefulsets", "digits-worker"))
    def refused():
        return [e for e in ns.list("events") if e["reason"] == "FailedCreate" and "hostNetwork" in e["message"]]
    until("its controller tells why there are no pods", refused)
    assert not ns.list("pods") and ns.state() == "Pending"


# The documentation


def test_every_manifest_of_the_page_is_accepted_and_acted_on(server, ns, run_operator):
    install(server, "volcano")
    run_operator("--gang-scheduler=volcano")
    blocks = (ROOT / "docs/scheduling.md").read_text(encoding="utf-8").split("```yaml\n")[1:]
    manifests = [yaml.safe_load(block.split("```")[0]) for block in blocks]
    assert len(manifests) == 3
    for manifest in manifests:
        server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump(manifest))
    for name, state in (("gang", "Pending"), ("queued", "Suspended"), ("fast", "Pending")):
        ns.wait_state(state, name)
    made = until("the PodGroup", lambda: ns.api.request("GET", group_path(ns, "volcano").replace("/digits", "/gang")))
    assert made["spec"]["minResources"] == {"cpu": "8", "memory": "17179869184", "nvidia.com/gpu": "4"}
    assert until("a port", lambda: port_of(ns, "fast")) in range(20000, 30000)


def test_a_suspended_short_form_may_become_the_long_form(ns, operator):
    ns.apply_job(suspend=True)
    ns.wait_state("Suspended")
    ns.patch("horovodjobs", "digits", {"spec": {
        "suspend": False, "image": None, "command": None, "master": {"template": template("master")},
        "worker": {"replicas": 1, "template": template("worker", nodeSelector={"flavor": "spot"})}}})
    until("the worker", lambda: ns.workers() == {"digits-worker-0"})
    assert ns.get("pods", "digits-worker-0")["spec"]["nodeSelector"] == {"flavor": "spot"}


# Quota


def test_a_quota_that_is_used_up_is_told_of_and_waited_for(server, ns, operator):
    server.api.request("POST", f"/api/v1/namespaces/{ns.name}/resourcequotas",
                       {"metadata": {"name": "none"}, "spec": {"hard": {"count/statefulsets.apps": "0"}}})
    path = f"/api/v1/namespaces/{ns.name}/resourcequotas/none"
    until("the quota counts", lambda: server.api.request("GET", path).get("status", {}).get("used"), 60)
    ns.apply_job()
    until("the condition", lambda: (ns.condition("Running") or {}).get("reason") == "Denied")
    assert "exceeded quota" in ns.condition("Running")["message"] and ns.state() == "Pending"
    rest(operator)
    ns.api.request("DELETE", path)
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    assert ns.condition("Running")["reason"] == "MasterStarted"


def test_a_definition_that_goes_and_comes_again_and_again_is_no_fight(server, ns, run_operator):
    """Its groups go with it each time: no other writer deletes them, and each job has its group again."""
    gang = "scheduler-plugins"
    install(server, gang)
    run_operator(f"--gang-scheduler={gang}")
    ns.apply_job()
    ns.start_workers()
    ns.start_master()
    ns.wait_state("Running")
    for _ in range(6):
        until("the group", lambda: group(ns, gang), 40)
        uninstall(server, gang)
        install(server, gang)
    until("the group", lambda: group(ns, gang), 40)
    assert (ns.condition("Contested") or {}).get("status") != "True", ns.status()
    assert ns.state() == "Running"
