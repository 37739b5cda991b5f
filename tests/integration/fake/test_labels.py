"""Labels of ours that somebody edits while a watch is broken, so that the list which follows leaves the object out."""
import pytest

from fake import OPERATOR, Operator, until

MANAGER, JOB, ROLE = "app.kubernetes.io/managed-by", "horovod.io/job-name", "horovod.io/role"
OBJECTS = {"secrets": "digits-ssh", "services": "digits", "configmaps": "digits-hosts", "statefulsets": "digits-worker",
           "jobs": "digits-master", "pods": "digits-worker-1"}
WRITES_MAX = 4


@pytest.fixture
def operator(fake, tmp_path):
    assert OPERATOR.exists(), f"{OPERATOR} is not built: cmake --build --preset dev"
    with Operator(fake.kubeconfig(), tmp_path) as process:
        yield process.wait_ready()
        assert process.stop() == 0


def labels(fake, plural):
    return fake.get(plural, OBJECTS[plural])["metadata"].get("labels", {})


def edit(fake, plural, label, value):
    fake.patch(plural, OBJECTS[plural], {"metadata": {"labels": {label: value}}})


def finish(fake):
    """The master's pod ends as its kubelet would say."""
    pod, = [pod for pod in fake.objects("pods") if "-master-" in pod["metadata"]["name"]]
    fake.patch("pods", pod["metadata"]["name"], {"status": {"phase": "Succeeded", "conditions": []}}, sub="status")
    fake.wait_state("Succeeded")


@pytest.mark.parametrize("plural", list(OBJECTS))
@pytest.mark.parametrize("label, value", [(JOB, None), (JOB, "another"), (MANAGER, "argocd")])
def test_a_list_that_leaves_an_object_out_ends_nothing(fake, operator, plural, label, value):
    fake.play(run_ms=-1)
    fake.apply_job(replicas=2)
    fake.wait_state("Running")
    was, uid = labels(fake, plural), fake.get(plural, OBJECTS[plural])["metadata"]["uid"]
    n_writes = len(fake.writes())
    fake.fault("answer", verb="watch", resource=plural, code=500, times=1)
    fake.watches("drop", plural)
    edit(fake, plural, label, value)
    fake.compact()
    until(lambda: f"{label} is restored: {labels(fake, plural)}", lambda: was.items() <= labels(fake, plural).items())
    assert fake.get(plural, OBJECTS[plural])["metadata"]["uid"] == uid
    assert fake.job_state() == "Running"
    finish(fake)
    assert len([r for r in fake.writes()[n_writes:] if r["agent"].startswith("horovod-operator")]) <= WRITES_MAX + 3


def test_nothing_is_concluded_while_nobody_can_look(fake, operator):
    """The API server does not answer the question whether the Job is there: the workers stay."""
    fake.play(run_ms=-1)
    fake.apply_job(replicas=2)
    fake.wait_state("Running")
    number = fake.fault("answer", verb="get", resource="jobs", code=403, times=-1)
    edit(fake, "jobs", JOB, None)
    until("it was asked for three times", lambda: fake.faults()[-1]["hits"] >= 3)
    assert not [r for r in fake.writes() if r["verb"] == "delete"]
    assert fake.get("statefulsets", "digits-worker")["spec"]["replicas"] == 2 and fake.job_state() == "Running"
    fake.clear_faults()
    until("the label is restored", lambda: labels(fake, "jobs").get(JOB) == "digits")
    finish(fake)
    assert number


def test_a_job_that_ends_in_good_order_is_looked_for_by_nobody(fake, operator):
    fake.apply_job(replicas=3, play={"exit_codes": [3, 0], "run_ms": 20}, backoffLimit=1)
    fake.wait_state("Succeeded")
    until("the workers are gone", lambda: not [p for p in fake.objects("pods") if "-worker-" in p["metadata"]["name"]])
    gets = [r["path"] for r in fake.requests() if r["verb"] == "get" and r["agent"].startswith("horovod-operator")]
    # The first master's pod goes with its Job: its end may be seen before the answer to the deletion of that.
    assert len(gets) <= 1 and all("/pods/digits-master-" in path for path in gets)


@pytest.mark.parametrize("plural", ["jobs", "statefulsets", "pods"])
def test_a_label_that_cannot_be_restored_is_tried_again_seldom(fake, operator, plural):
    """A policy denies the repair: the job goes on, and the requests stay few."""
    fake.play(run_ms=-1)
    fake.apply_job(replicas=2)
    fake.wait_state("Running")
    fake.fault("answer", verb="patch", resource=plural, code=403, times=-1)
    edit(fake, plural, JOB, None)
    until("it was tried twice", lambda: fake.faults()[-1]["hits"] >= 2)
    assert fake.job_state() == "Running"
    assert not [r for r in fake.writes() if r["verb"] == "delete"]
    finish(fake)


def test_labels_of_very_many_pods_that_are_changed_again_and_again_cost_few_writes(fake, operator):
    """A writer that undoes each repair of 400 pods at once: beyond 192 of them the repairs share one wait."""
    fake.play(run_ms=-1)
    fake.apply_job(replicas=400)
    fake.wait_state("Running", timeout=60)
    pods = [f"digits-worker-{n}" for n in range(400)]

    def n_writes():
        return sum(1 for r in fake.writes() if r["verb"] == "patch" and "/pods/" in r["path"])

    for _ in range(4):
        for pod in pods:
            fake.patch("pods", pod, {"metadata": {"labels": {ROLE: "foo"}}})
    until("the fight is told of", lambda: any(c["type"] == "Contested" and c["status"] == "True" for c in
                                              fake.get("horovodjobs", "digits")["status"]["conditions"]), 60)
    # 192 pods with waits of 2 s, 4 s and so on, and of the others one first repair and rounds of 128.
    assert n_writes() <= 192 * 4 + 208 + 4 * 128
    told = [r for r in fake.writes() if r["verb"] == "create" and "/events" in r["path"]]
    assert len(told) <= 192 + 20
    assert fake.job_state() == "Running"
    finish(fake)
