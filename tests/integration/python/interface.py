"""Compares the package with tables of Horovod's public interface.

usage: interface.py TABLE... Prints {entry: null or what differs} as JSON; entries.py lists what entries there are.
Parameters may be more than in the table if they have defaults, and so may attributes of operations and their types.
"requires" of a table has entries that exist only where a module is old or new enough.
"""
import ast
import functools
import importlib
import inspect
import json
import pathlib
import re
import sys

from entries import entry_names

ALIASES = {"tf": "tensorflow"}  # as tables call it
KINDS = ("static", "class", "property")  # of methods; stands before the parameters


def resolve(path):
    """The object of a dotted path, of which a front part is a module; builtins have no module."""
    parts = path.split(".")
    parts[0] = ALIASES.get(parts[0], parts[0])
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


def kind_of(owner, name):
    """What a method is: "static", "class", "property", or "" where it is none of these."""
    kinds = {"static": staticmethod, "class": classmethod, "property": property}
    found = inspect.getattr_static(owner, name)
    return next((kind for kind in KINDS if isinstance(found, kinds[kind])), "")


def compare_method(owner, name, text, module):
    """None, or how a method differs from the table's."""
    wanted = next((kind for kind in KINDS if text.startswith(f"{kind} ")), "")
    kind = kind_of(owner, name)
    if kind != wanted:
        # a function without self may serve for a method without parameters
        if kind != "static" or text != "self":
            return f"is {kind or 'a plain method'}, not {wanted or 'a plain method'}"
        text = ""
    if kind == "property":
        return None
    function = getattr(owner, name)
    if inspect.isbuiltin(function) and not text:
        return takes_nothing(function)
    return compare_parameters(inspect.unwrap(function), text.removeprefix(f"{wanted} "), module)


def compare_class(kind, base, is_named_so=False):
    """None, or whether a class is none of a base; is_named_so: it has the name of the base, too."""
    if not issubclass(kind, base):
        return f"is no {base}"
    return f"is called {kind.__name__}" if is_named_so and kind.__name__ != base.__name__ else None


def made(expression):
    """The class of what an expression of a table makes, with the frameworks that it names."""
    names = {root: resolve(root) for root in re.findall(r"(?<![\w.])([a-z]\w*)(?=\.)", expression)}
    importlib.import_module(expression.partition("(")[0].rpartition(".")[0])
    return type(eval(expression, names))  # pylint: disable=eval-used  # a table of ours


# --- Operations of TensorFlow ---------------------------------------------------------------------------------------

def argument_text(argument):
    """An input or output of an operation as tables write it."""
    tensorflow = resolve("tensorflow")
    of = argument.type_attr or tensorflow.dtypes.as_dtype(argument.type).name
    text = f"{argument.number_attr}*{of}" if argument.number_attr else of
    return f"{argument.name}: {f'Ref({text})' if argument.is_ref else text}"


def default_text(attribute):
    """The default of an attribute as tables write it; empty where there is none."""
    if not attribute.HasField("default_value"):
        return ""
    value = attribute.default_value
    return str(getattr(value, value.WhichOneof("value")))


def compare_attribute(attributes, text):
    """None, or how an attribute differs from the table's text; types that are allowed may be more."""
    name, wanted, default = re.fullmatch(r"(\w+): ([^=]+?)(?: = (.*))?", text).groups()
    if name not in attributes:
        return f"has no attribute {name}"
    attribute = attributes[name]
    if wanted.startswith("{"):
        tensorflow = resolve("tensorflow")
        allowed = {tensorflow.dtypes.as_dtype(kind).name for kind in attribute.allowed_values.list.type}
        missing_types = set(re.findall(r"\w+", wanted)) - allowed if allowed else set()
        if attribute.type != "type" or missing_types:
            return f"{name} is {attribute.type} and does not allow {sorted(missing_types)}"
    elif attribute.type != wanted:
        return f"{name} is {attribute.type}, not {wanted}"
    here = default_text(attribute)
    return None if here == (default or "") else f"the default of {name} is {here or 'none'}, not {default or 'none'}"


