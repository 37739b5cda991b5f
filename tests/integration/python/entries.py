"""What a table of Horovod's public interface lists, by the names that interface.py and witness.py give the entries:

"export MODULE.NAME", "absent MODULE.NAME", "also MODULE.NAME" (not public, but used), "constant MODULE.NAME", "function MODULE.NAME",
"class MODULE.NAME", "method MODULE.CLASS.NAME", "own MODULE.CLASS.NAME" (a method that is not the base's), "made EXPRESSION" and
"made EXPRESSION.NAME" (the class of what an expression makes, and a method of it), "op NAME" (an operation of TensorFlow).
"""


def _of_classes(table):
    for module, classes in table["classes"].items():
        for name, entry in classes.items():
            yield f"class {module}.{name}"
            yield from (f"method {module}.{name}.{method}" for method in entry["methods"])
            yield from (f"own {module}.{name}.{method}" for method in entry.get("own", ()))


def _of_made(table):
    for expression, entry in table.get("made", {}).items():
        yield f"made {expression}"
        yield from (f"made {expression}.{method}" for method in entry["methods"])


def entry_names(table):
    """All entries of a table."""
    parts = {part: [f"{kind} {module}.{name}" for module, names in table[part].items() for name in names]
             for part, kind in (("exports", "export"), ("absent", "absent"), ("constants", "constant"), ("functions", "function"))}
    return [*parts["exports"], *parts["absent"], *(f"also {path}" for path in table.get("also", ())), *parts["constants"],
            *parts["functions"], *_of_classes(table), *_of_made(table), *(f"op {name}" for name in table.get("ops", ()))]
