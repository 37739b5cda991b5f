"""What the tests of alerts and panels need of Prometheus: metrics as text, series, and promtool, which evaluates."""
import json
import re
import subprocess

from conftest import TOP

# What Prometheus adds to each series of a target in a cluster.
TARGET = {"namespace": "training", "job": "horovod-operator", "instance": "10.0.0.1:8080", "pod": "operator-0"}


def parse(text):
    """The samples of a /metrics page: (name, labels as sorted pairs) -> value as text."""
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? (\S+)", line).groups()
        samples[name, tuple(sorted(re.findall(r'([a-z]+)="([^"]*)"', labels or "")))] = value
    return samples


def series(name, **labels):
    """A series as PromQL writes it, with the labels of its target."""
    return name + "{" + ", ".join(f'{key}="{value}"' for key, value in {**TARGET, **labels}.items()) + "}"


def names(expression):
    """Names of our metrics in an expression."""
    return set(re.findall(r"\b(?:horovod_operator|process)_[a-z_]+\b", expression))


class Promtool:
    """Runs promtool on files that it writes into a folder."""

    def __init__(self, folder):
        done = subprocess.run([TOP / "tests/support/promtool"], stdout=subprocess.PIPE, text=True, check=True, timeout=300)
        self.program, self.folder = done.stdout.splitlines()[-1], folder

    def run(self, *words):
        return subprocess.run([self.program, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60, check=False)

    def check(self, rules):
        """Whether the text is a file of rules that Prometheus takes; the finished process."""
        file = self.folder / "rules.yaml"
        file.write_text(rules)
        return self.run("check", "rules", file)

    def test(self, rules, values, **cases):
        """Evaluates rules (a file) or expressions over the series of values, a sample a minute; the finished process."""
        file = self.folder / "test.yaml"
        file.write_text(json.dumps({
            "rule_files": [str(rules)] if rules else [], "evaluation_interval": "1m",
            "tests": [{"interval": "1m", "input_series": [{"series": one, "values": text} for one, text in values.items()],
                       **cases}]}))
        return self.run("test", "rules", file)
