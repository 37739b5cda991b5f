"""Jobs that do not end are ended, with all their ranks, and keep what they found; see ranks.py."""
import pathlib
import re
import sys

from ranks import PYTHON, ROOT, limits, mpirun

sys.path.insert(0, str(ROOT / "tests" / "support"))
from waiting import until  # noqa: E402  (the path above)

STUCK = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("rank", os.getpid(), flush=True)
while True:
    time.sleep(60)
"""


def is_stuck(pid):
    try:
        return b"SIG_IGN" in pathlib.Path("/proc", pid, "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_job_without_end_is_ended_and_says_what_it_had_written():
    done = mpirun(2, PYTHON, "-c", STUCK, timeout=3)
    limit = re.search(r"ended after (\d+) s", done.stderr)
    assert done.returncode == 124 and limit and 3 <= int(limit[1]) <= 3 * limits.MOST, done  # which grows with the machine
    ranks = re.findall(r"rank (\d+)", done.stdout)
    assert len(ranks) == 2, done
    until(f"ranks {ranks} have ended", lambda: not any(map(is_stuck, ranks)), limits.seconds(10))  # killed, not yet gone
