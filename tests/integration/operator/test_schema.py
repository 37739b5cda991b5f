"""The definition of HorovodJob, as people and programs read it from a real API server."""
import re
import sys

import pytest
import yaml

from conftest import ROOT
from kubeapi import until

sys.path.append(str(ROOT / "tests/lint"))
import prose  # noqa: E402  (the path above)

SENTENCE_MAX = 25  # words


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
