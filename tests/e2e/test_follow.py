"""docs/follow-a-job.md: its commands, typed beside a real job that fails, print what the page shows.

    HVD_REWRITE_PAGE=1 script/test e2e -k page

puts what they print into the page, if it differs in more than times, ages and random names.
"""
import difflib
import os
import re
import subprocess

import pytest

from conftest import ROOT, WORKER_IMAGE, run, short_job, wait_for

PAGE = ROOT / "docs/follow-a-job.md"
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)", re.M)
CONDITIONS = """kubectl get hvj train -o jsonpath='{range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\\n"}{end}'"""
MANIFEST = re.compile(r"^```yaml\n(.*?)^```", re.M | re.S)

# What a command prints once its moment in the life of the job has come. The others are typed once, when those before them are done.
MOMENTS = {
    ("The workers start", "kubectl get hvj"): r"Pending",
    ("The workers start", "kubectl get pods"): r"\A.*(\ntrain-worker-\d +0/1 .*){2}\Z",
    ("The program runs", "kubectl get hvj"): r"Running +2/2 +1",
    ("The program runs", "kubectl get pods"): r"train-master-\w+ +1/1",
    ("The program runs", "kubectl events --for hvj/train"): r"MasterStarted",
    ("The program runs", CONDITIONS): r"Running=True",
    ("The first attempt fails", "kubectl get hvj -o wide"): r"Restarting",
    ("The first attempt fails", CONDITIONS): r"WorkersReady=False",
    ("The first attempt fails", "kubectl events --for hvj/train"): r"Restarting",
    ("The second attempt runs", "kubectl get hvj"): r"Running +2/2 +2",
    ("The second attempt runs", "kubectl get pods"): r"train-master-\w+ +1/1",
    ("The job has failed", "kubectl get hvj"): r"Failed",
    ("The job has failed", "kubectl get pods"): r"\A.*\ntrain-master-\w+ +0/1 +Error .*\Z",
    ("Find the cause", "kubectl describe hvj train"): r"Warning +Failed",
}


def steady(text):
    """Text without what differs from run to run: times, ages, uids, versions, random names, widths of columns, how far pods have come."""
    for pattern, word in ((r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
                          (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
                          (r"(Resource Version: +)\d+", r"\1VERSION"),
                          (r"\b(train-master)-[a-z0-9]{5}\b", r"\1-XXXXX"),
                          (r"\b(\d+m)?\d+s\b|\b\d+m\b", "AGE"),
                          (r"( 0/1 +)(Pending|ContainerCreating|Running) ", r"\1STARTING "),
                          (r"(train +Pending +)0/2 +0 +", r"\1"),
                          (r"(Restarting +|WaitingForWorkers: )\d(/| of )2", r"\1N\g<2>2"),
                          (r"[ \t]+", " ")):
        text = re.sub(pattern, word, text)
    return text


def commands_of(page):
    """(section, command, output) of each command of a page, in order; the section is the heading above."""
    headings = [(match.start(), match[1]) for match in re.finditer(r"^## (.*)$", page, re.M)]
    return [([heading for start, heading in headings if start < match.start()][-1], match[1], match[2].rstrip("\n"))
            for match in COMMAND.finditer(page)]


def rewritten(page, outputs):
    """The page with these outputs in place of its own, in order."""
    left = iter(outputs)
    return COMMAND.sub(lambda match: f"$ {match[1]}\n{next(left)}\n", page)


class Reader:
    """Someone with a shell and kubectl, whose namespace is that of the test; the page calls it "default"."""

    def __init__(self, namespace, folder):
        self.namespace, self.folder = namespace.name, folder
        cluster = namespace.cluster
        (folder / "kubeconfig").write_text(cluster.kubectl("config", "view", "--raw", "--flatten").stdout, encoding="utf-8")
        self.env = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "PATH": f"{cluster.programs}:{os.environ['PATH']}"}
        run(f"{cluster.programs}/kubectl", "config", "set-context", "--current", f"--namespace={self.namespace}", env=self.env)

    def types(self, command):
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=120, check=True)
        lines = done.stdout.replace(self.namespace, "default").expandtabs().splitlines()
        return "\n".join(line.rstrip() for line in lines).rstrip("\n")

    def sees(self, command, moment):
        """What the command prints at the moment, which is awaited."""
        def look():
            output = self.types(command)
            return [output] if re.search(moment, output) else None
        return wait_for(f"'{command}' to print {moment}", look)[0]


