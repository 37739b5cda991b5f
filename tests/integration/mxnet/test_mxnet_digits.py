"""The example in Gluon learns, and its ranks compute what one process does with the global batch; the script of docs/mxnet.md runs."""
import functools
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import ranks  # noqa: E402  (the path above)

MXNET_PYTHON = str(ranks.CACHE / "python" / "mxnet-1.9.1" / "bin" / "python")
EXAMPLE = ranks.ROOT / "examples" / "mxnet" / "digits.py"
TOLERANCE = 1e-4
WITHOUT_REDUCTION = """
import runpy, sys
from horovod.mxnet import optimizer
optimizer.complete = lambda begin, items: None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@functools.lru_cache(maxsize=None)
def run(n, *arguments, before=()):
    """The output of n ranks."""
    done = ranks.mpirun(n, MXNET_PYTHON, *before, EXAMPLE, *arguments, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


def largest_difference(one, other):
    """Between the losses of two outputs, epoch by epoch."""
    first, second = ({int(at): float(loss) for at, loss in re.findall(r"epoch (\d+) loss (\S+)", output)} for output in (one, other))
    assert first.keys() == second.keys() and first, (one, other)
    return max(abs(first[at] - second[at]) for at in first)


@pytest.mark.parametrize("n", [2, 3])
def test_ranks_compute_what_one_process_does_with_the_global_batch(n):
    output = run(n, "--epochs", 4, "--batch", 95)
    assert largest_difference(output, run(1, "--epochs", 4, "--batch", 95)) < TOLERANCE
    assert sum(int(part) for part in re.findall(r"trains on (\d+) of 1437", output)) == 1437, output


def test_without_a_reduction_the_losses_differ():
    output = run(2, "--epochs", 4, "--batch", 95, before=("-c", WITHOUT_REDUCTION))
    assert largest_difference(output, run(1, "--epochs", 4, "--batch", 95)) > 10 * TOLERANCE


def test_the_script_of_the_page_trains(tmp_path):
    page = (ranks.ROOT / "docs" / "mxnet.md").read_text(encoding="utf-8")
    (tmp_path / "train.py").write_text(re.search(r"```python\n(.*?)```", page, re.S)[1], encoding="utf-8")
    done = ranks.mpirun(2, MXNET_PYTHON, tmp_path / "train.py")
    assert done.returncode == 0 and float(re.search(r"^loss (\S+)$", done.stdout, re.M)[1]) < 0.001, done.stdout + done.stderr


def test_two_ranks_learn():
    accuracy = re.search(r"digits: accuracy ([0-9.]+) on 360 held-back images", run(2))
    assert float(accuracy[1]) > 0.94, run(2)
