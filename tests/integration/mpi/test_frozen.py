"""A rank that is stopped closes no connection: the others name it in the time that was set, and end.

Some places and moments in every run, and a few that are drawn; HVD_FROZEN_SEEDS=200 draws as many."""
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from test_mpi import BUILD, PROGRAMS, ROOT, environment

sys.path.insert(0, str(ROOT / "tests" / "support"))

import limits  # noqa: E402
from emulated_hosts import YIELD, emulated_hosts, wait_for  # noqa: E402

SETTINGS = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1.5", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "3",
            "HOROVOD_DYNAMIC_PROCESS_SETS": "1"}
# Drawn ranks, places and moments.
SEEDS = int(os.environ.get("HVD_FROZEN_SEEDS", "4"))
# Seconds until the others have ended, for a machine with more ranks than processors that has nothing else to do.
BOUND = 60


class Job:
    """Ranks under mpirun, which lets the others go on, and what they say."""

    def __init__(self, n, what, victim, hosts=None, **extra):
        self.n = n
        self.victim = victim
        self.stopped = None
        self.lines = []
        self.queue = queue.Queue()
        env = environment(**SETTINGS, VICTIM=str(victim), **extra)
        words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--enable-recovery", "-np", str(n)]
        if hosts:
            agent = f"ssh -p 2222 -i {hosts.key} -o StrictHostKeyChecking=accept-new"
            slots = ",".join(f"{name}:{(n + i) // 2}" for i, name in enumerate(reversed(hosts.NAMES)))
            words = [*hosts.enter(1), *words, *YIELD, "--mca", "plm_rsh_agent", agent, "--host", slots, "--map-by", "slot"]
            words += [word for name in env if name.startswith(("HOROVOD_", "VICTIM", "ASAN_", "LSAN_", "TSAN_"))
                      for word in ("-x", name)]
        self.process = subprocess.Popen([*words, PROGRAMS / "mpi_frozen", what], env=env, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.queue.put(line.rstrip())
        self.queue.put(None)

    def text(self):
        return "\n".join(self.lines)

    def wait_for(self, word, n):
        """Reads on until n lines begin with the word; these lines."""
        bound = limits.seconds(BOUND)
        end = time.monotonic() + bound
        while True:
            found = [line for line in self.lines if line.split()[:1] == [word]]
            if len(found) >= n:
                return found
            try:
                line = self.queue.get(timeout=max(end - time.monotonic(), 0.01))
            except queue.Empty:
                raise AssertionError(f"{len(found)} of {n} said {word!r} in {bound:.0f} s: {self.text()}") from None
            assert line is not None, f"{len(found)} of {n} said {word!r}: {self.text()}"
            self.lines.append(line)

    def processes(self, word):
        """The process of each rank, once all have said the word."""
        return {int(rank): int(pid) for rank, pid in (line.split()[1:] for line in self.wait_for(word, self.n))}

    def stop(self, pid):
        os.kill(pid, signal.SIGSTOP)
        self.stopped = pid

    def end(self):
        if self.stopped:
            os.kill(self.stopped, signal.SIGKILL)
        self.process.terminate()  # over two hosts it does not always end by itself, with --enable-recovery
        try:
            self.process.wait(timeout=limits.Seconds(BOUND))  # passes now and then
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def assert_named(job, *words):
    """All others were told who it is, and have ended. One that stopped between two transfers is missing from the next one."""
    silent = rf"[Rr]ank {job.victim} on host \S+ is lost: it has not answered for"
    missing = rf"Tensor \S+ is stalled for longer .*: it waits for rank {job.victim} on host "
    job.wait_for("down", job.n - 1)
    for line in job.wait_for("told", job.n - 1):
        assert re.search(f"{silent}|{missing}", line), job.text()
        assert "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS" in line, line
        for word in words:
            assert word in line, line
    assert re.search(rf"Rank {job.victim} on host \S+ has not answered for \S+ seconds while", job.text()), job.text()


def assert_told(job, who=None):
    """All others were told who it is: missing from a tensor, or silent."""
    job.wait_for("down", job.n - 1)
    for line in job.wait_for("told", job.n - 1):
        assert re.search(who or rf"[Rr]ank {job.victim} on host ", line), job.text()
        assert "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS" in line, job.text()


def assert_others_end(job):
    """In the shutdown nobody waits for a tensor: the log names the rank."""
    job.wait_for("down", job.n - 1)
    assert re.search(rf"Rank {job.victim} on host \S+ (has not answered for|did not call horovod_shutdown)",
                     job.text()), job.text()


# Calls of MPI within horovod_init that wait for all ranks: of one rank, as mpi_frozen counts them.
CALLS_OF_INIT = 12


def stop_in_init(n, victim, call, hosts=None, **extra):
    """One rank stops before a call of MPI in horovod_init; what the others were told."""
    job = Job(n, "init", victim, hosts, VICTIM_CALL=str(call), **extra)
    try:
        job.stopped = int(job.wait_for("stays", 1)[0].split()[2])
        told = job.wait_for("told", n - 1)
        job.wait_for("down", n - 1)
        return told, job.text()
    finally:
        job.end()


def assert_named_in_init(told, text, victim):
    for line in told:
        assert re.search(rf"Rank {victim} on host \S+ is lost: it has not answered for \S+ seconds while horovod_init waits",
                         line), text
        assert "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS" in line, text
    assert re.search(rf"Rank {victim} on host \S+ has not answered for \S+ seconds while horovod_init", text), text


def play(what, n, victim, after_s=0.3, hosts=None, **extra):
    job = Job(n, what, victim, hosts, **extra)
    try:
        if what == "leave":
            job.stopped = int(job.wait_for("stays", 1)[0].split()[2])
            assert_others_end(job)
            return job.text()
        pid = job.processes("inside" if what == "init" else "here")[victim]
        time.sleep(after_s)
        job.stop(pid)
        if what == "init":  # its host is not known before it has said so itself
            assert_told(job, rf"[Rr]ank {victim} (on host |is lost: it has not come)")
        elif what in ("small", "sets", "making"):  # missing from it, or silent under it
            assert_told(job)
        else:
            assert_named(job, "tensor gradient")
        return job.text()
    finally:
        job.end()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with emulated_hosts(tmp_path_factory.mktemp("hosts")) as both:
        yield both


@pytest.mark.parametrize("shm", ["0", "1"])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_stopped_under_a_transfer_is_named(victim, shm):
    play("large", 3, victim, HOROVOD_SHM=shm)


@pytest.mark.parametrize("victim", [0, 3])
def test_a_rank_stopped_under_a_transfer_between_hosts_is_named(hosts, victim):
    play("large", 4, victim, hosts=hosts)


def test_every_rank_names_the_hosts_of_ranks_elsewhere(hosts):
    text = play("sets", 4, 3, hosts=hosts)  # rank 1, on the other host, leads the process set of the odd ranks
    named = re.findall(r"level=\w+ .*(?:[Rr]ank |ranks:\\n)3( on host hvd-east)?\b", text)
    assert named and all(named), text


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_stopped_in_the_shutdown_is_named(victim):
    play("leave", 3, victim)


@pytest.mark.parametrize("shm", ["0", "1"])
@pytest.mark.parametrize("victim", [0, 3])
def test_a_rank_stopped_in_a_process_set_is_named_to_all(victim, shm):
    play("sets", 4, victim, HOROVOD_SHM=shm)


@pytest.mark.parametrize("shm", ["0", "1"])
@pytest.mark.parametrize("victim", [0, 3])
def test_a_rank_stopped_while_process_sets_are_made_is_named(victim, shm):
    play("making", 4, victim, HOROVOD_SHM=shm)


# The calls in which the members of a set hand each other memory, behind those of horovod_init.
@pytest.mark.parametrize("call", [CALLS_OF_INIT, CALLS_OF_INIT + 1])
def test_a_rank_stopped_while_a_process_set_shares_memory_is_named_and_the_others_end_by_themselves(call):
    job = Job(4, "making", 3, HOROVOD_SHM="1", VICTIM_CALL=str(call))
    try:
        job.stopped = int(job.wait_for("stays", 1)[0].split()[2])
        assert_told(job)  # all are down: none has ended by a signal
    finally:
        job.end()


@pytest.mark.parametrize("call", range(CALLS_OF_INIT))
def test_a_rank_stopped_in_init_is_named(call):
    victim = call % 4
    assert_named_in_init(*stop_in_init(4, victim, call), victim)


@pytest.mark.parametrize("call", [0, 5, 9])
def test_a_rank_stopped_in_init_is_named_without_shared_memory(call):
    assert_named_in_init(*stop_in_init(4, 1, call, HOROVOD_SHM="0"), 1)


@pytest.mark.parametrize("call, victim", [(1, 3), (2, 0), (4, 1), (8, 2), (11, 3)])
def test_a_rank_stopped_in_init_is_named_between_hosts(hosts, call, victim):
    assert_named_in_init(*stop_in_init(4, victim, call, hosts), victim)


def test_a_rank_stopped_before_it_is_connected_is_named(hosts):
    told, text = stop_in_init(4, 3, 0, hosts)
    for line in told:  # what it has sent may be on its way for ever
        assert re.search(r"Rank 3 is lost: it has not come to horovod_init|Rank 3 on host \S+ is lost", line), text


def test_a_rank_stopped_in_init_is_named_where_the_program_owns_mpi():
    assert_named_in_init(*stop_in_init(4, 2, 3, VICTIM_OWNS="1"), 2)


def test_a_rank_that_does_not_come_where_the_program_owns_mpi_ends_the_job_without_a_name():
    told, text = stop_in_init(3, 1, 0, VICTIM_OWNS="1")
    for line in told:
        assert re.search("horovod_init has waited for .* seconds for ranks", line), text


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whoever_is_stopped_wherever_and_whenever_is_named(hosts, seed):
    draw = random.Random(seed)
    what = draw.choice(["large", "small", "sets", "leave", "making", "init"])
    n = draw.randint(4 if what in ("sets", "making") else 2, 6)  # in a set of one rank nobody waits for it
    victim = draw.randrange(n)
    after_s = draw.uniform(0, 0.1 if what == "init" else 0.6)
    where = hosts if draw.random() < 0.4 and n > 2 else None
    more = {"HOROVOD_SHM": draw.choice(["0", "1"])}
    if draw.random() < 0.4:  # a deeper tree
        more["HOROVOD_COORDINATOR_FANOUT"] = "1"
    print(f"seed {seed}: rank {victim} of {n}, {what}, after {after_s:.2f} s, on {'two hosts' if where else 'one'}, {more}")
    play(what, n, victim, after_s, where, **more)


def named(rank, host):
    """The words that name a rank which stands still: in a transfer, or, where it did not come to ask, in the negotiation."""
    return f"[Rr]ank {rank} on host {host} is lost: it has not answered for|it waits for rank {rank} on host {host}"


@pytest.mark.parametrize("shm", ["0", "1"])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_the_launcher_ends_the_job_and_names_the_rank_that_was_stopped(victim, shm):
    env = environment(**SETTINGS, HOROVOD_SHM=shm)
    with subprocess.Popen([BUILD / "worker" / "horovodrun", "-np", "3", PROGRAMS / "mpi_frozen", "large"], env=env,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        lines = []
        for line in run.stdout:
            lines.append(line)
            found = re.search(rf"here {victim} (\d+)", line)
            if found:
                os.kill(int(found.group(1)), signal.SIGSTOP)
        assert run.wait(timeout=BOUND) != 0
    # mpirun wakes it before it ends it: what it does then is no cause
    assert re.match(rf"horovodrun: rank {victim} on host \S+ (is lost: it has not answered for|kept other ranks waiting: Tensor)",
                    lines[-1]), lines


def test_the_times_of_rank_0_count_for_all():
    env = {**environment(**SETTINGS), "HOROVOD_STALL_CHECK_TIME_SECONDS": "50", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "60"}
    ours = [f"{name}={value}" for name, value in SETTINGS.items()]
    program = [PROGRAMS / "mpi_frozen", "large"]
    with subprocess.Popen(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "1", "env", *ours, *program,
                           ":", "-np", "1", *program], env=env, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as run:
        text = ""
        for line in run.stdout:
            text += line
            found = re.search(r"here 0 (\d+)", line)
            if found:
                os.kill(int(found.group(1)), signal.SIGSTOP)
        run.wait(timeout=BOUND)
    lost = re.search(r"Rank 0 on host \S+ is lost: it has not answered for (\S+) seconds", text)
    assert lost and 3 <= float(lost.group(1)) < 50, text


def test_a_host_that_is_cut_off_is_named_on_both_sides(hosts):
    job = Job(4, "large", -1, hosts)
    try:
        pids = job.processes("here")
        subprocess.run([*hosts.enter(0), "ip", "link", "set", "hvd0", "down"], check=True)
        job.wait_for("down", 2)  # what the other side says does not arrive any more
        for line in job.wait_for("told", 2):
            assert re.search(named("[23]", "hvd-east"), line), job.text()
        wait_for(lambda: not any(os.path.exists(f"/proc/{pids[rank]}") for rank in (2, 3)), "the other side ends", BOUND)
    finally:
        subprocess.run([*hosts.enter(0), "ip", "link", "set", "hvd0", "up"], check=True)
        job.end()


@pytest.mark.skipif(not shutil.which("iptables"), reason="needs iptables")
@pytest.mark.parametrize("sides", [(0, 1), (1,)], ids=["both_ways", "one_way"])
def test_a_link_that_carries_small_messages_alone_is_named_by_the_ranks_behind_it(hosts, sides):
    job = Job(4, "large", -1, hosts)
    rule = "INPUT -i hvd0 -m length --length 1000:65535 -j DROP".split()
    done = []
    try:
        job.processes("here")
        for index in sides:
            subprocess.run([*hosts.enter(index), "iptables", "-A", *rule], check=True)
            done.append(index)
        job.wait_for("down", 4)  # small messages go through: all hear of it
        # Over one connection what is lost holds up all that is behind it, so each side may miss the other's answers; or not yet.
        lost = f"{named('[01]', 'hvd-west')}|{named('[23]', 'hvd-east')}"
        moves_not = r"Tensor gradient \(ALLREDUCE\) has been in transfer for .* though all ranks answer: rank \d on host \S+ waits for rank \d"
        for line in job.wait_for("told", 4):
            assert re.search(f"{lost}|{moves_not}", line), job.text()
    finally:
        for index in done:
            subprocess.run([*hosts.enter(index), "iptables", "-D", *rule], check=True)
        job.end()