def test_the_commands_of_the_page_print_what_it_shows(namespace, tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    shown = commands_of(page)
    assert set(MOMENTS) <= {(section, command) for section, command, _ in shown}
    manifest = MANIFEST.search(page)[1]
    current = re.sub(r"(?m)^apiVersion: .*", f"apiVersion: {short_job('', [])['apiVersion']}", manifest)
    current = re.sub(r"(?m)^  image: .*", f"  image: {WORKER_IMAGE}", current)
    (tmp_path / "train.yaml").write_text(current, encoding="utf-8")
    reader = Reader(namespace, tmp_path)
    outputs = [reader.sees(command, MOMENTS.get((section, command), "")) for section, command, _ in shown]
    differences = [line for (section, command, before), output in zip(shown, outputs) for line in difflib.unified_diff(
        steady(before).splitlines(), steady(output).splitlines(), f"{section}: {command}", "what it prints", lineterm="")]
    is_current = not differences and current == manifest
    if not is_current and os.environ.get("HVD_REWRITE_PAGE"):  # as a whole, so that all blocks are of one run
        PAGE.write_text(rewritten(page.replace(manifest, current), outputs), encoding="utf-8")
    else:
        assert is_current, "\n".join([f"{PAGE.name} is not what a cluster prints:", *differences, __doc__])


@pytest.mark.parametrize("one, other, is_same", [
    ("train   Running   2/2     1          9s", "train   Running   2/2     1          1m10s", True),
    ("train-worker-0   0/1   Pending   0   0s", "train-worker-0   0/1   ContainerCreating   0   1s", True),
    ("train   Pending   0s", "train   Pending   0/2   0     5s", True),
    ("train   Restarting   1/2     1          9s", "train   Restarting   0/2     1          9s", True),
    ("pod train-master-4bgvc is running", "pod train-master-wggwg is running", True),
    ("Start Time:  2026-11-26T10:04:35Z", "Start Time:  2027-01-02T23:59:59Z", True),
    ("Master UID:  4268f105-61d7-4a34-9d91-37f9c3b1d276", "Master UID:  8f1324aa-03af-49a9-8344-7effc5274b00", True),
    ("Resource Version:  503", "Resource Version:  99", True),
    ("train   Running   2/2     1          9s", "train   Running   2/2     2          9s", False),
    ("train-worker-0   0/1   Pending   0   0s", "train-worker-0   1/1   Running   0   1s", False),
    ("train-worker-0   1/1   Running   0   3s", "train-worker-1   1/1   Running   0   3s", False),
    ("attempt 1 of 2", "attempt 2 of 2", False),
    ("API Version:  horovod.io/v1", "API Version:  horovod.io/v2", False),
])
def test_runs_differ_only_in_times_ages_and_random_names(one, other, is_same):
    assert (steady(one) == steady(other)) == is_same


def test_a_page_is_rewritten_command_by_command():
    page = "## One\n\n```console\n$ a\nfirst\n$ b\nsecond\n```\n\n## Two\n\n```console\n$ a\n```\n"
    assert commands_of(page) == [("One", "a", "first"), ("One", "b", "second"), ("Two", "a", "")]
    assert commands_of(rewritten(page, ["1", "2\n2", "3"])) == [("One", "a", "1"), ("One", "b", "2\n2"), ("Two", "a", "3")]
    assert rewritten(page, ["first", "second", "3"]) == page.replace("$ a\n```", "$ a\n3\n```")
