"""Where MXNet does not run, the import of horovod.mxnet names the cause and the remedy. Stand-ins play the other versions."""
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import ranks  # noqa: E402  (the path above)

NEEDS = "horovod.mxnet needs MXNet 1.9.1, Python 3.11 or older, and NumPy older than 1.24. Here, "
REMEDY = ". Make an environment for it: python3.11 -m venv DIR && DIR/bin/pip install mxnet==1.9.1 'numpy<1.24'; then install horovod " \
         "there, too.\n"
FINE = {"numpy": "__version__ = '1.23.5'\n", "mxnet": "__version__ = '1.9.1'\n"}
PYTHON_3_11 = "import sys; sys.version_info = (3, 11, 9, 'final', 0); "


def imported(folder, modules, before=PYTHON_3_11):
    """The end of an import with nothing but these modules beside Python's own."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    done = subprocess.run([ranks.PYTHON, "-S", "-c", f"{before}import horovod.mxnet"], capture_output=True, text=True, timeout=60,
                          env={"PYTHONPATH": f"{ranks.BUILD / 'python'}:{folder}", "PYTHONDONTWRITEBYTECODE": "1"}, check=False)
    assert done.returncode == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("modules, found", [
    ({}, "MXNet is not installed"), ({"numpy": FINE["numpy"]}, "MXNet is not installed"),
    ({"mxnet": FINE["mxnet"]}, "NumPy is not installed"),
    ({**FINE, "numpy": "__version__ = '1.24.4'\n"}, "NumPy is 1.24.4"), ({**FINE, "numpy": "__version__ = '2.2.6'\n"}, "NumPy is 2.2.6"),
    ({**FINE, "mxnet": "__version__ = '2.0.0'\n"}, "MXNet is 2.0.0"),
    ({**FINE, "mxnet": "import numpy\nnumpy.bool\n"},
     "the import of MXNet failed (AttributeError: module 'numpy' has no attribute 'bool')")])
def test_the_import_names_what_does_not_fit_and_the_remedy(tmp_path, modules, found):
    said = imported(tmp_path, modules)
    assert said.endswith(f"ImportError: {NEEDS}{found}{REMEDY}"), said


def test_a_newer_python_is_named_before_all_else(tmp_path):
    said = imported(tmp_path, {}, "import sys; sys.version_info = (3, 12, 1, 'final', 0); ")
    assert said.endswith(f"ImportError: {NEEDS}Python is 3.12.1{REMEDY}"), said


def test_the_rest_of_the_package_needs_none_of_it(tmp_path):
    done = subprocess.run([ranks.PYTHON, "-S", "-c", "import horovod, horovod.numpy"], env=ranks.environment(), check=False, cwd=tmp_path)
    assert done.returncode == 0
