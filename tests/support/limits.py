"""Limits of time that grow with how slow the machine is: what takes seconds on an idle one may take minutes beside others."""
import os
import time

REFERENCE_S = 0.05  # of WORK on an idle core of the machine that limits are given for
WORK = 4_000_000  # turns of a loop
MOST = 10  # a program that hangs must end at some time
SANITIZED = 4  # how much longer what is built with a sanitizer takes, at least
MEASURED_FOR_S = 30  # so long a measurement counts

_measured = {"at": None, "slowness": 1.0}


def _run():
    begin = time.monotonic()
    for _ in range(WORK):
        pass
    return time.monotonic() - begin


def slowness():
    """How many times as long as on an idle machine something takes now: what a loop takes, and how many programs want to run on
    each processor; at least 1."""
    now = time.monotonic()
    if _measured["at"] is None or now - _measured["at"] > MEASURED_FOR_S:
        waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
        _measured.update(at=now, slowness=min(MOST, max(1.0, _run() / REFERENCE_S, waiting)))
    return _measured["slowness"]


def seconds(limit):
    """A limit in seconds, given for an idle machine and a build without sanitizer, as it is for this one now."""
    is_sanitized = os.environ.get("HVD_BUILD_DIR", "").endswith(("asan", "tsan"))
    return limit * slowness() * (SANITIZED if is_sanitized else 1)
