"""The same requests to the real kube-apiserver and to the fake: what the fake says, the real one says too.

Every answer is stripped of what no two servers share: uids, versions and times become names for "the first one seen",
"the second one seen" and so on, so that "the version changed" and "the same uid" are compared and the values are not. Then
all that the fake answers must stand in the real answer as well; the real one may say more (defaults, managedFields).
"""
import http.client
import json
import pathlib
import subprocess
import sys
import threading

import pytest

from fake import Fake
from kubeapi import Api, until

ROOT = pathlib.Path(__file__).resolve().parents[3]
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
META = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
META_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
NS = "conformance"
CORE, APPS, BATCH = f"/api/v1/namespaces/{NS}", f"/apis/apps/v1/namespaces/{NS}", f"/apis/batch/v1/namespaces/{NS}"
HVJ, LEASES = f"/apis/horovod.io/v1beta1/namespaces/{NS}", f"/apis/coordination.k8s.io/v1/namespaces/{NS}"
VOLATILE = ("uid", "resourceVersion")
TIMES = ("creationTimestamp", "deletionTimestamp")
POD = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


class Real:
    """Requests to the real server with any header."""

    def __init__(self, kubeconfig):
        self.api = Api(kubeconfig)

    def connect(self):
        return http.client.HTTPSConnection(self.api.server.hostname, self.api.server.port, context=self.api.context,
                                           timeout=30)


class Faked:
    def __init__(self, fake):
        self.port = fake.port

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)


class Session:
    """One server, and the names that its volatile values have got."""

    def __init__(self, server):
        self.server, self.names, self.seen = server, {}, {}

    def name(self, key, value):
        if key in TIMES:
            return "a time"
        self.names.setdefault((key, value), f"{key} {sum(k == key for k, _ in self.names) + 1}")
        return self.names[key, value]

    def strip(self, document):
        if isinstance(document, list):
            return [self.strip(item) for item in document]
        if not isinstance(document, dict):
            return self.strip_text(document)
        if "causes" in document:  # some are said twice
            document["causes"] = sorted({cause["field"] for cause in document["causes"]})
        if "items" in document:  # other objects' changes count in the version of a list
            document["metadata"].pop("resourceVersion")
        return {key: self.name(key, value) if key in VOLATILE + TIMES and isinstance(value, str) else self.strip(value)
                for key, value in document.items() if key not in ("managedFields", "continue", "remainingItemCount")}

    def strip_text(self, text):
        for (key, value), name in self.names.items():
            if isinstance(text, str):
                text = text.replace(f"({value})" if key == "resourceVersion" else value, f"({name})")
        return text

    def ask(self, method, path, body=None, content_type="application/json", accept="application/json"):
        """(code, document), as they came."""
        text = json.dumps(body) if body is not None else None
        for old, new in self.seen.items():
            text = text.replace(old, new) if text else text
            path = path.replace(old, new)
        connection = self.server.connect()
        try:
            connection.request(method, path, text, {"Content-Type": content_type, "Accept": accept})
            response = connection.getresponse()
            text = response.read().decode()
            return response.status, json.loads(text) if text.startswith("{") else {"text": text}
        finally:
            connection.close()

    def tell(self, *request, keep=None, **options):
        """The answer without what is volatile. keep: a word that later requests use for this answer's version or uid."""
        code, document = self.ask(*request, **options)
        if keep and "metadata" in document:
            self.seen |= {f"<version of {keep}>": document["metadata"].get("resourceVersion", ""),
                          f"<uid of {keep}>": document["metadata"].get("uid", ""),
                          f"<continue of {keep}>": document["metadata"].get("continue", "")}
        return code, self.strip(document)

    def forget(self):
        """A new script begins: names count from 1 again."""
        self.names, self.seen = {}, {}


def without(document, keys):
    """The document without what controllers write at their own time."""
    if isinstance(document, dict):
        return {key: without(value, keys) for key, value in document.items() if key not in keys}
    return document


def job(name="j", **spec):
    return {"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": name, "labels": {"team": "a"}},
            "spec": {"image": "i", "command": ["c"], "worker": {"replicas": 2}, **spec}}


def config_map(name="m", labels=None, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {"l": "1"}}, "data": data}


def stateful_set(name="s", owner=None):
    meta = {"name": name}
    if owner:
        meta["ownerReferences"] = [{"apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "name": owner,
                                    "uid": f"<uid of {owner}>", "controller": True, "blockOwnerDeletion": True}]
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta,
            "spec": {"replicas": 0, "serviceName": "x", "selector": {"matchLabels": {"app": "x"}}, "template": POD}}


