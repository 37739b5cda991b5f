"""The operator is killed at every request of a job's life, once before the request has its effect and once after it,
and another one takes over: the same end, nothing twice, nothing lost."""
import concurrent.futures
import os

import pytest

import chaos
import play
import state
import world
from program import Setting, Step
from world import until

SPEC = {"image": "localhost/horovod-worker:0.1.0", "command": ["train"], "worker": {"replicas": 2}, "backoffLimit": 1}
GROUPS = {**SPEC, "workerGroups": [{"name": "big", "replicas": 1, "slotsPerWorker": 2}, {"name": "tiny", "replicas": 1}],
          "runMasterAsWorker": True, "topologyKeys": ["topology.kubernetes.io/zone"]}
LIVES = {
    "one group": (Setting(None, 0), [
        Step("create", "a", (SPEC,)), Step("wait", "a"), Step("scale", "a", (3,)), Step("finish", "a", (3,)),
        Step("wait", "a"), Step("suspend", "a"), Step("wait", "a"), Step("resume", "a", ("example.com/train:2",)),
        Step("finish", "a", (0,))]),
    "groups and a gang": (Setting("scheduler-plugins", 100), [
        Step("create", "a", (GROUPS,)), Step("wait", "a"), Step("scale_group", "a", ("big", 2)),
        Step("lose_worker", "a", ("tiny",)), Step("wait", "a"), Step("suspend", "a"), Step("wait", "a"),
        Step("resume", "a", ("example.com/train:2", GROUPS["workerGroups"][:1])), Step("remove_master", "a"),
        Step("finish", "a", (0,))]),
}
MOST_REQUESTS = 400
MOST_WRITES = 1.25  # times those without a death: lists of hosts and counts that were written in one go, or not


class DyingWorld(world.World):
    """Its operator dies when the server stops answering; the next one finds a server without faults."""

    has_died = False

    def look(self):
        if not self.has_died and self.control("GET", "state")["frozen"]:
            self.has_died = True
            self.kill()
            self.control("DELETE", "faults")
            self.control("POST", "unfreeze", {})
            self.start()
        return self.is_alive()


def live(name, wanted=None, nth=None, is_executed=False):
    """A job's life, with a death at the request of that number. (objects, events, writes), None if nobody died."""
    setting, steps = LIVES[name]
    here = DyingWorld(setting=setting)
    player = play.Player(here, chaos.NAMESPACE)

    def objects():
        return state.take(here.api, chaos.NAMESPACE)
    try:
        if nth:
            here.add_fault({"action": "freeze", "nth": nth, "executed": is_executed})
        here.start()
        for step in steps:
            player.do(step)
            player.until("the operator answers", lambda: True)  # a death behind the last wait
        chaos.wait_settled(player, ["a"])
        if wanted:
            until(lambda: "\n".join(state.difference(wanted[0], objects())), lambda: objects() == wanted[0], play.LIMIT,
                  is_possible=here.look)
        chaos.wait_quiet(here)
        if here.look() and nth and not here.has_died:
            return None
        writes = [r for r in chaos.writes(here.records()) if r["executed"] and r["code"] < 300]
        return (objects(), state.events(here.api, chaos.NAMESPACE),
                [f"{r['verb']} {r['resource']} {r['name']} {r['subresource']}" for r in writes])
    finally:
        here.end()
        here.forget()


def check(name, nth, is_executed, wanted):
    """What is wrong after that death; None when there was no request of that number any more."""
    where = f"killed {'after' if is_executed else 'before'} request {nth}: "
    try:
        found = live(name, wanted, nth, is_executed)
    except AssertionError as error:
        return [where + str(error)]
    if found is None:
        return None
    wrong = state.difference(wanted[0], found[0]) + state.difference(wanted[1], found[1])
    if len(found[2]) > len(wanted[2]) * MOST_WRITES:
        wrong.append(f"{len(found[2])} writes, {len(wanted[2])} without a death: {found[2]}")
    return [where + line for line in wrong]


@pytest.mark.parametrize("name", LIVES)
def test_a_death_at_any_request_changes_nothing_in_the_end(name):
    wanted = live(name)
    assert wanted[0]["horovodjobs/a"]["status"]["state"] == "Succeeded"
    wrong, n_deaths, nth = [], 0, 1
    with concurrent.futures.ThreadPoolExecutor(2 * os.cpu_count()) as pool:
        while nth < MOST_REQUESTS:
            points = [(n, is_executed) for n in range(nth, nth + 8) for is_executed in (False, True)]
            results = list(pool.map(lambda point: check(name, *point, wanted), points))
            wrong += [line for result in results if result for line in result]
            n_deaths += sum(result is not None for result in results)
            if all(result is None for result in results):
                break
            nth += 8
    assert not wrong, f"after {n_deaths} deaths:\n" + "\n".join(wrong[:40])
    assert 60 < n_deaths < 2 * MOST_REQUESTS
