"""What /metrics counts of the outcomes of jobs: each once, by the operator that works, whoever restarts."""
import time

from kubeapi import until

COUNTS = ("created", "succeeded", "failed", "restarted")


def counts(operator):
    """By outcome, over all reasons."""
    return {name: operator.metric(f"horovod_operator_jobs_{name}_total") for name in COUNTS}


def expect(operator, **expected):
    """The counts become these; those that are not named are 0."""
    wanted = {**dict.fromkeys(COUNTS, 0), **expected}
    until(lambda: f"counts {wanted}, they are {counts(operator)}", lambda: counts(operator) == wanted)


def run(ns, name, **spec):
    """A job that runs; its master's pod."""
    ns.apply_job(name, **spec)
    ns.start_workers(job=name)
    master = ns.start_master(name)
    ns.wait_state("Running", name)
    return master


def starts(operator):
    return operator.metric("horovod_operator_job_start_seconds_count")


def test_outcomes_are_counted_by_reason_and_not_again_after_a_restart(ns, run_operator):
    first = run_operator()
    expect(first)
    ns.end_master(run(ns, "good"))
    ns.wait_state("Succeeded", "good")
    expect(first, created=1, succeeded=1)
    ns.end_master(run(ns, "bad", backoffLimit=1), code=3)
    until("the second attempt", lambda: ns.status("bad").get("failures") == 1)
    expect(first, created=2, succeeded=1, restarted=1)
    assert first.metric("horovod_operator_jobs_restarted_total", reason="MasterFailed") == 1
    ns.start_workers(job="bad")
    ns.end_master(ns.start_master("bad"), code=3)
    ns.wait_state("Failed", "bad", timeout=60)
    expect(first, created=2, succeeded=1, restarted=1, failed=1)
    assert first.metric("horovod_operator_jobs_failed_total", reason="MasterFailed") == 1
    assert starts(first) == 2
    master = run(ns, "longer")
    expect(first, created=3, succeeded=1, restarted=1, failed=1)
    first.stop()

    second = run_operator()
    expect(second)
    ns.end_master(master)
    ns.wait_state("Succeeded", "longer")
    expect(second, succeeded=1)
    assert starts(second) == 0


def test_of_two_operators_the_leader_counts(ns, run_operator):
    words = ("--leader-elect", "--lease-namespace", ns.name, "--lease-duration", "3")
    both = [run_operator(*words) for _ in range(2)]
    until("a leader", lambda: sum(one.metric("horovod_operator_leader") for one in both) == 1)
    both.sort(key=lambda one: one.metric("horovod_operator_leader"))
    ns.end_master(run(ns, "good"))
    ns.wait_state("Succeeded", "good")
    expect(both[1], created=1, succeeded=1)
    until("the standby to see it", lambda: both[0].metric("horovod_operator_jobs", state="Succeeded") == 1)
    expect(both[0])


def test_what_became_of_jobs_while_no_operator_ran_is_counted_when_it_is_written(ns, run_operator):
    first = run_operator()
    master = run(ns, "long")
    first.stop()
    ns.end_master(master)
    ns.apply_job("new")
    second = run_operator()
    ns.wait_state("Succeeded", "long")
    expect(second, created=1, succeeded=1)


def test_the_time_to_running_is_that_since_the_jobs_creation(ns, run_operator):
    operator = run_operator()
    begin = time.time()
    ns.apply_job("slow")
    ns.start_workers(job="slow")
    time.sleep(2)  # the time is what is measured
    ns.start_master("slow")
    ns.wait_state("Running", "slow")
    until("the start", lambda: starts(operator) == 1)
    total = operator.metric("horovod_operator_job_start_seconds_sum")
    assert 1 <= total <= time.time() - begin + 1
    assert operator.metric("horovod_operator_job_start_seconds_bucket", le="1") == (1 if total <= 1 else 0)
