"""The operator on the fake server: what the real one cannot be made to do."""
import copy
import json

import pytest

from fake import OPERATOR, Operator, until


@pytest.fixture
def operator(fake, tmp_path):
    assert OPERATOR.exists(), f"{OPERATOR} is not built: cmake --build --preset dev"
    with Operator(fake.kubeconfig(), tmp_path) as process:
        yield process.wait_ready()
        assert process.stop() == 0


@pytest.mark.parametrize("plural, name", [("configmaps", "digits-hosts"), ("statefulsets", "digits-worker")])
def test_a_child_that_was_replaced_unseen_is_read_again_and_the_job_goes_on(fake, operator, plural, name):
    fake.play(run_ms=-1)
    fake.apply_job(replicas=2)
    fake.wait_state("Running")
    assert fake.watches("hang", plural) == 1, "from here on the operator's knowledge of them is old"
    fake.play(off=True)
    child = copy.deepcopy(fake.get(plural, name))
    fake.remove(resource=plural, name=name)
    fake.put(child)
    assert fake.get(plural, name)["metadata"]["uid"] != child["metadata"]["uid"]
    fake.play(off=False)
    fake.patch("horovodjobs", "digits", {"spec": {"worker": {"replicas": 3}}})
    until("a patch was refused", lambda: any(r["code"] == 422 for r in fake.writes()))
    until("the list has three hosts", lambda: len(fake.get("configmaps", "digits-hosts")["data"]["hostfile"].split("\n")) == 4)
    until("three are wanted", lambda: fake.get("statefulsets", "digits-worker")["spec"]["replicas"] == 3)
    assert fake.job_state() == "Running"


def test_a_job_runs_as_its_script_says_and_every_request_is_written_down(fake, operator):
    fake.apply_job(replicas=3, play={"exit_codes": [3, 0], "run_ms": 20}, backoffLimit=1)
    fake.wait_state("Succeeded")
    assert fake.get("horovodjobs", "digits")["status"]["attempts"] == 2
    made = [r["name"] for r in fake.writes() if r["verb"] == "create" and r["resource"] == "jobs"]
    assert made == ["digits-master", "digits-master"]
    bodies = [r["body"] for r in fake.writes() if r["resource"] == "horovodjobs"]
    assert bodies and all(json.loads(body)["status"] for body in bodies)
    assert not any("body" in r for r in fake.writes() if r["resource"] == "secrets"), "keys must not be recorded"
