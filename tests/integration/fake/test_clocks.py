"""The operator on a machine whose clock is wrong: what it decides and writes follows the API server's clock. The time of
both runs 20 times as fast (tests/integration/chaos/fasttime.c); the fake server's world is ahead or behind."""
import datetime
import subprocess
import time

import pytest

from fake import BUILD, OPERATOR, PROGRAM, Fake, Operator, until

FACTOR = 20
TEN_MINUTES_MS = 600000


def preload(program):
    """The environment in which the program's time is fast; a sanitizer's library stays first."""
    linked = subprocess.run(["ldd", program], text=True, capture_output=True, check=False).stdout
    first = [word for line in linked.splitlines() for word in line.split() if "/libasan" in word][:1]
    return {"LD_PRELOAD": " ".join([*first, str(BUILD / "tests/integration/chaos/chaos_fasttime.so")])}


class World:
    """A fake server with nodes, and an operator on a machine with another clock. All their time is fast."""

    def __init__(self, directory, ahead_ms):
        self.directory, self.step = directory, directory / "step"
        time_of = {"HVD_FASTTIME": f"{FACTOR}:{time.clock_gettime_ns(time.CLOCK_MONOTONIC)}:{time.time_ns()}"}
        variables = {**preload(PROGRAM), **time_of}
        self.fake = Fake(directory, command=("env", *(f"{k}={v}" for k, v in variables.items())), clock_offset_ms=ahead_ms)
        self.environment = {**preload(OPERATOR), **time_of, "HVD_CLOCKSTEP": str(self.step)}

    def operator(self):
        return Operator(self.fake.kubeconfig(), self.directory, environment=self.environment)

    def status(self, name="digits"):
        return (self.fake.get("horovodjobs", name) or {}).get("status", {})

    def now_s(self):
        """The world's time: that of an object that is made now."""
        name = f"now-{time.monotonic_ns()}"
        made = self.fake.create("configmaps", {"metadata": {"name": name}})
        self.fake.remove(resource="configmaps", name=name)
        return seconds(made["metadata"]["creationTimestamp"])


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@pytest.fixture(params=[TEN_MINUTES_MS, 0, -TEN_MINUTES_MS], ids=["operator-behind", "right", "operator-ahead"])
def world(request, tmp_path):
    world = World(tmp_path, request.param)
    world.ahead_ms = request.param
    yield world
    assert world.fake.stop() == 0


@pytest.fixture
def operator(world):
    with world.operator() as operator:
        yield operator.wait_ready()
        assert operator.stop() == 0


def kills(fake):
    return [r for r in fake.writes() if r["resource"] == "pods" and r["verb"] == "delete"
            and '"gracePeriodSeconds":0' in r["body"].replace(" ", "")]


def test_a_pod_that_does_not_end_has_its_grace_and_a_minute_whatever_our_clock_shows(world, operator):
    fake = world.fake
    fake.play(run_ms=-1, terminate_ms=-1)
    fake.apply_job(replicas=2)
    fake.wait_state("Running")
    pod = fake.get("pods", "digits-worker-0")
    fake.delete("pods", "digits-worker-0")
    asked = [r for r in fake.requests(agent=None) if r["verb"] == "delete" and r["name"] == "digits-worker-0"][0]
    grace_s = pod["spec"].get("terminationGracePeriodSeconds", 30)
    until("it is removed by force", lambda: any(r["name"] == "digits-worker-0" for r in kills(fake)), 60)
    kill = next(r for r in kills(fake) if r["name"] == "digits-worker-0")
    waited_s = (kill["ms"] - asked["ms"]) / 1000
    assert grace_s + 58 <= waited_s <= grace_s + 60 + 40, "by the world's clock, from the deletion on"


