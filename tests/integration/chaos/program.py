"""Random programs over HorovodJobs: what users, kubelets, schedulers and strangers do. A program is drawn from its number
alone, and ends in one state however long each step takes to be noticed: steps that would race with the operator's own
decisions wait for it first."""
import dataclasses
import random

IMAGES = ["localhost/horovod-worker:0.1.0", "example.com/train:2", "example.com/train:3"]
CHILDREN = {"secrets": "{}-ssh", "services": "{}", "statefulsets": "{}-worker", "configmaps": "{}-hosts",
            "jobs": "{}-master", "podgroups": "{}"}
GANGS = {"volcano": "/apis/scheduling.volcano.sh/v1beta1", "scheduler-plugins": "/apis/scheduling.x-k8s.io/v1alpha1"}
GROUPS = ["big", "0", "hosts"]  # names that could be taken for something else
ZONE = "topology.kubernetes.io/zone"
MOST = 6  # replicas
EDITS = [(label, value) for label in ("app.kubernetes.io/managed-by", "horovod.io/job-name") for value in (None, "another")]
# Steps that may be told of in events.
CAUSES = ("create", "suspend", "resume", "finish", "scale", "drift", "relabel", "remove_child", "snatch", "lose_worker", "lose_workers",
          "kill_master", "remove_master")


@dataclasses.dataclass(frozen=True)
class Step:
    """What happens to one job. do is the name of a method of play.Player."""
    do: str
    job: str
    arguments: tuple = ()

    def __str__(self):
        return f"{self.do} {self.job} {' '.join(map(repr, self.arguments))}".strip()


@dataclasses.dataclass(frozen=True)
class Setting:
    """What holds for all jobs of a program."""
    gang: str  # None: no gang scheduler
    terminate_ms: int  # how long pods take to go


