"""What only the fake does: faults, records, played controllers. The operator is not needed here."""
import http.client
import json
import socket
import time

import pytest

import limits
from fake import AGENT, ApiError, until

AS_OPERATOR = {"User-Agent": AGENT + "/test"}


def ask(fake, method="GET", path="/api/v1/configmaps", body=None, timeout=5):
    """(code, text) for a request of the program under test, on a connection of its own; code 0: none came."""
    connection = http.client.HTTPConnection("127.0.0.1", fake.port, timeout=timeout)
    try:
        connection.request(method, path, json.dumps(body) if body else None, {**AS_OPERATOR, "Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode(), response.headers
    except (http.client.HTTPException, OSError):
        return 0, "", {}
    finally:
        connection.close()


def make(fake, name="m"):
    return ask(fake, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}, "data": {"a": "b"}})


class Watch:
    """A watch of the program under test."""

    def __init__(self, fake, plural="configmaps", version=0):
        self.connection = http.client.HTTPConnection("127.0.0.1", fake.port, timeout=5)
        self.connection.request("GET", f"/api/v1/{plural}?watch=true&allowWatchBookmarks=true&resourceVersion={version}",
                                headers=AS_OPERATOR)
        self.response = self.connection.getresponse()

    def events(self, n):
        """(type, name) of the next n lines."""
        lines = [json.loads(self.response.readline()) for _ in range(n)]
        return [(line["type"], line["object"].get("metadata", {}).get("name") or line["object"].get("code")) for line in lines]

    def rest(self):
        try:
            return self.response.read().decode()
        except (http.client.HTTPException, OSError):
            return "cut off"


def test_only_the_nth_matching_request_of_the_program_under_test_is_struck(fake):
    fault = fake.fault("answer", verb="create", resource="configmaps", nth=2, code=429, retry_after=3, message="slow down")
    fake.create("configmaps", {"metadata": {"name": "not-the-operator"}})
    codes = [make(fake, f"m{i}")[0] for i in range(3)]
    assert codes == [201, 429, 201] and fake.get("configmaps", "m1") is None
    assert fake.faults() == [{"id": fault, "action": "answer", "seen": 3, "hits": 1}]
    struck = next(r for r in fake.requests() if r["fault"])
    assert (struck["verb"], struck["name"], struck["code"], struck["executed"]) == ("create", "m1", 429, False)
    assert json.loads(struck["body"])["metadata"]["name"] == "m1"
    fake.fault("answer", verb="write", code=429, retry_after=3)
    assert make(fake, "m4")[2]["Retry-After"] == "3"


@pytest.mark.parametrize("executed", [True, False])
@pytest.mark.parametrize("action", ["answer", "drop"])
def test_an_answer_is_lost_with_or_without_its_effect(fake, action, executed):
    fake.fault(action, verb="create", code=504, executed=executed)
    code, _, _ = make(fake)
    assert code == (504 if action == "answer" else 0)
    assert (fake.get("configmaps", "m") is not None) == executed
    assert fake.requests()[0]["executed"] == executed


def test_answers_come_in_halves_in_drops_late_or_as_garbage(fake):
    make(fake)
    fake.fault("half", verb="list", bytes=150)
    assert ask(fake)[0] == 0
    fake.clear_faults()
    fake.fault("slow", verb="list", bytes=64, delay_ms=20)
    begin = time.monotonic()
    code, text, _ = ask(fake)
    assert code == 200 and json.loads(text)["items"] and time.monotonic() - begin > 0.08
    fake.clear_faults()
    fake.fault("delay", verb="list", delay_ms=100)
    begin = time.monotonic()
    assert ask(fake)[0] == 200 and time.monotonic() - begin > 0.1
    fake.clear_faults()
    fake.fault("garbage", verb="list")
    with pytest.raises(ValueError):
        json.loads(ask(fake)[1])
    fake.clear_faults()
    fake.fault("hang", verb="list")
    assert ask(fake, timeout=0.3)[0] == 0


def test_frozen_it_answers_tests_but_not_the_program_and_the_world_goes_on(fake):
    fake.fault("freeze", verb="create", nth=2, executed=True)
    assert make(fake, "m1")[0] == 201
    assert ask(fake, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "m2"}}, timeout=0.2)[0] == 0
    assert fake.state()["frozen"] and ask(fake, timeout=0.2)[0] == 0
    assert fake.get("configmaps", "m2") is not None
    fake.unfreeze()
    assert ask(fake)[0] == 200


def test_tokens_expire(fake):
    fake.configure(tokens=["good"])
    assert ask(fake)[0] == 401 and fake.list("configmaps") == []
    fake.configure(tokens=None)
    assert ask(fake)[0] == 200


def test_a_watch_ends_in_the_middle_with_410_garbage_half_a_line_or_nothing(fake):
    for action, rest in (("answer", '"code":410'), ("garbage", "this is not JSON"), ("half", "cut off"), ("drop", "cut off")):
        fake.clear_faults()
        fake.fault(action, verb="watch", code=410, after_events=1)
        watch = Watch(fake, version=fake.state()["resourceVersion"])
        make(fake, f"m-{action}")
        assert watch.events(1) == [("ADDED", f"m-{action}")]
        assert rest in watch.rest()
    fake.clear_faults()
    watch = Watch(fake)
    assert fake.watches("gone", "pods") == 0 and fake.watches("gone") == 1
    assert watch.events(5)[4] == ("ERROR", 410)


