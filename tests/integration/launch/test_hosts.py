"""horovodrun over two emulated hosts, each with its name, network and sshd."""

import os
import re
import subprocess
import uuid

import pytest

import limits
import openmpi
import processes
from conftest import BUILD, HOROVODRUN, own_processes_with, processes_with, wait_for

BOTH = ["-H", "hvd-east:1,hvd-west:1", "-p", 2222]


def reach(hosts):
    return [*BOTH, "-i", hosts.key]


def test_ranks_run_on_both_hosts(run, hosts):
    result = run("-np", 2, *reach(hosts), "hostname", before=hosts.enter(0))
    assert result.code == 0, result
    assert sorted(result.out.splitlines()) == ["[0]<stdout>:hvd-east", "[1]<stdout>:hvd-west"]


@pytest.mark.parametrize("here", ["hvd-east", "localhost", "10.77.0.1"])
def test_ranks_follow_the_list_wherever_it_is_started(run, hosts, here):
    result = run("-np", 4, "-H", f"hvd-west:2,{here}:2", "-p", 2222, "-i", hosts.key, "--no-prefix-output",
                 "sh", "-c", 'echo "$OMPI_COMM_WORLD_RANK $(hostname)"', before=hosts.enter(0))
    assert result.code == 0, result
    assert sorted(result.out.splitlines()) == ["0 hvd-west", "1 hvd-west", "2 hvd-east", "3 hvd-east"], result


def test_a_hostfile_and_the_environment_reach_the_other_host(run, hosts, tmp_path):
    (tmp_path / "hostfile").write_text("hvd-west slots=2\n")
    result = run("--hostfile", tmp_path / "hostfile", "-p", 2222, "-i", hosts.key,
                 "--no-prefix-output", "sh", "-c", 'echo "$(hostname) $ODD"',
                 before=hosts.enter(0), env={"ODD": "a;b c"})
    assert (result.code, result.out) == (0, "hvd-west a;b c\n" * 2), result


def test_a_training_over_two_hosts_reduces_between_them(run, hosts):
    digits = BUILD / "examples" / "digits"
    one = run("-np", 1, digits, "--epochs", 3)
    two = run("-np", 2, *reach(hosts), digits, "--epochs", 3, before=hosts.enter(0))
    assert one.code == 0 and two.code == 0, two
    losses = [[float(loss) for loss in re.findall(r"loss (\S+)", result.out)]
              for result in (one, two)]
    assert len(losses[0]) == len(losses[1]) == 3, two
    assert max(abs(a - b) for a, b in zip(*losses)) < 1e-4, two


def test_values_of_the_environment_stand_on_no_command_line(hosts):
    mark = f"mark-{uuid.uuid4()}"
    with subprocess.Popen(
            [*hosts.enter(0), str(HOROVODRUN), "-np", "2", *map(str, reach(hosts)), "sh", "-c",
             "echo up; exec sleep 600"], env={**os.environ, "MY_SECRET": mark},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert {process.stdout.readline() for _ in range(2)} == {"[0]<stdout>:up\n",
                                                                "[1]<stdout>:up\n"}
        assert processes_with(mark) == []
        process.terminate()


def test_a_rank_that_fails_on_the_other_host_is_named_with_it(run, hosts):
    result = run("-np", 2, *reach(hosts), "sh", "-c",
                 '[ "$(hostname)" = hvd-west ] && kill -9 $$; exec sleep 60',
                 before=hosts.enter(0))
    assert result.code == 137, result
    assert result.last == "horovodrun: rank 1 on host hvd-west was killed by signal 9 (Killed)"


def test_a_signal_leaves_no_process_on_either_host(hosts):
    mark = f"mark-{uuid.uuid4()}"
    with subprocess.Popen(
            [*hosts.enter(0), str(HOROVODRUN), "-np", "2", *map(str, reach(hosts)), "sh", "-c",
             "echo up; sleep 600; :", mark], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True) as process:
        for _ in range(2):
            process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=30) == 143
    wait_for(lambda: not processes_with(mark), "no process is left")


