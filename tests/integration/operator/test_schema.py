"""The definition of HorovodJob, as people and programs read it from a real API server."""
import re
import sys

import pytest
import yaml

from conftest import ROOT
from kubeapi import until
from test_hosts import TEMPLATE
from test_manifests import GOOD

sys.path.append(str(ROOT / "tests/lint"))
import prose  # noqa: E402  (the path above)

SENTENCE_MAX = 25  # words

DEFAULTS = {"suspend": False, "backoffLimit": 0, "cleanPodPolicy": "Running", "slotsPerWorker": "auto", "runMasterAsWorker": False,
            "network": {"hostNames": "DNS", "hostNetwork": False}}
LONG = {"master": {"template": TEMPLATE}, "worker": {"replicas": 2, "template": TEMPLATE}}


@pytest.fixture(scope="module")
def schema():
    version, = yaml.safe_load((ROOT / "crds/horovodjobs.yaml").read_text(encoding="utf-8"))["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def fields(schema, path=()):
    """(path, schema) of all fields; those of an item, or of a value of a map, follow the field itself."""
    for name, sub in schema.get("properties", {}).items():
        yield (*path, name), sub
        yield from fields(sub, (*path, name))
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from fields(schema[key], path)


def test_every_field_is_described_in_short_sentences(schema):
    found = dict(fields(schema))
    assert len(found) > 100
    without = [".".join(path) for path, sub in found.items() if not sub.get("description") and path != ("metadata",)]
    assert not without, "fields without a description"
    for path, sub in found.items():
        text = sub.get("description", "")
        assert not prose.WORDS.search(text), f"{path}: {text}"
        for sentence in prose.sentences(text):
            assert len(prose.words_of(sentence.text)) <= SENTENCE_MAX, f"{path}: {sentence.text}"
        assert not text or text.endswith("."), f"{path}: {text}"


def test_every_field_of_the_spec_has_its_default_and_when_it_can_change(schema):
    for name, sub in schema["properties"]["spec"]["properties"].items():
        assert re.search(r"default|Required", sub["description"]), f"{name}: {sub['description']}"
        assert re.search(r"[Cc]an(not)? (change|join)", sub["description"]), f"{name}: {sub['description']}"


def test_kubectl_explains_every_field(server, schema):
    def explain(path):
        return server.kubectl("explain", ".".join(["hvj", *path]), check=False)

    until("kubectl explains the worker", lambda: explain(("spec", "worker")).returncode == 0, 60)
    shown = explain(("spec", "worker")).stdout
    print(shown)
    assert re.search(r"replicas\t<integer> -required-\n +Number of workers\. Required\.", shown), shown
    holders = [path for path, sub in fields(schema) if "properties" in sub or "properties" in sub.get("items", {})
               or "properties" in sub.get("additionalProperties", {})]
    assert len(holders) > 20
    for path in [(), *holders]:
        shown = explain(path)
        assert shown.returncode == 0, shown.stdout
        assert "FIELDS:" in shown.stdout and "<no description>" not in shown.stdout, shown.stdout


def test_the_api_server_shows_the_defaults_and_adds_no_field_of_a_form(server, ns):
    for name, spec in (("short", GOOD["spec"]), ("long", LONG)):
        job = {**GOOD, "metadata": {"name": name}, "spec": spec}
        server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump(job))
        shown = yaml.safe_load(server.kubectl("get", "hvj", name, "-n", ns.name, "-o", "yaml").stdout)
        print(yaml.safe_dump(shown["spec"]))
        assert shown["spec"] == {**spec, **DEFAULTS}
        # Neither is a second apply a change, nor the whole object, as a person edits it.
        assert "unchanged" in server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump(job)).stdout
        server.kubectl("replace", "-n", ns.name, "-f", "-", text=yaml.safe_dump(shown))
        assert ns.get("horovodjobs", name)["metadata"]["generation"] == 1


def test_a_group_inherits_where_it_has_no_default(server, ns):
    server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump(
        {**GOOD, "spec": {**GOOD["spec"], "slotsPerWorker": 4, "workerGroups": [{"name": "a", "replicas": 1}]}}))
    assert ns.get("horovodjobs", "digits")["spec"]["workerGroups"] == [{"name": "a", "replicas": 1}]


def test_the_descriptions_name_the_defaults_of_the_schema(schema):
    found = {path: sub for path, sub in fields(schema["properties"]["spec"]) if "default" in sub and sub.get("type") != "object"}
    assert len(found) == 7
    for path, sub in found.items():
        assert f"y default {str(sub['default']).replace('False', 'false')}" in sub["description"], f"{path}: {sub['description']}"
