"""The guides of docs/: the API server takes their manifests, and their commands print what the pages show."""
import re
import shlex

import pytest
import yaml

from conftest import ROOT
from kubeapi import until

GUIDES = ("own-image.md", "gpus.md", "multi-tenant.md", "coming-from.md")


def text_of(page):
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def manifests(page):
    """The objects of a page; values of the chart are none."""
    found = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", text_of(page), re.M | re.S)]
    return [manifest for manifest in found if "kind" in manifest]


def arguments(page, start):
    """Those of the one kubectl command of a page that starts so."""
    line, = [line.strip() for line in text_of(page).splitlines() if line.startswith(f"    kubectl {start}")]
    return shlex.split(line)[1:]


@pytest.mark.parametrize("page", GUIDES)
def test_every_manifest_of_a_guide_is_accepted(server, ns, page):
    assert manifests(page)
    for manifest in manifests(page):
        if "namespace" in manifest["metadata"]:
            manifest["metadata"]["namespace"] = ns.name
        server.kubectl("apply", "--dry-run=server", "-n", ns.name, "-f", "-", text=yaml.safe_dump(manifest))


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*/*.yaml")), ids=lambda path: path.name)
def test_every_manifest_of_an_example_is_accepted(server, ns, path):
    server.kubectl("apply", "--dry-run=server", "-n", ns.name, "-f", str(path))


def test_hosts_and_slots_are_those_that_the_guides_tell(ns, server, operator):
    jobs = {job["metadata"]["name"]: job for page in ("own-image.md", "gpus.md") for job in manifests(page) if job["kind"] == "HorovodJob"}
    hosts = {"train": ["train-worker-0.train slots=2", "train-worker-1.train slots=2"],
             "train-gpu": ["train-gpu-worker-0.train-gpu slots=4", "train-gpu-worker-1.train-gpu slots=4"],
             "resumable": ["resumable-master slots=1", "resumable-worker-0.resumable slots=1", "resumable-worker-1.resumable slots=1"]}
    for name, wanted in hosts.items():
        server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump(jobs[name]))
        found = until("the host list", lambda name=name: ns.get("configmaps", f"{name}-hosts"))
        assert found["data"]["hostfile"].splitlines() == wanted
    pod = until("workers with GPUs", lambda: ns.get("statefulsets", "train-gpu-worker"))["spec"]["template"]["spec"]
    volume, = [volume["name"] for volume in pod["volumes"] if volume.get("emptyDir") == {"medium": "Memory"}]
    assert {"name": volume, "mountPath": "/dev/shm"} in pod["containers"][0]["volumeMounts"]


def test_a_script_learns_of_the_end_of_a_job_that_fails(server, ns, operator):
    job = next(job for job in manifests("own-image.md") if job["metadata"]["name"] == "train")
    job["spec"]["activeDeadlineSeconds"] = 5
    server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump(job))
    server.kubectl("-n", ns.name, *arguments("own-image.md", "wait --for=jsonpath"))
    told = server.kubectl("-n", ns.name, *arguments("own-image.md", "get hvj train -o jsonpath")).stdout.strip()
    assert f"    {told}\n" in text_of("own-image.md")


def test_the_rights_of_a_team_are_those_that_the_guide_tells(server, ns):
    for manifest in manifests("multi-tenant.md"):
        if manifest["kind"] in ("Role", "RoleBinding"):
            manifest["metadata"]["namespace"] = ns.name
            server.kubectl("apply", "-f", "-", text=yaml.safe_dump(manifest))

    def answer(start):
        words = arguments("multi-tenant.md", start)
        return server.kubectl(*(ns.name if word == "team-a" else word for word in words), check=False).stdout.strip()
    until("the right to create jobs", lambda: answer("auth can-i create") == "yes")
    assert answer("auth can-i update") == "no"


def test_workers_that_are_kept_for_their_files_go_with_the_command_of_the_guide(server, ns, operator):
    job = next(job for job in manifests("own-image.md") if job["metadata"]["name"] == "traced")
    server.kubectl("apply", "-n", ns.name, "-f", "-", text=yaml.safe_dump(job))
    ns.start_workers(2, "traced")
    ns.end_master(ns.start_master("traced"))
    ns.wait_state("Succeeded", "traced")
    assert ns.workers("traced") == {"traced-worker-0", "traced-worker-1"}
    server.kubectl("-n", ns.name, *arguments("own-image.md", "patch hvj traced"))
    until("no StatefulSet", lambda: not ns.get("statefulsets", "traced-worker"))
