"""What is left when a program has ended, in a form in which two runs can be compared: without what the API server
makes up (uids, versions, times, the random ends of names) and what may differ for good reasons."""
import json
import re

KINDS = ["horovodjobs", "secrets", "services", "statefulsets", "configmaps", "jobs", "podgroups", "pods"]
MADE_UP = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "generateName")
TIMES = ("startTime", "completionTime", "lastTransitionTime")


def without_random_ends(text):
    return re.sub(r"(-master-)[a-z0-9]{5}\b", r"\1*", text)


def without_sightings(text):
    """What is told of a lost worker depends on when it is looked for: while its pod goes, is gone, or is another."""
    return re.sub(r"worker [a-z0-9-]+( on node [a-z0-9-]+)?: its pod (is gone|is being deleted|was replaced by a new one)|"
                  r"a worker of [a-z0-9-]+: its pod was replaced by a new one|"
                  r"several workers of [a-z0-9-]+: their pods are gone", "a worker was lost", text)


def metadata(meta):
    meta = {key: value for key, value in meta.items() if key not in MADE_UP}
    for owner in meta.get("ownerReferences", []):
        owner.pop("uid", None)
    annotations = meta.get("annotations", {})
    annotations.pop("horovod.io/workers", None)  # the fewest that were wanted, as far as anybody saw
    annotations.pop("horovod.io/job-uid", None)
    annotations.pop("horovod.io/end", None)  # of a job whose status could not be written for a while
    annotations.pop("horovod.io/generation", None)  # when the set was started depends on when a change was seen
    annotations.pop("horovod.io/workers-hash", None)  # of uids; and none once fewer were wanted
    annotations.pop("horovod.io/scaled-down", None)  # when, and from how many, as far as anybody saw
    told = annotations.get("horovod.io/hosts")
    if told:  # hash, how often it was told, when
        meta["annotations"]["horovod.io/hosts"] = told.rsplit("-", 1)[0]
    if not annotations:
        meta.pop("annotations", None)
    return meta


def counted_ends(logs):
    """The last two ends of attempts that count, without times and numbers: whether a suspension or a deletion met an attempt
    depends on when it was seen, and each takes the place of the oldest of five."""
    counted = [{**logs[number], "time": "set"} for number in sorted(logs, key=int)
               if logs[number].get("reason") not in ("Suspended", "MasterDeleted")]
    for end in counted:
        end["message"] = re.sub(r" after \d+ interruptions?", "", end.get("message") or "")
    return counted[-2:]


def job_status(status):
    """Times only say whether they are set. What a finished job last counted depends on when it was looked at."""
    status = json.loads(json.dumps(status))
    finished = status.get("state") in ("Succeeded", "Failed")
    for key in TIMES:
        if key in status:
            status[key] = "set"
    status.pop("masterUID", None)
    # One of an earlier attempt stays, if somebody looked before the attempt was ended from outside.
    if status.get("workerFailure", {}).pop("attempt", None) != status.get("attempts"):
        status.pop("workerFailure", None)
    else:
        status["workerFailure"]["time"] = "set"
    ends = counted_ends(status.pop("attemptLogs", {}))
    if ends:
        status["attemptLogs"] = ends
    status.pop("failuresInARow", None)  # depends on how long the attempts took, and on a suspension that was seen
    # A suspension ends an attempt, if one has begun when it is seen: those are not counted here.
    interruptions = status.pop("interruptions", 0)
    for key in ("attempts", "cleaned"):
        status[key] = max(status.get(key, 0) - interruptions, 0)
    conditions = {}
    for condition in status.pop("conditions", []):
        if condition["type"] == "Suspended" and condition["status"] == "False":
            continue  # a suspension that ended before anybody saw it leaves nothing
        if condition["type"] == "DeletionBlocked" and condition["status"] == "False":
            continue  # so does a pod that took long to go
        if finished and condition["type"] == "WorkersReady":
            continue
        message = re.sub(r" after \d+ interruptions?", "", condition.get("message") or "")  # see above
        conditions[condition["type"]] = [condition["status"], condition.get("reason"), message]
    status["conditions"] = conditions
    if finished:
        for key in ("workers", "ready", "replicas", "observedGeneration", "hosts"):
            status.pop(key, None)
    return status


def template_of(spec):
    return (spec or {}).get("template", {})


