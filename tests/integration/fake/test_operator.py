"""The operator on the fake server: what the real one cannot be made to do."""
import copy
import json

import pytest

from fake import OPERATOR, Operator, until


@pytest.fixture
def operator(fake, tmp_path):
    assert OPERATOR.exists(), f"{OPERATOR} is not built: cmake --build --preset dev"
    with Operator(fake.kubeconfig(), tmp_path) as process:
        yield process.wait_ready()
        assert process.stop() == 0


@pytest.mark.parametrize("plural, name", [("configmaps", "digits-hosts"), ("statefulsets", "digits-worker")])
def test_a_child_that_was_replaced_unseen_is_read_again_and_the_job_goes_on(fake, operator, plural, name):
    fake.play(run_ms=-1)
    fake.apply_job(replicas=2)
    fake.wait_state("Running")
    assert fake.watches("hang", plural) == 1, "from here on the operator's knowledge of them is old"
    fake.play(off=True)
    child = copy.deepcopy(fake.get(plural, name))
    fake.remove(resource=plural, name=name)
    fake.put(child)
    assert fake.get(plural, name)["metadata"]["uid"] != child["metadata"]["uid"]
    fake.play(off=False)
    fake.patch("horovodjobs", "digits", {"spec": {"worker": {"replicas": 3, "minReplicas": 1}}})
    until("a patch was refused", lambda: any(r["code"] in (409, 422) for r in fake.writes()))
    until("the list has three hosts", lambda: len(fake.get("configmaps", "digits-hosts")["data"]["hostfile"].split("\n")) == 4)
    until("three are wanted", lambda: fake.get("statefulsets", "digits-worker")["spec"]["replicas"] == 3)
    assert fake.job_state() == "Running"


def test_a_job_runs_as_its_script_says_and_every_request_is_written_down(fake, operator):
    fake.apply_job(replicas=3, play={"exit_codes": [3, 0], "run_ms": 20}, backoffLimit=1)
    fake.wait_state("Succeeded")
    assert fake.get("horovodjobs", "digits")["status"]["attempts"] == 2
    made = [r["name"] for r in fake.writes() if r["verb"] == "create" and r["resource"] == "jobs"]
    assert made == ["digits-master", "digits-master"]
    bodies = [r["body"] for r in fake.writes() if r["resource"] == "horovodjobs"]
    assert bodies and all(json.loads(body)["status"] for body in bodies)
    assert not any("body" in r for r in fake.writes() if r["resource"] == "secrets"), "keys must not be recorded"


def job(name):
    return {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": name, "namespace": "default"},
            "spec": {"image": "i", "command": ["c"], "worker": {"replicas": 1}}}


def test_new_jobs_get_their_children_before_any_is_told_its_status(fake, tmp_path):
    """The jobs are there before the operator, so all of them are new at once; some are under way at the same time."""
    n_jobs, at_once = 60, 8
    fake.play(off=True)
    fake.configure(latency_ms=1)
    fake.put(*(job(f"j{i}") for i in range(n_jobs)))
    with Operator(fake.kubeconfig(), tmp_path) as process:
        process.wait_ready()
        until("all are Pending", lambda: process.metric("horovod_operator_jobs", state="Pending") == n_jobs)
        assert process.stop() == 0
    writes = fake.writes()
    assert len(writes) == 5 * n_jobs
    first = next(i for i, write in enumerate(writes) if write["verb"] == "patch")
    sets = [write["name"] for write in writes[:first] if write["resource"] == "statefulsets"]
    assert len(sets) >= n_jobs - at_once


def test_a_job_whose_workers_are_ready_gets_its_master_before_new_jobs_begin(fake, operator):
    """The one that can start has no status yet: the first one waits for something to tell."""
    n_new, at_once = 60, 8
    fake.play(kubelet=False)
    fake.put(job("zz"))
    until("its worker is there", lambda: fake.get("pods", "zz-worker-0"))
    fake.play(off=True)
    fake.configure(latency_ms=5)
    worker = fake.get("pods", "zz-worker-0")
    worker["status"] = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    before = fake.state()["requests"]
    fake.put(*(job(f"j{i}") for i in range(n_new)), worker)
    until("the master is made", lambda: fake.get("jobs", "zz-master"))
    writes = [(write["resource"], write["name"]) for write in fake.writes(before)]
    assert writes.index(("jobs", "zz-master")) <= 5 * at_once


