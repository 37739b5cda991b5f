"""A fight over the PodGroup of a job, and what ends it."""
import math
import time

from fake import Operator
from kubeapi import until


def condition(fake, kind):
    return next((c for c in fake.get("horovodjobs", "digits")["status"].get("conditions", []) if c["type"] == kind), {})


def n_creations(fake):
    return sum(r["verb"] == "create" and r["resource"] == "podgroups" for r in fake.requests())


def asks_for_watch(fake, after):
    return any(r["verb"] == "watch" and r["resource"] == "podgroups" for r in fake.requests(after))


def remove_groups_until_it_is_told(fake):
    """Another program removes each group that the operator makes."""
    def is_told():
        fake.remove(resource="podgroups", name="digits")
        return condition(fake, "Contested").get("status") == "True"
    until("the fight is reported", is_told)


def test_a_stream_that_ends_early_ends_no_fight(fake, tmp_path):
    """As behind a load balancer that ends what is idle for a minute."""
    with Operator(fake.kubeconfig(), tmp_path, "--gang-scheduler=volcano") as operator:
        operator.wait_ready()
        fake.play(run_ms=-1)
        fake.apply_job(replicas=1)
        fake.wait_state("Running")
        remove_groups_until_it_is_told(fake)
        begin, made = time.monotonic(), n_creations(fake)
        for _ in range(5):
            fake.remove(resource="podgroups", name="digits")
            asked = fake.requests()[-1]["number"]
            looked = operator.metric("horovod_operator_reconcile_seconds_count")
            assert fake.watches("drop", "podgroups") == 1
            until("it is opened again", lambda: asks_for_watch(fake, asked))
            until("the operator has looked", lambda: operator.metric("horovod_operator_reconcile_seconds_count") > looked)
            until("it rests", lambda: not any(operator.metric(f"horovod_operator_{gauge}")
                                              for gauge in ("queue_depth", "plans_active")))
            # Each repair waits for twice as long as the one before it, which waited for a second or more.
            waited = time.monotonic() - begin
            assert n_creations(fake) - made <= 1 + math.log2(1 + waited), f"within {waited:.1f} s"
        assert condition(fake, "Contested")["status"] == "True", fake.get("horovodjobs", "digits")["status"]
        assert operator.stop() == 0
