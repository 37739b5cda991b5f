"""What Open MPI keeps in folders for temporary files is gone when the job is, however it has ended, on every host."""

import contextlib
import fcntl
import os
import pathlib
import signal
import subprocess

import pytest

import openmpi
from conftest import BUILD, HOROVODRUN, own_processes_with, processes_with, wait_for

DAEMON = "prted" if openmpi.major() == 5 else "orted"
MINE = f"horovodrun-{os.geteuid()}-"


class Job:
    """Two ranks that do not end by themselves, or end well, and the folders for temporary files on their hosts."""

    def __init__(self, tmp_path, hosts=None, ends=False):
        self.hosts = hosts
        self.here = tmp_path / "tmp"
        self.here.mkdir()
        self.folders = [self.here] + ([hosts.temporary(1)] if hosts else [])
        words = ["-H", "hvd-east:1,hvd-west:1", "-p", "2222", "-i", str(hosts.key)] if hosts else []
        before = hosts.enter(0) if hosts else []
        self.mark = f"mark-{tmp_path}"
        program = ["sh", "-c", "echo up; " + ("exit 0" if ends else "sleep 600; :"), self.mark]
        self.process = subprocess.Popen([*before, str(HOROVODRUN), "-np", "2", *words, *program], text=True,
                                        env={**os.environ, "TMPDIR": str(self.here)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2):
            line = self.process.stdout.readline()
            assert line.endswith("up\n"), line
        if not ends:
            assert all(self.left()), [list(folder.iterdir()) for folder in self.folders]

    def left(self):
        """What is in each of the folders."""
        return [sorted(path.name for path in folder.iterdir()) for folder in self.folders]

    def kill(self, *names):
        """Kills what has one of these names among the processes of the job, without warning."""
        def look():
            found = {pid: self.name(pid) for pid in
                     processes_with(self.mark) + own_processes_with(str(self.here)) + self.daemons()}
            return set(names) <= set(found.values()) and [pid for pid, name in found.items() if name in names]
        for pid in wait_for(look, f"{names} are there"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def daemons(self):
        """Daemons on the other host."""
        space = os.stat(f"/proc/{self.hosts.holders[1].pid}/ns/uts").st_ino if self.hosts else None
        return [pid for pid in own_processes_with(DAEMON) if os.stat(f"/proc/{pid}/ns/uts").st_ino == space]

    @staticmethod
    def name(pid):
        """What a process is, by its own words."""
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        except OSError:
            return None
        if words[1:2] == ["--session-keep"]:
            return "keeper"
        name = words[0].rsplit("/", 1)[-1]
        return "mpirun" if name == "prterun" else name if words[1:2] != ["--rank-exec"] else "wrapper"

    def wait(self):
        """The end of horovodrun, and of all that it has started."""
        self.process.communicate(timeout=60)
        wait_for(lambda: not processes_with(self.mark), "no process is left")


ENDS = {"kill": ["horovodrun"], "mpirun": ["mpirun"], "both": ["horovodrun", "mpirun"], "rank": ["sh"]}


@pytest.mark.parametrize("way", ["one host", "two hosts"])
@pytest.mark.parametrize("end", ["well", "signal", *ENDS])
def test_nothing_is_left_in_folders_for_temporary_files(tmp_path, hosts, way, end):
    job = Job(tmp_path, hosts if way == "two hosts" else None, ends=end == "well")
    if end in ENDS:
        job.kill(*ENDS[end])
    elif end == "signal":
        job.process.terminate()
    job.wait()
    wait_for(lambda: not any(job.left()), f"nothing is left of {job.left()}")
    wait_for(lambda: not own_processes_with("--session-keep"), "no keeper is left")


def test_nothing_is_left_on_another_host_whose_daemon_was_killed(tmp_path, hosts):
    job = Job(tmp_path, hosts)
    job.kill(DAEMON)
    job.wait()
    wait_for(lambda: not any(job.left()), f"nothing is left of {job.left()}")


def test_the_next_job_removes_what_is_left_where_the_keeper_was_killed_too(tmp_path, run):
    job = Job(tmp_path)
    job.kill("keeper")
    job.kill("horovodrun", "mpirun")
    job.wait()
    assert len(job.left()[0]) == 1, job.left()
    assert run("-np", 1, "true", env={"TMPDIR": str(job.here)}).code == 0
    assert job.left() == [[]]


def test_folders_that_are_no_jobs_or_are_in_use_or_anothers_stay(tmp_path, run):
    aside = tmp_path / "aside"
    aside.mkdir()
    (aside / "file").touch()
    folder = tmp_path / "tmp"
    for name in ("another", "ompi.1", f"{MINE}inuse0", f"{MINE}foreig", f"{MINE}toolong", f"{MINE}left00/below"):
        (folder / name).mkdir(parents=True)
    (folder / f"{MINE}linked").symlink_to(aside)
    (folder / f"{MINE}left00" / "link").symlink_to(aside)
    (folder / f"{MINE}afile0").touch()
    stays = {path.name for path in folder.iterdir()} - {f"{MINE}left00"}
    if os.geteuid() == 0:
        os.chown(folder / f"{MINE}foreig", 12345, -1)
    else:
        (folder / f"{MINE}foreig").rmdir()
        stays -= {f"{MINE}foreig"}
    lock = os.open(folder / f"{MINE}inuse0", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    try:
        assert run("-np", 1, "true", env={"TMPDIR": str(folder)}).code == 0
    finally:
        os.close(lock)
    assert {path.name for path in folder.iterdir()} == stays
    assert (aside / "file").exists()


@pytest.mark.parametrize("is_users", [False, True])
def test_programs_of_mpi_run_in_such_a_folder(tmp_path, run, hosts, is_users):
    name = "PRTE_MCA_prte_tmpdir_base" if openmpi.major() == 5 else "OMPI_MCA_orte_tmpdir_base"
    result = run("-np", 2, "-H", "hvd-east:1,hvd-west:1", "-p", 2222, "-i", hosts.key, BUILD / "examples" / "digits", "--epochs", 1,
                 before=hosts.enter(0), env={name: str(tmp_path)} if is_users else {"TMPDIR": str(tmp_path)})
    assert result.code == 0, result
    wait_for(lambda: not list(tmp_path.iterdir()) + list(hosts.temporary(1).iterdir()), "nothing is left")


def test_a_folder_that_cannot_be_written_does_no_harm(tmp_path, run):
    result = run("-np", 1, "true", env={"TMPDIR": str(tmp_path / "nonexistent")})
    assert (result.code, result.err) == (0, ""), result


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_root_that_is_read_only_has_its_folder_where_tmpdir_says(tmp_path, run):
    read_only = ["unshare", "--mount", "--propagation", "private", "sh", "-ec",
                 'mount -t tmpfs none "$0"; mount -o remount,ro,bind /; "$@"; ls -A "$0"', str(tmp_path)]
    result = run("-np", 1, "--no-prefix-output", "sh", "-c", "echo $PMIX_SERVER_TMPDIR", before=read_only, env={"TMPDIR": str(tmp_path)})
    assert result.code == 0 and len(result.out.splitlines()) == 1, result
    assert result.out.startswith(f"{tmp_path}/{MINE}"), result


def test_the_place_that_the_user_has_given_mpirun_is_used(tmp_path, run):
    name = "PRTE_MCA_prte_tmpdir_base" if openmpi.major() == 5 else "OMPI_MCA_orte_tmpdir_base"
    result = run("-np", 1, "--no-prefix-output", "sh", "-c", f"ls {tmp_path}; echo $PMIX_SERVER_TMPDIR", env={name: str(tmp_path)})
    assert result.code == 0 and result.out.splitlines()[1].startswith(f"{tmp_path}/{MINE}"), result
    assert not list(tmp_path.iterdir())
