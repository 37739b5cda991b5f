"""Wrong manifests are refused by kubectl apply, and what is refused is said."""
import pytest
import yaml

GOOD = {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": "digits"},
        "spec": {"image": "localhost/horovod-worker:0.1.0", "command": ["python", "train.py"],
                 "worker": {"replicas": 2}}}


def changed(path, value):
    """GOOD with the value at a dotted path; None removes it."""
    job = yaml.safe_load(yaml.safe_dump(GOOD))
    *parents, last = path.split(".")
    at = job
    for key in parents:
        at = at.setdefault(key, {})
    if value is None:
        del at[last]
    else:
        at[last] = value
    return job


@pytest.mark.parametrize("path,value,words", [
    ("spec.image", None, "spec.image"),
    ("spec.worker.replicas", 0, "spec.worker.replicas"),
    ("spec.worker.replicas", -1, "spec.worker.replicas"),
    ("spec.worker.replicas", "two", "spec.worker.replicas"),
    ("spec.workers", 3, "unknown field \"spec.workers\""),
    ("metadata.name", "a" * 60, "at most 45 characters"),
    ("metadata.name", "1st", "start with a letter"),
    ("spec.slotsPerWorker", -1, "integer from 1 to 65536, or auto"),
    ("spec.slotsPerWorker", "many", "integer from 1 to 65536, or auto"),
    ("spec.cleanPodPolicy", "Some", "cleanPodPolicy"),
])
def test_a_wrong_manifest_is_refused_with_its_reason(server, ns, path, value, words):
    result = server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump(changed(path, value)), check=False)
    assert result.returncode != 0
    assert words in result.stdout
    assert ns.list("horovodjobs") == []


POD = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
SHORT_NEEDS = "the short form needs image and command; the long form has master.template and worker.template instead"
LONG_NEEDS = "the long form needs master.template and worker.template; the short form has image and command instead"


@pytest.mark.parametrize("spec,mistakes", [
    ({}, ["spec: Required value: give image and command (short form), or master.template and worker.template (long form)"]),
    ({"image": "i"}, [f"spec.command: Required value: {SHORT_NEEDS}"]),
    ({"command": ["c"]}, [f"spec.image: Required value: {SHORT_NEEDS}"]),
    ({"args": ["a"]}, [f"spec.{field}: Required value: {SHORT_NEEDS}" for field in ("image", "command")]),
    ({"worker": POD}, [f"spec.master: Required value: {LONG_NEEDS}"]),
    ({"master": POD}, [f"spec.worker.template: Required value: {LONG_NEEDS}"]),
    ({"image": "i", "command": ["c"], "master": POD},
     ["give one form, not both: remove image, command, so that the long form is left, whose containers have such fields, or remove "
      "master, so that the short form is left"]),
    ({"master": POD, "worker": POD, "args": ["a"], "env": [{"name": "A"}], "resources": {}},
     ["not both: remove args, env, resources, so that the long form is left, whose containers have such fields, or remove "
      "master, worker.template, so that the short form is left"]),
    ({"image": "i", "worker": POD}, ["not both: remove image, so that"]),
], ids=lambda value: "-".join(value) or "nothing" if isinstance(value, dict) else "")
def test_a_job_of_no_form_or_of_two_is_refused_with_one_message_for_each_mistake(server, ns, spec, mistakes):
    job = {**GOOD, "spec": {**spec, "worker": {"replicas": 1, **spec.get("worker", {})}}}
    result = server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump(job), check=False)
    assert result.returncode != 0 and all(words in result.stdout for words in mistakes), result.stdout
    assert len([line for line in result.stdout.splitlines() if ": Required value:" in line or ": Invalid value:" in line]) == \
        len(mistakes), result.stdout
    assert ns.list("horovodjobs") == []


def test_a_new_job_is_listed_as_pending_before_any_operator_has_seen_it(server, ns):
    server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump(GOOD))
    lines = server.kubectl("get", "hvj", "-n", ns.name).stdout.splitlines()
    assert lines[1].split()[:2] == ["digits", "Pending"]


def test_the_smallest_manifest_is_accepted_and_listed(server, ns, operator):
    server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump(GOOD))
    ns.wait_state("Pending")
    lines = server.kubectl("get", "hvj", "-n", ns.name).stdout.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "READY", "ATTEMPTS", "AGE"]
    assert lines[1].split()[:4] == ["digits", "Pending", "0/2", "0"]
    wide = server.kubectl("get", "hvj", "-o", "wide", "-n", ns.name).stdout.splitlines()
    assert "IMAGE" in wide[0] and wide[1].split()[5] == GOOD["spec"]["image"]
    described = server.kubectl("describe", "horovodjob", "digits", "-n", ns.name).stdout
    assert "0 of 2 workers are ready" in described


def test_the_long_form_is_listed_with_the_image_of_its_workers_and_no_workers_at_its_end(server, ns, operator):
    pods = {role: {"template": {"spec": {"containers": [{"name": role, "image": f"localhost/{role}:1"}]}}}
            for role in ("master", "worker")}
    pods["worker"]["replicas"] = 1
    server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump({**GOOD, "spec": pods}))
    ns.start_workers(1)
    ns.end_master(ns.start_master())
    ns.wait_state("Succeeded")
    line = server.kubectl("get", "hvj", "-o", "wide", "-n", ns.name).stdout.splitlines()[1].split()
    assert line[:4] == ["digits", "Succeeded", "-", "1"] and line[5] == "localhost/worker:1"
