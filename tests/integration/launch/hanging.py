"""What the tests of jobs that would not end by themselves share."""

import os
import subprocess

from conftest import BUILD, HOROVODRUN, own_processes_with

CULPRIT = BUILD / "tests" / "integration" / "launch" / "culprit"
HOST = os.uname().nodename


def started(hosts, way, n):
    """The words that start horovodrun with n ranks, and the host of rank 1."""
    if way == "one host":
        return [str(HOROVODRUN), "-np", str(n)], HOST
    return [*hosts.enter(0), str(HOROVODRUN), "-np", str(n), "-H", f"hvd-east:{n - 1},hvd-west:1", "-p", "2222", "-i",
            str(hosts.key)], hosts.NAMES[n == 2]


def run(command, **env):
    """The completed command. Where it does not end, what it has written and which processes were there then."""
    with subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired as late:
            there = subprocess.run(["ps", "-o", "pid,ppid,stat,etimes,wchan:20,args", *map(str, own_processes_with(""))],
                                   capture_output=True, text=True, check=False).stdout
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"no end after {late.timeout:.0f} s: {out}\n--- stderr\n{err}\n--- processes\n{there}") from late
    return subprocess.CompletedProcess(command, process.returncode, out, err)
