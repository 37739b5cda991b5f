"""The command that a stranger types first: on its own cluster, again, on a cluster that is there, and down."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MADE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "horovod" / "demo" / "made"


def run(*command, check=True, timeout=1800):
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=timeout, check=False)
    assert not check or done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return done


def cluster_is_up():
    return run("tests/cluster/status", check=False).returncode == 0


def assert_succeeded(done, job="digits"):
    last = done.stdout.strip().splitlines()[-1]
    assert re.fullmatch(rf"demo: HorovodJob default/{job} Succeeded in \d+ s", last), done.stdout[-2000:]
    assert re.search(rf"^{job}\s+Succeeded\s+", done.stdout, re.M), done.stdout[-2000:]
    accuracy = re.findall(r"accuracy ([0-9.]+) on", done.stdout)
    assert len(accuracy) >= 2 and min(map(float, accuracy)) >= 0.95, "one training here, one on the cluster"


@pytest.fixture(scope="module")
def kubectl():
    """kubectl on the local cluster, which is up already or stays up for these tests."""
    was_up = cluster_is_up()
    kubeconfig = run("tests/cluster/up").stdout.strip().splitlines()[-1]
    programs = run("tests/cluster/build").stdout.strip().splitlines()[-1]

    def call(*arguments, check=True):
        return run(f"{programs}/kubectl", "--kubeconfig", kubeconfig, *arguments, check=check).stdout
    call.kubeconfig = kubeconfig
    yield call
    if not was_up:
        run("tests/cluster/down")


def test_the_demo_makes_its_cluster_trains_repeats_also_in_pytorch_and_keras_and_takes_it_down():
    if cluster_is_up():
        pytest.skip("a local cluster is up already, which the demo would leave up: tests/cluster/down first")
    assert_succeeded(run("script/demo"))
    assert cluster_is_up()
    assert_succeeded(run("script/demo"))
    for example in ("pytorch", "keras"):
        assert_succeeded(run("script/demo", "--example", example), f"digits-{example}")
    run("script/demo", "--down")
    assert not cluster_is_up()
    assert not MADE.exists()
    links = run("ip", "-brief", "link").stdout
    assert "horovod" not in links, links


def test_a_cluster_that_is_not_ours_is_named_and_needs_a_way_for_the_images(kubectl):
    done = run("script/demo", "--cluster", kubectl.kubeconfig, check=False)
    assert done.returncode != 0
    assert re.search(r"context \S+, server https://", done.stderr), done.stderr
    assert "--load" in done.stderr and "--registry" in done.stderr
    assert "horovodjobs.horovod.io" not in kubectl("get", "crd", "-o", "name")


def test_the_demo_runs_on_a_cluster_that_is_there_and_removes_only_its_own(kubectl):
    kubectl("apply", "-f", "crds/")
    other = '{"apiVersion":"horovod.io/v1beta1","kind":"HorovodJob","metadata":{"name":"other"},' \
            '"spec":{"image":"x","command":["x"],"suspend":true,"worker":{"replicas":1}}}'
    manifest = ROOT / "build" / "reports" / "other.json"
    manifest.write_text(other, encoding="utf-8")
    kubectl("apply", "-f", str(manifest))
    try:
        assert_succeeded(run("script/demo", "--cluster", kubectl.kubeconfig, "--load", "tests/cluster/load-image -"))
        run("script/demo", "--down")
        assert kubectl("get", "horovodjobs", "-o", "name").split() == ["horovodjob.horovod.io/other"]
        assert "horovod-operator" not in kubectl("get", "deployments", "-o", "name")
        assert cluster_is_up()
    finally:
        kubectl("delete", "horovodjob", "other", "--wait=false")
        kubectl("delete", "crd", "horovodjobs.horovod.io", "--timeout=60s")
