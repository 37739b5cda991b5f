"""The chart's options for running the operator: two replicas, one namespace, certificates, monitoring, network."""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import CHART, TOP, verbs_of_the_operator

OPERATOR = Path(os.environ.get("HVD_BUILD_DIR", TOP / "build")) / "operator" / "horovod-operator"
NAME = "horovod-operator"
READ = {"get", "list", "watch"}


def operator(**values):
    return {"operator": values}


def metrics(**values):
    return operator(metrics=values)


def args_of(objects):
    return objects["Deployment", NAME]["spec"]["template"]["spec"]["containers"][0]["args"]


@pytest.fixture(scope="module")
def known_flags():
    text = subprocess.run([OPERATOR, "--help"], stdout=subprocess.PIPE, text=True, check=True, timeout=10).stdout
    return set(re.findall(r"^  (--[a-z-]+)", text, re.M)) - {"--version", "--help", "--probe"}


def test_two_replicas_elect_a_leader_and_roll_over_when_asked_to(render_all):
    values = {"replicas": 2, "leaderElection": {"enabled": True}, "podDisruptionBudget": {"enabled": True}}
    assert render_all(operator(**values))["Deployment", NAME]["spec"]["strategy"] == {"type": "Recreate"}
    objects = render_all(operator(updateStrategy="RollingUpdate", **values))
    spec = objects["Deployment", NAME]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert {"--leader-elect", "--lease-namespace=training", "--lease-name=" + NAME,
            "--lease-duration=15"} <= set(args_of(objects))
    budget = objects["PodDisruptionBudget", NAME]["spec"]
    assert budget["maxUnavailable"] == 1 and budget["selector"] == spec["selector"]
    spread = spec["template"]["spec"]["topologySpreadConstraints"][0]
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway" and spread["labelSelector"] == spec["selector"]


def test_the_right_to_the_lease_is_for_that_lease_alone(render_all):
    objects = render_all(operator(leaderElection={"enabled": True}))
    create, rest = objects["Role", NAME + "-lease"]["rules"]
    assert create == {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}
    assert rest["resourceNames"] == [NAME] and set(rest["verbs"]) == READ | {"patch"}
    assert {"create", *rest["verbs"]} == verbs_of_the_operator()["leases"]
    assert objects["Role", NAME + "-lease"]["metadata"]["namespace"] == "training"
    rules = objects["ClusterRole", "training-" + NAME]["rules"]
    assert not any("leases" in rule["resources"] for rule in rules)


def test_without_election_nothing_is_said_of_a_lease(render_all):
    objects = render_all()
    assert not any("lease" in word for word in args_of(objects))
    assert not any(kind == "Role" for kind, _ in objects)


def test_one_namespace_has_a_role_with_the_same_rights_and_nothing_cluster_wide(render_all):
    everywhere = render_all()["ClusterRole", "training-" + NAME]["rules"]
    objects = render_all(operator(namespace="team"))
    assert not any(kind.startswith("Cluster") for kind, _ in objects)
    role, binding = objects["Role", NAME], objects["RoleBinding", NAME]
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "team"
    namespaced = [rule for rule in everywhere if rule["resources"] != ["nodes"]]
    assert role["rules"] == namespaced
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": "training"}]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME}
    assert "--namespace=team" in args_of(objects)


@pytest.mark.parametrize("gang, group", [("volcano", "scheduling.volcano.sh"),
                                         ("scheduler-plugins", "scheduling.x-k8s.io")])
def test_a_gang_scheduler_brings_the_right_to_its_groups(render_all, gang, group):
    objects = render_all(operator(gangScheduler={"type": gang, "schedulerName": "mine"}))
    rule, = [r for r in objects["ClusterRole", "training-" + NAME]["rules"] if "podgroups" in r["resources"]]
    assert rule == {"apiGroups": [group], "resources": ["podgroups"],
                    "verbs": ["get", "list", "watch", "create", "patch", "delete"]}
    assert set(rule["verbs"]) == verbs_of_the_operator()["podgroups"]
    assert {f"--gang-scheduler={gang}", "--gang-scheduler-name=mine"} <= set(args_of(objects))


