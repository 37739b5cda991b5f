"""Who is named when a job ends: every cause, over every transport, on one host and on two."""

import os
import pathlib
import re
import signal
import subprocess

import openmpi
import pytest
import ways
from conftest import BUILD, HOROVODRUN, ROOT, own_processes_with, processes_with, uts_space, wait_for


CULPRIT = BUILD / "tests" / "integration" / "launch" / "culprit"
PYTHON = BUILD / "python"
PYTHON_CULPRIT = pathlib.Path(__file__).with_name("culprit.py")
HOST = os.uname().nodename

# What a rank does: what is said of it, and the exit code of horovodrun.
CAUSES = {
    "kill": ("was killed by signal 9 (Killed), last output: under way", 137),
    "segv": ("was killed by signal 11 (Segmentation fault), last output: ", 139),
    "abort": ("was killed by signal 6 (Aborted): ", 134),
    "exit": ("exited with code 3: no data", 3),
    "leave": ("exited without horovod_shutdown: under way", 1),
    "shutdown": ("exited with code 3: no data", 3),
}
PYTHON_CAUSES = {
    "raise": ("raised ValueError: bad batch", 1),
    "before": ("raised ValueError: bad configuration", 1),
    "thread": ("exited with code 1: KeyError: 'learning_rate'", 1),
    "words": ("exited with code 1: no data", 1),
    "code": ("exited with code 3: under way", 3),
    "_exit": ("exited with code 3: under way", 3),
    "interrupt": ("was killed by signal 2 (Interrupt), last output: KeyboardInterrupt", 130),
}
OF_RANKS = CAUSES | PYTHON_CAUSES
TRANSPORTS = {"shared memory": {}, "MPI": {"HOROVOD_SHM": "0"}}
# How many ranks on each host.
WAYS = {"one host": (3,), "two hosts": (1, 1), "two hosts with two ranks each": (2, 2),
        "an agent": (2, 2), "Slurm": (2, 2), "pods": (2, 2)}
# Otherwise than by the ssh of the command line: tried with shared memory within a host, and with the causes that differ most.
REACHED_OTHERWISE = ("an agent", "Slurm", "pods")
TRIED_EVERYWHERE = ("kill", "exit", "leave", "shutdown", "raise", "words", "ssh", "sshd", "orted")

DAEMON = "bin/prted " if openmpi.major() == 5 else "orted "
LOST = {"ssh": (0, "/usr/bin/ssh -x"), "sshd": (1, "sshd: root@"), "orted": (1, DAEMON)}
CLIENTS = {"an agent": "ssh -o Strict", "Slurm": "/srun "}  # what mpirun starts instead of ssh

# What the table of docs/processes.md says of each of them.
DESCRIPTIONS = {
    "kill": "is killed by a signal", "segv": "crashes", "abort": "calls `abort`",
    "exit": "exits with another code than 0", "leave": "exits with 0, without `horovod_shutdown`",
    "shutdown": "calls `horovod_shutdown` while others wait, and exits with another code than 0",
    "raise": "raises an exception in Python", "before": "raises an exception before `hvd.init()`",
    "thread": "has an exception in a thread of Python, and exits with 1", "words": '`sys.exit("no data")`',
    "code": "`sys.exit(3)`", "_exit": "`os._exit(3)`", "interrupt": "is interrupted in Python (SIGINT)",
    "ssh": "the `ssh` (agent, `srun`) of mpirun to another host is killed", "sshd": "the `sshd` of that connection is killed",
    "orted": "mpirun's daemon on another host is killed",
}
LOST_HOST = "horovodrun: host hvd-west unreachable: mpirun has lost its daemon there, and with it "


def combinations(cause):
    """The ways and transports over which a cause is tried."""
    for way, spread in WAYS.items():
        for transport in TRANSPORTS:
            is_tried = (way, transport) != ("two hosts", "shared memory")
            if way in REACHED_OTHERWISE:
                is_tried = transport == "shared memory" and cause in TRIED_EVERYWHERE
            if is_tried and (cause in OF_RANKS or len(spread) > 1):
                yield way, transport


def tried(cause):
    """Those of them that this Open MPI can be tried with."""
    return [one for one in combinations(cause) if one[0] != "Slurm" or openmpi.major() < 5]  # which wants more of srun


