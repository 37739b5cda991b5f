"""horovod.run() over two emulated hosts, each with its name, network and sshd."""
import subprocess
import sys

import pytest
from ranks import PYTHON, ROOT, environment

sys.path.insert(0, str(ROOT / "tests" / "support"))

from emulated_hosts import emulated_hosts  # noqa: E402

PROGRAM = """
import os
import sys
import horovod

def work(start):
    import numpy as np
    import horovod.numpy as hvd
    hvd.init()
    return os.uname().nodename, hvd.rank(), hvd.cross_size(), float(hvd.allreduce(np.full(1, start), op=hvd.Sum)[0])

def fail():
    import horovod.numpy as hvd
    hvd.init()
    if hvd.rank() == 1:
        raise KeyError(os.uname().nodename + " is unhappy")
    hvd.barrier()

where = {"ssh_port": 2222, "ssh_identity_file": sys.argv[1], "num_proc": 2}
print(horovod.run(work, (20,), hosts="hvd-east:1,hvd-west:1", **where))
with open("hostfile", "w") as file:
    file.write("hvd-east slots=1\\nhvd-west slots=1\\n")
try:
    horovod.run(fail, hostfile="hostfile", **where)
except RuntimeError as error:
    print("rank 1 failed" in str(error), "hvd-west is unhappy" in str(error))
print(sorted(os.listdir()))
"""


@pytest.fixture(scope="module", name="hosts")
def fixture_hosts(tmp_path_factory):
    """Two hosts, both up."""
    with emulated_hosts(tmp_path_factory.mktemp("hosts")) as both:
        yield both


def call(hosts, folder, before=()):
    """The program on the first host, in a folder."""
    return subprocess.run([*hosts.enter(0), "sh", "-c", 'cd "$0" && exec "$@"', str(folder), *before, PYTHON, "-c", PROGRAM,
                           str(hosts.key)], env=environment(), capture_output=True, text=True, timeout=120, check=False)


def test_run_calls_a_function_on_hosts_that_share_the_directory(hosts, tmp_path):
    done = call(hosts, tmp_path)
    assert done.stdout.splitlines() == ["[('hvd-east', 0, 2, 40.0), ('hvd-west', 1, 2, 40.0)]", "True True",
                                        "['hostfile']"], done.stdout + done.stderr


def test_run_says_that_hosts_do_not_share_the_directory(hosts, tmp_path):
    """On the first host another folder is mounted there, which the second does not see."""
    done = call(hosts, tmp_path, ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs "$0" && cd "$0" && exec "$@"',
                                  str(tmp_path)])
    assert done.returncode == 1, done.stdout
    assert "is not there on hvd-west: call it in a directory that all hosts share" in done.stderr, done.stderr
