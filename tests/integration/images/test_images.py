"""The images: what is in them, and that their programs run confined as a restricted pod confines them."""
import os
import re
import stat
import subprocess

from conftest import TOP

VERSION = (TOP / "VERSION").read_text().strip()
MEGABYTE = 1000 * 1000

# The worker's default command in a pod, with a key of this test's own in the place of the mounted Secret; then a login
# over it, and two ranks started inside of it.
SSHD = r"""
set -e
mkdir /tmp/key
ssh-keygen -q -t ecdsa -N '' -C '' -f /tmp/key/id
/usr/sbin/sshd -De -f /dev/null -p 2222 -h /tmp/key/id -o AuthorizedKeysFile=/tmp/key/id.pub -o StrictModes=no \
  -o UsePAM=no -o PidFile=none -o PasswordAuthentication=no &
sshd=$!
for attempt in $(seq 100); do
  ! (echo > /dev/tcp/127.0.0.1/2222) 2>/dev/null || break
  sleep 0.1
done
printf '[127.0.0.1]:2222 %s\n' "$(cat /tmp/key/id.pub)" > /tmp/key/known_hosts
ssh -F none -p 2222 -i "${client:-/tmp/key/id}" -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/tmp/key/known_hosts 127.0.0.1 "$@"
kill $sshd
"""


def files_with(image, *bits):
    """Paths of regular files in the image whose mode has one of the bits."""
    found = []
    for folder, _, names in os.walk(image.root):
        for name in names:
            mode = os.lstat(os.path.join(folder, name)).st_mode
            if stat.S_ISREG(mode) and any(mode & bit for bit in bits):
                found.append("/" + os.path.relpath(os.path.join(folder, name), image.root))
    return found


def test_images_are_tagged_with_the_projects_version(operator_image, worker_image):
    assert operator_image.tags == [f"localhost/horovod-operator:{VERSION}"]
    assert worker_image.tags == [f"localhost/horovod-worker:{VERSION}"]


def test_building_again_does_nothing(built):
    archives = [built / "horovod-operator.tar", built / "horovod-worker.tar"]
    before = [a.stat().st_mtime_ns for a in archives]
    done = subprocess.run([TOP / "images" / "build", "all"], check=True, capture_output=True, text=True)
    assert [a.stat().st_mtime_ns for a in archives] == before
    assert (done.stdout + done.stderr).count("up to date") == 2


def test_users_are_numbers_other_than_root_so_that_kubernetes_can_tell(operator_image, worker_image):
    for image in (operator_image, worker_image):
        assert re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", image.config["User"])


def test_the_operators_image_is_at_most_40_mb_compressed(operator_image):
    assert operator_image.compressed_bytes() <= 40 * MEGABYTE


def test_the_workers_image_is_at_most_100_mb_compressed(worker_image):
    assert worker_image.compressed_bytes() <= 100 * MEGABYTE


def test_the_operators_image_has_no_shell_and_nothing_that_runs_but_the_operator(operator_image):
    executables = [path for path in files_with(operator_image, 0o111) if not re.search(r"\.so(\.|$)", path)]
    assert executables == ["/usr/local/bin/horovod-operator"]
    assert files_with(operator_image, stat.S_ISUID, stat.S_ISGID) == []


def test_the_operators_image_trusts_public_certificate_authorities(operator_image):
    bundle = operator_image.root / "etc/ssl/certs/ca-certificates.crt"
    assert bundle.read_text().count("BEGIN CERTIFICATE") > 50


def test_the_operator_runs_under_a_read_only_root_without_tmp(operator):
    done = operator.run(operator.image.config["Entrypoint"] + ["--version"], tmpfs=())
    assert done.returncode == 0, done.stderr
    assert VERSION in done.stdout


def test_no_layer_of_the_worker_image_holds_a_host_key(worker_image):
    assert not list((worker_image.root / "etc/ssh").glob("ssh_host_*"))


def test_the_worker_image_has_runtime_header_launcher_and_example(worker_image):
    for path in ("lib/libhorovod.so", "include/horovod/horovod.h", "bin/horovodrun", "bin/digits"):
        assert (worker_image.root / "usr/local" / path).exists(), path


def test_two_ranks_train_in_the_worker_image_by_itself(worker):
    done = worker.run(["horovodrun", "-np", "2", "digits"], timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "accuracy" in done.stdout + done.stderr


def test_sshd_serves_the_image_user_under_a_read_only_root_and_starts_ranks(worker):
    done = worker.run(["bash", "-c", SSHD, "sshd", "horovodrun -np 2 digits"], timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "accuracy" in done.stdout + done.stderr


def test_sshd_refuses_a_key_that_is_not_the_jobs(worker):
    script = "ssh-keygen -q -t ecdsa -N '' -f /tmp/other\n" + SSHD
    done = worker.run(["bash", "-c", script, "sshd", "true"], env={"client": "/tmp/other"})
    assert done.returncode == 255
    assert "Permission denied (publickey" in done.stderr
