"""Two machines made of namespaces on this one, for tests that need two hosts with an sshd each."""

import contextlib
import os
import shutil
import subprocess
import time

import pytest

import limits
import processes

# Before a command: it is killed when the tests are, however they end.
DIE_WITH_ME = ["setpriv", "--pdeathsig", "KILL"]

# Words for mpirun, as horovodrun has them. Each host has a slot for each of its ranks, so Open MPI does not see that ranks outnumber
# the processors of this machine: one that waits would poll to the end of its time slice.
YIELD = ["--mca", "mpi_yield_when_idle", "1"]


def wait_for(condition, what, timeout_s=20):
    """Polls until the condition holds and returns its value."""
    timeout_s = limits.seconds(timeout_s)
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {timeout_s} s")


class Hosts:
    """Two machines made of namespaces (host name, network, mounts), with an sshd each. Names, addresses, ports, /etc and /run are
    their own, so any number of such pairs may be there at once."""

    NAMES = ("hvd-east", "hvd-west")

    def __init__(self, folder):
        self.folder = folder
        self.holders = []
        self.daemons = []
        self.key = folder / "id"

    def temporary(self, index):
        """The folder for temporary files of a host's sessions."""
        return self.folder / f"{self.NAMES[index]}.tmp"

    def enter(self, index):
        """The words before a command that make it run on that host."""
        return ["nsenter", "--target", str(self.holders[index].pid), "--uts", "--net", "--mount"]

    def start(self):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key], check=True)
        (self.folder / "hosts").write_text(
            "127.0.0.1 localhost\n10.77.0.1 hvd-east\n10.77.0.2 hvd-west\n10.77.0.9 hvd-nowhere\n")
        (self.folder / "ssh_config").write_text(f"UserKnownHostsFile {self.folder}/known_hosts\n")
        for index, name in enumerate(self.NAMES):
            self.temporary(index).mkdir()
            self.holders.append(subprocess.Popen(
                [*DIE_WITH_ME, "unshare", "--uts", "--net", "--mount", "--propagation", "private", "sh", "-ec",
                 'hostname "$0"; cp -a /etc "$1/$0.etc"; mount --bind "$1/$0.etc" /etc;'
                 'mount -t tmpfs none /run; mkdir -m 755 /run/sshd; mount --bind "$1/hosts" /etc/hosts;'
                 'mount --bind "$1/ssh_config" /etc/ssh/ssh_config; ip link set lo up;'
                 'touch "$1/$0.ready"; exec sleep 3600', name, str(self.folder)]))
        for name in self.NAMES:
            wait_for((self.folder / f"{name}.ready").exists, f"host {name}")
        self._connect()
        for index in (0, 1):
            self.start_sshd(index)

    def _connect(self):
        east, west = self.holders
        # Made inside one of the hosts and moved to the other: nothing of it is seen outside.
        for command in (
                f"ip link add hvd0 type veth peer name hvd0 netns {west.pid}",
                "ip addr add 10.77.0.1/24 dev hvd0", "ip link set hvd0 up"):
            subprocess.run([*self.enter(0), *command.split()], check=True)
        for command in ("ip addr add 10.77.0.2/24 dev hvd0", "ip link set hvd0 up"):
            subprocess.run([*self.enter(1), *command.split()], check=True)

    def start_sshd(self, index, path=os.environ["PATH"]):
        """Starts the sshd of a host, whose sessions then have that PATH, a TMPDIR of their own, and the mark of this run."""
        variables = [f"PATH={path}", f"TMPDIR={self.temporary(index)}", f"{processes.VARIABLE}={processes.RUN}"]
        daemon = subprocess.Popen([
            *DIE_WITH_ME, *self.enter(index), "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-p", "2222",
            "-h", str(self.key), "-o", f"AuthorizedKeysFile={self.key}.pub", "-o", "UsePAM=no",
            "-o", "StrictModes=no", "-o", "PidFile=none", "-o", "SetEnv=" + " ".join(variables)],
            stderr=subprocess.DEVNULL)
        self.daemons.append(daemon)
        wait_for(lambda: subprocess.run(
            [*self.enter(index), "bash", "-c", ": < /dev/tcp/127.0.0.1/2222"],
            stderr=subprocess.DEVNULL, check=False).returncode == 0, "sshd")
        return daemon

    def stop_sshd(self, daemon):
        daemon.terminate()
        daemon.wait()
        self.daemons.remove(daemon)

    def stop(self):
        for process in [*self.daemons, *self.holders]:
            process.kill()
            process.wait()


@contextlib.contextmanager
def emulated_hosts(folder):
    """Two hosts that are up while the context lasts; skips the test where they cannot be made."""
    if os.geteuid() != 0 or not shutil.which("sshd", path="/usr/sbin:/usr/bin"):
        pytest.skip("emulated hosts need root and sshd")
    both = Hosts(folder)
    try:
        both.start()
        yield both
    finally:
        both.stop()
