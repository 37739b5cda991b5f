"""An API server, or what is before it, that stays silent: the connections stay open and are acknowledged, nothing comes. It is
noticed because bookmarks do not come either, and a new connection is made. The scenes wait long, so they run at once, each with
an operator and a relay of its own."""
import concurrent.futures
import time

import pytest

from kubeapi import Api, Namespace, until
from real_server import Operator
from relay import Relay
from tenants import WRITES_OF_A_LIFE, finish, start_pods

LIMIT_S = 150  # 90 s without a bookmark, a new connection, and a busy machine
HUNG_S = 30


class Scene:
    """An operator of one namespace behind a relay."""

    def __init__(self, server, directory, name):
        self.server, self.directory, self.name = server, directory, name
        self.directory.mkdir()
        api = Api(server.kubeconfig)  # each thread has its own
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": f"silent-{name}"}})
        self.ns = Namespace(api, f"silent-{name}")
        until("the service account", lambda: self.ns.get("serviceaccounts", "default"), 60)
        self.relay, self.operator = Relay(server), None

    def start(self, *args, wait=True):
        self.operator = Operator(self.directory, "--kubeconfig", self.relay.kubeconfig, "--namespace", self.ns.name, *args)
        if wait:
            self.operator.wait_ready(60)

    def succeeds(self, job):
        """A job that was created reaches Succeeded; the seconds until its workers were made."""
        begin = time.monotonic()
        until(lambda: f"workers of {job} in scene {self.name}: {self.operator.get('/readyz')}",
              lambda: self.ns.get("statefulsets", f"{job}-worker"), LIMIT_S)
        took = time.monotonic() - begin
        finish(self.ns, job, start_pods(self.ns, job))
        return took

    def end(self):
        if self.operator and self.operator.process.poll() is None:
            self.operator.kill()
        self.relay.stop()
        self.ns.api.request("DELETE", f"/api/v1/namespaces/{self.ns.name}")


def begin(scene, *args):
    """The first job of the scene's life succeeds."""
    scene.start(*args)
    scene.ns.apply_job("first")
    scene.succeeds("first")
    time.sleep(2)  # what the operator still does about it is done: only watches are under way


def silent_connections(scene):
    begin(scene)
    scene.relay.silence()
    scene.ns.apply_job("second")
    return scene.succeeds("second")


def hung_server(scene):
    """New connections are not answered either for a while."""
    begin(scene)
    scene.relay.hang()
    scene.ns.apply_job("second")
    time.sleep(HUNG_S)
    scene.relay.revive()
    return scene.succeeds("second")


def silent_watches(scene):
    """All else is answered, as the renewals of the Lease, so the connection seems to be well."""
    begin(scene, "--leader-elect", "--lease-namespace", scene.ns.name)
    scene.relay.withhold_open_streams()
    scene.ns.apply_job("second")
    return scene.succeeds("second")


def silent_lists(scene):
    """The first two connections end in the middle of the first answers."""
    scene.relay.allowances = [700, 3000]
    scene.start(wait=False)
    scene.ns.apply_job("first")
    scene.ns.apply_job("second")
    took = scene.succeeds("first")
    scene.succeeds("second")
    return took


def silent_while_it_runs(scene):
    """A master that runs ends in the silence."""
    begin(scene)
    scene.ns.apply_job("second")
    master = start_pods(scene.ns, "second")
    time.sleep(1)
    scene.relay.silence()
    scene.ns.end_master(master)
    begin_s = time.monotonic()
    scene.ns.wait_state("Succeeded", "second", LIMIT_S)
    return time.monotonic() - begin_s


SCENES = [silent_connections, hung_server, silent_watches, silent_lists, silent_while_it_runs]


def play(server, directory, scene_of):
    """(seconds, writes) of a scene."""
    scene = Scene(server, directory / scene_of.__name__, scene_of.__name__.replace("_", "-"))
    try:
        took = scene_of(scene)
        writes = [write for write in server.writes(scene.ns.name) if not write[1].startswith("leases")]
        return took, writes
    finally:
        scene.end()


@pytest.fixture(scope="module")
def played(server, tmp_path_factory):
    directory = tmp_path_factory.mktemp("silent")
    with concurrent.futures.ThreadPoolExecutor(len(SCENES)) as pool:
        yield {scene: pool.submit(play, server, directory, scene) for scene in SCENES}


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_server_that_stays_silent_is_left_for_a_new_connection(played, scene):
    took, writes = played[scene].result()
    print(f"{scene.__name__}: works again after {took:.0f} s")
    assert len(writes) <= 2 * WRITES_OF_A_LIFE, writes
