"""The processes that this run of the tests has started, whatever else runs on the machine: a variable with a random value, which
children inherit, tells them from those of another run. sshd of the emulated hosts gives it to its sessions."""

import os
import uuid

VARIABLE = "HVD_TEST_RUN"
os.environ[VARIABLE] = RUN = f"run-{uuid.uuid4()}"


def _read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:  # tests ask again and again, for each process there is
            return file.read()
    except OSError:
        return b""


def processes_with(*texts):
    """Ids of the processes that have one of the texts in an argument, or in arguments with a space or NUL between them, of whichever
    run: for a text that no other run has."""
    wanted = [text.encode() for text in texts]
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            line = _read(pid, "cmdline")
            spaced = line.replace(b"\0", b" ")
            if any(text in line or text in spaced for text in wanted):
                found.append(int(pid))
    return found


def own_processes_with(*texts):
    """The same of this run of the tests alone: for a text as the path of a program, that other runs have too."""
    return [pid for pid in processes_with(*texts) if f"{VARIABLE}={RUN}".encode() in _read(pid, "environ").split(b"\0")]


def uts_space(pid):
    """The number of the namespace that gives a process its host name; None if the process has ended."""
    try:
        return os.stat(f"/proc/{pid}/ns/uts").st_ino
    except OSError:
        return None
