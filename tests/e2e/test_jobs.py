"""Jobs in real pods: what a user applies, and what kubectl then shows."""
import base64
import re
import time

import yaml

from conftest import ROOT, WORKER_IMAGE, hostfile, long_job, metrics, operator_pod, ready_workers, short_job, wait_for

WAIT = ["sh", "-c", "sleep 300"]


def test_the_digits_job_trains_to_95_percent_and_succeeds(namespace):
    namespace.apply(yaml.safe_load((ROOT / "examples/digits/horovodjob.yaml").read_text(encoding="utf-8")))
    namespace.wait_state("digits", "Succeeded", "Failed", timeout=120)
    assert namespace.state("digits") == "Succeeded", namespace.condition("digits", "Failed")
    log = namespace.master_log("digits")
    assert float(re.search(r"accuracy ([0-9.]+) on", log).group(1)) >= 0.95
    counts = [int(count) for count in re.findall(r"rank \d of 2 trains on (\d+) of 1437 images", log)]
    assert len(counts) == 2 and sum(counts) == 1437, log
    status = namespace.get("horovodjob", "digits")["status"]
    assert status["completionTime"] >= status["startTime"]
    assert status["attempts"] == 1


def test_the_host_list_holds_exactly_the_ready_workers(namespace):
    namespace.apply(long_job("hosts", "sleep 300", workers=3))  # a master that outlives its workers
    namespace.wait_state("hosts", "Running")
    expected = "".join(f"hosts-worker-{i}.hosts slots=1\n" for i in range(3))
    assert hostfile(namespace, "hosts") == expected
    assert ready_workers(namespace, "hosts") == [f"hosts-worker-{i}" for i in range(3)]
    namespace.kubectl("delete", "pod", "hosts-worker-1", "--wait=false")
    wait_for("a list without the worker that is going", lambda: "worker-1" not in hostfile(namespace, "hosts"))
    wait_for("the whole list again", lambda: hostfile(namespace, "hosts") == expected)
    data = namespace.get("configmap", "hosts-hosts")["data"]
    assert data["hosts"].strip() == ",".join(f"hosts-worker-{i}.hosts:1" for i in range(3))


def test_applying_the_same_manifest_again_writes_nothing(namespace, cluster):
    manifest = short_job("again", WAIT)
    namespace.apply(manifest)
    namespace.wait_state("again", "Running")
    kinds = "horovodjobs,secrets,services,configmaps,statefulsets,jobs"

    def versions():
        return {f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
                for item in namespace.items(kinds)}

    def settled():
        first = versions()
        time.sleep(2)
        return first == versions() and first

    before = wait_for("the job's objects to settle", settled)
    since = cluster.audit_position()
    assert "unchanged" in namespace.apply(manifest).stdout
    cluster.kubectl("rollout", "restart", "deployment/horovod-operator")
    cluster.kubectl("rollout", "status", "deployment/horovod-operator", "--timeout=120s")
    wait_for("the restarted operator to have listed the jobs", lambda: "horovod_operator" in metrics(cluster))
    assert versions() == before
    assert cluster.writes(since, namespace.name) == []


def test_a_master_that_exits_3_fails_the_job_with_code_and_last_line_within_5_seconds(namespace):
    namespace.apply(long_job("three", "echo starting; echo giving up: no data in /data; exit 3"))
    namespace.wait_state("three", "Failed")
    condition = namespace.condition("three", "Failed")
    assert condition["status"] == "True" and condition["reason"] == "MasterFailed"
    assert re.search(r"pod three-master-\w+ container master exited with code 3 \(attempt 1 of 1\): .*"
                     r"giving up: no data in /data$", condition["message"]), condition["message"]
    pod = namespace.items("pods", "-l", "horovod.io/job-name=three,horovod.io/role=master")[0]
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    stamp = "%Y-%m-%dT%H:%M:%SZ"
    delay = time.mktime(time.strptime(condition["lastTransitionTime"], stamp)) - time.mktime(time.strptime(ended, stamp))
    assert 0 <= delay <= 5


def test_a_rank_that_exits_3_leads_the_condition_and_leaves_its_lines(namespace):
    fail = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then echo no data in /data >&2; exit 3; fi; echo waiting >&2; sleep 60'
    namespace.apply(short_job("rank", ["sh", "-c", fail]))
    namespace.wait_state("rank", "Failed")
    message = namespace.condition("rank", "Failed")["message"]
    cause = "rank 1 on host rank-worker-1.rank exited with code 3: no data in /data"
    assert message.startswith(f"{cause} (attempt 1 of 1, pod rank-master-"), message
    status = namespace.get("horovodjobs", "rank")["status"]
    assert status["failureLog"] == f"no data in /data\nhorovodrun: {cause}"
    assert status["attemptLogs"]["1"]["log"] == status["failureLog"]


