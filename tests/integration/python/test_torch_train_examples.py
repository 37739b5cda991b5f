"""The examples in PyTorch: they learn, and any number of ranks computes the same."""
import re

import pytest
import ranks
import yaml

EXAMPLES = ranks.ROOT / "examples" / "pytorch"
TOLERANCE = 1e-5


def run(n, script, *arguments):
    """The output of an example's n ranks."""
    done = ranks.mpirun(n, ranks.TORCH_PYTHON, EXAMPLES / script, *arguments, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


def losses(output):
    """{epoch or step: loss}"""
    return {int(at): float(loss) for at, loss in re.findall(r"(?:epoch|step) (\d+) loss (\S+)", output)}


def assert_same(one, other):
    """Whether two runs had the same losses but for rounding."""
    assert one.keys() == other.keys() and one, (one, other)
    assert max(abs(one[at] - other[at]) for at in one) < TOLERANCE, (one, other)


def test_digits_learns_and_two_ranks_compute_what_one_does(tmp_path):
    alone = run(1, "digits.py", "--epochs", 4, "--batch", 95)
    first = run(2, "digits.py", "--epochs", 2, "--batch", 95, "--checkpoint", tmp_path / "state")
    rest = run(2, "digits.py", "--epochs", 20, "--batch", 95, "--checkpoint", tmp_path / "state")
    assert "resuming after epoch 2" in rest, rest
    resumed = {**losses(first), **losses(rest)}
    assert_same(losses(alone), {epoch: resumed[epoch] for epoch in range(1, 5)})
    accuracy = re.search(r"digits: accuracy ([0-9.]+) on 360 held-back images", rest)
    assert float(accuracy[1]) > 0.94, rest
    assert sum(int(n) for n in re.findall(r"trains on (\d+) of 1437", first)) == 1437, first


def test_the_transformer_computes_the_same_at_two_ranks_and_learns_in_bfloat16():
    arguments = ("--steps", 20, "--batch", 9, "--dtype", "float32")
    assert_same(losses(run(1, "transformer.py", *arguments)), losses(run(2, "transformer.py", *arguments)))
    learnt = losses(run(2, "transformer.py", "--steps", 80))
    assert learnt[80] < 0.7 * learnt[20], learnt


@pytest.mark.parametrize("flags", [["--model", "resnet18"], ["--model", "many-small", "--fp16-allreduce"],
                                   ["--model", "many-small", "--use-adasum"], ["--model", "many-small", "--ddp"]])
def test_the_synthetic_benchmark_tells_images_a_second(flags):
    output = run(2, "synthetic.py", *flags, "--batch-size", 2, "--image-size", 32, "--num-warmup-batches", 1,
                 "--num-batches-per-iter", 1, "--num-iters", 2, "--no-cuda")
    assert re.search(r"Model: \S+\nBatch size: 2\nNumber of CPUs: 2\nRunning warmup...\nRunning benchmark...\n"
                     r"Iter #0: [0-9.]+ img/sec per CPU\nIter #1: [0-9.]+ img/sec per CPU\n"
                     r"Img/sec per CPU: [0-9.]+ \+-[0-9.]+\nTotal img/sec on 2 CPU\(s\): [0-9.]+ \+-[0-9.]+\n", output), output


@pytest.mark.parametrize("manifest, script", [("horovodjob.yaml", "digits.py"), ("synthetic.yaml", "synthetic.py"),
                                              ("transformer.yaml", "transformer.py")])
def test_a_manifest_runs_an_installed_script_with_flags_that_it_knows(manifest, script):
    text = (EXAMPLES / manifest).read_text(encoding="utf-8")
    spec = yaml.safe_load(text)["spec"]
    assert spec["command"][:2] == ["python3", f"/usr/local/share/horovod/examples/pytorch/{script}"]
    assert spec["image"].endswith(":" + (ranks.ROOT / "VERSION").read_text(encoding="utf-8").strip())
    assert f"pytorch/{script}" in (ranks.ROOT / "examples" / "CMakeLists.txt").read_text(encoding="utf-8")
    assert all(flag in (EXAMPLES / script).read_text(encoding="utf-8")
               for flag in spec["command"][2:] if flag.startswith("--"))
