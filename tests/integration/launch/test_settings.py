"""What horovodrun is told besides the program: a configuration file, files for output, Slurm, --check-build."""

import html
import html.parser
import os
import re
import shutil
import subprocess
import sys

import pytest

import openmpi
import ways
from conftest import BUILD, HOROVODRUN

SHOW = 'echo "$HOROVOD_CYCLE_TIME $HOROVOD_AUTOTUNE"'


def config(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return path


def test_a_configuration_file_is_overridden_by_what_comes_behind_it(run, tmp_path):
    path = config(tmp_path, "params:\n  cycle_time_ms: 2\nautotune:\n  enabled: true\n")
    result = run("-np", 1, "--no-prefix-output", "--no-autotune", "--config-file", path, "--cycle-time-ms", 3, "sh", "-c", SHOW)
    assert (result.code, result.out) == (0, "3 1\n"), result


def test_a_configuration_file_that_is_wrong_is_named_with_the_line(run, tmp_path):
    path = config(tmp_path, "params:\n  cycle_tim_ms: 2\n")
    result = run("-np", 1, "--config-file", path, "true")
    assert result.code == 2 and result.last == f'horovodrun: configuration file {path}: line 2: params has no key "cycle_tim_ms"'
    missing = run("-np", 1, "--config-file", tmp_path / "none", "true")
    assert missing.code == 2 and f"configuration file {tmp_path}/none: cannot read" in missing.last, missing


def test_output_goes_into_a_file_for_each_rank_and_stream_as_well(run, tmp_path):
    result = run("-np", 11, "--output-filename", "logs/a", "sh", "-c", "echo out; printf 'an end' >&2", cwd=tmp_path)
    assert result.code == 0 and result.out.count("<stdout>:out") == 11, result
    files = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("std*")}
    ranks = [f"{rank:02}" for rank in range(11)]
    assert files == {**{f"logs/a/rank.{rank}/stdout": "out\n" for rank in ranks},
                     **{f"logs/a/rank.{rank}/stderr": "an end" for rank in ranks}}


def test_lines_in_files_carry_the_time_when_asked_and_the_console_may_be_plain(run, tmp_path):
    result = run("-np", 1, "--prefix-output-with-timestamp", "--output-filename", tmp_path, "echo", "x")
    assert re.fullmatch(r"\S+Z x\n", (tmp_path / "rank.0" / "stdout").read_text()), result
    plain = run("-np", 1, "--no-prefix-output", "--output-filename", tmp_path, "echo", "x")
    assert plain.out == (tmp_path / "rank.0" / "stdout").read_text() == "x\n", plain


def test_a_folder_that_cannot_be_made_is_named(run, tmp_path):
    (tmp_path / "file").touch()
    result = run("-np", 1, "--output-filename", tmp_path / "file", "true")
    assert result.code == 126 and f"cannot make the folder {tmp_path}/file/rank.0" in result.err, result


def test_check_build_shows_what_there_is_and_a_framework_with_its_package(run, tmp_path):
    for name in ("torch", "horovod/torch", "tensorflow", "horovod/tensorflow"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "horovod" / "__init__.py").touch()
    result = run("--check-build", env={"PYTHONPATH": str(tmp_path)})
    assert result.code == 0 and result.out.startswith("Horovod v0."), result
    assert re.findall(r"\[X\] (\w+)", result.out) == ["TensorFlow", "PyTorch", "MPI", "MPI"], result
    assert "[X] PyTorch" not in run("-cb", env={"PYTHONPATH": "", "PATH": "/nowhere"}).out
    (tmp_path / "nvidia" / "nccl" / "lib").mkdir(parents=True)
    (tmp_path / "nvidia" / "nccl" / "lib" / "libnccl.so.2").touch()  # as in PyTorch's wheels, which no loader finds
    assert "[X] NCCL" in run("--check-build", env={"PYTHONPATH": str(tmp_path)}).out


