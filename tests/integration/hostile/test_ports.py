"""The ports of jobs on the nodes' network, of which all namespaces share one range."""
from kubeapi import until
from tenants import LIMIT_S, finish, start_pods

PORTS = range(25000, 25018)
HOST = {"hostNetwork": True}


def port_of(ns, name):
    return ns.status(name).get("sshPort")


def run_and_finish(bystander, name):
    """A job of the other tenant on the nodes' network, from its creation to Succeeded."""
    ns = bystander.ns
    ns.apply_job(name, network=HOST)
    master = start_pods(ns, name)
    port = port_of(ns, name)
    finish(ns, name, master)
    bystander.lives += 1
    return port


def test_ports_set_by_hand_and_those_of_idle_jobs_keep_no_other_tenant_waiting(ns, run_operator, attack, bystander):
    """The tenant sets each port of the range by hand: in jobs that are suspended, that another controller manages, or that run."""
    run_operator(f"--ssh-ports={PORTS[0]}-{PORTS[5]}")
    with attack(2 * 10):
        for i, more in enumerate([{"suspend": True}, {"managedBy": "example.com/other"}, {}] * 2):
            ns.apply_job(f"greedy-{i}", replicas=1, network=HOST, ssh={"port": PORTS[i]}, **more)
        until("two of them have workers", lambda: ns.workers("greedy-2") and ns.workers("greedy-5"), LIMIT_S)
        assert run_and_finish(bystander, "other") in set(PORTS[:6]) - {PORTS[2], PORTS[5]}
        for i in (0, 1, 3, 4):
            ns.patch("horovodjobs", f"greedy-{i}", {"metadata": {"annotations": {"touched": "yes"}}})
        assert run_and_finish(bystander, "another") in PORTS[:6]


def test_a_tenant_that_takes_all_ports_it_can_leaves_some(ns, run_operator, attack, bystander):
    """18 ports: one namespace gets 16 of them, and its jobs that wait cost nothing."""
    run_operator(f"--ssh-ports={PORTS[0]}-{PORTS[-1]}")
    names = [f"greedy-{i}" for i in range(20)]
    with attack(20 * 10):
        for name in names:
            ns.apply_job(name, replicas=1, network=HOST)

        def waiting():
            return {name for name in names if (ns.condition("Running", name) or {}).get("reason") == "NoFreePort"}
        until(lambda: f"four wait: {waiting()}", lambda: len(waiting()) == 4, LIMIT_S)
        taken = {port_of(ns, name) for name in names} - {None}
        assert len(taken) == 16
        assert run_and_finish(bystander, "other") not in taken
        assert run_and_finish(bystander, "another") not in taken
        # One that ends leaves its port to one that waits, however many of them the tenant has.
        late = waiting()
        gone = next(name for name in names if name not in late)
        ns.delete("horovodjobs", gone)
        until("one of them got a port", lambda: len([name for name in late if port_of(ns, name)]) == 1, LIMIT_S)
