"""Where MXNet runs: checked at the import, because MXNet's own errors name no remedy."""
import importlib.util
import sys

PYTHON_END = (3, 12)
NUMPY_END = (1, 24)  # the first version without the names that MXNet uses
MXNET = "1.9.1"

_NEEDS = "horovod.mxnet needs MXNet 1.9.1, Python 3.11 or older, and NumPy older than 1.24"
_REMEDY = ("Make an environment for it: python3.11 -m venv DIR && DIR/bin/pip install mxnet==1.9.1 'numpy<1.24'; "
           "then install horovod there, too")


def _check(is_fine, found):
    if not is_fine:
        raise ImportError(f"{_NEEDS}. Here, {found}. {_REMEDY}.", name="horovod.mxnet")


def check():
    """Raises an ImportError with the cause and the remedy, unless MXNet works here."""
    _check(sys.version_info[:2] < PYTHON_END, "Python is " + ".".join(map(str, sys.version_info[:3])))
    _check(importlib.util.find_spec("mxnet") is not None, "MXNet is not installed")
    _check(importlib.util.find_spec("numpy") is not None, "NumPy is not installed")
    numpy = importlib.import_module("numpy")
    _check(tuple(map(int, numpy.__version__.split(".")[:2])) < NUMPY_END, f"NumPy is {numpy.__version__}")
    try:
        mxnet = importlib.import_module("mxnet")
    except Exception as error:  # its import may raise any exception
        raise ImportError(f"{_NEEDS}. Here, the import of MXNet failed ({type(error).__name__}: {error}). {_REMEDY}.",
                          name="horovod.mxnet") from error
    _check(mxnet.__version__.startswith(MXNET), f"MXNet is {mxnet.__version__}")
