"""The collector of checks without a framework: see ranks.py."""
import json
import os
import pathlib
import traceback

import horovod.numpy as hvd

CHECKS = []


def check(function):
    """Marks a function as a check."""
    CHECKS.append(function)
    return function


def run_checks():
    """Runs all checks, the same on every rank, and writes what became of each."""
    hvd.init(process_sets="dynamic")
    path = pathlib.Path(os.environ["CHECK_RESULTS"]) / f"{hvd.rank()}.json"
    results = {}
    for function in CHECKS:
        try:
            function()
            results[function.__name__] = None
        except Exception:  # pylint: disable=broad-except  # a check that fails is a result
            results[function.__name__] = traceback.format_exc()
        path.write_text(json.dumps(results), encoding="utf-8")


def raises(kind, function, *arguments, **options):
    """The exception that the call must raise."""
    try:
        function(*arguments, **options)
    except kind as error:
        return error
    raise AssertionError(f"{function} raised no {kind}")
