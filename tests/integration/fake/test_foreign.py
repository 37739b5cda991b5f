"""Objects of others that carry our label, many and large: a server that makes them up as it sends them, page by page.
HVD_FOREIGN_OBJECTS says how many ConfigMaps of 1 MB there are."""
import http.server
import json
import os
import pathlib
import re
import threading
import urllib.parse

import pytest

from fake import BUILD, Operator

N_OBJECTS = int(os.environ.get("HVD_FOREIGN_OBJECTS", "300"))
OBJECT_BYTES = 1 << 20
MAX_RESIDENT_BYTES = 16 << 20
KINDS = {"horovodjobs": ("HorovodJob", "horovod.io/v1beta1"), "secrets": ("Secret", "v1"), "services": ("Service", "v1"),
         "statefulsets": ("StatefulSet", "apps/v1"), "configmaps": ("ConfigMap", "v1"), "jobs": ("Job", "batch/v1"),
         "pods": ("Pod", "v1")}
FILLING = b'"data":{"x":"' + b"\\u003c" * (OBJECT_BYTES // 6) + b'"}}'


def head(number):
    """An object up to its data."""
    return json.dumps({"metadata": {
        "name": f"c{number}-hosts", "namespace": "default", "uid": f"u{number}", "resourceVersion": "7",
        "labels": {"app.kubernetes.io/managed-by": "horovod-operator", "horovod.io/job-name": f"c{number}"}}}).encode()[:-1] + b","


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send_chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def send_items(self, first, n):
        for number in range(first, first + n):
            self.send_chunk((b"," if number > first else b"") + head(number))
            self.send_chunk(FILLING)
            self.server.n_sent += 1

    def do_GET(self):  # noqa: N802  (the name that http.server asks for)
        url = urllib.parse.urlparse(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        plural = url.path.rsplit("/", 1)[1]
        kind, version = KINDS[plural]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if query.get("watch"):
            self.server.ended.wait(60)
            self.close_connection = True
            return
        total = N_OBJECTS if plural == "configmaps" else 0
        first = int(query.get("continue") or 0)
        n = min(int(query["limit"]), total - first)
        meta = {"resourceVersion": "9", **({"continue": str(first + n)} if first + n < total else {})}
        self.send_chunk(b'{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[' % (
            kind.encode(), version.encode(), json.dumps(meta).encode()))
        self.send_items(first, n)
        self.send_chunk(b"]}")
        self.wfile.write(b"0\r\n\r\n")


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.daemon_threads = True
        made.ended = threading.Event()
        made.n_sent = 0
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.ended.set()
        made.shutdown()
        thread.join()


def peak_bytes(pid):
    """The most memory that the process has had."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text("utf-8")).group(1)) * 1024


@pytest.mark.skipif("san" in str(BUILD.name), reason="sanitizers take memory of their own")
def test_large_objects_of_others_with_our_label_cost_no_memory(server, tmp_path):
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}], "users": [],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}]}), encoding="utf-8")
    with Operator(config, tmp_path) as process:
        process.wait_ready(timeout=30 + N_OBJECTS / 50)
        assert server.n_sent >= N_OBJECTS
        peak = peak_bytes(process.process.pid)
        print(f"{N_OBJECTS} objects: at most {peak / 2**20:.1f} MiB, "
              f"{process.metric('process_resident_memory_bytes') / 2**20:.1f} MiB in the end")
        assert peak < MAX_RESIDENT_BYTES
        assert process.metric("horovod_operator_unreadable_objects_total") == 0
        assert process.stop() == 0
