"""The ways in which mpirun reaches another host, on the emulated hosts: ssh, an agent, Slurm, and pods of the operator."""

import os
import pathlib
import re
import subprocess

from emulated_hosts import DIE_WITH_ME, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[3]
SSH = "ssh -o StrictHostKeyChecking=accept-new -p 2222 -i {key}"

# Stands for Slurm's: runs the command on every node of the list, by ssh, with what a step's processes are told, and ends the step
# with the first task that fails and with itself.
SRUN = """#!/usr/bin/python3
import os, shlex, subprocess, sys
arguments = sys.argv[1:]
nodes = []
while arguments and arguments[0].startswith("-"):
    word = arguments.pop(0)
    if word.startswith("--nodelist="):
        nodes = word.split("=", 1)[1].split(",")
slurm = [f"{{name}}={{value}}" for name, value in os.environ.items() if name.startswith("SLURM_")]
running = [subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *{ssh!r}.split(), node, "env", *map(shlex.quote, slurm),
                             f"SLURM_NODEID={{i}}", f"SLURM_PROCID={{i}}", "SLURM_STEP_NODELIST=" + ",".join(nodes),
                             shlex.join(arguments)], stdin=subprocess.DEVNULL)
           for i, node in enumerate(nodes)]
sys.exit(max(process.wait() for process in running))
"""

# As the first generation of Kubeflow's MPIJob has it: the host, then what a shell there is to run.
AGENT = """#!/bin/sh
host=$1
shift
exec {ssh} $host "$*"
"""


def write_program(path, text):
    """Makes an executable file."""
    path.write_text(text)
    path.chmod(0o755)
    return path


def slurm(hosts, folder, spread):
    """The environment within an allocation of both hosts."""
    write_program(folder / "srun", SRUN.format(ssh=SSH.format(key=hosts.key)))
    names = ",".join(hosts.NAMES)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": names, "SLURM_NODELIST": names,
            "SLURM_TASKS_PER_NODE": ",".join(map(str, spread)), "SLURM_JOBID": "7", "SLURM_NNODES": "2",
            "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_PER_TASK": "1"}


def agent(hosts, folder):
    """The environment that names an agent in place of ssh, to either generation of mpirun."""
    program = write_program(folder / "kubexec.sh", AGENT.format(ssh=SSH.format(key=hosts.key)))
    return {"OMPI_MCA_plm_rsh_agent": str(program), "PRTE_MCA_plm_ssh_agent": str(program)}


class Pods:
    """On the emulated hosts what the operator puts into the pods of a job: each host's sshd with its command, the files of the
    ConfigMap and of the Secret in their places, and the environment. All of it is read from the operator's sources."""

    PORT = 2223
    CONFIG = pathlib.Path("/etc/horovod")
    RUN = pathlib.Path("/run/horovod")

    def __init__(self, hosts, folder):
        self.hosts = hosts
        self.folder = folder
        self.daemons = []

    @staticmethod
    def _literals(file, begin, end):
        """The string literals between two marks in a source of the operator, joined."""
        text = (ROOT / "operator/core/launch" / file).read_text(encoding="utf-8")
        text = text[text.index(begin) + len(begin):]
        for name, value in (("ENVIRONMENT", "/run/horovod/environment"), ("SSH_DIR", "/etc/horovod/ssh")):
            text = re.sub(rf"\b{name}\b", f'"{value}"', text)
        found = re.findall(r'"((?:[^"\\]|\\.)*)"', text[:text.index(end)])
        return "".join(found).replace('\\"', '"').replace("\\n", "\n")

    @staticmethod
    def environment():
        """What the operator adds to the environment of master and workers."""
        text = (ROOT / "operator/core/launch/ssh.c").read_text(encoding="utf-8")
        text = text[text.index("variables[][2] = {"):]
        text = text[:text.index("};")].replace("HOSTFILE", '"/etc/horovod/hosts/hostfile"').replace(
            "SSH_CONFIG", '"/etc/horovod/hosts/ssh_config"').replace('" "', "")
        found = dict(re.findall(r'\{"(\w+)", "([^"]*)"\}', text))
        assert len(found) == 8, found
        return found

    def start(self):
        """Puts the files in their places on every host, and starts its sshd."""
        for name in ("ssh", "hosts"):
            (self.folder / "etc" / name).mkdir(parents=True)
        key = self.folder / "etc/ssh/id"
        key.write_bytes(self.hosts.key.read_bytes())
        key.chmod(0o400)
        public = pathlib.Path(f"{self.hosts.key}.pub").read_text(encoding="utf-8")
        (self.folder / "etc/ssh/id.pub").write_text(public)
        (self.folder / "etc/ssh/known_hosts").write_text("".join(f"[{name}]:{self.PORT} {public}" for name in self.hosts.NAMES))
        config = self._literals("ssh.c", "hvd_jb_fmt(jb, data, HVD_LAUNCH_FILE,", "job->spec.launch_port")
        (self.folder / "etc/hosts/ssh_config").write_text(config.replace("%d", str(self.PORT)).replace("%s", ""))
        for index in range(len(self.hosts.NAMES)):
            self._start_sshd(index)

    def _start_sshd(self, index):
        run = self.folder / f"run-{self.hosts.NAMES[index]}"
        run.mkdir()
        for source, place in ((self.folder / "etc", self.CONFIG), (run, self.RUN)):
            subprocess.run([*self.hosts.enter(index), "mkdir", "-p", str(place)], check=True)
            subprocess.run([*self.hosts.enter(index), "mount", "--bind", str(source), str(place)], check=True)
        options = ["AuthorizedKeysFile=/etc/horovod/ssh/id.pub", "StrictModes=no", "UsePAM=no", "PidFile=none",
                   "PasswordAuthentication=no", "LogLevel=FATAL",
                   "ForceCommand=" + self._literals("sshd.c", "#define SESSION", "\n\n")]
        self.daemons.append(subprocess.Popen([
            *DIE_WITH_ME, *self.hosts.enter(index), "/bin/sh", "-c", self._literals("sshd.c", "#define START", "\n\n"), "sshd",
            "-De", "-f", "/dev/null", "-p", str(self.PORT), "-h", "/etc/horovod/ssh/id",
            *(word for option in options for word in ("-o", option))],
            env={**os.environ, **self.environment()}, stderr=subprocess.DEVNULL))
        wait_for(lambda: subprocess.run(
            [*self.hosts.enter(index), "bash", "-c", f": < /dev/tcp/127.0.0.1/{self.PORT}"],
            stderr=subprocess.DEVNULL, check=False).returncode == 0, "sshd of a pod")

    def write_hostfile(self, spread):
        """The host list, in the place of the ConfigMap's."""
        (self.folder / "etc/hosts/hostfile").write_text("".join(f"{name} slots={n}\n" for name, n in zip(self.hosts.NAMES, spread)))
        return self.CONFIG / "hosts/hostfile"

    def stop(self):
        """Ends the daemons, and takes everything away."""
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        for index in range(len(self.daemons)):
            for place in (self.CONFIG, self.RUN):
                subprocess.run([*self.hosts.enter(index), "umount", str(place)], check=True)
