"""Judges a manifest by the CRD's structural schema, as an API server with strict field validation does."""
import jsonschema
import yaml


def _strict(schema):
    """The structural schema as a JSON schema that refuses unknown fields."""
    if not isinstance(schema, dict):
        return schema
    result = {k: v for k, v in schema.items() if not k.startswith("x-") and k not in ("format", "default", "nullable")}
    if schema.get("x-kubernetes-int-or-string"):
        result["type"] = ["integer", "string"]
    for key in ("properties",):
        if key in result:
            result[key] = {name: _strict(sub) for name, sub in result[key].items()}
            if not schema.get("x-kubernetes-preserve-unknown-fields") and "additionalProperties" not in result:
                result["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if key in result:
            result[key] = _strict(result[key])
    return result


class CrdSchema:
    """The schema of the only served version of a CRD."""

    def __init__(self, text):
        crd = yaml.safe_load(text)
        version = next(v for v in crd["spec"]["versions"] if v["served"])
        self.api_version = f"{crd['spec']['group']}/{version['name']}"
        self.kind = crd["spec"]["names"]["kind"]
        self.spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]

    def errors(self, manifest):
        """What is wrong with the manifest, as texts; empty when nothing is."""
        found = []
        if (manifest["apiVersion"], manifest["kind"]) != (self.api_version, self.kind):
            found.append(f"{manifest['apiVersion']} {manifest['kind']} is not {self.api_version} {self.kind}")
        validator = jsonschema.Draft7Validator(_strict(self.spec))
        found += [f"{'.'.join(map(str, e.path))}: {e.message}" for e in validator.iter_errors(manifest["spec"])]
        return found