def test_a_rank_that_exceeds_its_memory_limit_is_named_as_such(namespace):
    eat = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec tail /dev/zero; fi; sleep 60'
    namespace.apply(short_job("memory", ["sh", "-c", eat], resources={"limits": {"memory": "64Mi"}}))
    namespace.wait_state("memory", "Failed")
    message = namespace.condition("memory", "Failed")["message"]
    assert re.search(r"rank 1 on host memory-worker-1\.memory.*out of memory \(limit 64Mi\)", message), message


def test_every_pod_runs_as_non_root_without_privileges(namespace):
    namespace.apply(short_job("plain", WAIT))
    namespace.wait_state("plain", "Running")
    for role in ("worker", "master"):
        pod = namespace.items("pods", "-l", f"horovod.io/job-name=plain,horovod.io/role={role}")[0]["metadata"]["name"]
        status = namespace.kubectl("exec", pod, "--", "cat", "/proc/1/status").stdout
        assert re.search(r"^Uid:\s+[1-9]", status, re.M), status
        assert re.search(r"^NoNewPrivs:\s+1", status, re.M), status
        assert re.search(r"^CapEff:\s+0+$", status, re.M), status


def test_a_deleted_child_is_made_again_while_the_job_runs(namespace):
    namespace.apply(short_job("heal", WAIT))
    namespace.wait_state("heal", "Running")
    for kind, name in (("configmap", "heal-hosts"), ("service", "heal"), ("statefulset", "heal-worker"),
                       ("secret", "heal-ssh")):
        before = namespace.get(kind, name)["metadata"]["uid"]
        namespace.kubectl("delete", kind, name, "--wait=false", "--cascade=orphan")
        wait_for(f"a new {kind} {name}", lambda kind=kind, name=name, before=before: (
            (namespace.get(kind, name) or {}).get("metadata", {}).get("uid", before) != before))
    wait_for("the workers to be listed again", lambda: hostfile(namespace, "heal").count("\n") == 2)


def test_deleting_the_job_removes_all_its_children(namespace):
    namespace.apply(short_job("gone", WAIT))
    namespace.wait_state("gone", "Running")
    assert {child.split("/")[0] for child in namespace.children("gone")} == {
        "secrets", "services", "configmaps", "statefulsets", "jobs", "pods"}
    namespace.kubectl("delete", "horovodjob", "gone", "--cascade=foreground", "--timeout=90s")
    wait_for("no child left", lambda: not namespace.children("gone"), timeout=60)


def test_an_operator_killed_in_the_middle_loses_nothing(namespace, cluster):
    namespace.apply(short_job("survive", ["sh", "-c", "sleep 15; echo rank $OMPI_COMM_WORLD_RANK is done"]))
    wait_for("the StatefulSet", lambda: namespace.get("statefulset", "survive-worker"))
    cluster.kubectl("delete", "pod", "-n", "default", operator_pod(cluster), "--grace-period=0", "--force")
    namespace.wait_state("survive", "Running")
    master = namespace.items("pods", "-l", "horovod.io/job-name=survive,horovod.io/role=master")[0]["metadata"]["uid"]
    cluster.kubectl("delete", "pod", "-n", "default", operator_pod(cluster), "--grace-period=0", "--force")
    namespace.wait_state("survive", "Succeeded", "Failed")
    assert namespace.state("survive") == "Succeeded", namespace.condition("survive", "Failed")
    pods = namespace.items("pods", "-l", "horovod.io/job-name=survive,horovod.io/role=master")
    assert [pod["metadata"]["uid"] for pod in pods] == [master]


def test_a_foreign_statefulset_of_the_same_name_is_left_alone(namespace):
    labels = {"app": "somebody-else"}
    foreign = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "taken-worker"},
               "spec": {"replicas": 0, "serviceName": "x", "selector": {"matchLabels": labels},
                        "template": {"metadata": {"labels": labels},
                                     "spec": {"containers": [{"name": "c", "image": WORKER_IMAGE}]}}}}
    namespace.apply(foreign)
    before = wait_for("the foreign set's status", lambda: namespace.get("statefulset", "taken-worker")
                      if namespace.get("statefulset", "taken-worker").get("status", {}).get("observedGeneration") else None)
    namespace.apply(short_job("taken", WAIT))

    def conflict():
        conditions = (namespace.get("horovodjob", "taken") or {}).get("status", {}).get("conditions", [])
        return [item for item in conditions if "taken-worker" in item.get("message", "")]

    found = wait_for("a condition that names the StatefulSet", conflict)
    assert re.search(r"StatefulSet.*taken-worker", found[0]["message"]), found
    assert namespace.get("statefulset", "taken-worker") == before
    events = namespace.kubectl("events", "--for", "horovodjob/taken").stdout
    assert "Conflict" in events, events