def test_events_come_twice_or_in_another_order_but_never_of_one_object(fake):
    fake.fault("duplicate", verb="watch", events=1)
    watch = Watch(fake, version=fake.state()["resourceVersion"])
    make(fake, "m1"), make(fake, "m2")
    assert watch.events(3) == [("ADDED", "m1"), ("ADDED", "m1"), ("ADDED", "m2")]
    fake.clear_faults()
    fake.fault("reorder", verb="watch")
    watch = Watch(fake, version=fake.state()["resourceVersion"])
    make(fake, "m3"), make(fake, "m4"), make(fake, "m5")
    assert watch.events(3) == [("ADDED", "m4"), ("ADDED", "m3"), ("ADDED", "m5")]
    fake.patch("configmaps", "m5", {"data": {"a": "1"}})
    fake.patch("configmaps", "m5", {"data": {"a": "2"}})
    versions = [json.loads(watch.response.readline())["object"]["data"]["a"] for _ in range(2)]
    assert versions == ["1", "2"]


def test_after_a_compaction_old_versions_and_next_pages_are_gone(fake):
    for i in range(3):
        make(fake, f"m{i}")
    page = fake.request("GET", "/api/v1/configmaps?limit=1")
    fake.compact()
    with pytest.raises(ApiError) as error:
        fake.request("GET", "/api/v1/configmaps?limit=1&continue=" + page["metadata"]["continue"])
    assert error.value.code == 410 and error.value.body["reason"] == "Expired"
    assert Watch(fake, version=1).events(1) == [("ERROR", 410)]
    assert Watch(fake, version=0).events(3)[2][0] == "ADDED"


def test_latency_holds_for_every_request_but_not_for_control(fake):
    fake.configure(latency_ms=30)
    begin = time.monotonic()
    fake.get("configmaps", "m")
    assert time.monotonic() - begin >= 0.03
    begin = time.monotonic()
    for _ in range(10):
        fake.state()
    assert time.monotonic() - begin < limits.seconds(0.3)


def stateful_set(replicas):
    return {"metadata": {"name": "s"}, "spec": {
        "replicas": replicas, "serviceName": "d", "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}


def is_ready(pod):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))


def test_a_stateful_set_gets_pods_replaces_and_removes_them(fake):
    fake.create("statefulsets", stateful_set(3))
    until("3 are ready", lambda: fake.get("statefulsets", "s")["status"].get("readyReplicas") == 3)
    pods = fake.list("pods")
    assert [p["metadata"]["name"] for p in pods] == ["s-0", "s-1", "s-2"] and all(map(is_ready, pods))
    assert pods[0]["spec"]["subdomain"] == "d" and pods[0]["spec"]["hostname"] == "s-0"
    fake.delete("pods", "s-1")
    until("another s-1", lambda: (fake.get("pods", "s-1") or pods[1])["metadata"]["uid"] != pods[1]["metadata"]["uid"])
    fake.patch("statefulsets", "s", {"spec": {"replicas": 1}})
    until("one is left", lambda: [p["metadata"]["name"] for p in fake.list("pods")] == ["s-0"])
    fake.delete("statefulsets", "s", propagation="Foreground")
    until("all is gone", lambda: not fake.list("pods") and not fake.list("statefulsets"))


def job(name="b"):
    return {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}}}


def test_a_job_ends_as_its_script_says(fake):
    fake.create("jobs", job())
    until("it is complete", lambda: fake.get("jobs", "b")["status"].get("succeeded") == 1)
    fake.play(exit_codes=[3], message="no such file", run_ms=50)
    fake.create("jobs", job("c"))
    until("it has failed", lambda: fake.get("jobs", "c")["status"].get("failed") == 1)
    assert fake.get("jobs", "c")["status"]["conditions"][-1]["reason"] == "BackoffLimitExceeded"
    pod, = [p for p in fake.list("pods") if p["metadata"]["name"].startswith("c-")]
    terminated = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["message"], pod["status"]["phase"]) == (3, "no such file", "Failed")


def test_a_pod_goes_when_its_kubelet_has_ended_it(fake):
    fake.play(terminate_ms=100)
    fake.create("statefulsets", stateful_set(1))
    until("it is ready", lambda: fake.get("statefulsets", "s")["status"].get("readyReplicas") == 1)
    answer = fake.delete("pods", "s-0")
    assert answer["kind"] == "Pod" and answer["metadata"]["deletionTimestamp"]
    uid = answer["metadata"]["uid"]
    assert fake.get("pods", "s-0")["metadata"]["uid"] == uid
    until("another one", lambda: (fake.get("pods", "s-0") or answer)["metadata"]["uid"] != uid)


def test_switched_off_nothing_happens_by_itself(fake):
    fake.play(off=True)
    fake.create("statefulsets", stateful_set(2))
    assert fake.list("pods") == []
    fake.play(off=False, kubelet=False)
    until("2 pods", lambda: len(fake.list("pods")) == 2)
    assert not any(map(is_ready, fake.list("pods")))


def test_it_ends_with_the_process_that_started_it(fake):
    fake.process.stdin.close()
    assert fake.process.wait(timeout=5) == 0
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", fake.port)) != 0