def table():
    """The table of docs/processes.md."""
    columns = list(combinations("kill"))
    yield "| what ends | the last line | " + " | ".join(f"{way}, {transport}" for way, transport in columns) + " |"
    yield "|---" * (len(columns) + 2) + "|"
    for cause, text in DESCRIPTIONS.items():
        line = f"rank N on host H {OF_RANKS[cause][0].strip()}" if cause in OF_RANKS else LOST_HOST[12:] + "rank N"
        tried = list(combinations(cause))
        yield f"| {text} | `{line}` | " + " | ".join("yes" if one in tried else "" for one in columns) + " |"


def test_the_documents_hold_the_table_of_causes():
    text = (ROOT / "docs" / "processes.md").read_text()
    assert "\n".join(table()) in text, "\n".join(table())


@pytest.fixture(name="reach")
def fixture_reach(hosts, tmp_path_factory):
    """reach(way): the arguments of horovodrun that name the hosts, and the environment."""
    pods = ways.Pods(hosts, tmp_path_factory.mktemp("pods"))

    def call(way):
        spread = WAYS[way]
        names = ["-H", ",".join(f"{name}:{n}" for name, n in zip(hosts.NAMES, spread))]
        if way == "an agent":
            return names, ways.agent(hosts, tmp_path_factory.mktemp("agent"))
        if way == "Slurm":
            return [], ways.slurm(hosts, tmp_path_factory.mktemp("slurm"), spread)
        if way == "pods":
            if not pods.daemons:
                pods.start()
            return ["--hostfile", str(pods.write_hostfile(spread))], pods.environment()
        return [*names, "-p", "2222", "-i", str(hosts.key)], {}

    yield call
    pods.stop()


def start(hosts, reach, way, **env):
    """The words that start horovodrun, and its environment."""
    spread = WAYS[way]
    command = [str(HOROVODRUN), "-np", str(sum(spread))]
    if len(spread) > 1:
        arguments, more = reach(way)
        command = [*hosts.enter(0), *command, *arguments]
        env = {**more, **env}
    if env["CULPRIT_CAUSE"] in PYTHON_CAUSES:
        return [*command, "/usr/bin/python3", str(PYTHON_CULPRIT)], {**os.environ, "PYTHONPATH": str(PYTHON), **env}
    return [*command, str(CULPRIT)], {**os.environ, **env}


def place(hosts, spread, rank):
    """The name of the host that a rank runs on."""
    return HOST if len(spread) == 1 else hosts.NAMES[rank >= spread[0]]


def cases():
    """One of the combinations for each of the causes, ranks, ways and transports."""
    for index, cause in enumerate(OF_RANKS):
        if cause in PYTHON_CAUSES and not (PYTHON / "horovod" / "_core.abi3.so").exists():
            continue
        for way, transport in tried(cause):
            yield pytest.param(cause, (index % 2) * (sum(WAYS[way]) - 1), way, transport,
                               id=f"{cause}-{way}-{transport}".replace(" ", "_"))


@pytest.mark.parametrize("cause, rank, way, transport", list(cases()))
def test_the_rank_that_ended_is_named(hosts, reach, cause, rank, way, transport):
    spread = WAYS[way]
    command, env = start(hosts, reach, way, CULPRIT_CAUSE=cause, CULPRIT_RANK=str(rank), **TRANSPORTS[transport],
                         **({"CULPRIT_OTHERS": "shutdown"} if cause == "shutdown" else {}))
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    lines = done.stderr.splitlines()
    words, code = OF_RANKS[cause]
    assert lines[-1].startswith(f"horovodrun: rank {rank} on host {place(hosts, spread, rank)} {words}"), done.stderr
    assert done.returncode == code, done.stderr
    assert not [line for line in lines if line.startswith("-----") or "mpirun noticed" in line], done.stderr
    assert "*** An error occurred" not in done.stderr and "\0" not in done.stderr, done.stderr
    wait_for(lambda: not left_over(hosts), "no process is left")


@pytest.mark.parametrize("way, transport", tried("shutdown"))
def test_a_rank_that_left_is_named_although_it_waits_for_others_that_never_leave(hosts, reach, way, transport):
    spread = WAYS[way]
    command, env = start(hosts, reach, way, CULPRIT_CAUSE="shutdown", CULPRIT_RANK="1", **TRANSPORTS[transport])
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    left = "called horovod_shutdown while other ranks waited for tensor gradient.1"
    own = "exited with code 3: no data"  # it has seen the others end
    assert done.stderr.splitlines()[-1] in [f"horovodrun: rank 1 on host {place(hosts, spread, 1)} {words}" for words in (left, own)], done
    assert done.returncode in (1, 3) and "-----" not in done.stderr, done


