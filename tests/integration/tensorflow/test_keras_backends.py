"""horovod.keras with other backends of Keras 3: PyTorch trains, and the others are refused with the reason."""
import pathlib

import pytest
import variants
from variants import ranks

TRAIN = pathlib.Path(__file__).resolve().parent / "keras_torch" / "train.py"
PACKAGES = pathlib.Path(variants.KERAS_3.python).parents[1] / "lib" / "python3.11" / "site-packages"  # where Keras is


def test_ranks_train_with_pytorch_as_one_process_does():
    variants.needed(variants.KERAS_3)
    if not pathlib.Path(ranks.TORCH_PYTHON).exists():
        pytest.skip("PyTorch is not installed: script/bootstrap python names the reason")
    path = ranks.environment()["PYTHONPATH"]
    done = ranks.mpirun(2, ranks.TORCH_PYTHON, "-c", f"import runpy, sys; sys.path.append({str(PACKAGES)!r}); "
                        f"runpy.run_path({str(TRAIN)!r}, run_name='__main__')", PYTHONPATH=path, CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 0 and all(f"rank {rank} has trained" in done.stdout for rank in (0, 1)), done.stdout + done.stderr[-4000:]


def test_another_backend_is_refused_with_the_reason(tmp_path):
    (tmp_path / "keras.py").write_text("__version__ = '3.15.1'\nclass config:\n    backend = staticmethod(lambda: 'jax')\n",
                                       encoding="utf-8")  # Keras itself cannot be imported without JAX
    path = ranks.environment()["PYTHONPATH"]
    done = ranks.call(ranks.PYTHON, "-c", "import horovod.keras", PYTHONPATH=f"{tmp_path}:{path}")
    assert done.returncode == 1 and done.stderr.strip().splitlines()[-1] == (
        "ImportError: horovod.keras needs Keras with the backend tensorflow or torch, not jax: "
        "set KERAS_BACKEND=tensorflow before keras is imported."), done.stderr


def test_without_keras_the_import_names_what_is_missing():
    done = ranks.call(ranks.PYTHON, "-c", "import horovod.keras")
    assert done.returncode == 1 and "ImportError: horovod.keras needs Keras, which could not be imported" in done.stderr, done.stderr
