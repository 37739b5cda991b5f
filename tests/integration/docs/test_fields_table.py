"""The fields of children that docs/operator.md calls repaired are those that the operator repairs, and no other."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
WITH_OTHERS = {"spec.externalName": "spec.type", "spec.clusterIPs": "spec.clusterIP", "binaryData": "data"}


def documented():
    text = (ROOT / "docs/operator.md").read_text(encoding="utf-8").split("\n## Fields of children that others set\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 50 and all(len(row) == 4 for row in rows)
    assert {then for _, _, then, _ in rows} == {"repaired", "reported", "left", "immutable"}
    fields = {field for kind, cell, then, _ in rows if then == "repaired" and kind != "PodGroup" for field in re.findall(r"`([^`]+)`", cell)}
    return {WITH_OTHERS.get(field, field) for field in fields}


def repaired():
    """The fields in the table of operator/core/writes/repair.c, without those that others set in place of a child's own."""
    text = (ROOT / "operator/core/writes/repair.c").read_text(encoding="utf-8")
    names = re.findall(r"\[HVD_REPAIR_\w+\] = \{\"((?:[^\"]|\" HVD_\w+ \")+)\"", text)
    assert len(names) > 12
    fields = {field for name in names for field in name.split(" or ")}
    return fields - {"spec", "status", "immutable"} - {field for field in fields if field.startswith("metadata.annotations[")}


def test_what_is_documented_as_altered_at_creation_is_what_the_operator_looks_for():
    text = (ROOT / "docs/operator.md").read_text(encoding="utf-8").split("\n## Fields that a webhook sets at creation\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")][2:]
    code = (ROOT / "operator/core/observe/observe_altered.c").read_text(encoding="utf-8")
    found = re.findall(r"\{HVD_KIND_(\w+), \"([\w.]+)\", (?:NULL|\"\w+\"), HVD_ALTERED_(\w+),", code)
    assert len(found) > 8
    assert [(kind.upper(), field.strip("`"), then.split()[0]) for kind, field, then, _ in rows if then != "left"] == \
        [(kind, field, "reported" if effect == "REPORTED" else "ends") for kind, field, effect in found]


def test_what_is_documented_as_repaired_is_what_the_operator_repairs():
    assert documented() == repaired()
