"""follower.py KUBECONFIG NS FILE: the least that a client can do. It watches the pods of a namespace over TLS and notes when
each line came; once standard input ends it writes them to FILE, one a line: microseconds of the time of day, name, version,
and "ready", "succeeded" or "-". It prints a line as soon as the watch is open. The server may end it, as it does with readers
that it could not serve in time: then it goes on from the version it saw last, and notes "opened"."""
import itertools
import json
import os
import pathlib
import sys
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from kubeapi import Api  # noqa: E402  (the path above)


def state(pod):
    status = pod.get("status", {})
    if status.get("phase") == "Succeeded":
        return "succeeded"
    return "ready" if any((c["type"], c["status"]) == ("Ready", "True") for c in status.get("conditions", [])) else "-"


def row(at_us, line):
    """The line of the file for a line of the watch; of a watch that was opened, None."""
    if line is None:
        return f"{at_us} opened - -\n"
    pod = json.loads(line)["object"]
    return f"{at_us} {pod['metadata']['name']} {pod['metadata']['resourceVersion']} {state(pod)}\n"


def main(kubeconfig, ns, path):
    found = []

    def write():
        sys.stdin.read()
        pathlib.Path(path).write_text("".join(row(*pair) for pair in found[:]), encoding="utf-8")
        os._exit(0)  # the other thread waits for a line
    threading.Thread(target=write).start()
    api, query = Api(kubeconfig), f"/api/v1/namespaces/{ns}/pods?watch=1&labelSelector=horovod.io/job-name"
    for times in itertools.count():
        version = json.loads(found[-1][1])["object"]["metadata"]["resourceVersion"] if times and found[-1][1] else ""
        stream = api.stream(query + (f"&resourceVersion={version}" if version else ""))
        print("open", flush=True)
        found.append((time.time_ns() // 1000, None))
        for line in stream:
            found.append((time.time_ns() // 1000, line))


if __name__ == "__main__":
    main(*sys.argv[1:])
