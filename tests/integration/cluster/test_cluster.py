"""tests/cluster on this machine: starts, repeats, starts over a killed run, leaves nothing, says what is missing."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
STATE = pathlib.Path("/var/lib/horovod-cluster")


def run(*command, check=True, timeout=300):
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=timeout, check=False)
    assert not check or done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done


def kubectl(*arguments):
    return run(f"{STATE}/bin/kubectl", "--kubeconfig", f"{STATE}/kubeconfig", *arguments).stdout


def leftovers():
    """What a cluster could leave on this machine, a line each."""
    found = [f"mount {line}" for line in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
             if "horovod-cluster" in line or "kubelet" in line]
    found += [f"link {path.name}" for path in pathlib.Path("/sys/class/net").iterdir()
              if re.match(r"horovod|cni|kube|veth", path.name)]
    found += [f"cgroup {path}" for path in pathlib.Path("/sys/fs/cgroup").glob("**/horovod-cluster")]
    found += [f"route {line}" for line in run("ip", "route").stdout.splitlines() if "10.197." in line]
    if shutil.which("iptables-save"):
        found += [line for line in run("iptables-save", check=False).stdout.splitlines() if "KUBE-" in line]
    found += [f"file {path}" for path in (STATE, pathlib.Path("/var/lib/kubelet"), pathlib.Path("/etc/cni/net.d/10-node"))
              if path.exists()]
    for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "horovod-cluster" in command or "node-init" in command:
            found.append(f"process {command}")
    return found


@pytest.fixture(scope="module")
def before():
    """What was there before the first up; skips when somebody uses the cluster, which these tests would take down."""
    if run("tests/cluster/status", check=False).returncode == 0:
        pytest.skip("the local cluster is up; tests/cluster/down first, these tests start and stop it")
    run("tests/cluster/down")
    yield leftovers()
    run("tests/cluster/down")


def test_up_starts_every_component_and_a_second_up_only_looks(before):
    kubeconfig = run("tests/cluster/up").stdout
    assert kubeconfig == f"{STATE}/kubeconfig\n"
    node = (STATE / "node.pid").read_text(encoding="utf-8")
    again = run("tests/cluster/up")
    assert again.stdout == kubeconfig and "runs already" in again.stderr
    assert (STATE / "node.pid").read_text(encoding="utf-8") == node
    status = run("tests/cluster/status").stdout
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "containerd", "kubelet",
                 "kube-proxy", "coredns"):
        assert re.search(rf"^{name}\s+\d+\s+\d+\s+0$", status, re.M), status
    assert kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}") == "horovod-node"


def test_a_component_that_dies_is_started_again(before):
    run("tests/cluster/up")
    pid = int(re.search(r"^kube-scheduler\s+(\d+)", run("tests/cluster/status").stdout, re.M).group(1))
    os.kill(pid, signal.SIGKILL)
    run("tests/cluster/up")
    restarted = re.search(r"^kube-scheduler\s+(\d+)\s+\d+\s+(\d+)", run("tests/cluster/status").stdout, re.M)
    assert int(restarted.group(1)) != pid and restarted.group(2) == "1"


def test_up_starts_over_the_remains_of_a_killed_run(before):
    run("tests/cluster/up")
    kubectl("create", "namespace", "from-before")
    os.kill(int((STATE / "node.pid").read_text(encoding="utf-8").split()[0]), signal.SIGKILL)
    assert "remains of an earlier run" in run("tests/cluster/up").stderr
    assert "from-before" not in kubectl("get", "namespaces")


def test_down_leaves_no_process_mount_link_route_rule_or_file(before):
    run("tests/cluster/up")
    assert leftovers() != before
    run("tests/cluster/down")
    assert leftovers() == before
    assert run("tests/cluster/status", check=False).returncode == 3
    assert "nothing runs" in run("tests/cluster/down").stderr


def test_up_says_that_it_needs_root(before):
    done = run("unshare", "--user", "tests/cluster/up", check=False)  # nobody there, with our right to read the tree
    assert done.returncode != 0
    assert "must run as root" in done.stderr, done.stderr


def test_up_names_a_missing_program_and_its_package(before, tmp_path):
    for name in os.listdir("/usr/bin"):
        if name != "unshare":
            (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    for name in ("ip", "iptables"):
        if not (tmp_path / name).exists():
            (tmp_path / name).symlink_to(shutil.which(name))
    done = subprocess.run(["tests/cluster/up"], cwd=ROOT, text=True, capture_output=True, timeout=60, check=False,
                          env={**os.environ, "PATH": str(tmp_path)})
    assert done.returncode != 0
    assert re.search(r"missing: .*unshare.* apt-get install .*util-linux", done.stderr), done.stderr


def test_up_names_the_route_when_its_addresses_are_taken(before):
    taken = "ip link add t0 type veth peer name t1 && ip address add 10.197.3.1/24 dev t0 && ip link set t0 up"
    done = run("unshare", "--net", "sh", "-c", f"{taken} && exec tests/cluster/up", check=False)
    assert done.returncode != 0
    assert re.search(r"10\.197\.0\.0/16 are taken on this host: .*dev t0.*HOROVOD_CLUSTER_NET=", done.stderr), done.stderr


def test_an_api_server_alone_names_who_has_its_port(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("tests/cluster/apiserver", "up", str(tmp_path), "--port", str(port), check=False)
    assert done.returncode != 0
    assert re.search(rf"port {port} on 127\.0\.0\.1 is taken by .*pid=\d+", done.stderr), done.stderr
    assert list(tmp_path.iterdir()) == []
