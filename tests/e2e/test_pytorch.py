"""PyTorch in real pods: the image horovod-worker-pytorch and the example's manifest as they are."""
import re

import pytest
import yaml

from conftest import ROOT, run


@pytest.fixture(scope="module")
def pytorch_image(cluster):
    """The image, built and loaded; the first time its base takes minutes."""
    run("images/build", "worker-pytorch", timeout=1800)
    run("tests/cluster/load-image", "build/images/horovod-worker-pytorch.tar")
    return cluster


@pytest.mark.usefixtures("pytorch_image")
def test_the_pytorch_digits_job_trains_to_95_percent_and_succeeds(namespace):
    namespace.apply(yaml.safe_load((ROOT / "examples/pytorch/horovodjob.yaml").read_text(encoding="utf-8")))
    namespace.wait_state("digits-pytorch", "Succeeded", "Failed", timeout=300)
    log = namespace.master_log("digits-pytorch")
    assert namespace.state("digits-pytorch") == "Succeeded", log + str(namespace.condition("digits-pytorch", "Failed"))
    assert float(re.search(r"accuracy ([0-9.]+) on", log).group(1)) >= 0.95, log