def test_a_master_that_has_ended_is_told_of_before_new_jobs_begin(fake, tmp_path):
    """The ended one is the last in the list."""
    n_new, at_once = 60, 8
    fake.play(run_ms=-1)
    fake.put(job("zz"))
    with Operator(fake.kubeconfig(), tmp_path) as process:
        process.wait_ready()
        fake.wait_state("Running", "zz")
        assert process.stop() == 0
    master = next(pod for pod in fake.list("pods") if "-master-" in pod["metadata"]["name"])
    fake.play(off=True)
    fake.configure(latency_ms=1)
    master["status"] = {"phase": "Succeeded", "containerStatuses": [
        {"name": "master", "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:00Z"}}}]}
    before = fake.state()["requests"]
    fake.put(*(job(f"a{i}") for i in range(n_new)), {**master, "apiVersion": "v1", "kind": "Pod"})
    with Operator(fake.kubeconfig(), tmp_path) as process:
        process.wait_ready()
        until("all are Pending", lambda: process.metric("horovod_operator_jobs", state="Pending") == n_new)
        assert process.stop() == 0
    writes = fake.writes(before)
    told = next(i for i, write in enumerate(writes) if (write["name"], write["subresource"]) == ("zz", "status"))
    assert sum(write["resource"] == "statefulsets" and write["verb"] == "create" for write in writes[:told]) <= 2 * at_once


def test_a_patch_decided_before_another_write_changes_nothing(fake, operator):
    """As a proxy does that delivers what it has held back, when another operator leads."""
    fake.play(run_ms=-1)
    fake.apply_job(replicas=2)
    fake.wait_state("Running")
    fake.patch("horovodjobs", "digits", {"spec": {"worker": {"replicas": 3, "minReplicas": 1}}})
    until("three are wanted", lambda: fake.get("statefulsets", "digits-worker")["spec"]["replicas"] == 3)
    until("the list has three hosts", lambda: len(fake.get("configmaps", "digits-hosts")["data"]["hostfile"].split("\n")) == 4)
    patches = [w for w in fake.writes() if w["verb"] == "patch" and w["code"] == 200]
    assert {"statefulsets", "configmaps", "horovodjobs"} <= {w["resource"] for w in patches}
    for late in patches:
        kind = "json-patch" if late["body"].startswith("[") else "merge-patch"
        answer = fake.raw("PATCH", late["path"], late["body"], {"Content-Type": f"application/{kind}+json"})
        assert answer[0] == 409, f"{late['path']} {late['body']}: {answer}"


@pytest.mark.parametrize("reason, verb", [("default backend", "create"), ("NotFound", "get")])
def test_404s_that_pass_make_no_job_forgotten(fake, operator, reason, verb):
    """A load balancer's are no Status about the object; even one that is believed is wrong when the watch does not agree."""
    fake.play(run_ms=20)
    fake.fault("answer", code=404, reason=reason, times=1000000)
    fake.apply_job(replicas=1)
    until("some are answered 404", lambda: [r["verb"] for r in fake.requests() if r["code"] == 404].count(verb) >= 2 - (verb == "get"))
    fake.clear_faults()
    fake.wait_state("Succeeded", timeout=40)


def test_a_change_is_acted_on_at_the_look_that_brought_it(fake, tmp_path):
    names = [f"j{i}" for i in range(5)]
    fake.play(ready_ms=300, run_ms=300)  # when all children are there: what follows depends on the pod alone
    with Operator(fake.kubeconfig(), tmp_path, "--log-level", "debug") as operator:
        operator.wait_ready()
        for name in names:
            fake.apply_job(name, replicas=2)
            fake.wait_state("Succeeded", name)
        assert operator.stop() == 0
        lines = [dict(word.split("=", 1) for word in line.replace('"', "").split() if "=" in word)
                 for line in operator.log.read_text().splitlines() if "subsystem=stages" in line]
    made = {line["job"]: line["look"] for line in lines if line["msg"] == "request" and line["resource"] == "jobs"}
    ready = {name: [line["look"] for line in lines if line["msg"] == "object" and line["name"].startswith(f"{name}-worker-")]
             for name in names}
    assert [name for name in names if made[f"default/{name}"] not in ready[name]] == []
