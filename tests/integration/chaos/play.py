"""Plays programs: each step as the user, the kubelet or the stranger would do it, each wait bounded."""
import os
import time

import program
import state
from world import ApiError, FACTOR, until

LIMIT = int(os.environ.get("HVD_CHAOS_LIMIT_S", "60"))  # of real time, for anything to become true
LATER_S = 3  # of fast time: times in the API are whole seconds


class Player:
    """Carries out the steps in one namespace of a world."""

    def __init__(self, world, namespace):
        self.world, self.api, self.namespace = world, world.api, namespace
        self.failures = {}  # by job, those that the program caused since its creation
        self.snatched = set()  # (job, plural) of children that somebody deleted, until they are there again

    # ---- looking ----

    def job(self, job):
        return self.api.get("horovodjobs", self.namespace, job)

    def until(self, what, check):
        def words():
            return f"{what}; the status is {(self.job(self.current) or {}).get('status')}"
        return until(words, check, LIMIT, 0.005, self.world.look)

    def pods(self, job, role):
        return [pod for pod in self.api.list("pods", self.namespace)
                if pod["metadata"].get("labels", {}).get("horovod.io/job-name") == job
                and pod["metadata"]["labels"].get("horovod.io/role") == role]

    def is_settled(self, job):
        """Nothing is left to do for the job as its spec is now."""
        found = self.job(job)
        if not found:
            return True
        status, spec = found.get("status", {}), found["spec"]
        if status.get("state") in ("Succeeded", "Failed"):
            return True
        if status.get("observedGeneration") != found["metadata"]["generation"]:
            return False
        if spec.get("suspend"):
            return status.get("state") == "Suspended" and not self.pods(job, "worker") + self.pods(job, "master")
        wanted = self.size(job, spec)
        workers = [pod for pod in self.pods(job, "worker") if "deletionTimestamp" not in pod["metadata"]]
        return (status.get("state") == "Running" and len(workers) == wanted and self.master(job) is not None
                and status.get("ready") == f"{wanted}/{wanted}"
                and status.get("hosts") == wanted + bool(spec.get("runMasterAsWorker"))
                and self.has_children_again(job))

    def size(self, job, spec):
        """How many workers it should have: an attempt of fixed size keeps those that its master was made for."""
        if "minReplicas" not in spec["worker"]:
            annotations = (self.child(job, "jobs") or {"metadata": {}})["metadata"].get("annotations", {})
            if "horovod.io/workers" in annotations:
                return sum(int(count) for count in annotations["horovod.io/workers"].split(","))
        return spec["worker"]["replicas"] + sum(group["replicas"] for group in spec.get("workerGroups", []))

    def has_children_again(self, job):
        """A job that ends gets nothing made any more: what was deleted has to be back before that."""
        self.snatched -= {(name, plural) for name, plural in self.snatched if name == job and self.child(job, plural)}
        return not any(name == job for name, _ in self.snatched)

    def child(self, job, plural):
        return self.api.get(plural, self.namespace, program.CHILDREN[plural].format(job))

    def master(self, job):
        """The running pod of the current attempt."""
        made = self.api.get("jobs", self.namespace, f"{job}-master")
        status = (self.job(job) or {}).get("status", {})
        if status.get("failures", 0) != self.failures[job]:
            return None
        attempt = str(self.failures[job] + status.get("interruptions", 0) + 1)
        if not made or made["metadata"].get("annotations", {}).get("horovod.io/attempt") != attempt:
            return None
        pods = [pod for pod in self.pods(job, "master") if pod.get("status", {}).get("phase") == "Running"
                and pod["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
                and "deletionTimestamp" not in pod["metadata"]]
        return pods[0]["metadata"]["name"] if pods else None

    def wait(self, job):
        self.until(f"{job} is settled", lambda: self.is_settled(job))

    # ---- what users do ----

    def create(self, job, spec):
        self.failures[job] = 0
        self.api.create("horovodjobs", self.namespace, {
            "apiVersion": "horovod.io/v1beta1", "kind": "HorovodJob", "metadata": {"name": job}, "spec": spec})

    def change(self, job, spec):
        try:
            self.api.patch("horovodjobs", self.namespace, job, {"spec": spec})
        except ApiError as error:
            if error.code != 404:  # its TTL may be over
                raise

    def scale(self, job, replicas):
        self.resize(job, lambda spec: {"worker": {"replicas": replicas}})

    def scale_group(self, job, name, replicas):
        self.resize(job, lambda spec: {"workerGroups": [
            {**group, "replicas": replicas} if group["name"] == name else group for group in spec.get("workerGroups", [])]})

    def resize(self, job, changed):
        """A fixed size takes effect at once or with the next attempt, which must not depend on who is faster."""
        spec = (self.job(job) or {}).get("spec", {})
        is_fixed = spec and "minReplicas" not in spec["worker"]
        if is_fixed:
            self.wait(job)
        self.change(job, changed(spec))
        if is_fixed:
            self.wait(job)

    def suspend(self, job):
        self.change(job, {"suspend": True})

    def resume(self, job, image=None, groups=None):
        self.change(job, {"suspend": False, **({"image": image} if image else {}),
                          **({"workerGroups": groups} if groups else {})})

    def touch(self, job):
        try:
            self.api.patch("horovodjobs", self.namespace, job, {"metadata": {"annotations": {"touched": "yes"}}})
        except ApiError as error:
            if error.code != 404:
                raise

    def delete(self, job):
        self.api.delete("horovodjobs", self.namespace, job)

    def drift(self, job, plural):
        """Somebody changes a child of a running job; it is repaired."""
        self.wait(job)
        if self.job(job)["spec"].get("suspend"):
            return
        name = program.CHILDREN[plural].format(job)
        was = self.api.get(plural, self.namespace, name)
        change = {"services": {"spec": {"publishNotReadyAddresses": False}},
                  "statefulsets": {"spec": {"replicas": (was or {}).get("spec", {}).get("replicas", 0) + 2}},
                  "configmaps": {"data": {"hostfile": "elsewhere slots=9\n"}},
                  "podgroups": {"spec": {"minMember": 77}}}[plural]
        self.api.patch(plural, self.namespace, name, change)
        wanted = state.normal(plural, was)
        self.until(f"{plural} {name} is repaired",
                   lambda: state.normal(plural, self.api.get(plural, self.namespace, name) or was) == wanted)

    def relabel(self, job, what, label, value):
        """Somebody edits a label of a child or a pod of a running job; it is put back."""
        self.wait(job)
        found = self.job(job)
        if not found or found["spec"].get("suspend") or found["status"]["state"] != "Running":
            return
        plural = "pods" if what in ("worker", "master") else what
        name = {"worker": f"{job}-worker-0", "master": self.master(job)}.get(what) or program.CHILDREN[what].format(job)
        was = self.api.get(plural, self.namespace, name)["metadata"]
        self.api.patch(plural, self.namespace, name, {"metadata": {"labels": {label: value}}})

        def restored():
            meta = self.api.get(plural, self.namespace, name)["metadata"]
            assert meta["uid"] == was["uid"], f"{plural} {name} was made anew"
            return meta["labels"] == was["labels"] and bool(meta.get("ownerReferences"))
        self.until(f"labels of {plural} {name} are put back", restored)

    def remove_child(self, job, plural):
        """Somebody deletes a child of a settled job; while the job runs it is made again."""
        self.wait(job)
        found = self.job(job)
        self.snatch(job, plural)
        if found and not found["spec"].get("suspend") and found["status"]["state"] == "Running":
            self.until(f"{plural} of {job} is made again", lambda: self.child(job, plural))

    def snatch(self, job, plural):
        """Somebody deletes a child at any time."""
        self.api.delete(plural, self.namespace, program.CHILDREN[plural].format(job))
        self.snatched.add((job, plural))

    def wait_running(self, job):
        """Until the job runs, and has done so for long enough that what is made next is newer."""
        self.wait(job)
        time.sleep(LATER_S / FACTOR)

    def lose_worker(self, job, group):
        """The first worker of a group, with which the master began in any case, is deleted; its set makes another."""
        self.wait_running(job)
        name = self.set_name(job, group) + "-0"
        before = self.interruptions(job)
        self.wait_lost(job, self.replacement("pods", name), before)

    def lose_workers(self, job, group):
        """Somebody deletes a set with all its workers."""
        self.wait_running(job)
        before = self.interruptions(job)
        self.wait_lost(job, self.replacement("statefulsets", self.set_name(job, group)), before)

    @staticmethod
    def set_name(job, group):
        return f"{job}-worker" + f"-{group}" * bool(group)

    def replacement(self, plural, name):
        """Deletes an object; a function that says whether there is another of that name."""
        was = self.api.get(plural, self.namespace, name)
        self.api.delete(plural, self.namespace, name)
        return lambda: (self.api.get(plural, self.namespace, name) or was)["metadata"]["uid"] != was["metadata"]["uid"]

    def interruptions(self, job):
        return self.job(job)["status"].get("interruptions", 0)

    def wait_lost(self, job, is_replaced, before):
        """An elastic job goes on with what replaces its worker; of others the attempt has ended."""
        found = self.job(job)
        worker = found["spec"]["worker"]
        if "minReplicas" in worker:
            self.until(f"what {job} lost is replaced", is_replaced)
        elif "failurePolicy" in found["spec"]:
            self.until(f"the interruption of {job} is recorded", lambda: is_replaced() and self.interruptions(job) > before)
        else:
            self.failures[job] += 1
            self.wait_counted(job)

    def wait_counted(self, job):
        """Until all failures so far are in the status, or the job is gone with them."""
        def counted():
            found = self.job(job)
            return not found or found["status"].get("failures", 0) == self.failures[job]
        self.until(f"failure {self.failures[job]} of {job} is recorded", counted)

    def kill_master(self, job):
        """The master's pod is deleted, which is a failure of its Job."""
        self.wait(job)
        self.api.delete("pods", self.namespace, self.master(job))
        self.failures[job] += 1
        self.wait_counted(job)

    def remove_master(self, job):
        """Somebody deletes the master's Job: another is made, and nothing counts as failed."""
        self.wait(job)
        name = program.CHILDREN["jobs"].format(job)
        self.until(f"Job {name} is made again", self.replacement("jobs", name))

    # ---- what kubelets do ----

    def finish(self, job, code):
        """The master of a settled job ends; returns when that is recorded."""
        self.wait(job)
        before = self.failures[job]
        master, now = self.master(job), self.world.now()
        assert master, f"{job} was settled, and its master is gone: {self.job(job)}"
        running, = self.api.get("pods", self.namespace, master)["status"]["containerStatuses"]
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": now,
                 "startedAt": running["state"]["running"]["startedAt"],
                 "message": f"last words of attempt {before + 1}\n"}
        self.api.patch("pods", self.namespace, master, {"status": {
            "phase": "Failed" if code else "Succeeded",
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}],
            "containerStatuses": [{"name": "master", "ready": False, "restartCount": 0, "image": "i", "imageID": "i",
                                   "state": {"terminated": ended}}]}}, "status")
        if code:
            self.failures[job] = before + 1

        def recorded():
            status = (self.job(job) or {"status": {"state": "Succeeded"}})["status"]
            return status["state"] in ("Succeeded", "Failed") or (code and status.get("failures", 0) > before)
        self.until(f"the end of {job} with code {code} is recorded", recorded)

    # ---- what strangers do ----

    def create_foreign(self, job, plural):
        labels = {"app": "other"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        body = {"secrets": {"kind": "Secret"}, "configmaps": {"kind": "ConfigMap", "data": {"theirs": "x"}},
                "services": {"kind": "Service", "spec": {"clusterIP": "None", "selector": labels}},
                "statefulsets": {"kind": "StatefulSet", "spec": {
                    "replicas": 0, "serviceName": "x", "selector": {"matchLabels": labels}, "template": template}},
                "jobs": {"kind": "Job", "spec": {"suspend": True, "template": template}},
                "podgroups": {"kind": "PodGroup", "spec": {"minMember": 1}}}[plural]
        version = self.api.roots[plural].removeprefix("/apis/").removeprefix("/api/")
        self.api.create(plural, self.namespace, {"apiVersion": version, **body,
                                                 "metadata": {"name": program.CHILDREN[plural].format(job)}})

    def meet_foreign(self, job):
        def met():
            found = self.job(job)
            running = [c for c in found.get("status", {}).get("conditions", []) if c["type"] == "Running"]
            return found["spec"].get("suspend") or any(c.get("reason") == "Conflict" for c in running)
        self.until(f"{job} tells of the conflict", met)

    def remove_foreign(self, job, plural):
        self.api.delete(plural, self.namespace, program.CHILDREN[plural].format(job))

    def do(self, step):
        self.current = step.job
        getattr(self, step.do)(step.job, *step.arguments)
