"""The operator itself: two of them, an upgrade under a running job, confined to a namespace."""
import json
import shutil
import time

import yaml

from conftest import ROOT, kill_container, long_job, short_job, wait_for

UNTIL_TOLD = "until [ -e /tmp/end ]; do sleep 0.2; done"


def lease(cluster):
    return (cluster.get("lease", "-n", "default", "horovod-operator") or {}).get("spec", {})


def pod_of_leader(cluster):
    holder = lease(cluster).get("holderIdentity", "")
    pods = cluster.get("pods", "-n", "default", "-l", "app.kubernetes.io/component=operator")["items"]
    return next((pod for pod in pods if holder.startswith(pod["metadata"]["name"])), None)


def writers(cluster, since, namespace):
    """The operators' pods in the order in which they wrote, each once for every time it took over."""
    names = []
    for event in cluster.write_events(since, namespace.name):
        name = event["user"]["extra"]["authentication.kubernetes.io/pod-name"][0]
        if name not in names[-1:]:
            names.append(name)
    return names


def take_over(cluster, stop):
    """Stops the leader; seconds until another holds the Lease."""
    leader = wait_for("a leader", lambda: pod_of_leader(cluster))
    before = lease(cluster)["holderIdentity"]
    start = time.monotonic()
    stop(leader)
    wait_for("another leader", lambda: lease(cluster).get("holderIdentity") not in ("", None, before))
    return time.monotonic() - start


def test_of_two_operators_the_second_takes_over_when_the_leader_ends(namespace, cluster, operator):
    operator("operator.replicas=2", "operator.leaderElection.enabled=true")
    since = cluster.audit_position()
    namespace.apply(long_job("first", UNTIL_TOLD))
    namespace.wait_state("first", "Running", timeout=180)
    killed = take_over(cluster, kill_container)
    namespace.apply(long_job("second", "true"))
    namespace.wait_state("second", "Succeeded", timeout=180)
    ended = take_over(cluster, lambda pod: cluster.kubectl("delete", "pod", "-n", "default", pod["metadata"]["name"],
                                                           "--wait=false"))
    namespace.apply(long_job("third", "true"))
    namespace.wait_state("third", "Succeeded", timeout=180)
    namespace.kubectl("exec", "job/first-master", "--", "touch", "/tmp/end")
    namespace.wait_state("first", "Succeeded")
    print(f"takeover after a kill {killed:.1f} s, after SIGTERM {ended:.1f} s")
    assert killed <= 20
    assert ended <= 10, "a leader that ends in good order gives the Lease back instead of letting it run out"
    assert len(writers(cluster, since, namespace)) <= 3, "two operators wrote at the same time"
    for name in ("first", "second", "third"):
        assert namespace.get("horovodjob", name)["status"]["attempts"] == 1


def next_version(folder):
    """A chart as a later release may bring it: another version, an operator with other resources, a CRD with one more field."""
    chart = folder / "horovod"
    shutil.copytree(ROOT / "charts/horovod", chart)
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    about["version"] = "99.0.0"
    (chart / "Chart.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
    crd = yaml.safe_load((ROOT / "crds/horovodjobs.yaml").read_text(encoding="utf-8"))
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["later"] = {"type": "string"}
    return str(chart), json.dumps(crd)


def test_an_upgrade_of_chart_and_crd_leaves_a_running_job_alone(namespace, cluster, operator, tmp_path):
    namespace.apply(short_job("upgrade", ["sh", "-c", UNTIL_TOLD]))
    namespace.wait_state("upgrade", "Running", timeout=180)
    wait_for("all to be settled", lambda: namespace.condition("upgrade", "Running").get("status") == "True")
    pods = {pod["metadata"]["uid"] for pod in namespace.items("pods")}
    generation = namespace.get("horovodjob", "upgrade")["metadata"]["generation"]
    time.sleep(2)  # what is still written because of the start
    since = cluster.audit_position()
    chart, crd = next_version(tmp_path)
    cluster.kubectl("apply", "-f", "-", stdin=crd)
    operator("operator.resources.requests.cpu=21m", chart=chart)
    namespace.apply(short_job("after", ["true"], later="a field of the new version"))
    namespace.wait_state("after", "Succeeded", timeout=180)
    assert [write for write in cluster.writes(since, namespace.name) if "upgrade" in write] == []
    assert {pod["metadata"]["uid"] for pod in namespace.items("pods", "-l", "horovod.io/job-name=upgrade")} == pods
    assert namespace.get("horovodjob", "upgrade")["metadata"]["generation"] == generation
    for pod in namespace.items("pods", "-l", "horovod.io/job-name=upgrade,horovod.io/role=worker"):
        namespace.kubectl("exec", pod["metadata"]["name"], "--", "touch", "/tmp/end")
    namespace.wait_state("upgrade", "Succeeded", "Failed")
    status = namespace.get("horovodjob", "upgrade")["status"]
    assert status["state"] == "Succeeded" and status["attempts"] == 1, status


def test_an_operator_confined_to_a_namespace_sees_no_other(namespace, cluster, operator):
    operator(f"operator.namespace={namespace.name}")
    account = "--as=system:serviceaccount:default:horovod-operator"
    assert not [item for item in cluster.get("clusterrolebindings")["items"]
                if any(subject["name"] == "horovod-operator" for subject in item.get("subjects", []))]
    for verb, kind in (("list", "horovodjobs"), ("get", "secrets"), ("get", "nodes")):
        assert cluster.kubectl("auth", "can-i", verb, kind, "-A", account, check=False).stdout.strip() == "no"
    outside = short_job("outside", ["true"])
    cluster.kubectl("apply", "-n", "default", "-f", "-", stdin=json.dumps(outside))
    try:
        namespace.apply(short_job("inside", ["true"]))
        namespace.wait_state("inside", "Succeeded", "Failed", timeout=180)
        assert namespace.state("inside") == "Succeeded", namespace.condition("inside", "Failed")
        assert cluster.get("horovodjob", "outside", "-n", "default")["status"] == {"state": "Pending"}  # the default
        operator()
        wait_for("an operator of all namespaces to see the other job",
                 lambda: "status" in cluster.get("horovodjob", "outside", "-n", "default"))
    finally:
        cluster.kubectl("delete", "horovodjob", "outside", "-n", "default")
