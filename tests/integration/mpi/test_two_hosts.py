"""The runtime on two emulated hosts: shared memory within each, MPI over TCP between them."""

import re
import subprocess
import sys
import threading

import pytest
from test_mpi import FUSIONS, PROGRAMS, ROOT, TIMEOUT, assert_ok, bits, environment, limits

sys.path.insert(0, str(ROOT / "tests" / "support"))

from emulated_hosts import YIELD, emulated_hosts  # noqa: E402

# Ranks on the first and on the second host.
SPREADS = {1: (1, 0), 2: (1, 1), 3: (2, 1), 4: (2, 2), 8: (4, 4)}
HANG = 30  # seconds after which a job counts as hanging


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with emulated_hosts(tmp_path_factory.mktemp("hosts")) as both:
        yield both


def words(hosts, spread, *command, by="slot", options=(), env):
    """The words of mpirun on the first host, which starts ranks on the second one by ssh."""
    slots = ",".join(f"{name}:{n}" for name, n in zip(hosts.NAMES, spread) if n)
    agent = f"ssh -p 2222 -i {hosts.key} -o StrictHostKeyChecking=accept-new"
    exports = [word for name in env if name.startswith(("LOCAL_SIZES", "HOROVOD_", "ASAN_", "LSAN_", "TSAN_", "UBSAN_"))
               for word in ("-x", name)]
    return [*hosts.enter(0), "mpirun", "--allow-run-as-root", *YIELD, *options, "--mca", "plm_rsh_agent", agent, "--host", slots,
            "--map-by", by, "--oversubscribe", "-np", str(sum(spread)), *exports, *map(str, command)]


def run_on(hosts, spread, *command, by="slot", **extra):
    env = environment(LOCAL_SIZES=",".join(map(str, spread)), **extra)
    return subprocess.run(words(hosts, spread, *command, by=by, env=env),
                          env=env, capture_output=True, text=True, timeout=limits.seconds(TIMEOUT), check=False)


def groups_in_log(result):
    """How many groups each rank says there are, and how many others it shares memory with."""
    found = re.findall(r"(\d+) ranks in (\d+) groups that share memory, rank (\d+) with (\d+) others", result.stderr)
    return {int(rank): (int(groups), int(others)) for _, groups, rank, others in found}


def test_ranks_of_a_host_share_memory_and_hosts_do_not(hosts):
    result = run_on(hosts, (2, 2), PROGRAMS / "mpi_runtime", "values", HOROVOD_LOG_LEVEL="info")
    assert_ok(result)
    assert groups_in_log(result) == {rank: (2, 1) for rank in range(4)}, result.stderr


def test_a_rank_alone_on_its_host_takes_part(hosts):
    result = run_on(hosts, (2, 1), PROGRAMS / "mpi_runtime", "values", HOROVOD_LOG_LEVEL="info")
    assert_ok(result)
    assert groups_in_log(result) == {0: (2, 1), 1: (2, 1), 2: (2, 0)}, result.stderr


@pytest.mark.parametrize("mode, n", [
    *((mode, n) for mode in ("values", "gather", "kinds") for n in SPREADS),
    *((mode, n) for mode in ("sets", "mismatch") for n in SPREADS if n > 1)])
def test_behaviour_holds_over_two_hosts(hosts, mode, n):
    assert_ok(run_on(hosts, SPREADS[n], PROGRAMS / "mpi_runtime", mode))


@pytest.mark.parametrize("spread", [(3, 1), (1, 3), (4, 1)])
@pytest.mark.parametrize("mode", ["values", "kinds", "sets"])
def test_behaviour_holds_over_hosts_with_different_numbers_of_ranks(hosts, mode, spread):
    assert_ok(run_on(hosts, spread, PROGRAMS / "mpi_runtime", mode))


@pytest.mark.parametrize("spread", [(2, 1), (2, 2)])
def test_sums_have_the_same_bits_in_every_run_over_two_hosts(hosts, spread):
    assert len({bits(run_on(hosts, spread, PROGRAMS / "mpi_runtime", "bits", HOROVOD_FUSION_THRESHOLD=fusion))
                for fusion in FUSIONS}) == 1


def sent_by(hosts):
    """Bytes that the first host has sent to the other one."""
    table = subprocess.run([*hosts.enter(0), "cat", "/proc/net/dev"], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"hvd0:((?:\s+\d+)+)", table).group(1).split()[8])


@pytest.mark.parametrize("spread", [(2, 2), (4, 4)])
def test_a_host_sends_what_one_rank_would(hosts, spread):
    before = sent_by(hosts)
    result = run_on(hosts, spread, PROGRAMS / "mpi_runtime", "bits")
    sent = sent_by(hosts) - before
    assert_ok(result)
    payload = int(re.search(r"of (\d+) bytes", result.stdout).group(1))
    assert payload <= sent < 1.1 * payload  # between two hosts: once, and what it takes to agree


@pytest.mark.parametrize("mode", ["threads", "reuse", "leave"])
def test_threads_and_ends_work_over_two_hosts(hosts, mode):
    assert_ok(run_on(hosts, (2, 2), PROGRAMS / "mpi_runtime", mode))


def test_a_rank_that_exits_ends_the_job_over_two_hosts(hosts):
    result = run_on(hosts, (2, 2), PROGRAMS / "mpi_runtime", "exit")
    assert result.returncode != 0
    assert "never" not in result.stderr or "Horovod has been shut down" in result.stderr


@pytest.mark.parametrize("spread, by, scale", [
    ((1, 0), "slot", 1), ((1, 1), "slot", 50), ((2, 1), "slot", 30), ((2, 2), "node", 1), ((1, 4), "slot", 1),
    ((4, 4), "slot", 1)])
def test_the_transport_keeps_what_the_port_promises_over_two_hosts(hosts, spread, by, scale):
    name = "mpi" if max(spread) == 1 else "shm+mpi"
    assert_ok(run_on(hosts, spread, PROGRAMS / "shm_conformance", name, scale, by=by))


def test_without_shared_memory_everything_goes_over_mpi(hosts):
    assert_ok(run_on(hosts, (2, 2), PROGRAMS / "shm_conformance", "mpi", 1, HOROVOD_SHM="0"))


def last_words(hosts, *command, n_down, **extra):
    """What the ranks of two hosts with two each say, of which the launcher lets the others go on when one is lost. Open MPI 4 does
    not end by itself after that."""
    env = environment(**extra)
    with subprocess.Popen(words(hosts, (2, 2), *command, options=["--enable-recovery"], env=env), env=env,
                          stdout=subprocess.PIPE, text=True) as job:
        ending = threading.Timer(limits.seconds(HANG), job.terminate)
        ending.start()
        lines = []
        for line in job.stdout:
            lines.append(line)
            if sum("down: " in line for line in lines) == n_down:
                break
        ending.cancel()
        job.terminate()
        job.stdout.read()
    return "".join(lines)


@pytest.mark.parametrize("victim", [2, 3])
@pytest.mark.parametrize("shm", ["0", "1"])
def test_a_killed_rank_whose_neighbours_in_the_tree_are_on_the_other_host_is_named(hosts, shm, victim):
    said = last_words(hosts, PROGRAMS / "mpi_faults", "waiting", "kill", victim, 100, n_down=3, HOROVOD_SHM=shm)
    told = re.findall(r"told: HOROVOD_ABORTED after .* s: (.*)", said)
    assert len(told) == 3 and said.count("down: ") == 3, said
    for message in told:
        assert f"Rank {victim} on host hvd-west is lost: rank {victim}: its process ended" in message, said
