"""Jobs that do not end are ended, with all their ranks, and keep what they found; see ranks.py."""
import pathlib
import re

from ranks import PYTHON, mpirun

STUCK = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("rank", os.getpid(), flush=True)
while True:
    time.sleep(60)
"""


def test_a_job_without_end_is_ended_and_says_what_it_had_written():
    done = mpirun(2, PYTHON, "-c", STUCK, timeout=3)
    assert done.returncode == 124 and "ended after 3 s" in done.stderr, done
    ranks = re.findall(r"rank (\d+)", done.stdout)
    assert len(ranks) == 2, done
    assert not any(b"SIG_IGN" in file.read_bytes() for pid in ranks
                   if (file := pathlib.Path("/proc", pid, "cmdline")).exists()), done
