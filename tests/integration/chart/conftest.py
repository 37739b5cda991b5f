"""Fixtures of the chart's tests: helm, as tests/cluster/build makes it, and what it renders."""
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).resolve().parents[3]
CHART = TOP / "charts" / "horovod"
CLUSTER = TOP / "tests" / "cluster"
KUBERNETES = "1.34.4"


@pytest.fixture(scope="session")
def helm(tmp_path_factory):
    """Runs helm with arguments; returns the finished process."""
    built = subprocess.run([TOP / "tests" / "cluster" / "build"], stdout=subprocess.PIPE, check=True, text=True)
    program = Path(built.stdout.splitlines()[-1]) / "helm"
    home = tmp_path_factory.mktemp("helm")
    env = {**os.environ, "HELM_CACHE_HOME": str(home), "HELM_CONFIG_HOME": str(home), "HELM_DATA_HOME": str(home)}
    env.pop("KUBECONFIG", None)

    def run(*args):
        return subprocess.run([program, *args], capture_output=True, text=True, env=env, timeout=60, check=False)

    return run


@pytest.fixture(scope="session")
def template(helm, tmp_path_factory):
    """template(VALUES, release): `helm template` with a dictionary of values; returns the finished process. Without the
    pods of `helm test`, unless asked to by other words."""
    folder = tmp_path_factory.mktemp("values")

    def run(values=None, release="horovod", words=("--no-hooks",)):
        file = folder / "values.json"
        file.write_text(json.dumps(values or {}))
        return helm("template", release, str(CHART), "--kube-version", KUBERNETES, "--namespace", "training",
                    "--values", str(file), *words)

    return run


@pytest.fixture(scope="session")
def render(template):
    """render(VALUES, release): the rendered objects by kind, which fails on two of one kind; without the roles of users."""

    def run(values=None, release="horovod"):
        done = template({"rbac": {"userRoles": False}, **(values or {})}, release)
        assert done.returncode == 0, done.stderr
        objects = {}
        for item in yaml.safe_load_all(done.stdout):
            if item:
                assert item["kind"] not in objects, f"two objects of kind {item['kind']}"
                objects[item["kind"]] = item
        return objects

    return run


@pytest.fixture(scope="session")
def render_all(template):
    """render_all(VALUES, release): the rendered objects by (kind, name)."""

    def run(values=None, release="horovod"):
        done = template(values, release)
        assert done.returncode == 0, done.stderr
        items = [item for item in yaml.safe_load_all(done.stdout) if item]
        objects = {(item["kind"], item["metadata"]["name"]): item for item in items}
        assert len(objects) == len(items)
        return objects

    return run


@pytest.fixture(scope="session")
def kubectl(tmp_path_factory):
    """kubectl(WORDS..., stdin=TEXT, check=True) as administrator of an API server of these tests; its standard output, or
    the finished process with check=False."""
    state = tmp_path_factory.mktemp("api") / "server"
    up = subprocess.run([CLUSTER / "apiserver", "up", state, "--with-controllers"], stdout=subprocess.PIPE, text=True,
                        check=True, timeout=300)
    built = subprocess.run([CLUSTER / "build"], stdout=subprocess.PIPE, text=True, check=True)
    program = Path(built.stdout.splitlines()[-1]) / "kubectl"

    def run(*words, stdin=None, check=True):
        done = subprocess.run([program, "--kubeconfig", run.kubeconfig, *words], input=stdin, capture_output=True,
                              text=True, timeout=60, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout if check else done

    run.kubeconfig = up.stdout.splitlines()[-1]
    yield run
    subprocess.run([CLUSTER / "apiserver", "down", state], check=True, timeout=60)


@pytest.fixture
def install(helm, kubectl, tmp_path):
    """install(VALUES): the chart as release horovod in the namespace default, until the test ends; the finished process."""
    def run(values=None):
        file = tmp_path / "installed.json"
        file.write_text(json.dumps(values or {}))
        done = helm("install", "horovod", str(CHART), "--kubeconfig", kubectl.kubeconfig, "--namespace", "default",
                    "--values", str(file))
        assert done.returncode == 0, done.stderr
        return done

    yield run
    done = helm("uninstall", "horovod", "--kubeconfig", kubectl.kubeconfig, "--namespace", "default")
    assert done.returncode == 0, done.stderr


def wait_for(what, check, seconds=30):
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.1)


@pytest.fixture
def chart_copy(tmp_path):
    """A copy of the chart that a test may change."""
    return Path(shutil.copytree(CHART, tmp_path / "horovod"))


def verbs_of_the_operator():
    """What the operator may ask for, by resource: the unit tests let no request pass that is not in this table."""
    rows = re.findall(r'\[HVD_KIND_\w+\] = \{([^}]*)\}', (TOP / "operator/api/kind.c").read_text())
    fields = [re.findall(r'"([^"]*)"', row) for row in rows]
    assert len(fields) == 12 and all(len(row) == 5 for row in fields)
    return {row[3]: set(row[4].split()) for row in fields}
