"""Timeline, counters and flight recorder of the runtime under mpirun, by the program mpi_watch."""

import json
import os
import re
import signal
import subprocess
import time
from collections import Counter

import pytest

from test_mpi import PROGRAMS, TIMEOUT, assert_ok, environment, limits, mpirun

STEPS = 50
LANES = [f'layer "{i}"\\weight\n' for i in range(10)]


def watch(n, mode, *arguments, **extra):
    return mpirun(n, PROGRAMS / "mpi_watch", mode, *arguments, **extra)


def names(events):
    return Counter(event.get("name") for event in events)


def lanes(events):
    return {event["args"]["name"]: event["pid"] for event in events
            if event.get("name") == "process_name" and event["pid"] > 0}


def assert_balanced(events):
    """Every E ends a B of its lane, in order of time."""
    depth = Counter()
    last = 0
    for event in events:
        if event["ph"] == "M":
            continue
        assert event["ts"] >= last, event
        last = event["ts"]
        if event["ph"] == "B":
            depth[event["pid"]] += 1
        if event["ph"] == "E":
            depth[event["pid"]] -= 1
            assert depth[event["pid"]] >= 0, event
    assert not any(depth.values())


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_timeline_has_every_tensor_in_horovods_phases(n, tmp_path):
    path = tmp_path / "timeline.json"
    assert_ok(watch(n, "run", HOROVOD_TIMELINE=str(path), HOROVOD_TIMELINE_MARK_CYCLES="1"))
    events = json.loads(path.read_text())
    assert "start_time_since_epoch_in_micros" in events[0]["args"]
    assert list(lanes(events))[:10] == LANES
    found = names(events)
    assert found["NEGOTIATE_ALLREDUCE"] == found["ALLREDUCE"] == STEPS
    assert found["QUEUE"] == STEPS + 1  # the barrier
    assert found["CYCLE_START"] > 0
    assert_balanced(events)
    ends = [event for event in events if event["ph"] == "E" and "args" in event]
    assert ends[0]["args"] == {"dtype": "float32", "shape": "[2, 3]"}
    if n > 1:
        assert found["SHM+MPI_ALLREDUCE"] + found["MPI_ALLREDUCE"] == STEPS, found
        assert os.listdir(tmp_path) == ["timeline.json"]


def test_a_transfer_over_mpi_alone_has_horovods_name(tmp_path):
    path = tmp_path / "timeline.json"
    assert_ok(watch(2, "run", HOROVOD_TIMELINE=str(path), HOROVOD_SHM="0"))
    assert names(json.loads(path.read_text()))["MPI_ALLREDUCE"] == STEPS


def test_a_tick_says_which_rank_was_ready(tmp_path):
    path = tmp_path / "timeline.json"
    assert_ok(watch(3, "run", HOROVOD_TIMELINE=str(path)))
    events = json.loads(path.read_text())
    first = lanes(events)[LANES[0]]
    ticks = Counter(event["name"] for event in events if event["ph"] == "X" and event["pid"] == first)
    times = STEPS // len(LANES)  # asked for by name once, by a bit from then on
    assert ticks == {"0": times, "1": times, "2": times}
    assert names(events)["CYCLE_START"] == 0


@pytest.mark.parametrize("file, extra", [
    ("timeline.json", {"HOROVOD_TIMELINE_ALL_RANKS": "1"}), ("timeline.%d.json", {})])
def test_every_rank_writes_a_timeline_when_asked(file, extra, tmp_path):
    assert_ok(watch(2, "run", HOROVOD_TIMELINE=str(tmp_path / file), **extra))
    for rank in range(2):
        events = json.loads((tmp_path / f"timeline.{rank}.json").read_text())
        assert events[0]["args"]["rank"] == rank
        assert names(events)["ALLREDUCE"] == STEPS


def test_the_timeline_names_the_program_and_the_hosts_and_no_argument(tmp_path):
    assert_ok(watch(3, "run", HOROVOD_TIMELINE=str(tmp_path / "t.%d.json")))
    here = os.uname().nodename
    for rank in range(3):
        events = json.loads((tmp_path / f"t.{rank}.json").read_text())
        head = events[0]["args"]
        assert (head["program"], head["host"], head["size"]) == ("mpi_watch", here, 3), head
        places = [event["args"] for event in events if "ranks" in event.get("args", {})]
        assert places == [{"name": "rank 0", "host": here, "ranks": "0-2"}] * (rank == 0)


@pytest.mark.parametrize("n", [1, 2])
def test_a_program_starts_and_stops_the_timeline(n, tmp_path):
    path = tmp_path / "dynamic.json"
    assert_ok(watch(n, "dynamic", path, HOROVOD_TIMELINE="DYNAMIC"))
    events = json.loads(path.read_text())
    assert names(events)["ALLREDUCE"] == 7
    assert_balanced(events)
    begin, end = (event for event in events if event["pid"] == 0 and event["ph"] in "BE")
    assert begin["name"] == "BACKWARD"
    assert all(begin["ts"] <= event["ts"] <= end["ts"] for event in events if event.get("name") == "ALLREDUCE")