def test_check_build_asks_the_python_of_an_environment_that_is_not_activated(run, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    packages, = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    for name in ("torch", "horovod/torch"):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").touch()
    (packages / "horovod" / "__init__.py").touch()
    shutil.copy2(HOROVODRUN, tmp_path / "env" / "bin" / "horovodrun")
    done = subprocess.run([tmp_path / "env" / "bin" / "horovodrun", "--check-build"], cwd="/", check=True, text=True,
                          stdout=subprocess.PIPE, env={"PATH": "/usr/bin:/bin"})
    assert re.findall(r"\[X\] (\w+)", done.stdout) == ["PyTorch", "MPI", "MPI"], done.stdout
    assert "[X] PyTorch" not in run("--check-build", env={"PYTHONPATH": "", "PATH": "/usr/bin:/bin"}).out


def test_arguments_for_mpirun_reach_it_as_words(run):
    result = run("-np", 1, "--verbose", "--mpi-args", "--mca btl_base_verbose '0'", "--binding-args", "--bind-to none", "--tcp",
                 "echo", "x")
    assert result.code == 0 and result.out == "[0]<stdout>:x\n", result
    command = next(line for line in result.err.splitlines() if "horovodrun: mpirun" in line)
    assert " --bind-to none --mca pml ob1 --mca btl self," in command and " --mca btl_base_verbose 0 " in command, command
    assert "--map-by" not in command


@pytest.mark.parametrize("arguments, says", [
    (["--gloo", "true"], "flag --gloo changes nothing: there is no Gloo in this library: Open MPI starts the ranks"),
    (["--jsrun", "true"], "flag --jsrun: jsrun is not supported"),
    (["--host-discovery-script", "./d", "true"], "flag --host-discovery-script: the ranks of a job"),
    (["--num-nccl-streams", "2", "true"], "flag --num-nccl-streams changes nothing"),
])
def test_a_flag_that_has_no_meaning_here_says_so(run, arguments, says):
    result = run("-np", 1, *arguments)
    assert says in result.err and result.code == (0 if "nothing" in says else 2), result


ALLOCATION = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "localhost", "SLURM_TASKS_PER_NODE": "2"}


def test_within_a_slurm_allocation_its_nodes_are_the_hosts(run):
    result = run("sh", "-c", "echo x", env=ALLOCATION)
    assert result.code == 0 and sorted(result.out.splitlines()) == ["[0]<stdout>:x", "[1]<stdout>:x"], result


def test_more_processes_than_slurm_gave_are_refused(run):
    result = run("-np", 3, "true", env=ALLOCATION)
    assert result.code == 1 and result.last == (
        "horovodrun: Slurm's allocation has 2 tasks and -np asks for 3 processes: ask Slurm for more (--ntasks)"), result


@pytest.mark.skipif(openmpi.major() == 5, reason="Open MPI 5 wants more of srun than this one has")
def test_slurm_reaches_the_nodes_that_ssh_is_not_asked_for(run, hosts, tmp_path):
    result = run("--verbose", "hostname", before=hosts.enter(0), env=ways.slurm(hosts, tmp_path, (1, 1)))
    assert result.code == 0, result
    assert sorted(result.out.splitlines()) == ["[0]<stdout>:hvd-east", "[1]<stdout>:hvd-west"], result
    assert "host hvd-west: Open MPI" in result.err and "plm_rsh" not in result.err, result


def test_a_node_that_srun_cannot_reach_is_named_with_sruns_words(run, hosts, tmp_path):
    fake = tmp_path / "srun"
    fake.write_text("#!/bin/sh\necho 'srun: error: Unable to create step' >&2\nexit 1\n")
    fake.chmod(0o755)
    result = run("hostname", before=hosts.enter(0), env={
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "hvd-west",
        "SLURM_TASKS_PER_NODE": "1"})
    assert result.code == 1 and "host hvd-west cannot be reached by srun: srun: error" in result.last, result


def test_a_program_that_another_host_does_not_have_is_named_with_it(run, hosts, tmp_path):
    # A folder of this host alone: both share the file system, so the other one gets an empty one over it.
    there = tmp_path / "bin"
    there.mkdir()
    (there / "only-here").write_text("#!/bin/sh\necho ran\n")
    (there / "only-here").chmod(0o755)
    subprocess.run([*hosts.enter(1), "mount", "-t", "tmpfs", "none", str(there)], check=True)
    reach = ["-np", 2, "-H", "hvd-east:1,hvd-west:1", "-p", 2222, "-i", hosts.key]
    try:
        by_path = run(*reach, there / "only-here", before=hosts.enter(0))
        by_name = run(*reach, "only-here", before=hosts.enter(0), env={"PATH": f"{os.environ['PATH']}:{there}"})
    finally:
        subprocess.run([*hosts.enter(1), "umount", str(there)], check=True)
    for result, name in ((by_path, there / "only-here"), (by_name, "only-here")):
        assert result.code == 127 and f'host hvd-west has no program "{name}"' in result.last, result
    assert run(*reach, there / "only-here", before=hosts.enter(0)).out.count("ran") == 2


def test_an_agent_that_the_environment_names_stands_for_ssh(run, hosts, tmp_path):
    result = run("-np", 2, "-H", "hvd-east:1,hvd-west:1", "hostname", before=hosts.enter(0), env=ways.agent(hosts, tmp_path))
    assert result.code == 0 and "[1]<stdout>:hvd-west" in result.out, result


def test_help_names_every_flag_of_horovod():
    text = subprocess.run([str(HOROVODRUN), "--help"], text=True, capture_output=True, check=True).stdout
    for flag in ("-np", "--num-proc", "-cb", "--check-build", "--disable-cache", "--start-timeout", "--network-interfaces",
                 "--network-interface", "--output-filename", "--verbose", "--config-file", "-p, --ssh-port",
                 "-i, --ssh-identity-file", "--mpi-args", "--tcp", "--binding-args", "-H, --hosts", "--hostfile", "--mpi"):
        assert flag in text, flag


