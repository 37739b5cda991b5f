"""Compares the package with the table of Horovod's public interface.

usage: interface.py TABLE. Prints {entry: null or what differs} as JSON. An entry is "export MODULE.NAME",
"absent MODULE.NAME", "constant MODULE.NAME", "function MODULE.NAME", "class MODULE.NAME" or
"method MODULE.CLASS.NAME". Parameters may be more than in the table if they have defaults.
"""
import ast
import functools
import importlib
import inspect
import json
import pathlib
import sys


def resolve(path):
    """The object of a dotted path, of which a front part is a module; builtins have no module."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        return functools.reduce(getattr, parts[cut:], module)
    return getattr(importlib.import_module("builtins"), path)


def parameters_of(text, module):
    """[(name, kind, default)] of a parameter list in Python; defaults are looked up in the module."""
    arguments = ast.parse(f"def f({text}): pass").body[0].args
    missing = [inspect.Parameter.empty] * (len(arguments.args) - len(arguments.defaults))
    defaults = [eval(compile(ast.Expression(node), "table", "eval"), vars(module)) for node in arguments.defaults]
    listed = [(argument.arg, "plain", default) for argument, default in zip(arguments.args, missing + defaults)]
    for argument, kind in ((arguments.vararg, "*"), (arguments.kwarg, "**")):
        if argument:
            listed.append((argument.arg, kind, inspect.Parameter.empty))
    return listed


def compare_parameters(function, text, module):
    """None, or how the parameters of a function differ from the table's."""
    kinds = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    here = [(parameter.name, kinds.get(parameter.kind, "plain"), parameter.default)
            for parameter in inspect.signature(function).parameters.values()]
    listed = parameters_of(text, module)
    plain = [parameter for parameter in listed if parameter[1] == "plain"]
    for place, (name, _, default) in enumerate(plain):
        if place >= len(here) or here[place][:2] != (name, "plain"):
            return f"parameter {place + 1} is not {name}: {here}"
        if default is not inspect.Parameter.empty and here[place][2] != default:
            return f"the default of {name} is {here[place][2]!r}, not {default!r}"
    for name, kind, default in here[len(plain):]:
        if kind == "plain" and default is inspect.Parameter.empty:
            return f"{name} is wanted as well"
    kinds_here = {kind for _, kind, _ in here}
    return next((f"takes no {kind}{name}" for name, kind, _ in listed if kind != "plain" and kind not in kinds_here), None)


def takes_nothing(function):
    """None if a function of the extension, which has no signature to read, takes no argument."""
    try:
        function(None)
    except TypeError as error:
        return None if "no arguments" in str(error) else str(error)
    return "takes an argument"


def compare_method(owner, name, text, module):
    """None, or how a method differs from the table's."""
    static = text.startswith("static ")
    if static is not isinstance(inspect.getattr_static(owner, name), staticmethod):
        # a function without self may serve for a method without parameters
        if static or text != "self":
            return "is static" if not static else "is not static"
        text = ""
    function = getattr(owner, name)
    if inspect.isbuiltin(function) and not text:
        return takes_nothing(function)
    return compare_parameters(inspect.unwrap(function), text.removeprefix("static "), module)


def missing(path):
    """None; raises AttributeError when nothing has the path."""
    resolve(path)


def differences(table):
    """Yields (entry, a function that returns None or what differs, and may raise)."""
    for module, names in table["exports"].items():
        for name in names:
            yield f"export {module}.{name}", lambda path=f"{module}.{name}": missing(path)
    for module, names in table["absent"].items():
        for name in names:
            yield f"absent {module}.{name}", lambda m=module, n=name: "is there" if hasattr(resolve(m), n) else None
    for module, values in table["constants"].items():
        for name, value in values.items():
            yield (f"constant {module}.{name}",
                   lambda path=f"{module}.{name}", v=value: None if resolve(path) == v else f"is {resolve(path)}")
    for module, functions in table["functions"].items():
        for name, text in functions.items():
            yield (f"function {module}.{name}",
                   lambda m=module, n=name, t=text: compare_parameters(resolve(f"{m}.{n}"), t, resolve(m)))
    for module, classes in table["classes"].items():
        for name, entry in classes.items():
            yield (f"class {module}.{name}", lambda path=f"{module}.{name}", base=entry["base"]:
                   None if issubclass(resolve(path), resolve(base)) else f"is no {base}")
            for method, text in entry["methods"].items():
                yield (f"method {module}.{name}.{method}", lambda m=module, c=name, n=method, t=text:
                       compare_method(resolve(f"{m}.{c}"), n, t, resolve(m)))


def main(path):
    results = {}
    for entry, compare in differences(json.loads(pathlib.Path(path).read_text(encoding="utf-8"))):
        try:
            results[entry] = compare()
        except (AttributeError, ImportError, NameError, TypeError) as error:
            results[entry] = f"{type(error).__name__}: {error}"
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