def normal(plural, item):
    """(key, object) of an object of the API."""
    meta = metadata(item["metadata"])
    found = {"metadata": meta}
    if plural == "horovodjobs":
        found["spec"], found["status"] = item["spec"], job_status(item.get("status", {}))
    elif plural == "secrets":
        found["keys"] = sorted({**item.get("data", {}), **item.get("stringData", {})})
    elif plural == "configmaps":
        found["data"] = item.get("data")
    elif plural == "pods":
        status = item.get("status", {})
        ready = [c["status"] for c in status.get("conditions", []) if c["type"] == "Ready"]
        found["phase"], found["ready"] = status.get("phase"), ready
        if found["phase"] in ("Succeeded", "Failed"):  # perhaps before it was told of the list again
            meta.get("annotations", {}).pop("horovod.io/hosts", None)
    else:
        found["spec"] = item.get("spec")
        template_of(found["spec"]).get("metadata", {}).get("annotations", {}).pop("horovod.io/job-uid", None)
        if plural == "jobs":  # with how many ranks it starts depends on when a change of their number was seen
            template = template_of(found["spec"])
            template.get("metadata", {}).get("annotations", {}).pop("horovod.io/hosts", None)
            for container in template.get("spec", {}).get("containers", []):
                command = container.get("command", [])
                if "-np" in command:
                    command[command.index("-np") + 1] = "*"
        if plural == "jobs":  # labels that the Job controller makes of the uid
            for labels in (found["spec"].get("selector", {}).get("matchLabels", {}),
                           found["spec"].get("template", {}).get("metadata", {}).get("labels", {})):
                for key in [key for key in labels if key.endswith("controller-uid")]:
                    del labels[key]
    found = json.loads(without_sightings(without_random_ends(json.dumps(found))))
    if plural == "pods":
        for key in [key for key in found["metadata"].get("labels", {}) if key.endswith(("controller-uid", "-hash"))]:
            del found["metadata"]["labels"][key]
    return f"{plural}/{found['metadata']['name']}", found


def uncounted(text, interruptions):
    """What is said of attempts without those that a suspension ended."""
    text = re.sub(r"(\(attempt \d+ of \d+) after \d+ interruptions?", r"\1", text)
    return re.sub(r'("horovod\.io/attempt": ")(\d+)"', lambda m: f'{m[1]}{int(m[2]) - interruptions}"', text)


def take(api, namespace):
    """All that is in the namespace, normalised, by kind and name."""
    found, interruptions, lost = {}, {}, set()
    for plural in [plural for plural in KINDS if plural in api.roots]:
        for item in api.list(plural, namespace):
            meta = item["metadata"]
            if plural == "horovodjobs":
                interruptions[meta["name"]] = item.get("status", {}).get("interruptions", 0)
                lost |= {meta["name"] for condition in item.get("status", {}).get("conditions", [])
                         if condition["type"] == "Failed" and condition["reason"] == "WorkerFailed"}
            job = meta.get("labels", {}).get("horovod.io/job-name", meta["name"])
            n = interruptions.get(job, 0)
            key, value = normal(plural, item)
            if plural == "configmaps" and job in lost:  # with the workers that were there when it was given up
                del value["data"]
            value = json.loads(uncounted(json.dumps(value), n))
            assert key not in found or plural == "pods", f"two objects are called {key}"
            found[key] = value
    return found


def events(api, namespace):
    """How many events there are of each job and reason."""
    count = {}
    for event in api.list("events", namespace):
        if event["involvedObject"].get("kind") == "HorovodJob":
            key = f"{event['involvedObject']['name']} {event['reason']}"
            count[key] = count.get(key, 0) + event.get("count", 1)
    return count


def difference(wanted, found, path=""):
    """Lines that say where two JSON documents differ."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        lines = []
        for key in sorted({*wanted, *found}):
            if key not in found:
                lines.append(f"{path}/{key} is missing: {json.dumps(wanted[key])[:200]}")
            elif key not in wanted:
                lines.append(f"{path}/{key} is too much: {json.dumps(found[key])[:200]}")
            else:
                lines += difference(wanted[key], found[key], f"{path}/{key}")
        return lines
    return [] if wanted == found else [f"{path} is {json.dumps(found)[:300]}, not {json.dumps(wanted)[:300]}"]
