"""TensorFlow and Keras in real pods: the image horovod-worker-tensorflow and the examples' manifests as they are."""
import re

import pytest
import yaml

from conftest import ROOT


@pytest.mark.usefixtures("tensorflow_image")
@pytest.mark.parametrize("example", ["keras", "tensorflow"])
def test_the_digits_job_trains_to_95_percent(namespace, example):
    job = f"digits-{example}"
    namespace.apply(yaml.safe_load((ROOT / f"examples/{example}/horovodjob.yaml").read_text(encoding="utf-8")))
    namespace.wait_state(job, "Succeeded", "Failed", timeout=300)
    log = namespace.master_log(job)
    assert namespace.state(job) == "Succeeded", log + str(namespace.condition(job, "Failed"))
    assert float(re.search(r"accuracy ([0-9.]+) on", log).group(1)) >= 0.95, log