def test_a_deadline_counts_by_the_servers_clock_and_all_times_are_the_servers(world, operator):
    fake = world.fake
    fake.play(run_ms=-1)
    job = fake.apply_job(replicas=1, activeDeadlineSeconds=60)
    fake.wait_state("Failed", timeout=60)
    status = world.status()
    start, end = seconds(status["startTime"]), seconds(status["completionTime"])
    assert abs(start - seconds(job["metadata"]["creationTimestamp"])) <= 20
    assert 60 <= end - start <= 100
    stamps = [c["lastTransitionTime"] for c in status["conditions"]]
    stamps += [e["firstTimestamp"] if e.get("firstTimestamp") else e["eventTime"] for e in fake.list("events")]
    assert stamps and all(start - 2 <= seconds(stamp) <= end + 60 for stamp in stamps)


def test_a_finished_job_is_removed_after_its_ttl_by_the_servers_clock(world, operator):
    fake = world.fake
    fake.apply_job(replicas=1, ttlSecondsAfterFinished=60)
    fake.wait_state("Succeeded", timeout=60)
    end = seconds(world.status()["completionTime"])
    until("it is removed", lambda: not fake.get("horovodjobs", "digits"), 60)
    assert 58 <= world.now_s() - end <= 130


def test_the_wait_before_a_restart_counts_by_the_servers_clock(world, operator):
    fake = world.fake
    fake.play(exit_codes=[1, 1, 0], run_ms=20)
    fake.apply_job(replicas=1, backoffLimit=2)
    fake.wait_state("Succeeded", timeout=60)
    made = [r["ms"] for r in fake.writes() if r["verb"] == "create" and r["resource"] == "jobs"]
    assert len(made) == 3 and 8000 <= made[2] - made[1] <= 60000


def test_the_difference_is_shown_and_logged_once(world, operator):
    skew = operator.metric("horovod_operator_clock_skew_seconds")
    assert abs(skew + world.ahead_ms / 1000) <= 3
    assert operator.log.read_text().count("clock differs from the API server's") == (world.ahead_ms != 0)


def test_a_step_of_our_clock_changes_nothing(tmp_path):
    world = World(tmp_path, 0)
    fake = world.fake
    fake.play(run_ms=-1)
    with world.operator() as operator:
        operator.wait_ready()
        fake.apply_job("short", replicas=1, activeDeadlineSeconds=100)
        fake.apply_job("long", replicas=1, activeDeadlineSeconds=3600)
        fake.wait_state("Running", "short")
        fake.wait_state("Running", "long")
        world.step.write_text("7200000")
        fake.wait_state("Failed", "short", timeout=60)
        status = world.status("short")
        assert 100 <= seconds(status["completionTime"]) - seconds(status["startTime"]) <= 140
        assert abs(operator.metric("horovod_operator_clock_skew_seconds") - 7200) <= 3
        world.step.write_text("-7200000")
        fake.apply_job("after", replicas=1, activeDeadlineSeconds=60)
        fake.wait_state("Failed", "after", timeout=60)
        assert fake.job_state("long") == "Running"
        assert operator.stop() == 0
    assert fake.stop() == 0


def test_a_step_of_the_servers_clock_is_followed(tmp_path):
    world = World(tmp_path, 0)
    fake = world.fake
    with world.operator() as operator:
        operator.wait_ready()
        fake.apply_job("old", replicas=1, ttlSecondsAfterFinished=7200)
        fake.wait_state("Succeeded", "old")
        fake.configure(clock_offset_ms=3 * 3600000)
        fake.apply_job("new", replicas=1)
        fake.wait_state("Succeeded", "new")
        until("its time is over", lambda: not fake.get("horovodjobs", "old"), 60)
        assert operator.stop() == 0
    assert fake.stop() == 0


@pytest.mark.parametrize("date", ["", "garbage", "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_without_a_usable_date_our_own_clock_counts(tmp_path, date):
    world = World(tmp_path, 0)
    fake = world.fake
    fake.configure(date=date)
    with world.operator() as operator:
        operator.wait_ready()
        job = fake.apply_job(replicas=1)
        fake.wait_state("Succeeded")
        made, start = seconds(job["metadata"]["creationTimestamp"]), seconds(world.status()["startTime"])
        assert abs(start - made) <= 20
        assert operator.metric("horovod_operator_clock_skew_seconds") == 0
        assert operator.stop() == 0
    assert fake.stop() == 0
