"""The examples in Keras and TensorFlow learn, any number of ranks computes the same, and a restart continues; the scripts of docs/tensorflow.md run."""
import re

import pytest
import variants
import yaml
from variants import ranks

EXAMPLES = ranks.ROOT / "examples"
TOLERANCE = 1e-4
PAGE = (ranks.ROOT / "docs" / "tensorflow.md").read_text(encoding="utf-8")
WITHOUT_REDUCTION = """
import runpy, sys
import horovod.tensorflow
horovod.tensorflow.DistributedOptimizer = lambda optimizer: optimizer
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(n, script, *arguments, before=(), folder="."):
    """The output of a script's n ranks, which run in a folder."""
    variants.needed(variants.KERAS_3)
    done = ranks.mpirun(n, "env", f"--chdir={folder}", variants.KERAS_3.python, *before, script, *arguments, timeout=200,
                        **variants.KERAS_3.settings())
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


def losses(output):
    """{epoch: loss}"""
    return {int(at): float(loss) for at, loss in re.findall(r"epoch (\d+) loss (\S+)", output)}


def largest_difference(one, other):
    assert one.keys() == other.keys() and one, (one, other)
    return max(abs(one[at] - other[at]) for at in one)


# The examples: in which batches they divide alike among two ranks, what they train on then, and where they save.
@pytest.mark.parametrize("example, batch, n_images, saved", [("keras", 96, 1344, "saved.keras"), ("tensorflow", 95, 1437, "saved")])
def test_digits_learns_and_two_ranks_that_restart_compute_what_one_does(tmp_path, example, batch, n_images, saved):
    def digits(n, *arguments, **options):
        return run(n, EXAMPLES / example / "digits.py", "--batch", batch, *arguments, **options)

    alone = losses(digits(1, "--epochs", 4))
    first = digits(2, "--epochs", 2, "--checkpoint", tmp_path / saved)
    rest = digits(2, "--epochs", 20, "--checkpoint", tmp_path / saved)
    assert rest.count("resuming after epoch 2\n") == 1, rest
    both = {**losses(first), **losses(rest)}
    assert largest_difference(alone, {epoch: both[epoch] for epoch in range(1, 5)}) < TOLERANCE
    assert float(re.search(r"digits: accuracy ([0-9.]+) on 360 held-back images", rest)[1]) > 0.94, rest
    assert sum(int(n) for n in re.findall(r"trains on (\d+) of 1437", first)) == n_images, first
    if example == "tensorflow":  # fit() without a reduction has checks of its own
        assert largest_difference(alone, losses(digits(2, "--epochs", 4, before=("-c", WITHOUT_REDUCTION)))) > 10 * TOLERANCE


# What rank 0 prints by each script of the page, in their order; the last number is at most the one here.
SCRIPTS = [("fit", r"loss (\S+)", 0.001), ("loop", r"loss (\S+)", 0.001), ("graph", r"loss (\S+)", 0.01),
           ("join", r"rank (\d) had the most batches", 1), ("load", r"updates (\d+)", 20)]


@pytest.mark.parametrize("place, name, printed, most", [(at, *one) for at, one in enumerate(SCRIPTS)], ids=[one[0] for one in SCRIPTS])
def test_a_script_of_the_page_runs_as_it_stands(tmp_path, place, name, printed, most):
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == len(SCRIPTS), "each script of docs/tensorflow.md has a line in SCRIPTS"
    (tmp_path / "train.py").write_text(blocks[place], encoding="utf-8")
    output = run(2, tmp_path / "train.py", folder=tmp_path)
    assert float(re.findall(printed, output)[-1]) <= most, output
    if name == "load":
        assert "updates 40\n" in run(2, tmp_path / "train.py", folder=tmp_path), "the state of the optimizer was not kept"


def test_the_synthetic_benchmark_prints_images_a_second():
    output = run(2, EXAMPLES / "tensorflow" / "synthetic.py", "--model", "MobileNetV2", "--fp16-allreduce", "--use-adasum",
                 "--batch-size", 2, "--image-size", 32, "--num-warmup-batches", 1, "--num-batches-per-iter", 1, "--num-iters", 2,
                 "--no-cuda")
    assert re.search(r"Model: \S+\nBatch size: 2\nNumber of CPUs: 2\nRunning warmup...\nRunning benchmark...\n"
                     r"Iter #0: [0-9.]+ img/sec per CPU\nIter #1: [0-9.]+ img/sec per CPU\n"
                     r"Img/sec per CPU: [0-9.]+ \+-[0-9.]+\nTotal img/sec on 2 CPU\(s\): [0-9.]+ \+-[0-9.]+\n", output), output


@pytest.mark.parametrize("manifest, script", [("keras/horovodjob.yaml", "keras/digits.py"),
                                              ("tensorflow/horovodjob.yaml", "tensorflow/digits.py"),
                                              ("tensorflow/synthetic.yaml", "tensorflow/synthetic.py")])
def test_a_manifest_runs_an_installed_script_with_flags_that_it_knows(manifest, script):
    spec = yaml.safe_load((EXAMPLES / manifest).read_text(encoding="utf-8"))["spec"]
    assert spec["command"][:2] == ["python3", f"/usr/local/share/horovod/examples/{script}"]
    assert spec["image"] == "localhost/horovod-worker-tensorflow:" + (ranks.ROOT / "VERSION").read_text(encoding="utf-8").strip()
    assert script in (EXAMPLES / "CMakeLists.txt").read_text(encoding="utf-8")
    assert all(flag in (EXAMPLES / script).read_text(encoding="utf-8")
               for flag in spec["command"][2:] if flag.startswith("--"))
