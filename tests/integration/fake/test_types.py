"""Objects that an older definition let in: the fake server, which checks no schema, holds one for each member that the definition
declares, with a value of another type. None of them may be taken for absent."""
import yaml

from conftest import ROOT
from fake import Operator, until

WRONG = {"object": 7, "array": "a", "string": 7, "boolean": "true", "integer": "7"}
SHORT = {"image": "i", "command": ["train"], "worker": {"replicas": 1}}
POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
LONG = {"master": {"template": POD}, "worker": {"replicas": 1, "template": POD}}
OWN_FORM = ("image", "command", "args", "env", "resources")


def members(schema, at=()):
    """(path, schema) of all members; [] in a path stands for an item."""
    for name, sub in schema.get("properties", {}).items():
        yield (*at, name), sub
        yield from members(sub, (*at, name))
    if "items" in schema:
        yield (*at, "[]"), schema["items"]
        yield from members(schema["items"], (*at, "[]"))


def put(target, path, value):
    """The target with the value at the path; lists and objects on the way are made."""
    if not path:
        return value
    if path[0] == "[]":
        return [put(target[0] if isinstance(target, list) and target else None, path[1:], value)]
    return {**(target if isinstance(target, dict) else {}),
            path[0]: put((target if isinstance(target, dict) else {}).get(path[0]), path[1:], value)}


def jobs():
    """name -> spec, each with one wrong member, and its path."""
    schema = yaml.safe_load((ROOT / "crds/horovodjobs.yaml").read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found = {}
    for path, sub in members(schema["properties"]["spec"]):
        whole = SHORT if path[0] in OWN_FORM else LONG
        values = [WRONG[sub["type"]]] if "type" in sub else [[]]
        values += ["Explode"] if "enum" in sub and sub["type"] == "string" else []
        for value in values:
            found[f"j{len(found)}"] = (path, value, put(whole, path, value))
    return found


def test_a_member_of_another_type_is_an_error_and_not_absent(fake, tmp_path):
    assert (made := jobs()) and len(made) > 60
    fake.put(*({"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
               for name, (_, _, spec) in made.items()))
    with Operator(fake.kubeconfig(), tmp_path) as operator:
        operator.wait_ready()
        fake.apply_job("sound")
        fake.wait_state("Succeeded", "sound", timeout=60)
        until("all are judged", lambda: all(fake.job_state(name) == "Failed" for name in made) or
              len({e["involvedObject"]["name"] for e in fake.objects("events")}) > len(made), 60)
        taken = {".".join(path): (value, fake.job_state(name)) for name, (path, value, _) in made.items()
                 if fake.job_state(name) != "Failed"}
        assert not taken, "these members are taken for absent"
        for name, (path, _, _) in made.items():
            message = fake.get("horovodjobs", name)["status"]["message"]
            assert "spec." + path[0] in message, f"{path}: {message}"
        assert operator.stop() == 0
