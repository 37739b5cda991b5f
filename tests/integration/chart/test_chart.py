"""The chart: lint, what it renders, what it refuses and in which words. Installations are tested end to end."""
import json

import pytest
import yaml
from conftest import CHART, KUBERNETES, TOP, verbs_of_the_operator
from crd_schema import CrdSchema

JOB = {"enabled": True, "command": ["python", "train.py"]}
CRD = TOP / "crds" / "horovodjobs.yaml"


def job(**values):
    return {"job": {**JOB, **values}}


@pytest.fixture(scope="module")
def crd():
    return CrdSchema(CRD.read_text())


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


def test_the_smallest_job_is_the_short_form(render, crd):
    manifest = render(job(image="example.org/train:1"))["HorovodJob"]
    assert manifest["metadata"]["name"] == "horovod" and manifest["metadata"]["namespace"] == "training"
    assert manifest["spec"] == {"image": "example.org/train:1", "command": ["python", "train.py"],
                                "worker": {"replicas": 2}, "slotsPerWorker": "auto"}
    assert crd.errors(manifest) == []


@pytest.mark.parametrize("values", [
    job(args=["--epochs", "3"], env={"A": 1, "B": "x y"}, resources={"limits": {"memory": "1Gi"}}),
    job(env=[{"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}], slotsPerWorker=4),
    job(suspend=True, backoffLimit=0, activeDeadlineSeconds=60, ttlSecondsAfterFinished=0, cleanPodPolicy="None",
        ssh={"port": 2200}, network={"interfaces": ["eth0"]}),
    job(volumes=[{"name": "d", "emptyDir": {}}], volumeMounts=[{"name": "d", "mountPath": "/d"}],
        nodeSelector={"a": "b"}, imagePullPolicy="Never", serviceAccountName="s"),
    {"job": {"enabled": True, "master": {"args": ["mpirun", "-np", "2", "x"], "env": {"M": "1"}},
             "worker": {"number": 3, "env": {"W": "1"}}}},
], ids=["words, environment, resources", "secret, slots", "lifecycle", "pods", "master's command line"])
def test_a_rendered_job_is_one_that_the_crd_allows(render, crd, values):
    assert crd.errors(render(values)["HorovodJob"]) == []


def test_the_crd_would_refuse_a_rendered_job_with_a_wrong_field(render, crd):
    manifest = render(job())["HorovodJob"]
    manifest["spec"]["worker"]["number"] = 2
    assert crd.errors(manifest) != []


def test_null_and_zero_are_told_apart(render):
    spec = render(job(ttlSecondsAfterFinished=0, backoffLimit=0))["HorovodJob"]["spec"]
    assert spec["ttlSecondsAfterFinished"] == 0 and spec["backoffLimit"] == 0
    assert "activeDeadlineSeconds" not in spec and "cleanPodPolicy" not in spec


def test_the_masters_command_line_runs_as_the_old_chart_ran_it(render):
    line = "mpirun -np 4 --mca btl ^openib python train.py"
    values = {"job": {"enabled": True, "master": {"args": [line]}, "worker": {"number": 4}}}
    spec = render(values)["HorovodJob"]["spec"]
    master = spec["master"]["template"]["spec"]["containers"][0]
    assert master["name"] == "master" and master["command"] == ["/bin/sh", "-c", line]
    assert spec["worker"]["replicas"] == 4
    assert spec["worker"]["template"]["spec"]["containers"][0]["name"] == "worker"
    assert "command" not in spec["worker"]["template"]["spec"]["containers"][0]


def test_master_and_workers_each_get_their_own_environment_after_the_common_one(render):
    spec = render(job(env={"BOTH": 1}, master={"env": {"M": "m"}}, worker={"env": [{"name": "W", "value": "w"}]})
                  )["HorovodJob"]["spec"]
    names = {role: [e["name"] for e in spec[role]["template"]["spec"]["containers"][0]["env"]]
             for role in ("master", "worker")}
    assert names == {"master": ["BOTH", "M"], "worker": ["BOTH", "W"]}


@pytest.mark.parametrize("values", [
    {}, {"slotsPerWorker": 4}, {"resources": {"limits": {"nvidia.com/gpu": 2}}},
    {"workerGroups": [{"name": "a", "replicas": 2, "slotsPerWorker": 5}]},
    {"runMasterAsWorker": True, "master": {"resources": {"limits": {"nvidia.com/gpu": 2}}}},
    {"worker": {"number": 3, "minReplicas": 1}}, {"worker": {"number": 7}},
])
def test_no_number_of_ranks_is_written_down_that_the_number_of_workers_would_outlive(render, values):
    """horovodrun without -np starts a rank per slot of the list, which the operator keeps."""
    spec = render(job(**{"worker": {"number": 3}, "nodeSelector": {"a": "b"}, **values}))["HorovodJob"]["spec"]
    assert spec["master"]["template"]["spec"]["containers"][0]["command"] == [
        "horovodrun", "--hostfile", "/etc/horovod/hosts/hostfile", "python", "train.py"]


def test_a_worker_template_is_the_whole_worker(render):
    template = {"spec": {"containers": [{"name": "w", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 4}}}]}}
    spec = render(job(worker={"number": 3, "template": template}))["HorovodJob"]["spec"]
    assert spec["worker"] == {"replicas": 3, "template": template}
    master = spec["master"]["template"]["spec"]["containers"][0]
    assert master["command"][0] == "horovodrun" and master["image"].startswith("localhost/horovod-worker:")


def test_large_numbers_stay_whole(render):
    spec = render(job(ttlSecondsAfterFinished=31536000, backoffLimit=1000000, env={"N": 12345678, "F": 0.5, "B": True},
                      scheduling={"scheduleTimeoutSeconds": 2000000}))["HorovodJob"]["spec"]
    assert (spec["ttlSecondsAfterFinished"], spec["backoffLimit"]) == (31536000, 1000000)
    assert {e["name"]: e["value"] for e in spec["env"]} == {"N": "12345678", "F": "0.5", "B": "true"}
    assert spec["scheduling"]["scheduleTimeoutSeconds"] == 2000000


def test_labels_are_of_the_job_and_of_nothing_else(render):
    objects = render(job(labels={"kueue.x-k8s.io/queue-name": "a"}, nodeSelector={"a": "b"}))
    assert objects["HorovodJob"]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "a"
    assert "queue-name" not in json.dumps([objects["HorovodJob"]["spec"], objects["Deployment"]])


def test_the_master_takes_no_share_of_the_workers_resources(render):
    spec = render(job(resources={"limits": {"nvidia.com/gpu": 1}}, nodeSelector={"a": "b"}))["HorovodJob"]["spec"]
    assert "resources" not in spec["master"]["template"]["spec"]["containers"][0]


def test_words_with_quotes_and_colons_survive_rendering(render):
    words = ["python", "-c", "print('a: b', \"{{c}}\")", "#x", "- y", ""]
    assert render(job(command=words))["HorovodJob"]["spec"]["command"] == words


@pytest.mark.parametrize("values, message", [
    (job(worker={"number": 0}), "at '/job/worker/number': minimum: got 0, want 1"),
    (job(wrkr={"number": 2}), "additional properties 'wrkr' not allowed"),
    (job(slotsPerWorker=-1), "at '/job/slotsPerWorker': minimum: got -1, want 1"),
    (job(name="a" * 60), "at '/job/name': maxLength: got 60, want 45"),
    (job(name="Upper"), "at '/job/name'"),
    (job(command="python train.py"), "at '/job/command': got string, want array"),
    (job(cleanPodPolicy="Some"), "at '/job/cleanPodPolicy'"),
    (job(ssh={"port": 70000}), "at '/job/ssh/port': maximum"),
    (job(failurePolicy={"rules": [{"action": "Fail", "onDisruption": True, "onExitCodes": {"operator": "In", "values": [1]}}]}),
     "at '/job/failurePolicy/rules/0'"),
    (job(workerGroups=[{"name": "a"}]), "missing property 'replicas'"),
    (job(master={"template": {"spec": {}}}), "job.master.template is the whole master; unset job.command"),
    ({"job": {"enabled": True, "master": {"template": {"spec": {}}, "env": {"A": 1}, "resources": {"limits": {"cpu": 1}}}}},
     "job.master.template is the whole master; unset job.master.env, job.master.resources"),
    (job(worker={"template": {"spec": {}}}, resources={"limits": {"cpu": 1}}), "unset job.worker.env and job.resources"),
    ({"job": {"enabled": True, "image": "i", "volumes": [{"name": "v"}], "master": {"template": {"spec": {}}},
              "worker": {"template": {"spec": {}}}}}, "are whole pods; unset job.image, job.volumes"),
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
    ({"job": {"enabled": True}}, "set job.command (for example [python, train.py]) or job.master.args"),
    (job(master={"args": ["x"]}), "job.command and job.master.args are both set"),
    ({"job": {"enabled": True, "master": {"args": ["x"]}, "args": ["y"]}}, "job.args without job.command"),
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