def test_a_suspended_job_has_no_pods_and_resumes(namespace):
    namespace.apply(short_job("pause", ["sh", "-c", "sleep 3"], suspend=True))
    namespace.wait_state("pause", "Suspended")
    assert not [child for child in namespace.children("pause") if child.startswith("pods/")]
    namespace.kubectl("patch", "horovodjob", "pause", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    namespace.wait_state("pause", "Succeeded", "Failed")
    assert namespace.state("pause") == "Succeeded", namespace.condition("pause", "Failed")


def test_an_image_that_cannot_be_pulled_is_named_in_the_condition(namespace):
    job = short_job("noimage", ["true"])
    job["spec"]["image"] = "localhost/no-such-image:1"
    namespace.apply(job)
    wait_for("the image in the condition", lambda: re.search(
        r"^0 of 2 workers are ready; pod noimage-worker-\d image localhost/no-such-image:1 cannot be pulled: .*no-such-image",
        namespace.condition("noimage", "WorkersReady").get("message", "")))
    events = [event for event in namespace.items("events") if event["involvedObject"]["kind"] == "HorovodJob"
              and event["reason"] == "ImagePullFailed"]
    assert len(events) == 1 and "no-such-image" in events[0]["message"]


def test_kubectl_get_shows_state_ready_workers_and_age(namespace):
    namespace.apply(short_job("columns", WAIT))
    namespace.wait_state("columns", "Running")
    lines = namespace.kubectl("get", "hvj").stdout.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "READY", "ATTEMPTS", "AGE"]
    assert re.match(r"columns\s+Running\s+2/2\s+1\s+\d+s$", lines[1]), lines[1]


def test_describe_tells_the_story_in_events_each_once(namespace):
    namespace.apply(short_job("story", ["true"]))
    namespace.wait_state("story", "Succeeded")
    expected = ["MasterStarted", "Succeeded"]

    def reasons():
        items = namespace.items("events", "--field-selector", "involvedObject.name=story")
        return sorted(item["reason"] for item in items for _ in range(item.get("count") or 1))

    assert wait_for("the events", lambda: reasons() == sorted(expected) and reasons())
    described = namespace.kubectl("describe", "horovodjob", "story").stdout
    for reason in expected:
        assert len(re.findall(rf"^\s+Normal\s+{reason}\s", described, re.M)) == 1, described


def test_wrong_manifests_are_refused_with_a_message_that_says_what_is_allowed(namespace):
    def refused(change, text, name="wrong"):
        manifest = short_job(name, ["true"])
        for path, value in change.items():
            target = manifest["spec"]
            *parents, leaf = path.split(".")
            for parent in parents:
                target = target[parent]
            if value is None:
                del target[leaf]
            else:
                target[leaf] = value
        done = namespace.apply(manifest, check=False)
        assert done.returncode != 0, f"{change} was accepted"
        assert text in done.stderr, done.stderr

    refused({"image": None}, "image")
    refused({"worker.replicas": 0}, "greater than or equal to 1")
    refused({"worker.replicas": -1}, "greater than or equal to 1")
    refused({"imag": "x"}, 'unknown field "spec.imag"')
    refused({}, "45", name="a" * 60)
    refused({"slotsPerWorker": -1}, "slotsPerWorker")
    assert not namespace.items("horovodjobs")


def test_the_key_of_a_job_is_not_in_any_log_or_event(namespace, cluster):
    namespace.apply(short_job("secret", ["true"]))
    namespace.wait_state("secret", "Succeeded")
    key = base64.b64decode(namespace.get("secret", "secret-ssh")["data"]["id"]).decode()
    assert "PRIVATE KEY" in key
    lines = [line for line in key.splitlines() if line and "-----" not in line]
    texts = [cluster.kubectl("logs", "deployment/horovod-operator").stdout, namespace.master_log("secret"),
             namespace.kubectl("get", "events", "-o", "yaml").stdout,
             namespace.kubectl("get", "horovodjob", "secret", "-o", "yaml").stdout]
    for line in lines:
        assert not any(line in text for text in texts)
