"""Runs a check in a process of its own, with a time limit, and ends everything that it has started."""
import ctypes
import dataclasses
import os
import signal
import subprocess
import tempfile
import time

PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 2.0  # between asking a process to end and ending it


@dataclasses.dataclass
class Ended:
    """How a command ended: its exit status, negative for a signal; what it printed."""
    status: int
    out: str
    err: str
    seconds: float
    is_late: bool = False  # it was ended at its limit

    def why(self):
        """A sentence on an end that is not good; "" for a good one."""
        if self.is_late:
            return f"it was ended after {self.seconds:.0f} s"
        if self.status < 0:
            return f"signal {-self.status} ({signal.Signals(-self.status).name}) ended it"
        return f"exit status {self.status}" if self.status else ""

    def tail(self, n_lines=15):
        """The last lines of both outputs, standard error behind."""
        return "\n".join([*self.out.splitlines()[-n_lines:], *self.err.splitlines()[-n_lines:]])


def adopt_orphans():
    """Processes whose parent ends become children of this one, so that none is lost."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parents():
    """Process -> parent, of all that there are."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                found[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
    return found


def descendants(root):
    """All processes below one, itself not included."""
    of, found, left = parents(), [], [root]
    while left:
        one = left.pop()
        below = [pid for pid, parent in of.items() if parent == one]
        found += below
        left += below
    return found


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def reap():
    """Collects children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] > 0:
            pass
    except ChildProcessError:
        pass


def end(process):
    """Asks a process and all below it to end, and then ends them."""
    below = descendants(process.pid)
    send([process.pid], signal.SIGTERM)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        send([process.pid], signal.SIGKILL)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            pass  # inside of a driver that does not return
    send(below, signal.SIGKILL)


def end_left_over(keep):
    """Ends what a command left behind; those in keep were there before it."""
    deadline = time.monotonic() + GRACE_S
    left = [pid for pid in descendants(os.getpid()) if pid not in keep]
    while left and time.monotonic() < deadline:
        send(left, signal.SIGKILL)
        time.sleep(0.02)
        reap()
        left = [pid for pid in descendants(os.getpid()) if pid not in keep]


def run(command, limit_s, environment, folder=None):
    """How the command ended. Its standard input is empty."""
    before = set(descendants(os.getpid()))
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        try:
            process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       env=environment, cwd=folder, start_new_session=True)
        except OSError as error:
            return Ended(127, "", str(error), 0)
        is_late = False
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            is_late = True
            end(process)
        end_left_over(before)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
        status = process.returncode if process.returncode is not None else -signal.SIGKILL
        return Ended(status, *texts, time.monotonic() - begin, is_late)
