"""Random programs over HorovodJobs: what users, kubelets and strangers do. A program is drawn from its number alone,
and ends in one state however long each step takes to be noticed: steps that would race with the operator's own
decisions wait for it first."""
import dataclasses
import random

IMAGES = ["localhost/horovod-worker:0.1.0", "example.com/train:2", "example.com/train:3"]
CHILDREN = {"secrets": "{}-ssh", "services": "{}", "statefulsets": "{}-worker", "configmaps": "{}-hosts",
            "jobs": "{}-master"}


@dataclasses.dataclass(frozen=True)
class Step:
    """What happens to one job. do is the name of a method of play.Player."""
    do: str
    job: str
    arguments: tuple = ()

    def __str__(self):
        return f"{self.do} {self.job} {' '.join(map(repr, self.arguments))}".strip()


class JobProgram:
    """The steps of one job, drawn while keeping in mind what must be possible when each is done."""

    def __init__(self, rng, name):
        self.rng, self.name, self.steps = rng, name, []
        self.backoff = rng.choice([0, 0, 1, 2])
        self.failures = 0
        self.is_suspended = rng.random() < 0.2
        self.is_over = False
        self.draw()

    def add(self, do, *arguments):
        self.steps.append(Step(do, self.name, arguments))

    def spec(self):
        spec = {"image": IMAGES[0], "command": ["python", "train.py"], "worker": {"replicas": self.rng.randint(1, 4)}}
        if self.backoff:
            spec["backoffLimit"] = self.backoff
        if self.is_suspended:
            spec["suspend"] = True
        policy = self.rng.choice([None, None, "None", "Running", "All"])
        if policy:
            spec["cleanPodPolicy"] = policy
        if self.rng.random() < 0.15:
            spec["ttlSecondsAfterFinished"] = self.rng.choice([0, 5, 20])
        return spec

    def draw(self):
        rng = self.rng
        foreign = rng.choice(sorted(CHILDREN)) if rng.random() < 0.12 else None
        if foreign:
            self.add("create_foreign", foreign)
        self.add("create", self.spec())
        if foreign:
            self.add("meet_foreign")
            self.add("remove_foreign", foreign)
        for _ in range(rng.randint(0, 5)):
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
            self.add("scale", rng.randint(1, 5))
        elif kind < 0.45 and not self.is_suspended:
            self.add("suspend")
            self.is_suspended = True
        elif kind < 0.65 and self.is_suspended:
            self.resume()
        elif kind < 0.75:
            self.add("touch")
        elif kind < 0.85:
            self.add("drift", rng.choice(["services", "statefulsets", "configmaps"]))
        elif kind < 0.93:
            self.add("remove_child", rng.choice(["services", "configmaps"]))
        elif not self.is_suspended and self.failures < self.backoff:
            self.add("finish", rng.randint(1, 255))
            self.failures += 1
        else:
            self.add("wait")

    def resume(self):
        self.add("resume", *([self.rng.choice(IMAGES[1:])] if self.rng.random() < 0.4 else []))
        self.is_suspended = False

    def draw_end(self):
        if self.is_suspended:
            self.resume()
        while self.failures < self.backoff and self.rng.random() < 0.5:
            self.add("finish", self.rng.randint(1, 255))
            self.failures += 1
        if self.failures < self.backoff or self.rng.random() < 0.6:
            self.add("finish", 0)
        else:
            self.add("finish", self.rng.randint(1, 255))
        for _ in range(self.rng.randint(0, 2)):
            self.add(*self.rng.choice([("touch",), ("scale", 3), ("remove_child", "services")]))


def draw(number):
    """The steps of program number, those of its jobs in random turns."""
    rng = random.Random(f"program {number}")
    queues = [JobProgram(rng, name).steps for name in "abcd"[:rng.choice([1, 1, 2, 2, 3, 4])]]
    steps = []
    while any(queues):
        queue = rng.choice([queue for queue in queues if queue])
        steps.append(queue.pop(0))
    return steps