@pytest.mark.parametrize("is_own", [True, False])
def test_looks_for_left_processes_see_those_of_this_run_of_the_tests_on_every_host(hosts, script, is_own):
    """Two copies of these tests can run at once: no other test could tell that such a look sees nothing at all."""
    program = script("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    env = os.environ if is_own else {**os.environ, processes.VARIABLE: "another run"}
    with subprocess.Popen([*hosts.enter(0), str(HOROVODRUN), "-np", "2", *map(str, reach(hosts)), str(program)], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        for _ in range(2):
            process.stdout.readline()
        ours = {os.stat(f"/proc/{pid}/ns/uts").st_ino for pid in own_processes_with(f"python3\0{program}")}
        process.terminate()
    assert len(ours) == (2 if is_own else 0), ours
    wait_for(lambda: not processes_with(str(program)), "no process is left")


def test_a_host_that_does_not_listen_is_named_with_sshs_words(run, hosts):
    result = run("-np", 2, "-H", "hvd-east:1,hvd-west:1", "-p", 2299, "-i", hosts.key, "true",
                 before=hosts.enter(0))
    assert result.code == 1, result
    assert "host hvd-west cannot be reached by ssh" in result.last, result
    assert "Connection refused" in result.last, result


def test_a_host_that_never_answers_is_named_within_the_start_timeout(run, hosts):
    result = run("-np", 2, "-H", "hvd-east:1,hvd-nowhere:1", "-p", 2222, "-i", hosts.key,
                 "--start-timeout", 2, "true", before=hosts.enter(0))
    assert result.code == 1 and result.seconds < limits.seconds(10), result
    assert "host hvd-nowhere cannot be reached by ssh" in result.last, result


def test_a_wrong_key_is_refused_at_once(run, hosts, tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"],
                   check=True)
    result = run("-np", 2, *BOTH, "-i", tmp_path / "other", "true", before=hosts.enter(0))
    assert result.code == 1 and result.seconds < limits.seconds(5), result
    assert "host hvd-west" in result.last and "Permission denied" in result.last, result


def test_how_strict_the_user_is_with_host_keys_decides(run, hosts):
    config = hosts.folder / "ssh_config"
    before = config.read_text()
    try:
        config.write_text(f"Host hvd-west\nStrictHostKeyChecking yes\nUserKnownHostsFile {hosts.folder}/none\n")
        result = run("-np", 2, *BOTH, "-i", hosts.key, "true", before=hosts.enter(0))
        assert result.code == 1 and "hvd-west" in result.last, result
        assert "Host key verification failed" in result.last or "No ED25519 host key is known" in result.last, result
        config.write_text(f"StrictHostKeyChecking no\nUserKnownHostsFile {hosts.folder}/none\n")
        result = run("-np", 2, *BOTH, "-i", hosts.key, "true", before=hosts.enter(0))
        assert result.code == 0, result
    finally:
        config.write_text(before)


def with_mpirun(hosts, folder, text):
    """The sshd of hvd-west anew, with an mpirun of that text first in its PATH."""
    fake = folder / "mpirun"
    fake.write_text(text)
    fake.chmod(0o755)
    hosts.stop_sshd(hosts.daemons[-1])
    return hosts.start_sshd(1, f"{folder}:{os.environ['PATH']}")


def test_a_host_with_another_major_version_of_open_mpi_is_named(run, hosts, tmp_path):
    here, there = openmpi.major(), 9 - openmpi.major()
    daemon = with_mpirun(hosts, tmp_path, f"#!/bin/sh\necho 'mpirun (Open MPI) {there}.0.3'\n")
    try:
        result = run("-np", 2, *reach(hosts), "true", before=hosts.enter(0))
    finally:
        hosts.stop_sshd(daemon)
        hosts.start_sshd(1)
    assert result.code == 1, result
    assert f"hvd-west has Open MPI {there}, but the others have Open MPI {here}" in result.last, result


def test_a_host_without_open_mpi_is_named(run, hosts, tmp_path):
    daemon = with_mpirun(hosts, tmp_path, "#!/bin/sh\necho 'no such thing'; exit 1\n")
    try:
        result = run("-np", 2, *reach(hosts), "true", before=hosts.enter(0))
    finally:
        hosts.stop_sshd(daemon)
        hosts.start_sshd(1)
    assert result.code == 1 and "host hvd-west has no Open MPI" in result.last, result


def test_the_checks_show_what_they_found_when_asked(run, hosts):
    result = run("-np", 2, *reach(hosts), "--verbose", "true", before=hosts.enter(0))
    assert result.code == 0, result
    assert f"host hvd-west: Open MPI {openmpi.major()}, horovodrun 0." in result.err, result