def test_tls_mounts_the_secret_and_probes_ask_over_it(render_all):
    objects = render_all(metrics(tls={"enabled": True, "secretName": "cert"}, podMonitor={"enabled": True}))
    pod = objects["Deployment", NAME]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["volumes"] == [{"name": "tls", "secret": {"secretName": "cert", "defaultMode": 0o440}}]
    mount = container["volumeMounts"][0]["mountPath"]
    assert {f"--tls-cert-file={mount}/tls.crt", f"--tls-key-file={mount}/tls.key"} <= set(container["args"])
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    assert objects["PodMonitor", NAME]["spec"]["podMetricsEndpoints"][0]["scheme"] == "https"


def test_monitors_select_the_operators_pods(render_all):
    objects = render_all(metrics(port=9090, serviceMonitor={"enabled": True, "labels": {"release": "p"}},
                                 podMonitor={"enabled": True, "interval": "5s"}))
    labels = objects["Deployment", NAME]["spec"]["template"]["metadata"]["labels"]
    service = objects["Service", NAME]
    assert service["spec"]["selector"].items() <= labels.items()
    assert service["spec"]["ports"] == [{"name": "http", "port": 9090, "targetPort": "http"}]
    monitor = objects["ServiceMonitor", NAME]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["labels"]["release"] == "p"
    assert objects["PodMonitor", NAME]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert objects["PodMonitor", NAME]["spec"]["podMetricsEndpoints"] == [
        {"interval": "5s", "port": "http", "path": "/metrics"}]
    assert "--listen=:9090" in args_of(objects)


def test_the_network_policy_lets_metrics_in_and_the_api_server_out(render_all):
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    objects = render_all(operator(networkPolicy={"enabled": True, "ingressFrom": peers, "apiServerPorts": [6443]}))
    spec = objects["NetworkPolicy", NAME]["spec"]
    assert spec["podSelector"] == objects["Deployment", NAME]["spec"]["selector"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [{"ports": [{"port": "http", "protocol": "TCP"}], "from": [*peers, {"podSelector": {"matchLabels": {
        "app.kubernetes.io/instance": "horovod", "app.kubernetes.io/component": "test"}}}]}]
    assert spec["egress"] == [{"ports": [{"port": 6443, "protocol": "TCP"}]}]


def test_the_dashboard_is_a_labelled_config_map_of_json(render_all):
    config = render_all(metrics(dashboard={"enabled": True}))["ConfigMap", NAME + "-dashboard"]
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    dashboard = json.loads(config["data"]["horovod-operator.json"])
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)) >= 12
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24 and panel["targets"]


def test_alerts_have_what_prometheus_asks_for(render_all):
    rule = render_all(metrics(prometheusRule={"enabled": True, "labels": {"role": "alerts"}}))["PrometheusRule", NAME]
    assert rule["metadata"]["labels"]["role"] == "alerts"
    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"]]
    names = [alert["alert"] for alert in alerts]
    assert len(set(names)) == len(names) >= 8
    for alert in alerts:
        assert set(alert) == {"alert", "expr", "for", "labels", "annotations"}, alert
        assert alert["labels"]["severity"] in ("critical", "warning", "info")
        assert set(alert["annotations"]) == {"summary", "description"}


def test_every_flag_of_the_operator_can_be_set_by_values(render_all, known_flags):
    everything = {"operator": {
        "namespace": "team", "leaderElection": {"enabled": True}, "sshPorts": "21000-21999",
        "gangScheduler": {"type": "volcano", "schedulerName": "mine"},
        "metrics": {"tls": {"enabled": True, "secretName": "cert"}}}}
    used = {word.split("=")[0] for word in args_of(render_all(everything))}
    assert used == known_flags - {"--kubeconfig"}  # in a pod that is the service account


@pytest.mark.parametrize("section", ["operator", "job"])
def test_the_readme_has_every_value(section):
    text = (CHART / "README.md").read_text()
    for name in yaml.safe_load((CHART / "values.yaml").read_text())[section]:
        assert f"`{section}.{name}" in text, name
