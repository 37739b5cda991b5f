"""The processes that this run of the tests has started, whatever else runs on the machine: a variable with a random value, which
children inherit, tells them from those of another run. sshd of the emulated hosts gives it to its sessions."""

import os
import pathlib
import uuid

VARIABLE = "HVD_TEST_RUN"
os.environ[VARIABLE] = RUN = f"run-{uuid.uuid4()}"


def _read(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def processes_with(text):
    """Ids of the processes that have the text in an argument, of whichever run: for a text that no other run has."""
    return [int(pid) for pid in os.listdir("/proc")
            if pid.isdigit() and int(pid) != os.getpid() and text.encode() in _read(pid, "cmdline")]


def own_processes_with(text):
    """The same of this run of the tests alone: for a text as the path of a program, that other runs have too."""
    return [pid for pid in processes_with(text) if f"{VARIABLE}={RUN}".encode() in _read(pid, "environ").split(b"\0")]
