"""What the command that the operator gives to workers does under a real sshd: every session has the environment of the
container, as root and as a user with a read-only root file system."""
import base64
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import pytest

from kubeapi import until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from emulated_hosts import DIE_WITH_ME, emulated_hosts  # noqa: E402  (the path is set above)

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("sshd", path="/usr/sbin:/usr/bin"), reason="namespaces need root, and sshd")

PATH = "/opt/of the/image/bin:/usr/local/bin:/usr/bin:/bin"
NASTY = {
    "PATH": PATH, "LD_LIBRARY_PATH": "/opt/of the/image/lib", "HOME": "/tmp", "EMPTY": "", "shell": "x", "command": "y",
    "QUOTES": """it's "so" `id` $(id) ${HOME} \\ \\n #; & | > /tmp/x""", "LINES": "one\nexport EVIL='2'\n three ",
    "UMLAUT": "grüße", "LONG": "x" * 100000,
}


class Container:
    """A worker's container, of a kind: mounts of its own, the kubelet's variables, perhaps a user and a read-only root."""

    def __init__(self, ns, folder, uid=1000, shell="/bin/dash"):
        self.ns, self.folder, self.uid, self.shell = ns, folder, uid, shell
        self.holder = self.daemon = None
        self.template = until("the set", lambda: ns.get("statefulsets", "digits-worker"))["spec"]["template"]["spec"]

    def start(self):
        secret, hosts = self.ns.get("secrets", "digits-ssh"), self.ns.get("configmaps", "digits-hosts")
        for directory, data in (("ssh", {k: base64.b64decode(v).decode() for k, v in secret["data"].items()}),
                                ("hosts", hosts["data"])):
            (self.folder / directory).mkdir()
            for name, text in data.items():
                (self.folder / directory / name).write_text(text)
                os.chown(self.folder / directory / name, 0, self.uid)
                (self.folder / directory / name).chmod(0o440 if self.uid else 0o400)
        (self.folder / "passwd").write_text("root:x:0:0::/root:/bin/sh\nworker:x:1000:1000::/tmp:/bin/sh\n")
        script = """
            mount --bind "$1" /bin/sh; mount -t tmpfs none /mnt
            cp -a /etc /mnt/etc; cp "$0/passwd" /mnt/etc/passwd
            cp -a "$0/ssh" "$0/hosts" /mnt; mkdir -p /mnt/etc/horovod/ssh /mnt/etc/horovod/hosts
            mount --bind /mnt/etc /etc
            mount --bind /mnt/ssh /etc/horovod/ssh; mount --bind /mnt/hosts /etc/horovod/hosts
            mount -t tmpfs -o mode=755 none /run; mkdir /run/sshd /run/horovod
            mount -t tmpfs -o mode=1777 none /run/horovod; mount -t tmpfs -o mode=1777 none /tmp
            mount -o remount,ro,bind /run; mount -o remount,ro,bind /etc; mount -o remount,ro,bind /
            echo ready; exec sleep 3600"""
        self.holder = subprocess.Popen([*DIE_WITH_ME, "unshare", "--mount", "--propagation", "private", "sh", "-ec",
                                        script, str(self.folder), self.shell], stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"ready\n"

    def enter(self):
        user = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", "--no-new-privs",
                "--inh-caps=-all", "--bounding-set=-all"] if self.uid else []
        return ["nsenter", "--target", str(self.holder.pid), "--mount", *user]

    def run(self, command, check=True, **options):
        return subprocess.run([*self.enter(), *command], check=check, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=30, **options)

    def start_sshd(self, environment):
        command = self.template["containers"][0]["command"]
        port = int(command[command.index("-p") + 1])
        self.daemon = subprocess.Popen([*DIE_WITH_ME, *self.enter(), *command], env=environment,
                                       stderr=(self.folder.parent / "sshd.log").open("w"))

        def is_up():
            assert self.daemon.poll() is None, (self.folder.parent / "sshd.log").read_text()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0
        until("sshd listens", is_up)

    def ssh(self, *words, check=True, **options):
        return self.run(["ssh", "-F", "/etc/horovod/hosts/ssh_config", "127.0.0.1", *words], check=check,
                        env={"PATH": os.environ["PATH"], "HOME": "/tmp"}, **options)

    def stop(self):
        for process in (self.daemon, self.holder):
            if process:
                process.kill()
                process.wait()


