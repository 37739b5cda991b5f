"""Limits of time that grow with how slow the machine is: what takes seconds on an idle one may take minutes beside others."""
import http.client
import os
import subprocess
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


class Seconds(float):
    """A limit that has grown."""


def seconds(limit):
    """A limit in seconds, given for an idle machine and a build without sanitizer, as it is for this one now; one that has
    grown stays."""
    if isinstance(limit, Seconds):
        return limit
    is_sanitized = os.environ.get("HVD_BUILD_DIR", "").endswith(("asan", "tsan"))
    return Seconds(limit * slowness() * (SANITIZED if is_sanitized else 1))


def grow_those_of_connections():
    """From now on whatever asks by HTTP in this process, urlopen() too, has its limit grown."""
    if getattr(http.client.HTTPConnection.__init__, "is_grown", False):
        return
    init = http.client.HTTPConnection.__init__

    def patient_init(self, *arguments, **options):
        init(self, *arguments, **options)
        if isinstance(self.timeout, (int, float)):  # else none, or the sockets' own
            self.timeout = seconds(self.timeout)

    patient_init.is_grown = True
    http.client.HTTPConnection.__init__ = patient_init


def output_of(process, limit):
    """What a process writes until its end. TimeoutExpired once a limit given for an idle machine is over for the slowest that this one
    was meanwhile."""
    begin, grown = time.monotonic(), limit * slowness()
    while True:
        try:
            return process.communicate(timeout=Seconds(max(0.0, begin + grown - time.monotonic())))[0]
        except subprocess.TimeoutExpired:
            if limit * slowness() <= grown:
                raise
            grown = limit * slowness()


def grow_those_of_processes():
    """From now on whatever waits for a process in this one, as subprocess.run() does, has its limit grown."""
    if getattr(subprocess.Popen.wait, "is_grown", False):
        return
    wait, communicate = subprocess.Popen.wait, subprocess.Popen.communicate

    def patient_wait(self, timeout=None):
        if timeout is not None and not getattr(self, "is_communicating", False):
            timeout = seconds(timeout)
        return wait(self, timeout)

    def patient_communicate(self, input=None, timeout=None):  # pylint: disable=redefined-builtin  # as there
        self.is_communicating = True  # what is left of the limit is waited for at its end
        try:
            return communicate(self, input, None if timeout is None else seconds(timeout))
        finally:
            self.is_communicating = False

    patient_wait.is_grown = True
    subprocess.Popen.wait, subprocess.Popen.communicate = patient_wait, patient_communicate
