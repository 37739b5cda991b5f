"""Checks that every rank of one job runs: the collector, for programs with and without a framework.

A check is a function whose name is a sentence. After each, all ranks add up a one: whatever it tried, the job goes on.
Each rank writes to CHECK_RESULTS/<rank>.json what became of the checks, which are of what is not defined for so many
ranks and why, what those that ended well called of the public interface (see witness.py), and which errors they got:
{"checks": {sentence: null or traceback}, "skipped": {sentence: reason}, "called": {entry: [parameter]}, "errors":
[[type, text]]}. The file grows as checks end. With CHECK_BLIND in the environment no calls are noted. See ranks.py.
"""
import array
import json
import os
import pathlib
import traceback

from witness import TORCH, Blind, Witness

import horovod.numpy

CHECKS = []
ERRORS = []  # (type, text) of what was raised within the check that runs


class Skip(Exception):
    """Raised by a check of what is not defined for this number of ranks, on every rank: its text is the reason."""


def needs_adasum():
    """Skips a check at a number of ranks without Adasum."""
    size = horovod.numpy.size()
    if size & (size - 1):
        raise Skip(f"Adasum is not defined for {size} ranks, no power of two")


def check(function):
    """Marks a function as a check."""
    CHECKS.append(function)
    return function


def run_checks(hvd, before_each=lambda: None, tables=(TORCH,)):
    """Runs all checks in the order of the file, the same on every rank; hvd: horovod.numpy or a framework's module, whose interface
    is that of the tables."""
    hvd.init(process_sets="dynamic")
    rank = hvd.rank()
    is_watched = rank in (0, hvd.size() - 1) and "CHECK_BLIND" not in os.environ  # two see enough
    _run(rank, Witness(*tables) if is_watched else Blind(), before_each, _add_up)
    hvd.shutdown()


def run_checks_alone():
    """The same for a program that is no rank of a job."""
    _run(0, Witness(TORCH), lambda: None, lambda name: None)


def _run(rank, witness, before_each, after_each):
    """Runs all checks, and writes what became of them."""
    path = pathlib.Path(os.environ["CHECK_RESULTS"]) / f"{rank}.json"
    found = {"checks": {}, "skipped": {}, "called": {}, "errors": []}
    for function in CHECKS:
        before_each()
        ERRORS.clear()
        try:
            failure = _failure_of(function, witness, after_each)
        except Skip as reason:
            failure = None
            found["skipped"][function.__name__] = str(reason)
        found["checks"][function.__name__] = failure
        called = witness.take()
        if failure is None:
            found["errors"] += [error for error in ERRORS if error not in found["errors"]]
            for entry, parameters in called.items():
                found["called"][entry] = sorted(parameters.union(found["called"].get(entry, ())))
        _replace(path, json.dumps(found))


def _add_up(name):
    """Fails unless the job goes on."""
    ones = array.array("d", [1.0])
    horovod.numpy.allreduce_(ones, name=f"after {name}", op=horovod.numpy.Sum)
    assert ones[0] == horovod.numpy.size(), f"the job does not go on: {ones}"


def _failure_of(function, witness, after_each):
    """The traceback of a check that failed, or after which the job did not go on; None where all is well."""
    try:
        witness.begin()
        try:
            function()
        finally:
            witness.end()
        after_each(function.__name__)
    except Skip:
        raise
    except Exception:  # pylint: disable=broad-except  # a check that fails is a result
        return traceback.format_exc()
    return None


def _replace(path, text):
    """Writes a file that is whole whenever the rank is ended."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def only_the_last_refuses(words, name, bad, good):
    """The last rank calls bad(), whose exception has the words; the others call good() at the same place, and hear of that
    rank, the tensor and the same words."""
    hvd = horovod.numpy
    last = hvd.size() - 1
    if hvd.rank() == last:
        text = raises((ValueError, TypeError, NotImplementedError, RuntimeError, AttributeError, LookupError, ArithmeticError), bad)
    else:
        text = raises(hvd.HorovodInternalError, good)
    hvd.barrier()  # of several refusals of one name that nobody has answered the last counts
    assert words in text, text
    assert hvd.rank() == last or f"Rank {last} " in text and f" refused tensor {name}" in text, text


def raises(kind, function, *arguments, **options):
    """The text of the exception that the call must raise."""
    try:
        function(*arguments, **options)
    except kind as error:
        ERRORS.append([type(error).__name__, str(error)])
        return str(error)
    raise AssertionError(f"{function} raised no {kind}")
