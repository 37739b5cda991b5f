"""Makes the schema of the value job.spec from the CRD.

    python3 tests/integration/chart/values_schema.py    # after a change of the CRD: writes charts/horovod/values.schema.json
"""
import json
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parents[3]
CRD = TOP / "crds" / "horovodjobs.yaml"
FILE = TOP / "charts" / "horovod" / "values.schema.json"
WIDTH = 120
DROPPED = ("description", "format", "default")

# What a JSON schema can express of the CRD's rules, by their message. job.yaml checks the two forms; the API server checks all.
RULES = {
    "slotsPerWorker must be an integer from 1 to 65536, or auto":
        {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 65536}, {"const": "auto"}]},
    "a rule has either onExitCodes or onDisruption": {"not": {"required": ["onExitCodes", "onDisruption"]}},
}


def spec_of(crd):
    """The structural schema of a HorovodJob's spec."""
    version, = crd["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]


def json_schema(schema):
    """A structural schema as a JSON schema that rejects unknown fields, as kubectl does."""
    result = {key: sub for key, sub in schema.items() if not key.startswith("x-") and key not in DROPPED}
    for rule in schema.get("x-kubernetes-validations", []):
        result |= RULES.get(rule["message"], {})
    if "properties" in result:
        result["properties"] = {name: json_schema(sub) for name, sub in result["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            result["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = json_schema(result[key])
    return result


def compact(value, column=0, indent=0):
    """JSON in which each object and list that fits is on one line."""
    line = json.dumps(value)
    if column + len(line) < WIDTH or not isinstance(value, (dict, list)):
        return line
    pad = "\n" + " " * (indent + 2)
    if isinstance(value, list):
        return "[" + ",".join(pad + compact(item, indent + 2, indent + 2) for item in value) + pad[:-2] + "]"
    names = {name: json.dumps(name) + ": " for name in value}
    return "{" + ",".join(pad + names[name] + compact(item, indent + 2 + len(names[name]), indent + 2)
                          for name, item in value.items()) + pad[:-2] + "}"


def generate(text, crd):
    """The text of values.schema.json with the schema of job.spec as the CRD has it. An empty spec is that of no job."""
    schema = json.loads(text)
    schema["properties"]["job"]["properties"]["spec"] = {
        "description": "The spec of a HorovodJob. Generated from the CRD by tests/integration/chart/values_schema.py",
        "type": "object", "if": {"minProperties": 1}, "then": json_schema(spec_of(crd))}
    return compact(schema) + "\n"


if __name__ == "__main__":
    FILE.write_text(generate(FILE.read_text(), yaml.safe_load(CRD.read_text())))
