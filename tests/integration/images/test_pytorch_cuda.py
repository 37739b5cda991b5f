"""The lists of the image with PyTorch for GPUs. The image is several GB, so no test builds it: its packages are those that the tests of
horovod.torch run with."""
import os
import re
from pathlib import Path

import pytest
from conftest import TOP

LISTS = TOP / "images/worker-pytorch-cuda"
TESTED = TOP / "tests/support/environments"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "horovod/python"


def pins(path):
    """The versions of a list, by the name of the package."""
    return {name.lower().replace("_", "-"): version for name, version in re.findall(r"^([\w.-]+)==(\S+)$", path.read_text(), re.M)}


IMAGE = pins(LISTS / "requirements")


def test_the_packages_are_those_that_horovod_torch_is_tested_with():
    tested = pins(TESTED / f"torch-{IMAGE['torch']}.txt")
    assert {name for name in tested if name.startswith("nvidia-")} | {"nvidia-cusolver"} == \
        {name for name in IMAGE if name.startswith("nvidia-")}
    shared = (set(tested) & set(IMAGE)) - {"mpmath"}  # sympy wants an older one than it is tested with
    assert {name: tested[name] for name in shared} == {name: IMAGE[name] for name in shared}


def test_what_pytorch_asks_for_is_in_the_image_or_named_as_left_out():
    found = list(CACHE.glob(f"torch-{IMAGE['torch']}/lib/python3*/site-packages/torch-*.dist-info/METADATA"))
    if not found:
        pytest.skip("script/bootstrap python makes the environment whose package says it")
    left_out = "".join(line for line in (LISTS / "requirements").read_text().splitlines() if line.startswith("#"))
    asked = re.findall(r"^Requires-Dist: ([\w.-]+)(\[[\w,]+\])?([^;\n]*)(.*)$", found[0].read_text(), re.M)
    assert len(asked) > 10
    for name, _, bound, condition in asked:
        if "extra ==" in condition:
            continue
        assert name in IMAGE or f" {name}" in left_out, f"PyTorch asks for {name}"
        if bound.startswith("==") and name in IMAGE:
            assert IMAGE[name] == bound[2:], f"PyTorch asks for {name}{bound}"


def test_nccl_is_one_that_the_library_can_use():
    assert tuple(map(int, IMAGE["nvidia-nccl-cu13"].split("."))) >= (2, 18)


def test_the_runtime_mounts_the_driver_only_into_containers_that_get_gpus():
    lines = (TOP / "images/worker/Containerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("ENV")] == ["ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility"]


def test_only_files_of_packages_are_left_out():
    patterns = [line for line in (LISTS / "omit").read_text().splitlines() if not line.startswith("#")]
    assert len(patterns) > 5
    for pattern in patterns:
        assert re.fullmatch(r"(nvidia|torch)/[\w*.+-]+(/[\w*.+-]+)*", pattern) and ".." not in pattern, pattern