class JobProgram:
    """The steps of one job, drawn while keeping in mind what must be possible when each is done."""

    def __init__(self, rng, name, gang):
        self.rng, self.name, self.gang, self.steps = rng, name, gang, []
        self.children = sorted(CHILDREN) if gang else sorted(set(CHILDREN) - {"podgroups"})
        self.backoff = rng.choice([0, 0, 1, 2])
        self.failures = 0
        self.is_suspended = rng.random() < 0.2
        self.replicas = self.least = 0
        self.groups = []
        self.ignores_disruption = False
        self.draw()

    def add(self, do, *arguments):
        self.steps.append(Step(do, self.name, arguments))

    # ---- the spec ----

    def draw_groups(self):
        self.groups = self.rng.sample(GROUPS, self.rng.choice([1, 1, 2]))
        return [{"name": name, "replicas": self.rng.randint(1, 3), **self.rng.choice([{}, {"slotsPerWorker": 2}])}
                for name in self.groups]

    def draw_workers(self, spec):
        rng = self.rng
        self.replicas, self.least, self.groups = rng.randint(1, 4), 0, []
        spec["worker"] = {"replicas": self.replicas}
        if rng.random() < 0.25:
            self.least = rng.randint(1, self.replicas)
            spec["worker"].update(minReplicas=self.least, maxReplicas=MOST)
        if rng.random() < 0.25:
            spec["workerGroups"] = self.draw_groups()
        if rng.random() < 0.1:
            spec["runMasterAsWorker"] = True
        if rng.random() < 0.15:
            spec["topologyKeys"] = [ZONE]
        if rng.random() < 0.2:
            spec["resources"] = {"requests": {"cpu": "500m", "memory": "1Gi"}}
        if self.gang and rng.random() < 0.3:
            spec["scheduling"] = {"minAvailable": rng.randint(1, 5)}

    def spec(self):
        spec = {"image": IMAGES[0], "command": ["python", "train.py"]}
        self.draw_workers(spec)
        if self.backoff:
            spec["backoffLimit"] = self.backoff
        self.ignores_disruption = self.rng.random() < 0.15
        if self.ignores_disruption:
            spec["failurePolicy"] = {"rules": [{"action": "Ignore", "onDisruption": True}]}
        if self.is_suspended:
            spec["suspend"] = True
        policy = self.rng.choice([None, None, "None", "Running", "All"])
        if policy:
            spec["cleanPodPolicy"] = policy
        if self.rng.random() < 0.2:
            spec["ttlSecondsAfterFinished"] = self.rng.choice([0, 5, 20])
        return spec

    def outlives_workers(self):
        """Whether the loss of a worker is no failure."""
        return self.ignores_disruption or self.least > 0

    # ---- the steps ----

    def draw(self):
        rng = self.rng
        foreign = rng.choice(self.children) if rng.random() < 0.12 else None
        if foreign:
            self.add("create_foreign", foreign)
        self.add("create", self.spec())
        if foreign:
            self.add("meet_foreign")
            self.add("remove_foreign", foreign)
        for _ in range(rng.randint(0, 6)):
            self.draw_middle()
        end = rng.random()
        if end < 0.12:
            self.add("delete")
            if rng.random() < 0.5:
                self.is_suspended, self.failures = False, 0
                self.add("create", self.spec())
                self.draw_end()
        elif end < 0.25:
            self.settle_before_the_last_suspension()
        else:
            self.draw_end()

    def settle_before_the_last_suspension(self):
        """What a job leaves that stays suspended depends on whether it ever began: it did."""
        places = [at for at, step in enumerate(self.steps) if step.do == "suspend"]
        if places:
            self.steps.insert(places[-1], Step("wait", self.name))

    def draw_middle(self):
        rng = self.rng
        kind = rng.random()
        if kind < 0.25:
            self.scale()
        elif kind < 0.4 and not self.is_suspended:
            self.add("suspend")
            self.is_suspended = True
        elif kind < 0.6 and self.is_suspended:
            self.resume()
        elif kind < 0.65:
            self.add("touch")
        elif kind < 0.73:
            self.add("drift", rng.choice(["services", "statefulsets", "configmaps"] + ["podgroups"] * bool(self.gang)))
        elif kind < 0.81:
            self.add("remove_child", rng.choice([child for child in self.children if child not in ("jobs", "statefulsets")]))
        elif kind < 0.86:  # whenever it is: while the job still starts, perhaps before the child is there
            self.add("snatch", rng.choice([child for child in self.children if child not in ("jobs", "statefulsets")]))
        elif kind < 0.91:
            self.add("relabel", rng.choice([*self.children, "worker", "master"]), *rng.choice(EDITS))
        elif not self.is_suspended:
            self.draw_loss()
        else:
            self.add("wait")

    def scale(self):
        if self.groups and self.rng.random() < 0.5:
            self.add("scale_group", self.rng.choice(self.groups), self.rng.randint(1, 3))
            return
        self.replicas = self.rng.randint(max(self.least, 1), 5)
        self.add("scale", self.replicas)

    def resume(self):
        image = self.rng.choice(IMAGES[1:]) if self.rng.random() < 0.4 else None
        groups = self.draw_groups() if self.rng.random() < 0.15 else None
        self.add("resume", *([image, groups] if groups else [image] if image else []))
        self.is_suspended = False

    def draw_loss(self):
        """Something of a running job is lost; it goes on, or begins anew."""
        what = self.rng.choice(["finish", "lose_worker", "lose_workers", "remove_master", self.draw_end_of_master()])
        is_failure = what in ("finish", "kill_master") or (what != "remove_master" and not self.outlives_workers())
        if is_failure and self.failures == self.backoff:
            self.add("wait")
            return
        self.failures += is_failure
        self.lose(what)

    def draw_end_of_master(self):
        """A pod that is deleted is a disruption, but only for who sees it before it is gone."""
        return "finish" if self.ignores_disruption else self.rng.choice(["finish", "kill_master"])

    def lose(self, what):
        if what == "finish":
            self.add(what, self.rng.randint(1, 255))
        elif what in ("lose_worker", "lose_workers"):
            self.add(what, self.rng.choice(["", *self.groups]))
        else:
            self.add(what)

    def draw_end(self):
        if self.is_suspended:
            self.resume()
        while self.failures < self.backoff and self.rng.random() < 0.5:
            self.add("finish", self.rng.randint(1, 255))
            self.failures += 1
        if self.failures < self.backoff or self.rng.random() < 0.6:
            self.add("finish", 0)
        else:
            self.lose(self.rng.choice(["finish", self.draw_end_of_master()] +
                                      ([] if self.outlives_workers() else ["lose_worker", "lose_workers"])))
        for _ in range(self.rng.randint(0, 2)):
            self.add(*self.rng.choice([("touch",), ("scale", max(self.least, 3)), ("remove_child", "services")]))


def setting(number):
    """What holds in program number."""
    rng = random.Random(f"setting {number}")
    return Setting(rng.choice([None, None, *sorted(GANGS)]), rng.choice([0, 0, 100, 1000]))


def draw(number):
    """The steps of program number, those of its jobs in random turns."""
    rng, gang = random.Random(f"program {number}"), setting(number).gang
    queues = [JobProgram(rng, name, gang).steps for name in "abcd"[:rng.choice([1, 1, 2, 2, 3, 4])]]
    steps = []
    while any(queues):
        queue = rng.choice([queue for queue in queues if queue])
        steps.append(queue.pop(0))
    return steps
