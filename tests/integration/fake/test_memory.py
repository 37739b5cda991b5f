"""Specs as large as an API server takes them, of many jobs: what the operator holds of them is bounded, and what it does not hold
it reads when, and only when, it makes something of it."""
import pathlib
import re

import pytest

from fake import BUILD, OPERATOR, Operator, until

MIB = 1 << 20
N_JOBS = 60
N_ACTIVE = 44
SPEC_BYTES = 480_000
HELD_MAX = 16 * MIB
BASE = 16 * MIB  # of an operator that holds nothing
NAMES = [f"large-{i}" for i in range(N_JOBS)]
LARGE = [{"name": f"FILLING_{i}", "value": "x" * 60_000} for i in range(SPEC_BYTES // 60_000)]
AT_REST = {"suspended": {"suspend": True}, "of another manager": {"managedBy": "example.com/other"},
           "invalid": {"backoffLimit": -7}, "finished": {}}


@pytest.fixture
def operator(fake, tmp_path):
    assert OPERATOR.exists(), f"{OPERATOR} is not built: cmake --build --preset dev"
    with Operator(fake.kubeconfig(), tmp_path) as process:
        yield process.wait_ready()
        assert process.stop() == 0


def resident_bytes(process):
    status = pathlib.Path(f"/proc/{process.process.pid}/status").read_text("utf-8")
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024


def assert_resident(process, most):
    if "san" in str(BUILD.name):  # sanitizers take memory of their own
        return
    until(lambda: f"resident memory is at most {most / MIB:.0f} MiB, it is {resident_bytes(process) / MIB:.1f}",
          lambda: resident_bytes(process) <= most)


def held_bytes(process):
    return process.metric("horovod_operator_spec_bytes")


def assert_nothing_held(process):
    until(lambda: f"no spec is held, but {held_bytes(process)} bytes are", lambda: held_bytes(process) == 0)
    assert_resident(process, BASE + 16 * MIB)


def reads(fake, names=None):
    """How often specs were read by name."""
    return len([r for r in fake.requests() if r["verb"] == "get" and r["resource"] == "horovodjobs"
                and (names is None or r["name"] in names)])


def run_another(fake, name):
    """A job beside them, for which nothing has to be read."""
    fake.apply_job(name, play={"run_ms": 50})
    fake.wait_state("Succeeded", name)
    assert reads(fake, [name]) == 0


@pytest.mark.parametrize("what", list(AT_REST))
def test_jobs_at_rest_leave_nothing_of_their_specs(fake, tmp_path, what):
    state = {"suspended": "Suspended", "of another manager": None, "invalid": "Failed", "finished": "Succeeded"}[what]
    fake.play(run_ms=0)
    with Operator(fake.kubeconfig(), tmp_path) as first:
        first.wait_ready()
        for name in NAMES:
            fake.apply_job(name, replicas=1, env=LARGE, **AT_REST[what])
        for name in NAMES if state else []:
            fake.wait_state(state, name, timeout=60)
        run_another(fake, "bystander")
        assert_nothing_held(first)
        before = reads(fake)
        assert before == 0 or what == "finished"
        for name in NAMES[:20]:  # a change that is not of the spec needs no spec
            fake.patch("horovodjobs", name, {"metadata": {"annotations": {"example.com/note": "y" * 1000}}})
        run_another(fake, "another")
        assert_nothing_held(first)
        assert first.stop() == 0
    with Operator(fake.kubeconfig(), tmp_path) as second:  # which lists them all
        second.wait_ready()
        run_another(fake, "third")
        assert_nothing_held(second)
        assert reads(fake) == before
        assert second.stop() == 0


def test_specs_of_active_jobs_are_held_up_to_a_bound_and_read_when_they_are_needed(fake, operator):
    names = NAMES[:N_ACTIVE]
    fake.play(run_ms=-1)
    for name in names:
        fake.apply_job(name, replicas=1, env=LARGE, backoffLimit=1)
    for name in names:
        fake.wait_state("Running", name, timeout=60)
    run_another(fake, "bystander")
    assert HELD_MAX - 2 * SPEC_BYTES < held_bytes(operator) <= HELD_MAX
    assert_resident(operator, BASE + HELD_MAX + 32 * MIB)
    before = reads(fake)
    assert before <= 5 * N_ACTIVE
    run_another(fake, "another")
    assert reads(fake) == before  # nothing happens to the large ones
    for pod in fake.objects("pods"):  # each fails once, and is started again from its spec
        if "-master-" in pod["metadata"]["name"]:
            fake.patch("pods", pod["metadata"]["name"], {"status": {"phase": "Failed", "conditions": []}}, sub="status")
    for name in names:
        until(lambda: f"{name} has a second attempt",
              lambda: (fake.get("horovodjobs", name)["status"].get("failures"), fake.job_state(name)) == (1, "Running"), 60)
    assert reads(fake) > before
    assert reads(fake) <= before + 8 * N_ACTIVE
    assert held_bytes(operator) <= HELD_MAX
    assert_resident(operator, BASE + HELD_MAX + 32 * MIB)


def test_an_ordinary_life_reads_no_spec(fake, operator):
    fake.play(run_ms=50, exit_codes=[1, 0])
    fake.apply_job("once", replicas=4, backoffLimit=1)
    fake.wait_state("Succeeded", "once")
    fake.apply_job("twice", replicas=4, play={"run_ms": -1})
    fake.wait_state("Running", "twice")
    fake.patch("horovodjobs", "twice", {"spec": {"suspend": True}})
    until("it is suspended, and no write of it is under way", lambda: any(
        condition["type"] == "Suspended" and condition["status"] == "True"
        for condition in fake.get("horovodjobs", "twice")["status"]["conditions"]))
    fake.patch("horovodjobs", "twice", {"spec": {"suspend": False}})
    fake.wait_state("Running", "twice")
    assert reads(fake) == 0
    assert 0 < held_bytes(operator) < 4096