@pytest.fixture
def container(ns, operator, tmp_path, request):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # By address, so that the check of the host's key is that of a list of addresses.
    ns.apply_job(replicas=1, ssh={"port": port}, network={"hostNames": "IP"})
    until("the list", lambda: ns.get("configmaps", "digits-hosts") and ns.get("secrets", "digits-ssh"))
    (tmp_path / "container").mkdir()
    tmp_path.chmod(0o755)
    container = Container(ns, tmp_path / "container", shell=getattr(request, "param", "/bin/dash"))
    container.start()
    yield container
    container.stop()


def environment_of(output):
    return dict(entry.split("=", 1) for entry in output.decode().split("\0") if entry)


@pytest.mark.parametrize("container", ["/bin/dash", "/bin/bash"], indirect=True)
def test_a_session_has_the_containers_environment(container):
    container.start_sshd(NASTY)
    seen = environment_of(container.ssh("env", "-0").stdout)
    assert {name: seen.get(name) for name in NASTY} == NASTY
    assert "EVIL" not in seen and "SSH_ORIGINAL_COMMAND" not in seen and seen["USER"] == "worker"


def test_a_session_runs_what_it_is_given_as_without_us(container):
    container.start_sshd({"PATH": os.environ["PATH"], "A": "value"})
    assert container.ssh("echo \"$A\" 'a  b' \"it's\"; exit 3", check=False).returncode == 3
    assert container.ssh("echo \"$A\" 'a  b' \"it's\"").stdout == b"value a  b it's\n"
    assert container.ssh("cat", input=bytes(range(256))).stdout == bytes(range(256))
    assert container.ssh(input=b"echo $A; exit 4\n", check=False).stdout.endswith(b"value\n")
    assert container.ssh("umask").stdout.strip() == container.run(["sh", "-c", "umask"]).stdout.strip()


def test_no_value_is_in_a_command_line_or_in_reach_of_others(container):
    container.start_sshd({"PATH": os.environ["PATH"], "TOKEN": "v3ry-s3cret"})
    container.ssh("true")
    lines = [path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert lines and not any(b"v3ry-s3cret" in line for line in lines)
    mode = container.run(["stat", "-c", "%a %u", "/run/horovod/environment"]).stdout.decode().split()
    assert mode == ["600", "1000"]


def test_mpirun_reaches_ranks_that_have_it(ns, operator, tmp_path):
    """Open MPI's daemon starts through such a session; hosts are named as users name theirs."""
    ns.apply_job(replicas=1, env=[{"name": "OF_THE_TEMPLATE", "value": "a 'b' $c"}])
    container = Container(ns, tmp_path, uid=0)
    command = container.template["containers"][0]["command"]
    template = {e["name"]: e["value"] for e in container.template["containers"][0]["env"]}
    with emulated_hosts(tmp_path) as both:
        changed = [{"/etc/horovod/ssh/id": str(both.key)}.get(word, word).replace(
            "/etc/horovod/ssh/id.pub", f"{both.key}.pub").replace("/run/horovod/", f"{tmp_path}/") for word in command]
        for daemon in list(both.daemons):
            both.stop_sshd(daemon)
        changed[changed.index("-p") + 1] = "2222"
        daemon = subprocess.Popen([*DIE_WITH_ME, *both.enter(1), *changed], env={
            "PATH": os.environ["PATH"] + ":/opt/image", "HOME": "/root", "OF_THE_IMAGE": "1", **template})
        both.daemons.append(daemon)
        ssh = f"-i {both.key} -p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        done = subprocess.run(
            [*both.enter(0), "mpirun", "--allow-run-as-root", "-np", "1", "--host", "hvd-west", "--mca", "plm_rsh_args", ssh,
             "env", "-0"], check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr.decode()
    seen = environment_of(done.stdout)
    assert seen["OF_THE_TEMPLATE"] == "a 'b' $c" and seen["OF_THE_IMAGE"] == "1"
    assert "/opt/image" in seen["PATH"].split(":")
