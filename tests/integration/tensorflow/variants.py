"""The versions of TensorFlow and Keras that checks run with, and jobs of their folders; see ranks.py of the python suite."""
import dataclasses
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))
import ranks  # noqa: E402  (the path above)

TABLES = [ranks.ROOT / "tests" / "data" / f"horovod_{name}_api.json" for name in ("tensorflow", "keras")]
# Nothing but warnings and errors of TensorFlow, no look for a GPU, one thread a rank in its kernels; checks share job.py.
SETTINGS = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "TF_NUM_INTEROP_THREADS": "2", "TF_NUM_INTRAOP_THREADS": "1"}


@dataclasses.dataclass(frozen=True)
class Variant:
    """A framework with a Keras, in an environment that script/bootstrap python makes, and what its processes have in theirs."""
    name: str
    environment: str
    more: tuple = ()

    @property
    def python(self):
        return str(ranks.CACHE / "python" / self.environment / "bin" / "python")

    @property
    def is_there(self):
        return pathlib.Path(self.python).exists()

    def settings(self, **extra):
        """For the environment of its processes."""
        return {**SETTINGS, **dict(self.more), **extra}


KERAS_3 = Variant("keras-3", "tensorflow-2.21.0")
TF_KERAS = Variant("tf-keras", "tensorflow-2.21.0", (("TF_USE_LEGACY_KERAS", "1"),))
KERAS_2 = Variant("tensorflow-2.15.1", "tensorflow-2.15.1")
KERAS_TORCH = Variant("keras-torch", "torch-2.15.0", (("KERAS_BACKEND", "torch"),))
WITH_TENSORFLOW = [KERAS_3, TF_KERAS, KERAS_2]


def needed(variant):
    """Skips a test whose environment this Python cannot have."""
    if not variant.is_there:
        pytest.skip(f"{variant.environment} is not installed: script/bootstrap python names the reason")


def settings_of_job(variant):
    """For the ranks of a job of checks, which import job.py; what they call is noted with one variant alone, as that takes time."""
    path = ranks.environment()["PYTHONPATH"]
    return variant.settings(PYTHONPATH=f"{path}:{HERE}", **({} if variant == KERAS_3 else {"CHECK_BLIND": "1"}))


def assert_checked(folder, n, name, variant):
    needed(variant)
    ranks.assert_checked(f"../tensorflow/{folder}", n, name, variant.python, **settings_of_job(variant))


def assert_ended_well(folder, n, variant):
    needed(variant)
    ranks.assert_ended_well(f"../tensorflow/{folder}", n, variant.python, **settings_of_job(variant))


def called_in(folder, n, variant):
    return ranks.called_in(f"../tensorflow/{folder}", n, variant.python, **settings_of_job(variant))


def tool(variant, program, *arguments):
    needed(variant)
    return ranks.tool(variant.python, program, *arguments, **variant.settings())


def checks_of(folder):
    return ranks.checks_of(f"../tensorflow/{folder}")
