"""Every field of a HorovodJob's spec has a value below job., with the same bounds; the CRD is what they are compared with."""
import copy
import json

import pytest
import yaml
from conftest import CHART, TOP
from crd_schema import CrdSchema
from job_values import COMPOSED, LONG, SHORT

CRD = TOP / "crds" / "horovodjobs.yaml"

# The value is called otherwise than the field.
RENAMED = {"worker.replicas": "worker.number"}
# Empty means the default in the chart; what is in them is checked by the API server.
BOUNDS_DIFFER = ("image", "command", "args", "env", "resources", "slotsPerWorker", "workerGroups[].slotsPerWorker",
                 "master.template", "worker.template", "workerGroups[].template")
BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "enum", "required")


@pytest.fixture(scope="module")
def crd():
    return CrdSchema(CRD.read_text())


def fields(schema, at=""):
    """Paths of all fields in a schema, those of list items with [], as {path: schema}."""
    found = {}
    for name, sub in schema.get("properties", {}).items():
        path = f"{at}.{name}" if at else name
        found[path] = sub
        found |= fields(sub, path)
    if "items" in schema:
        found |= fields(schema["items"], at + "[]")
    return found


def paths(value, known, at=""):
    """Paths of what a manifest sets, as deep as the known ones go."""
    if isinstance(value, list):
        return {path for item in value for path in paths(item, known, at + "[]")}
    if not isinstance(value, dict):
        return set()
    here = {f"{at}.{name}" if at else name: sub for name, sub in value.items()}
    return {path for path in here if path in known} | {
        path for name, sub in here.items() for path in paths(sub, known, name)}


def unset_fields(crd, manifests):
    """Fields that none of the manifests sets."""
    known = fields(crd.spec)
    return set(known) - {path for manifest in manifests for path in paths(manifest["spec"], known)}


@pytest.mark.parametrize("values", [SHORT, LONG, COMPOSED], ids=["short form", "long form", "composed"])
def test_what_is_rendered_is_one_that_the_crd_allows(render, crd, values):
    assert crd.errors(render({"job": values})["HorovodJob"]) == []


def test_every_field_of_the_spec_can_be_set_by_a_value(render, crd):
    manifests = [render({"job": values})["HorovodJob"] for values in (SHORT, LONG)]
    assert unset_fields(crd, manifests) == set()
    assert len(fields(crd.spec)) > 50


def test_a_field_that_has_no_value_would_be_noticed(render):
    document = yaml.safe_load(CRD.read_text())
    spec = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["network"]["properties"]["fabric"] = {"type": "string"}
    manifests = [render({"job": values})["HorovodJob"] for values in (SHORT, LONG)]
    assert unset_fields(CrdSchema(yaml.safe_dump(document)), manifests) == {"network.fabric"}


@pytest.mark.parametrize("values", [SHORT, LONG], ids=["short form", "long form"])
def test_a_value_reaches_the_field_of_its_name_unchanged(render, values):
    spec = render({"job": values})["HorovodJob"]["spec"]
    expected = {name: value for name, value in copy.deepcopy(values).items() if name not in ("enabled", "name")}
    expected["worker"]["replicas"] = expected["worker"].pop("number")
    assert spec == expected


def value_schemas():
    """Paths of the values below job., with their schemas."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    return fields(schema["properties"]["job"])


def bounds(schema):
    kept = {key: schema[key] for key in BOUNDS if key in schema}
    if "enum" in kept:
        kept["enum"] = [item for item in kept["enum"] if item is not None]
    return kept


def is_below(path, top):
    return path == top or path.startswith((top + ".", top + "["))


def test_a_value_has_the_bounds_of_its_field(crd):
    values = value_schemas()
    n_compared = 0
    for path, schema in fields(crd.spec).items():
        name = RENAMED.get(path, path)
        if "properties" in schema or any(is_below(path, top) for top in BOUNDS_DIFFER):
            continue
        assert bounds(values[name]) == bounds(schema), path
        if "items" in schema:
            assert bounds(values[name]["items"]) == bounds(schema["items"]), path
        n_compared += 1
    assert n_compared >= 25


def test_what_the_values_leave_alone_the_job_leaves_alone(render):
    spec = render({"job": {"enabled": True, "command": ["x"]}})["HorovodJob"]["spec"]
    assert set(spec) == {"image", "command", "worker", "slotsPerWorker"} and spec["worker"] == {"replicas": 2}


def test_the_readme_names_every_value_of_the_job():
    text = (CHART / "README.md").read_text()
    for name in yaml.safe_load((CHART / "values.yaml").read_text())["job"]:
        assert f"`job.{name}" in text, name