def compare_op(name, wanted):
    """None, or how a registered operation differs from the table's. One that is stateful may serve for one that is not."""
    importlib.import_module("horovod.tensorflow")
    op = importlib.import_module("tensorflow.python.framework.op_def_registry").get(name)
    if op is None:
        return "is not registered"
    for part, arguments in (("inputs", op.input_arg), ("outputs", op.output_arg)):
        here = [argument_text(argument) for argument in arguments]
        if here != [text.replace(" * ", "*") for text in wanted[part]]:
            return f"{part} are {here}"
    attributes = {attribute.name: attribute for attribute in op.attr}
    for text in wanted["attrs"]:
        if differs := compare_attribute(attributes, text):
            return differs
    listed = {text.partition(":")[0] for text in wanted["attrs"]}
    for more in attributes.keys() - listed:
        if not attributes[more].HasField("default_value"):
            return f"{more} is wanted as well"
    if wanted["stateful"] and not op.is_stateful:
        return "is not stateful"
    gradients = importlib.import_module("tensorflow.python.framework.ops").gradient_registry
    return None if not wanted["gradient"] or name in gradients.list() else "has no gradient"


# --- All of a table -------------------------------------------------------------------------------------------------

def inherited_from(path, name):
    """None, or of which class of Python's modules without Horovod a method is that the class itself should have."""
    kind = resolve(path)
    owner = next(one for one in kind.__mro__ if name in vars(one))
    return None if owner.__module__.startswith("horovod") else f"is that of {owner.__module__}.{owner.__name__}"


def missing(path):
    """None; raises AttributeError when nothing has the path."""
    resolve(path)


def is_there(module, name):
    return "is there" if hasattr(resolve(module), name) else None


def compare_constant(path, value):
    return None if resolve(path) == value else f"is {resolve(path)}"


def names_and_functions(table):
    """Yields (entry, a function that returns None or what differs, and may raise) of names, constants and functions."""
    for module, names in table["exports"].items():
        for name in names:
            yield f"export {module}.{name}", functools.partial(missing, f"{module}.{name}")
    for module, names in table["absent"].items():
        for name in names:
            yield f"absent {module}.{name}", functools.partial(is_there, module, name)
    for path in table.get("also", ()):
        yield f"also {path}", functools.partial(missing, path)
    for module, values in table["constants"].items():
        for name, value in values.items():
            yield f"constant {module}.{name}", functools.partial(compare_constant, f"{module}.{name}", value)
    for module, texts in table["functions"].items():
        for name, text in texts.items():
            yield (f"function {module}.{name}",
                   lambda m=module, n=name, t=text: compare_parameters(resolve(f"{m}.{n}"), t, resolve(m)))


def classes_and_ops(table):
    """The same of classes, what is made of them, and operations."""
    for module, classes in table["classes"].items():
        for name, entry in classes.items():
            path = f"{module}.{name}"
            yield f"class {path}", lambda p=path, base=entry["base"]: compare_class(resolve(p), resolve(base))
            for method, text in entry["methods"].items():
                yield (f"method {path}.{method}",
                       lambda m=module, p=path, n=method, t=text: compare_method(resolve(p), n, t, resolve(m)))
            for method in entry.get("own", ()):
                yield f"own {path}.{method}", functools.partial(inherited_from, path, method)
    for expression, entry in table.get("made", {}).items():
        yield f"made {expression}", lambda e=expression, base=entry["base"]: compare_class(made(e), resolve(base), True)
        for method, text in entry["methods"].items():
            yield (f"made {expression}.{method}",
                   lambda e=expression, n=method, t=text: compare_method(made(e), n, t, resolve("builtins")))
    for name, entry in table.get("ops", {}).items():
        yield f"op {name}", functools.partial(compare_op, name, entry)


def is_required(table, entry):
    """Whether an entry exists with the modules that are here."""
    condition = table.get("requires", {}).get(entry)
    if condition is None:
        return True
    path, below = condition.split(" below ")
    package = resolve(resolve(path).__name__.partition(".")[0])  # tf.keras is one of several
    numbers = [int(part) for part in re.findall(r"\d+", package.__version__)]
    return numbers < [int(part) for part in below.split(".")]


def differences(table):
    """Yields (entry, a function that returns None or what differs, and may raise) of all that a table lists."""
    comparisons = dict([*names_and_functions(table), *classes_and_ops(table)])
    assert list(comparisons) == entry_names(table), "entries.py lists others"
    for entry, compare in comparisons.items():
        yield entry, compare if is_required(table, entry) else lambda: None


def main(paths):
    results = {}
    for path in paths:
        for entry, compare in differences(json.loads(pathlib.Path(path).read_text(encoding="utf-8"))):
            try:
                results[entry] = compare()
            except Exception as error:  # pylint: disable=broad-except  # whatever is raised, the entry is not what it should be
                results[entry] = f"{type(error).__name__}: {error}"
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
