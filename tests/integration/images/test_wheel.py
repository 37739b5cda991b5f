"""A user's own Python program in the plain worker image, without a network: a wheel that the user brings is installed."""
import subprocess

from conftest import TOP

PROGRAM = "import array, horovod.numpy as hvd; hvd.init(); " \
          "print(hvd.rank(), hvd.size(), hvd.allreduce(array.array('d', [hvd.rank() + 1.0]), op=hvd.Sum)[0])"
INSTALL = f"""
set -e
python3 -m venv /tmp/venv
/tmp/venv/bin/pip install --quiet --no-cache-dir --no-index --find-links /wheels horovod
/tmp/venv/bin/horovodrun -np 2 /tmp/venv/bin/python -c "{PROGRAM}"
"""


def test_the_wheel_is_installed_in_the_worker_image_and_runs_two_ranks(worker, tmp_path):
    wheels = tmp_path / "wheels"
    subprocess.run(["/usr/bin/python3", "-m", "pip", "wheel", "--quiet", "--wheel-dir", wheels, TOP / "worker" / "python"],
                   check=True, timeout=600)
    done = worker.run(["sh", "-c", INSTALL], mounts={wheels: "/wheels"}, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(line.partition(">:")[2] for line in done.stdout.splitlines()) == ["0 2 3.0", "1 2 3.0"], done.stdout
