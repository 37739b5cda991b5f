"""The chart: lint, what it renders, what it refuses and in which words. Installations are tested end to end."""
import json
import re
import shlex

import pytest
import values_schema
import yaml
from conftest import CHART, KUBERNETES, TOP, verbs_of_the_operator
from job_specs import LONG, SHORT, SMALL, pod

CRD = TOP / "crds" / "horovodjobs.yaml"
ONE_FORM = "job.spec needs one of two forms: image and command"


def job(**fields):
    """Values of a job with the smallest spec, and the fields in it."""
    return {"job": {"enabled": True, "spec": {**SMALL, **fields}}}


def container_of(deployment):
    return deployment["spec"]["template"]["spec"]["containers"][0]


def test_helm_lint_finds_nothing_to_warn_about(helm):
    done = helm("lint", str(CHART), "--strict", "--kube-version", KUBERNETES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout and "[ERROR]" not in done.stdout


def test_helm_lint_would_find_a_broken_template(helm, chart_copy):
    (chart_copy / "templates" / "broken.yaml").write_text("kind: {{ .Values.none.such }}\n")
    assert helm("lint", str(chart_copy), "--strict", "--kube-version", KUBERNETES).returncode != 0


def test_chart_version_and_the_version_of_what_it_installs_are_the_projects():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = (TOP / "VERSION").read_text().strip()
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_the_charts_crd_is_the_projects_crd():
    assert (CHART / "crds" / "horovodjobs.yaml").read_bytes() == CRD.read_bytes()


def test_default_values_render_the_operator_and_its_rights_and_those_of_users_and_no_job(render_all):
    operator, users = "training-horovod-operator", "training-horovod-horovodjob"
    assert set(render_all()) == {
        ("ServiceAccount", "horovod-operator"), ("ClusterRole", operator), ("ClusterRoleBinding", operator),
        ("Deployment", "horovod-operator"), ("ClusterRole", users + "-editor"), ("ClusterRole", users + "-viewer")}


def test_the_operator_has_what_restricted_pod_security_asks_for_and_a_read_only_root(render):
    deployment = render()["Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container_of(deployment)["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & set(pod)


def test_the_operators_probes_ask_the_port_that_it_listens_on(render):
    container = container_of(render()["Deployment"])
    assert {p["name"]: p["containerPort"] for p in container["ports"]} == {"http": 8080}
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz"), ("startupProbe", "/healthz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "http"}
    assert any(word.startswith("--listen=") and word.endswith(":8080") for word in container["args"])


def test_image_and_operator_values_reach_the_deployment(render):
    deployment = render({
        "image": {"repository": "example.org/op", "tag": "9", "pullPolicy": "Never"},
        "operator": {"logLevel": "debug", "extraArgs": ["--namespace=a"], "podLabels": {"x": "y"},
                     "nodeSelector": {"disk": "ssd"}, "resources": {"limits": {"memory": "1Gi"}}}})["Deployment"]
    container = container_of(deployment)
    assert (container["image"], container["imagePullPolicy"]) == ("example.org/op:9", "Never")
    assert "--log-level=debug" in container["args"] and container["args"][-1] == "--namespace=a"
    assert container["resources"]["limits"]["memory"] == "1Gi"
    assert deployment["spec"]["template"]["metadata"]["labels"]["x"] == "y"
    assert deployment["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}


def test_the_default_image_is_of_the_charts_version(render):
    image = container_of(render()["Deployment"])["image"]
    assert image == "localhost/horovod-operator:" + (TOP / "VERSION").read_text().strip()


@pytest.mark.parametrize("image, expected", [
    ({"registry": "example.org", "tag": "9"}, "example.org/horovod-operator:9"),
    ({"registry": "example.org:5000/team/", "tag": "9"}, "example.org:5000/team/horovod-operator:9"),
    ({"registry": "example.org", "repository": "mirror/op", "tag": "9"}, "example.org/mirror/op:9"),
    ({"registry": "", "repository": "example.org/op", "tag": "9"}, "example.org/op:9")])
def test_a_registry_stands_before_the_repository(render, image, expected):
    assert container_of(render({"image": image})["Deployment"])["image"] == expected


def test_pull_secrets_are_those_of_the_operators_pod_and_of_no_job(render):
    objects = render({"imagePullSecrets": [{"name": "registry"}], **job()})
    assert objects["Deployment"]["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert "imagePullSecrets" not in json.dumps(objects["HorovodJob"])
    assert "imagePullSecrets" not in render()["Deployment"]["spec"]["template"]["spec"]


def test_security_contexts_are_changed_field_by_field(render):
    default = render()["Deployment"]["spec"]["template"]["spec"]
    changed = render({"operator": {
        "podSecurityContext": {"runAsUser": None, "runAsGroup": 2000000000, "supplementalGroups": [7]},
        "securityContext": {"readOnlyRootFilesystem": None, "seLinuxOptions": {"level": "s0"}}}}
    )["Deployment"]["spec"]["template"]["spec"]
    pod, container = default["securityContext"], default["containers"][0]["securityContext"]
    del pod["runAsUser"], container["readOnlyRootFilesystem"]
    assert changed["securityContext"] == {**pod, "runAsGroup": 2000000000, "supplementalGroups": [7]}
    assert changed["containers"][0]["securityContext"] == {**container, "seLinuxOptions": {"level": "s0"}}


@pytest.mark.parametrize("context, group", [
    ({}, 65532), ({"runAsGroup": 9}, 9), ({"fsGroup": 8}, 8), ({"runAsUser": None, "runAsGroup": None}, None)])
def test_the_group_that_reads_a_certificate_is_that_of_the_process(render, context, group):
    tls = {"metrics": {"tls": {"enabled": True, "secretName": "cert"}}}
    pod = render({"operator": {"podSecurityContext": context, **tls}})["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"].get("fsGroup") == group


def test_selectors_hold_nothing_that_an_upgrade_changes(render):
    deployment = render()["Deployment"]
    assert set(deployment["spec"]["selector"]["matchLabels"]) == {
        "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"}


def test_no_right_is_a_wildcard_and_none_is_more_than_the_operator_uses(render):
    rules = render()["ClusterRole"]["rules"]
    for rule in rules:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"], rule
        assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"]), rule
    granted = {}
    for rule in rules:
        for resource in rule["resources"]:
            granted[resource] = granted.get(resource, set()) | set(rule["verbs"])
    needed = {resource: verbs for resource, verbs in verbs_of_the_operator().items()
              if resource not in ("leases", "podgroups")}
    assert granted == {**needed, "horovodjobs/status": {"patch"}, "horovodjobs/finalizers": {"update"}}


def test_rights_are_bound_to_the_account_that_the_operator_runs_as(render):
    for values in ({}, {"serviceAccount": {"name": "mine"}}, {"serviceAccount": {"create": False, "name": "other"}}):
        objects = render(values)
        account = objects["Deployment"]["spec"]["template"]["spec"]["serviceAccountName"]
        assert objects["ClusterRoleBinding"]["subjects"] == [
            {"kind": "ServiceAccount", "name": account, "namespace": "training"}]
        assert objects["ClusterRoleBinding"]["roleRef"]["name"] == objects["ClusterRole"]["metadata"]["name"]
        if "ServiceAccount" in objects:
            assert objects["ServiceAccount"]["metadata"]["name"] == account


def test_two_releases_share_no_cluster_wide_name(render_all):
    one, two = ({key for key in render_all(release=name) if key[0].startswith("Cluster")} for name in ("one", "two"))
    assert len(one) == len(two) == 4 and not one & two


def test_an_upgrade_never_runs_two_operators_at_once(render):
    spec = render()["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_a_release_without_the_operator_renders_the_job_alone(render):
    assert set(render({"operator": {"enabled": False}, **job()})) == {"HorovodJob"}


ODD = {
    **SMALL, "command": ["python", "-c", "print('a: b', \"{{c}}\")\nmain()\n", "#x", "- y", "on", "1e3", "007", ""], "suspend": False,
    "backoffLimit": 0, "ttlSecondsAfterFinished": 31536000, "activeDeadlineSeconds": 2000000}
NUMBERS = {"worker": {"replicas": 1, "template": pod("worker", n=12345678, f=0.5, b=False, z=None, e={}, l=[])},
           "master": {"template": pod("master")}}


@pytest.mark.parametrize("spec", [SMALL, SHORT, LONG, ODD, NUMBERS], ids=["small", "short form", "long form", "odd", "numbers"])
def test_a_spec_is_rendered_as_it_is(render, spec):
    manifest = render({"job": {"enabled": True, "spec": spec}})["HorovodJob"]
    assert manifest["metadata"]["name"] == "horovod" and manifest["metadata"]["namespace"] == "training"
    assert manifest["apiVersion"] == "horovod.io/v1beta1" and manifest["spec"] == spec


def test_the_specs_of_these_tests_have_every_field():
    assert set(SHORT) | set(LONG) == set(values_schema.spec_of(yaml.safe_load(CRD.read_text()))["properties"])


def test_the_schema_of_the_spec_is_that_of_the_crd():
    text, crd = values_schema.FILE.read_text(), yaml.safe_load(CRD.read_text())
    assert text == values_schema.generate(text, crd), "type: python3 tests/integration/chart/values_schema.py"
    worker = values_schema.spec_of(crd)["properties"]["worker"]
    worker["properties"]["replicas"]["maximum"] += 1
    assert text != values_schema.generate(text, crd), "a bound that changes would not be noticed"


def test_the_rules_that_the_schema_expresses_are_those_of_the_crd():
    messages = re.findall(r"^ +message: (.+)$", CRD.read_text(), re.M)
    assert set(values_schema.RULES) <= set(messages)


def test_labels_are_of_the_job_and_of_nothing_else(render):
    objects = render({"job": {**job()["job"], "labels": {"kueue.x-k8s.io/queue-name": "a"}, "annotations": {"note": "b"}}})
    metadata = objects["HorovodJob"]["metadata"]
    assert (metadata["labels"]["kueue.x-k8s.io/queue-name"], metadata["annotations"]) == ("a", {"note": "b"})
    assert "queue-name" not in json.dumps([objects["HorovodJob"]["spec"], objects["Deployment"]])


@pytest.mark.parametrize("page", [CHART / "README.md", TOP / "docs" / "coming-from.md"], ids=["README", "coming-from"])
def test_the_values_that_a_page_shows_render_a_job(render, page):
    blocks = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S)]
    shown = [values for values in blocks if "job" in values]
    assert shown
    for values in shown:
        assert render(values)["HorovodJob"]["spec"] == values["job"]["spec"]


def test_the_command_of_the_readme_renders_a_job(helm):
    text = (CHART / "README.md").read_text().replace("\\\n", " ")
    words = shlex.split(re.search(r"^helm install digits charts/horovod (.*)", text, re.M).group(1))
    done = helm("template", "digits", str(CHART), "--kube-version", KUBERNETES, *words)
    assert done.returncode == 0, done.stderr
    assert f"name: {re.search('get horovodjob (.*)', text).group(1)}\n" in done.stdout


@pytest.mark.parametrize("values, message", [
    (job(worker={"replicas": 0}), "at '/job/spec/worker/replicas': minimum: got 0, want 1"),
    (job(worker={"number": 2}), "additional properties 'number' not allowed"),
    (job(wrkr={"replicas": 2}), "additional properties 'wrkr' not allowed"),
    (job(slotsPerWorker=-1), "at '/job/spec/slotsPerWorker': minimum: got -1, want 1"),
    (job(slotsPerWorker="all"), "at '/job/spec/slotsPerWorker': value must be 'auto'"),
    (job(command="python train.py"), "at '/job/spec/command': got string, want array"),
    (job(command=[]), "at '/job/spec/command': minItems: got 0, want 1"),
    (job(backoffLimit=None), "at '/job/spec/backoffLimit': got null, want integer"),
    (job(cleanPodPolicy="Some"), "at '/job/spec/cleanPodPolicy'"),
    (job(ssh={"port": 70000}), "at '/job/spec/ssh/port': maximum"),
    (job(resources={"limits": {"cpu": "a lot"}}), "at '/job/spec/resources/limits/cpu'"),
    (job(failurePolicy={"rules": [{"action": "Fail", "onDisruption": True, "onExitCodes": {"operator": "In", "values": [1]}}]}),
     "at '/job/spec/failurePolicy/rules/0'"),
    (job(workerGroups=[{"name": "a"}]), "missing property 'replicas'"),
    ({"job": {"spec": {**LONG, "master": {}}}}, "at '/job/spec/master': missing property 'template'"),
    ({"job": {"enabled": True, "spec": {"image": "i", "command": ["x"]}}}, "at '/job/spec': missing property 'worker'"),
    ({"job": {"enabled": True, "command": ["x"]}}, "additional properties 'command' not allowed"),
    ({"job": {"enabled": True}}, ONE_FORM),
    (job(master=LONG["master"]), ONE_FORM),
    (job(worker=LONG["worker"]), ONE_FORM),
    ({"job": {"enabled": True, "spec": {**LONG, "args": []}}}, ONE_FORM),
    *(({"job": {"enabled": True, "spec": {key: value for key, value in spec.items() if key != lacking}}}, ONE_FORM)
      for spec, lacking in ((SHORT, "image"), (SHORT, "command"), (LONG, "master"))),
    ({"job": {"enabled": True, "spec": {**LONG, "worker": {"replicas": 3}}}}, ONE_FORM),
    ({"job": {"enabled": True, "name": "a" * 60, "spec": SMALL}}, "at '/job/name': maxLength: got 60, want 45"),
    ({"job": {"enabled": True, "name": "Upper", "spec": SMALL}}, "at '/job/name'"),
    ({"operator": {"logLevel": "loud"}}, "'error', 'warn', 'info', 'debug'"),
    ({"operator": {"replicas": 2}}, "set operator.leaderElection.enabled=true"),
    ({"operator": {"updateStrategy": "RollingUpdate"}}, "set operator.leaderElection.enabled=true"),
    ({"operator": {"updateStrategy": "OnDelete"}}, "'Recreate', 'RollingUpdate'"),
    ({"operator": {"replica": 2}}, "additional properties 'replica' not allowed"),
    ({"operator": {"metrics": {"tls": {"enabled": True}}}}, "set operator.metrics.tls.secretName"),
    ({"operator": {"gangScheduler": {"type": "both"}}}, "'none', 'volcano', 'scheduler-plugins'"),
    ({"operator": {"leaderElection": {"leaseDurationSeconds": 1}}}, "minimum: got 1, want 3"),
    ({"operator": {"namespace": "No_Such"}}, "at '/operator/namespace'"),
    ({"imagePullSecrets": ["registry"]}, "at '/imagePullSecrets/0': got string, want object"),
    ({"imagePullSecrets": [{"nmae": "registry"}]}, "missing property 'name'"),
    ({"operator": {"securityContext": "restricted"}}, "at '/operator/securityContext': got string, want object"),
    ({"image": {"pullPolicy": "Sometimes"}}, "'Always', 'IfNotPresent', 'Never'"),
    ({"worker": {"number": 3}}, "additional properties 'worker' not allowed"),
])
def test_wrong_values_are_refused_in_words_that_name_the_value(template, values, message):
    done = template(values)
    assert done.returncode != 0
    assert message in done.stderr


def test_a_release_name_that_is_no_job_name_is_refused_with_what_is_allowed(template):
    done = template(job(), release="9lives")
    assert done.returncode != 0
    assert "at most 45 lower-case letters" in done.stderr and "set job.name" in done.stderr


def test_every_value_is_known_to_the_schema_and_every_schema_value_has_a_default():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    def compare(at, some, properties):
        assert set(some) == set(properties) - {"global"}, at
        for name, sub in properties.items():
            if "properties" in sub and isinstance(some.get(name), dict) and name != "resources":
                compare(f"{at}.{name}", some[name], sub["properties"])

    compare("values", values, schema["properties"])


def paths(values, at=()):
    """All paths of values: of sections, and of what is in them."""
    for name, value in values.items():
        yield (*at, name)
        if isinstance(value, dict):
            yield from paths(value, (*at, name))


def nested(path, value):
    return {path[0]: nested(path[1:], value)} if path else value


def test_no_value_that_is_removed_is_a_riddle(template):
    """`--set a.b=null` takes a default away: what is rendered then is YAML, or the message names the value."""
    riddles = {}
    for path in paths(yaml.safe_load((CHART / "values.yaml").read_text())):
        done = template(nested(path, None))
        if done.returncode != 0 and ("nil pointer" in done.stderr or path[-1] not in done.stderr):
            riddles[".".join(path)] = done.stderr.strip()[-200:]
        elif done.returncode == 0:
            list(yaml.safe_load_all(done.stdout))
    assert not riddles


@pytest.mark.parametrize("path, value", [
    ("nameOverride", "Foo_Bar"), ("fullnameOverride", "Foo"), ("fullnameOverride", "9abc"), ("fullnameOverride", "-a"),
    ("operator.sshPorts", "9-5"), ("operator.sshPorts", "80-2000"), ("operator.sshPorts", "2000-65536")])
def test_a_value_that_the_cluster_would_refuse_is_refused_with_its_name(template, path, value):
    done = template(nested(path.split("."), value))
    assert done.returncode != 0
    assert path.rsplit(".", maxsplit=1)[-1] in done.stderr
