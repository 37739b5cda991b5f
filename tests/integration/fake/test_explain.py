"""What it costs to read why the pods of many jobs are missing: few lists of events, and no work while nothing changes."""
import pytest

from fake import OPERATOR, Operator, until

JOBS, FEW = 200, 10
BURST, PERIOD_S = 5, 2
REASON = "forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0"


@pytest.fixture
def operator(fake, tmp_path):
    assert OPERATOR.exists(), f"{OPERATOR} is not built: cmake --build --preset dev"
    with Operator(fake.kubeconfig(), tmp_path) as process:
        yield process.wait_ready()
        assert process.stop() == 0


def lists(fake):
    return [r for r in fake.requests() if r["verb"] == "list" and r["resource"] == "events"]


def refuse_pods(fake, name, i, ns="default"):
    """The StatefulSet controller writes that it cannot make a pod."""
    owner = fake.get("statefulsets", name, ns)
    fake.put({"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": ns, "name": f"refused-{i}"},
              "involvedObject": {"kind": "StatefulSet", "name": name, "uid": owner["metadata"]["uid"]}, "type": "Warning",
              "reason": "FailedCreate", "message": f'create Pod {name}-0 in StatefulSet {name} failed error: pods "{name}-0" is {REASON}',
              "lastTimestamp": owner["metadata"]["creationTimestamp"]})


def told(fake):
    jobs = fake.objects("horovodjobs")
    return [j for j in jobs if "exceeded quota" in (j.get("status") or {}).get("message", "")]


def passes(operator):
    return int(operator.metric("horovod_operator_reconcile_seconds_count"))


def settled(operator):
    """No pass between two looks."""
    n = passes(operator)
    return passes(operator) == n


def test_many_blocked_jobs_cost_few_lists_and_nothing_while_nothing_changes(fake, operator):
    fake.play(off=True)
    for i in range(JOBS):
        fake.apply_job(f"j{i}", replicas=2)
    until("all sets are there", lambda: len(fake.objects("statefulsets")) == JOBS, 60)
    for i in range(JOBS):
        refuse_pods(fake, f"j{i}-worker", i)
    until("each job tells of the quota", lambda: len(told(fake)) == JOBS, 120)
    asked = lists(fake)
    seconds = (asked[-1]["ms"] - asked[0]["ms"]) / 1000
    assert len(asked) <= min(BURST + 1 + seconds / PERIOD_S, JOBS / 10), len(asked)
    # Nothing changes until the next list, and then neither: each job is looked at when its next question is due, and when that is asked.
    until("the last status is written", lambda: settled(operator))
    n_writes, n_passes, n_lists = len(fake.writes()), passes(operator), len(lists(fake))
    until("it is asked again", lambda: len(lists(fake)) > n_lists, 120)
    assert len(fake.writes()) == n_writes
    assert passes(operator) - n_passes <= 3 * JOBS
    seconds = (lists(fake)[-1]["ms"] - asked[0]["ms"]) / 1000
    assert len(lists(fake)) <= BURST + 1 + seconds / PERIOD_S


def test_jobs_of_many_namespaces_share_the_ration(fake, operator):
    fake.play(off=True)
    for i in range(FEW):
        fake.apply_job("digits", ns=f"ns-{i}")
    until("all sets are there", lambda: len(fake.objects("statefulsets")) == FEW, 60)
    for i in range(FEW):
        refuse_pods(fake, "digits-worker", i, f"ns-{i}")
    until("each job tells of the quota", lambda: len(told(fake)) == FEW, 120)
    asked = lists(fake)
    assert len(asked) <= BURST + 1 + (asked[-1]["ms"] - asked[0]["ms"]) / 1000 / PERIOD_S
