"""Checks that every rank of one job runs: the collector, for programs with and without a framework.

A check is a function whose name is a sentence. Each rank writes what became of each check to
CHECK_RESULTS/<rank>.json as {sentence: null or traceback}; the file grows as checks end. See ranks.py.
"""
import json
import os
import pathlib
import traceback

CHECKS = []


def check(function):
    """Marks a function as a check."""
    CHECKS.append(function)
    return function


def run_checks(hvd, before_each=lambda: None):
    """Runs all checks in the order of the file, the same on every rank; hvd: horovod.numpy or a framework's module."""
    hvd.init(process_sets="dynamic")
    path = pathlib.Path(os.environ["CHECK_RESULTS"]) / f"{hvd.rank()}.json"
    results = {}
    for function in CHECKS:
        before_each()
        try:
            function()
            results[function.__name__] = None
        except Exception:  # pylint: disable=broad-except  # a check that fails is a result
            results[function.__name__] = traceback.format_exc()
        _replace(path, json.dumps(results))
    hvd.shutdown()


def _replace(path, text):
    """Writes a file that is whole whenever the rank is ended."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def raises(kind, function, *arguments, **options):
    """The text of the exception that the call must raise."""
    try:
        function(*arguments, **options)
    except kind as error:
        return str(error)
    raise AssertionError(f"{function} raised no {kind}")