def test_a_timeline_that_was_not_enabled_is_refused(tmp_path):
    assert_ok(watch(2, "disabled", tmp_path / "x.json"))
    assert not list(tmp_path.iterdir())


def test_a_job_whose_timeline_cannot_be_written_runs_without():
    result = watch(2, "run", HOROVOD_TIMELINE="/nowhere/t.json")
    assert_ok(result)
    assert result.stderr.count("/nowhere/t.json: No such file") == 1


def pid_of_writer(job, path):
    """The process below the launcher that has the file open."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = open(f"/proc/{pid}/stat", encoding="ascii", errors="replace").read()
            parent = int(stat.rsplit(")", 1)[1].split()[1])
            files = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        if parent == job.pid and str(path) in files:
            return int(pid)
    return None


@pytest.mark.parametrize("round_", range(3))
def test_a_rank_that_is_killed_leaves_a_timeline_that_parses(round_, tmp_path):
    path = tmp_path / "killed.json"
    job = subprocess.Popen(
        ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2",
         str(PROGRAMS / "mpi_watch"), "forever"],
        env=environment(HOROVOD_TIMELINE=str(path)), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + limits.seconds(TIMEOUT)
        while not (path.exists() and path.stat().st_size > 300_000 * (1 + round_)):
            assert time.monotonic() < deadline and job.poll() is None
            time.sleep(0.01)
        os.kill(pid_of_writer(job, path), signal.SIGKILL)
        assert job.wait(timeout=limits.seconds(TIMEOUT)) != 0
    finally:
        job.kill()
        job.wait()
    assert names(json.loads(path.read_text()))["ALLREDUCE"] > 100


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_program_reads_what_was_counted(n):
    assert_ok(watch(n, "counters"))


def test_every_rank_writes_its_counters_for_prometheus(tmp_path):
    assert_ok(watch(2, "run", HOROVOD_METRICS_FILE=str(tmp_path / "horovod.prom")))
    assert sorted(os.listdir(tmp_path)) == ["horovod.0.prom", "horovod.1.prom"]
    for rank in range(2):
        text = (tmp_path / f"horovod.{rank}.prom").read_text()
        assert f'horovod_tensors_total{{rank="{rank}",op="allreduce"}} {STEPS}\n' in text
        assert f'horovod_tensor_bytes_total{{rank="{rank}",op="allreduce"}} {STEPS * 24}\n' in text
        for line in text.splitlines():
            assert re.fullmatch(r'# (HELP|TYPE) horovod_\w+ .+|horovod_\w+\{[^}]+\} \d+', line), line


def test_a_job_that_fails_dumps_the_last_events_of_every_rank(tmp_path):
    assert_ok(watch(2, "leave", HOROVOD_FLIGHT_RECORDER=str(tmp_path / "flight")))
    text = (tmp_path / "flight.0").read_text()
    assert text.startswith("flight recorder of rank 0 of 2 at ")
    assert "called horovod_shutdown" in text.splitlines()[0]
    assert "SUBMITTED ALLREDUCE float32 never agreed\n" in text
    assert "by hand" in (tmp_path / "flight.1").read_text().splitlines()[0]


def test_the_flight_recorder_can_write_to_standard_error():
    result = watch(2, "leave", HOROVOD_FLIGHT_RECORDER="-")
    assert_ok(result)
    assert "flight recorder of rank 0 of 2" in result.stderr


def test_a_log_without_time_has_none():
    hidden = watch(2, "run", HOROVOD_TIMELINE="/nowhere/t", HOROVOD_LOG_HIDE_TIME="1").stderr
    shown = watch(2, "run", HOROVOD_TIMELINE="/nowhere/t", HOROVOD_LOG_TIMESTAMP="1").stderr
    assert "level=error" in hidden and "time=" not in hidden
    assert "time=" in shown


@pytest.mark.parametrize("n", [2, 4])
def test_a_stall_that_lasts_ends_the_job_with_its_cause_on_every_rank(n, tmp_path):
    path = tmp_path / "stall.json"
    result = watch(n, "stall", HOROVOD_STALL_CHECK_TIME_SECONDS="0.2", HOROVOD_TIMELINE=str(path),
                   HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="0.5", HOROVOD_FLIGHT_RECORDER="-")
    # mpirun itself calls the job failed: after an abort MPI is not finalised, which could wait for the rank that hangs.
    assert result.returncode in (0, 1), result.stdout + result.stderr
    assert result.stdout.count("failed") == 0, result.stdout
    for rank in range(n):
        assert re.search(rf"^rank {rank}: .*Tensor (stalled|another) is stalled for longer than 0.5 seconds "
                         r".*it waits for rank \d+ on host ", result.stdout, re.M), result.stdout
        assert f"flight recorder of rank {rank} of {n}" in result.stderr
    assert "Missing ranks:" in result.stderr
    assert {"STALLED", "FAILED"} <= set(names(json.loads(path.read_text())))
