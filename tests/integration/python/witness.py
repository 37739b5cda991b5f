"""Witnesses which functions of Horovod's public interface a check calls, and which parameters it gives a value of its own.

The interface is what tables in tests/data list. A function counts when the tests' own code calls it, a method
whoever does. Modules whose framework is not installed are left out.
"""
import collections
import dataclasses
import inspect
import json
import os
import pathlib
import sys
import threading

import profiler
from interface import resolve

import horovod

TESTS = str(pathlib.Path(__file__).resolve().parents[1]) + os.sep
PACKAGE = str(pathlib.Path(horovod.__file__).parent) + os.sep
DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
TORCH = "horovod_torch_api.json"  # the table with what needs no framework, too


@dataclasses.dataclass
class _Watched:
    """An entry of the table: its name, whether only the tests' calls of it count, and the defaults of its parameters."""
    entry: str
    is_function: bool
    defaults: dict


def _functions(table):
    """Yields (entry, whether it is a function of a module, the object)."""
    for module, names in table["exports"].items():
        yield from ((f"export {module}.{name}", True, f"{module}.{name}") for name in names)
    for module, names in table["functions"].items():
        yield from ((f"function {module}.{name}", True, f"{module}.{name}") for name in names)
    for module, classes in table["classes"].items():
        for name, entry in classes.items():
            yield from ((f"method {module}.{name}.{method}", False, f"{module}.{name}.{method}") for method in entry["methods"])


def _defaults(function):
    """{parameter: default}; empty is a value of its own for those that have none."""
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()
            if name not in ("self", "ctx")}


def read(table):
    """The contents of a table, by the name of its file."""
    return json.loads((DATA / table).read_text(encoding="utf-8"))


def watched(*tables):
    """{id of what is called: [_Watched]}: code of Python's functions, and C's functions themselves."""
    found = collections.defaultdict(list)
    for entry, is_function, path in (function for table in tables for function in _functions(table)):
        try:
            function = inspect.unwrap(resolve(path))
        except (AttributeError, ImportError):
            continue
        if inspect.isbuiltin(function):
            found[id(function)].append(_Watched(entry, is_function, {}))
        elif inspect.isroutine(function) and hasattr(function, "__code__"):
            found[id(function.__code__)].append(_Watched(entry, is_function, _defaults(function)))
    return found


def _is_given(value, default):
    """Whether a parameter was given something else than its default; for *more and **options: anything."""
    if value is default or default is inspect.Parameter.empty:
        return value is not default and not (type(value) in (tuple, dict) and not value)
    try:
        return type(value) is not type(default) or bool(value != default)
    except (RuntimeError, ValueError):  # tensors of several elements
        return True


def _is_called_by_tests(frame):
    """Whether the next frame, back from here, that is the package's or the tests' is of the tests."""
    while frame is not None and not frame.f_code.co_filename.startswith((TESTS, PACKAGE)):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(TESTS)


class Blind:
    """In the place of a Witness where others see the same."""

    def begin(self):
        pass

    def end(self):
        pass

    def take(self):
        return {}


class Witness:
    """What was called since the last take(), in all threads that were started since begin()."""

    def __init__(self, *tables):
        self._watched = watched(*map(read, tables))
        self._called = collections.defaultdict(set)
        profiler.watch(tuple(self._watched), self._look)

    @staticmethod
    def begin():
        threading.setprofile(profiler.begin)
        profiler.begin()

    @staticmethod
    def end():
        threading.setprofile(None)
        profiler.end()

    def take(self):
        """{entry: {parameter}}, and forgets it."""
        called, self._called = self._called, collections.defaultdict(set)
        return called

    def _look(self, frame, event, function):
        """A function of Python is in the frame, one of C is called by it."""
        found, caller = (self._watched[id(frame.f_code)], frame.f_back) if event == "call" else (self._watched[id(function)], frame)
        for one in found:
            if not one.is_function or _is_called_by_tests(caller):
                self._note(one, frame.f_locals if one.defaults else {})

    def _note(self, one, values):
        given = self._called[one.entry]
        for name, default in one.defaults.items():
            if name not in given and _is_given(values.get(name, default), default):
                given.add(name)


if __name__ == "__main__":  # witness.py TABLE... prints {entry: [parameter]} of all that can be watched
    ALL = [one for watched_here in watched(*map(read, sys.argv[1:])).values() for one in watched_here]
    json.dump({one.entry: sorted(one.defaults) for one in ALL}, sys.stdout)