def batch_job(name="b"):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"suspend": False, "parallelism": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}


def gone(session, path):
    # the real collector looks for new kinds every 30 s
    until(f"{path} is gone", lambda: session.ask("GET", path)[0] == 404, 90)


# What is asked, in groups whose objects do not meet: arguments of tell, or a function of the session.
SCRIPTS = {
    "an object's life": [
        dict(request=("POST", f"{HVJ}/horovodjobs", job()), keep="j"),
        dict(request=("POST", f"{HVJ}/horovodjobs", job())),
        dict(request=("GET", f"{HVJ}/horovodjobs/j")),
        dict(request=("GET", f"{HVJ}/horovodjobs/none")),
        dict(request=("PATCH", f"{HVJ}/horovodjobs/none", {"spec": {}}), content_type=MERGE),
        dict(request=("DELETE", f"{HVJ}/horovodjobs/none")),
        dict(request=("DELETE", f"{HVJ}/horovodjobs/j", {"preconditions": {"uid": "0-0"}})),
        dict(request=("DELETE", f"{HVJ}/horovodjobs/j", {"preconditions": {"uid": "<uid of j>"}})),
        dict(request=("GET", f"{HVJ}/horovodjobs/j")),
        dict(request=("POST", f"{HVJ}/horovodjobs", job())),
    ],
    "versions and generations": [
        dict(request=("POST", f"{HVJ}/horovodjobs", job("v")), keep="v"),
        dict(request=("PATCH", f"{HVJ}/horovodjobs/v", {"metadata": {"labels": {"team": "b"}}}), content_type=MERGE),
        dict(request=("PATCH", f"{HVJ}/horovodjobs/v", {"metadata": {"labels": {"team": "b"}}}), content_type=MERGE),
        dict(request=("PATCH", f"{HVJ}/horovodjobs/v", {"spec": {"backoffLimit": 1}}), content_type=MERGE),
        dict(request=("PATCH", f"{HVJ}/horovodjobs/v", {"metadata": {"resourceVersion": "<version of v>"},
                                                       "spec": {"backoffLimit": 2}}), content_type=MERGE),
        dict(request=("PATCH", f"{HVJ}/horovodjobs/v", {"metadata": {"uid": "0-0"}, "spec": {"backoffLimit": 2}}),
             content_type=MERGE),
        dict(request=("PATCH", f"{HVJ}/horovodjobs/v", {"spec": {"backoffLimit": None}}), content_type=MERGE),
        dict(request=("GET", f"{HVJ}/horovodjobs/v")),
    ],
    "versions of a kind of Kubernetes": [
        dict(request=("POST", f"{CORE}/configmaps", config_map("v", a="1")), keep="v"),
        dict(request=("PATCH", f"{CORE}/configmaps/v", {"metadata": {"uid": "0-0"}}), content_type=MERGE),
        dict(request=("PATCH", f"{CORE}/configmaps/v", {"metadata": {"uid": "<uid of v>"}, "data": {"b": "2"}}),
             content_type=MERGE),
        dict(request=("PATCH", f"{CORE}/configmaps/v", {"metadata": {"resourceVersion": "<version of v>"},
                                                       "data": {"b": "3"}}), content_type=MERGE),
        dict(request=("DELETE", f"{CORE}/configmaps/v", {"preconditions": {"uid": "0-0"}})),
        dict(request=("DELETE", f"{CORE}/configmaps/v", {"preconditions": {"resourceVersion": "<version of v>"}})),
        dict(request=("DELETE", f"{CORE}/configmaps/v", {"preconditions": {"uid": "<uid of v>"}})),
    ],
    "the status": [
        dict(request=("POST", f"{HVJ}/horovodjobs", job("t") | {"status": {"state": "Running"}}), keep="t"),
        # The default of the definition, which the real server shows already and writes with the first change.
        dict(request=("PATCH", f"{HVJ}/horovodjobs/t/status", {"status": {"state": "Pending"}}), content_type=MERGE),
        dict(request=("PATCH", f"{HVJ}/horovodjobs/t", {"status": {"state": "Running"}}), content_type=MERGE),
        dict(request=("PATCH", f"{HVJ}/horovodjobs/t/status", {"status": {"state": "Running"}, "spec": {"backoffLimit": 3},
                                                              "metadata": {"labels": {"team": "c"}}}), content_type=MERGE),
        dict(request=("PATCH", f"{HVJ}/horovodjobs/t/status", {"metadata": {"resourceVersion": "<version of t>"},
                                                              "status": {"state": "Failed"}}), content_type=MERGE),
        dict(request=("PATCH", f"{HVJ}/horovodjobs/t/status", {"metadata": {"uid": "<uid of t>"},
                                                              "status": {"state": "Failed"}}), content_type=MERGE),
        dict(request=("PATCH", f"{HVJ}/horovodjobs/t", {"spec": {"suspend": True}}), content_type=MERGE),
        dict(request=("GET", f"{HVJ}/horovodjobs/t")),
    ],
    "JSON patches": [
        dict(request=("POST", f"{CORE}/configmaps", config_map(a="1", b="2")), keep="m"),
        dict(request=("PATCH", f"{CORE}/configmaps/m", [{"op": "replace", "path": "/data/a", "value": "3"}]),
             content_type=JSON_PATCH),
        dict(request=("PATCH", f"{CORE}/configmaps/m", [{"op": "test", "path": "/metadata/uid", "value": "<uid of m>"},
                                                       {"op": "add", "path": "/metadata/labels/a.io~1b", "value": "4"}]),
             content_type=JSON_PATCH),
        dict(request=("PATCH", f"{CORE}/configmaps/m", [{"op": "remove", "path": "/data/b"},
                                                       {"op": "add", "path": "/metadata/annotations", "value": {"x": "y"}}]),
             content_type=JSON_PATCH),
        dict(request=("GET", f"{CORE}/configmaps/m")),
    ],
    "what cannot change": [
        dict(request=("POST", f"{CORE}/secrets", {"metadata": {"name": "x"}, "immutable": True, "data": {"k": "dg=="}})),
        dict(request=("PATCH", f"{CORE}/secrets/x", {"metadata": {"labels": {"l": "m"}}}), content_type=MERGE),
        *[dict(request=request, content_type=content_type, without=["status", "resourceVersion"]) for request, content_type in (
            (("POST", f"{APPS}/statefulsets", stateful_set("fixed")), "application/json"),
            (("PATCH", f"{APPS}/statefulsets/fixed", {"spec": {"replicas": 0}}), MERGE),
            (("PATCH", f"{APPS}/statefulsets/fixed", {"metadata": {"annotations": {"a": "b"}}}), MERGE),
            (("PATCH", f"{APPS}/statefulsets/fixed", {"spec": {"minReadySeconds": 1}}), MERGE))],
    ],
    "refusals": [
        dict(request=("POST", f"{CORE}/configmaps", {"metadata": {}, "data": {}}), code_only=True),
        dict(request=("PATCH", f"{CORE}/secrets/x", {"data": {"k": "dw=="}}), content_type=MERGE, code_only=True),
        dict(request=("PATCH", f"{APPS}/statefulsets/fixed", {"spec": {"serviceName": "y"}}), content_type=MERGE,
             code_only=True),
        dict(request=("PATCH", f"{CORE}/configmaps/m", [{"op": "test", "path": "/metadata/uid", "value": "no"}]),
             content_type=JSON_PATCH, without=["details"]),
        dict(request=("PATCH", f"{CORE}/configmaps/m", [{"op": "remove", "path": "/data/none"}]),
             content_type=JSON_PATCH, code_only=True),
        dict(request=("PATCH", f"{CORE}/configmaps/m", {"data": {}}), content_type="text/plain", code_only=True),
        dict(request=("POST", f"{CORE}/configmaps", config_map("huge", a="x" * (1 << 20) + "x")), code_only=True),
        dict(request=("POST", f"{CORE}/configmaps", config_map("larger", a="x" * (4 << 20))), code_only=True),
        dict(request=("GET", f"{CORE}/nosuchthings/m"), code_only=True),
        dict(request=("GET", "/apis/no.such.group/v1/things"), code_only=True),
    ],
    "lists": [
        *[dict(request=("POST", f"{CORE}/configmaps", config_map(f"l{i}", {"n": str(i % 2), "list": "yes"}, a="b"))) for i in range(5)],
        dict(request=("GET", f"{CORE}/configmaps?labelSelector=list%3Dyes")),
        dict(request=("GET", f"{CORE}/configmaps?labelSelector=list,n%3D1")),
        dict(request=("GET", f"{CORE}/configmaps?labelSelector=list,n!%3D1")),
        dict(request=("GET", f"{CORE}/configmaps?labelSelector=list,n+in+(0,7)")),
        dict(request=("GET", f"{CORE}/configmaps?labelSelector=list,!n")),
        dict(request=("GET", f"{CORE}/configmaps?labelSelector=list%3Dyes&limit=2"), keep="list"),
        dict(request=("DELETE", f"{CORE}/configmaps/l3")),
        dict(request=("GET", f"{CORE}/configmaps?labelSelector=list%3Dyes&limit=2&continue=<continue of list>"), keep="list"),
        dict(request=("GET", f"{CORE}/configmaps?labelSelector=list%3Dyes&limit=2&continue=<continue of list>")),
        dict(request=("GET", f"{HVJ}/horovodjobs?limit=1&labelSelector=team%3Da"), code_only=True),
        dict(request=("GET", f"{CORE}/configmaps?labelSelector=list%3Dyes"), accept=META_LIST),
        dict(request=("GET", f"{CORE}/configmaps/l1"), accept=META),
    ],
    "deletion and owners": [
        dict(request=("POST", f"{HVJ}/horovodjobs", job("o")), keep="o"),
        dict(request=("POST", f"{APPS}/statefulsets", stateful_set("owned", "o")), without=["status", "resourceVersion"]),
        dict(request=("DELETE", f"{HVJ}/horovodjobs/o", {"propagationPolicy": "Background"})),
        dict(call=lambda session: gone(session, f"{APPS}/statefulsets/owned")),
        dict(request=("POST", f"{CORE}/configmaps", config_map("f", a="1") | {"metadata": {"name": "f", "finalizers": ["a.io/b"]}})),
        dict(request=("DELETE", f"{CORE}/configmaps/f")),
        dict(request=("PATCH", f"{CORE}/configmaps/f", {"metadata": {"finalizers": None}}), content_type=MERGE, code_only=True),
        dict(call=lambda session: gone(session, f"{CORE}/configmaps/f")),
        dict(request=("POST", f"{BATCH}/jobs", batch_job()), without=["status", "resourceVersion"]),
        dict(request=("DELETE", f"{BATCH}/jobs/b", {"propagationPolicy": "Background"}), without=["status", "resourceVersion"]),
        dict(request=("POST", f"{CORE}/services", {"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}})),
        dict(request=("DELETE", f"{CORE}/services/h")),
    ],
    "leases": [
        dict(request=("POST", f"{LEASES}/leases", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a",
                                                                                     "leaseDurationSeconds": 15}}), keep="l"),
        dict(request=("PATCH", f"{LEASES}/leases/l", {"metadata": {"resourceVersion": "<version of l>"},
                                                     "spec": {"holderIdentity": "b"}}), content_type=MERGE),
        dict(request=("PATCH", f"{LEASES}/leases/l", {"metadata": {"resourceVersion": "<version of l>"},
                                                     "spec": {"holderIdentity": "c"}}), content_type=MERGE),
        dict(request=("PUT", f"{LEASES}/leases/l", {"metadata": {"name": "l", "resourceVersion": "1"},
                                                   "spec": {"holderIdentity": "d"}})),
        dict(request=("GET", f"{LEASES}/leases/l")),
    ],
}


@pytest.fixture(scope="module")
def sessions(real, tmp_path_factory):
    """(fake, real), with the CRD and the namespace."""
    kubectl = pathlib.Path(subprocess.run([ROOT / "tests/cluster/build"], check=True, stdout=subprocess.PIPE,
                                          text=True).stdout.strip().splitlines()[-1]) / "kubectl"
    run = [kubectl, f"--kubeconfig={real}"]
    subprocess.run([*run, "apply", "-f", ROOT / "crds"], check=True, stdout=subprocess.DEVNULL)
    until("the CRD is served", lambda: subprocess.run([*run, "get", "horovodjobs", "-A"], capture_output=True,
                                                      check=False).returncode == 0)
    subprocess.run([*run, "create", "namespace", NS], check=True, stdout=subprocess.DEVNULL)
    with Fake(tmp_path_factory.mktemp("fake")) as fake:
        yield Session(Faked(fake)), Session(Real(real))


def missing(of, within, at=""):
    """Where the first document says something that the second does not."""
    if isinstance(of, dict) and isinstance(within, dict):
        return [line for key, value in of.items()
                for line in (missing(value, within[key], f"{at}.{key}") if key in within else [f"{at}.{key}: only in the fake"])]
    if isinstance(of, list) and isinstance(within, list) and len(of) == len(within):
        return [line for i, value in enumerate(of) for line in missing(value, within[i], f"{at}[{i}]")]
    return [] if of == within else [f"{at}: the fake says {of!r}, the real server {within!r}"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_the_fake_answers_the_real_server_answers(sessions, script):
    found = []
    for session in sessions:
        session.forget()
    for step in SCRIPTS[script]:
        if "call" in step:
            for session in sessions:
                step["call"](session)
            continue
        options = {key: step[key] for key in ("keep", "content_type", "accept") if key in step}
        (fake_code, fake_says), (real_code, real_says) = (session.tell(*step["request"], **options) for session in sessions)
        words = " ".join(step["request"][:2])
        if fake_code != real_code:
            found.append(f"{words}: the fake answers {fake_code} {fake_says}, the real server {real_code} {real_says}")
        elif not step.get("code_only"):
            keys = step.get("without", ())
            found += [f"{words}: {line}" for line in missing(without(fake_says, keys), without(real_says, keys))]
    assert not found, "\n".join(found)


class Stream:
    """A watch: its events, gathered in the background."""

    def __init__(self, session, path, accept="application/json"):
        self.events = []
        for old, new in session.seen.items():
            path = path.replace(old, new)
        self.connection = session.server.connect()
        self.connection.request("GET", path, None, {"Accept": accept})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.response:
            self.events.append(json.loads(line))

    def wait(self, n):
        until(lambda: f"{n} events, there are {self.events}", lambda: len(self.of_objects()) >= n)

    def of_objects(self):
        return [event for event in self.events if event["type"] != "BOOKMARK"]


WATCHED = [
    ("POST", f"{CORE}/configmaps", config_map("w1", {"watched": "yes"}, a="1"), "application/json"),
    ("POST", f"{CORE}/configmaps", config_map("w2", {"watched": "no"}, a="1"), "application/json"),
    ("PATCH", f"{CORE}/configmaps/w1", {"data": {"a": "2"}}, MERGE),
    ("PATCH", f"{CORE}/configmaps/w1", {"data": {"a": "2"}}, MERGE),  # changes nothing
    ("PATCH", f"{CORE}/configmaps/w2", {"metadata": {"labels": {"watched": "yes"}}}, MERGE),  # comes into sight
    ("PATCH", f"{CORE}/configmaps/w1", {"metadata": {"labels": {"watched": "no"}}}, MERGE),  # leaves it
    ("PATCH", f"{CORE}/configmaps/w1", {"data": {"a": "3"}}, MERGE),  # unseen
    ("DELETE", f"{CORE}/configmaps/w2", None, "application/json"),
    ("DELETE", f"{CORE}/configmaps/w1", None, "application/json"),
]


@pytest.mark.parametrize("accept", ["application/json", META])
def test_watches_tell_the_same_story(sessions, accept):
    stories = []
    for session in sessions:
        session.tell("GET", f"{CORE}/configmaps?limit=1", keep="start")
        stream = Stream(session, f"{CORE}/configmaps?watch=true&labelSelector=watched%3Dyes&timeoutSeconds=60"
                                 "&allowWatchBookmarks=true&resourceVersion=<version of start>", accept)
        for method, path, body, content_type in WATCHED:
            code, document = session.ask(method, path, body, content_type=content_type)
            assert code < 300, document
        stream.wait(5)
        stories.append([session.strip(event) for event in stream.of_objects()])
    fake_story, real_story = stories
    assert [event["type"] for event in fake_story] == ["ADDED", "MODIFIED", "ADDED", "DELETED", "DELETED"]
    assert [event["type"] for event in real_story] == [event["type"] for event in fake_story]
    # the names of versions count what each session has seen, and the sessions have seen the same
    assert missing(fake_story, real_story) == []


def test_a_watch_ends_after_its_time_with_a_bookmark(sessions):
    for session in sessions:
        stream = Stream(session, f"{HVJ}/horovodjobs?watch=true&allowWatchBookmarks=true&timeoutSeconds=2&labelSelector=no%3Done")
        stream.thread.join(20)
        assert not stream.thread.is_alive()
        for event in stream.events:
            assert event["type"] == "BOOKMARK" and event["object"]["kind"] == "HorovodJob"
            assert event["object"]["metadata"]["resourceVersion"]


