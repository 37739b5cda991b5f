"""Tenants of a cluster, played: what their users and the kubelets of their nodes do."""
import os

from kubeapi import Namespace, until

LIMIT_S = int(os.environ.get("HVD_HOSTILE_LIMIT_S", "60"))  # for anything to happen, on a machine that is busy with an attack
WRITES_OF_A_LIFE = 16  # of the operator for a job of two workers: 11, and those of progress on a slow machine


def run_job(ns, name="digits", replicas=2, **spec):
    """A job that runs; the name of its master's pod."""
    ns.apply_job(name, replicas=replicas, **spec)
    return start_pods(ns, name, replicas)


def start_pods(ns, name="digits", replicas=2):
    """The kubelets start workers and master; the name of the master's pod."""
    ns.start_workers(replicas, name, LIMIT_S)
    master = ns.start_master(name, LIMIT_S)
    ns.wait_state("Running", name, LIMIT_S)
    return master


def finish(ns, name="digits", master=None):
    """The master ends well, and so must the job."""
    ns.end_master(master or ns.master(name))
    ns.wait_state("Succeeded", name, LIMIT_S)


class Bystander:
    """Somebody with a namespace, who runs one job after the other."""

    def __init__(self, ns):
        self.ns, self.lives = ns, 0

    def succeeds(self):
        """The life of a job, from its creation to Succeeded."""
        name = f"other-{self.lives}"
        finish(self.ns, name, run_job(self.ns, name))
        assert self.ns.status(name)["attempts"] == 1
        self.lives += 1

    def assert_few_writes(self, server, of_a_life=WRITES_OF_A_LIFE):
        """The operator wrote no more for its jobs than they need."""
        writes = server.writes(self.ns.name)
        assert len(writes) <= self.lives * of_a_life, writes


def bystander_on(server, name="bystander"):
    """One in a namespace of its own, on a server that is the test's own."""
    server.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    ns = Namespace(server.api, name)
    until("the service account", lambda: ns.get("serviceaccounts", "default"), LIMIT_S)
    return Bystander(ns)