def text_of(page):
    """What a page says, without its markup."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))


class Structure(html.parser.HTMLParser):
    """Fails at what is not closed where it was opened, and notes ids, classes and texts of the picture."""

    def __init__(self, page):
        super().__init__()
        self.open, self.classes, self.texts = [], [], []
        self.feed(page)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.classes += dict(attrs).get("class", "").split()
        if tag not in ("meta", "rect", "path", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.classes += dict(attrs).get("class", "").split()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.open, self.getpos())

    def handle_data(self, data):
        if self.open and self.open[-1] == "text":
            self.texts.append(data)


def assert_readable(page):
    """The picture of a step has lanes, an axis of one unit and a legend; a green line is named where there is one."""
    found = Structure(page)
    lanes = [text for text in found.texts if text.startswith("rank ")]
    ticks = [text for text in found.texts if re.fullmatch(r"0|[\d.]+ (ns|\xb5s|ms|s)", text)]
    assert lanes and found.classes.count("frame") == len(lanes) and "time since the step began" in found.texts, found.texts
    assert 3 <= len(ticks) <= 7 and ticks[0] == "0" and len({tick.split()[1] for tick in ticks[1:]}) == 1, ticks
    assert page.count('<ul class="key') == 2 and page.count("nothing outstanding</li>") == 1
    assert ("The green line" in page) == ("bw" in found.classes) == ('<path class="bw"' in page)


def test_the_timelines_of_a_job_become_one_page(run, tmp_path):
    digits = BUILD / "examples" / "digits"
    assert run("-np", 2, "--timeline-filename", tmp_path / "t.%d.json", digits, "--epochs", 2).code == 0
    # Of all ranks, the last first: they are ordered, and their clocks aligned.
    result = run("--timeline-report", tmp_path / "report.html", tmp_path / "t.1.json", tmp_path / "t.0.json")
    assert (result.code, result.out, result.err) == (0, "", ""), result
    page = (tmp_path / "report.html").read_text()
    text = text_of(page)
    assert "2 timelines" in text and text.index("rank 0") < text.index("rank 1"), text
    assert " program digits job 2 ranks, began 2" in text and "--epochs" not in text, text
    assert f" hosts {os.uname().nodename} (ranks 0-1) files {tmp_path}/t.1.json, {tmp_path}/t.0.json " in text, text
    assert re.search(r" w1 \d+ 16.0 KiB \d", text), text
    for lane in re.findall(r'<div class="bar">(.*?)</div>', page):
        assert abs(sum(map(float, re.findall(r"width:([\d.]+)%", lane))) - 100) < 0.1, lane
    assert "<script" not in page and "http" not in page
    apart = re.search(r"(\d+) of (\d+) collectives do not fit together", text)  # where a busy machine held a rank up for 0.2 s
    assert not apart or 4 * int(apart[1]) < int(apart[2]), text
    assert "could not be read" not in text, text
    assert_readable(page)


def test_a_timeline_that_breaks_off_becomes_a_page_that_says_so(run, tmp_path):
    digits = BUILD / "examples" / "digits"
    assert run("-np", 2, "--timeline-filename", tmp_path / "t.%d.json", digits, "--epochs", 2).code == 0
    whole = (tmp_path / "t.0.json").read_text()
    (tmp_path / "t.0.json").write_text(whole[:whole.index('"ts":', 3 * len(whole) // 4)])
    assert run("--timeline-report", "report.html", "t.0.json", "t.1.json", cwd=tmp_path).code == 0
    page = (tmp_path / "report.html").read_text()
    assert re.search(r"rank 0: 1 record could not be read, .*its file breaks off", text_of(page)), text_of(page)
    assert "rank 1:" not in text_of(page)
    assert_readable(page)


def test_the_timeline_of_the_coordinator_alone_tells_whom_it_waited_for(run, tmp_path):
    digits = BUILD / "examples" / "digits"
    assert run("-np", 2, "--timeline-filename", tmp_path / "t.json", digits, "--epochs", 2).code == 0
    assert run("--timeline-report", "report.html", "t.json", cwd=tmp_path).code == 0
    text = text_of((tmp_path / "report.html").read_text())
    assert "1 timeline," in text and re.search(r"was the last [\d.]+ % [\d.]+ %", text), text


def test_what_is_no_timeline_is_named_and_leaves_the_page_alone(run, tmp_path):
    (tmp_path / "t.json").write_text("hello\n")
    (tmp_path / "report.html").write_text("before")
    result = run("--timeline-report", tmp_path / "report.html", tmp_path / "t.json")
    assert result.code == 1 and result.last == (
        f"horovodrun: timeline {tmp_path}/t.json: there is no record of a timeline in it"), result
    assert (tmp_path / "report.html").read_text() == "before" and len(list(tmp_path.iterdir())) == 2
    missing = run("--timeline-report", tmp_path / "report.html", tmp_path / "none.json")
    assert missing.code == 1 and "cannot read" in missing.last, missing