def processes_on(hosts, indices, *words):
    """Processes of these hosts with one of the words in their command line."""
    spaces = [uts_space(hosts.holders[index].pid) for index in indices]
    return [pid for pid in processes_with(*words) if uts_space(pid) in spaces]


def left_over(hosts):
    """Processes of mpirun and of ranks on both of the hosts, and of ranks on this machine."""
    programs = (str(CULPRIT), str(PYTHON_CULPRIT))
    return processes_on(hosts, (0, 1), DAEMON, *programs) + own_processes_with(*programs)


@pytest.mark.parametrize("cause, way, transport", [(cause, *one) for cause in LOST for one in tried(cause)])
def test_the_host_that_is_lost_is_named(hosts, reach, cause, way, transport):
    spread = WAYS[way]
    index, words = LOST[cause]
    words = CLIENTS.get(way, words) if cause == "ssh" else words
    command, env = start(hosts, reach, way, CULPRIT_CAUSE="none", CULPRIT_RANK="-1", **TRANSPORTS[transport])
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        n_ready = 0
        while n_ready < sum(spread):
            line = process.stderr.readline()
            assert line, "the job ended too soon"
            n_ready += "under way" in line
        for pid in wait_for(lambda: processes_on(hosts, [index], words), words):
            os.kill(pid, signal.SIGKILL)
        out, rest = process.communicate(timeout=60)
    ranks = "rank 1" if spread == (1, 1) else "ranks 2 to 3"
    assert rest.splitlines()[-1] == LOST_HOST + ranks, rest
    assert process.returncode == 1 and "-----" not in rest + out, rest + out
    wait_for(lambda: not left_over(hosts), "no process is left")


@pytest.mark.parametrize("way", ["one host", "two hosts"])
def test_a_rank_that_ends_before_init_is_named_and_ends_the_job(hosts, reach, way):
    spread = WAYS[way]
    command, env = start(hosts, reach, way, CULPRIT_RANK="1", CULPRIT_CAUSE="absent")
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=90, check=False)
    said = [f"rank 1 on host {place(hosts, spread, 1)} exited with code 0 and without horovod_init, in which other ranks wait for it"]
    if openmpi.major() == 5:  # it may end the job itself, as soon as that rank has ended, and calls the host by any name
        said += [f"rank 1 on host {name} exited with code 0 and without MPI_Finalize" for name in (place(hosts, spread, 1), "localhost")]
    assert done.stderr.splitlines()[-1].removeprefix("horovodrun: ") in said, done.stderr
    assert done.returncode == 1


def test_mpiruns_own_words_are_shown_with_verbose(hosts):
    command, env = start(hosts, None, "one host", CULPRIT_CAUSE="kill", CULPRIT_RANK="1")
    done = subprocess.run([command[0], "--verbose", *command[1:]], env=env, capture_output=True, text=True, timeout=60,
                          check=False)
    assert "detected that one or more processes exited" in done.stderr and "rank 1 on host" in done.stderr.splitlines()[-1], done


ALONE = {
    "kill": "noticed that process rank 1 .* exited on signal 9", "segv": "noticed that process rank 1 .* exited on signal 11",
    "abort": "noticed that process rank 1 .* exited on signal 6", "exit": r"Process name: \S+1\] Exit code: 3",
    "leave": "process rank 1 .* without calling .?finalize", "shutdown": r"Rank 1 on host \S+ called horovod_shutdown",
}


@pytest.mark.parametrize("cause", ALONE)
def test_without_horovodrun_the_words_of_mpirun_or_of_the_library_name_the_rank(cause):
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "3", str(CULPRIT)]
    env = {**os.environ, "CULPRIT_CAUSE": cause, "CULPRIT_RANK": "1", "CULPRIT_OTHERS": "shutdown"}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert re.search(ALONE[cause], " ".join(done.stdout.split())), done.stdout
    codes = (1, 3) if cause == "shutdown" else (CAUSES[cause][1],)  # of whoever ends first
    assert done.returncode in codes, done
