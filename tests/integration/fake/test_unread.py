"""Objects that the watch shows no longer and that nobody may read: nothing is decided about their job, and it is told."""
import pytest

from fake import Operator, until

MESSAGE = 'is forbidden: User "system:serviceaccount:default:operator" cannot get resource'


def told(fake):
    conditions = fake.get("horovodjobs", "digits").get("status", {}).get("conditions", [])
    return next((c["message"] for c in conditions if c["type"] == "WorkersReady"), "")


@pytest.mark.parametrize("plural, kind, name", [("pods", "Pod", "digits-worker-0"), ("jobs", "Job", "digits-master")])
def test_what_may_not_be_read_is_told_and_holds_its_job_up_until_it_may(fake, tmp_path, plural, kind, name):
    with Operator(fake.kubeconfig(), tmp_path) as operator:
        operator.wait_ready()
        fake.play(run_ms=1000)
        fake.apply_job(replicas=2)
        fake.wait_state("Running")
        fake.fault("answer", verb="get", resource=plural, times=-1, code=403, reason="Forbidden", message=MESSAGE)
        fake.patch(plural, name, {"metadata": {"labels": {"horovod.io/job-name": None}}})
        until(lambda: f"it is told: {told(fake)}", lambda: told(fake).startswith(f"{kind} {name} cannot be read, will be tried again"))
        assert MESSAGE in told(fake)
        until("the event", lambda: [e["reason"] for e in fake.objects("events")].count("Denied") == 1)
        fake.clear_faults()
        fake.wait_state("Succeeded", timeout=60)
        assert [e["reason"] for e in fake.objects("events")].count("LabelsRestored") == 1
        assert operator.stop() == 0
