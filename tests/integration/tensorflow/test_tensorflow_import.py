"""Where TensorFlow or Keras does not fit, the import names the cause and the remedy. Stand-ins play the other versions."""
import subprocess

import pytest
import variants

NEEDS = "horovod.tensorflow needs TensorFlow 2.15 or newer"
REMEDY = "Install it with: pip install tensorflow"
WITH_BACKEND = "__version__ = '3.15.1'\nclass config:\n    backend = staticmethod(lambda: '{}')\n"


def imported(folder, modules, name):
    """The last line of an import with nothing but these modules beside Python's own."""
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
    done = subprocess.run([variants.ranks.PYTHON, "-S", "-c", f"import {name}"], capture_output=True, text=True, timeout=60, check=False,
                          env={"PYTHONPATH": f"{variants.ranks.BUILD / 'python'}:{folder}", "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 1, done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ["horovod.tensorflow", "horovod.tensorflow.keras", "horovod.tensorflow.elastic"])
def test_without_tensorflow_the_import_names_what_is_missing(tmp_path, name):
    said = imported(tmp_path, {}, name)
    assert said == f"ImportError: {NEEDS}, whose import failed here (ModuleNotFoundError: No module named 'tensorflow'). {REMEDY}."


def test_a_tensorflow_whose_import_fails_is_named_with_its_error(tmp_path):
    said = imported(tmp_path, {"tensorflow": "raise AttributeError('no numpy.bool')"}, "horovod.tensorflow")
    assert said == f"ImportError: {NEEDS}, whose import failed here (AttributeError: no numpy.bool). {REMEDY}."


@pytest.mark.parametrize("version", ["1.15.5", "2.14.1", "2.9.0"])
def test_a_tensorflow_that_is_too_old_is_named_with_its_version(tmp_path, version):
    said = imported(tmp_path, {"tensorflow": f"__version__ = '{version}'"}, "horovod.tensorflow")
    assert said == f"ImportError: {NEEDS}; version {version} is installed. {REMEDY}."


def test_without_keras_the_import_names_what_is_missing(tmp_path):
    said = imported(tmp_path, {}, "horovod.keras")
    assert said.startswith("ImportError: horovod.keras needs Keras, which could not be imported (No module named 'keras')."), said
    assert said.endswith(" Install it with: pip install keras"), said


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_a_backend_of_keras_that_is_not_reduced_is_named_with_those_that_are(tmp_path, backend):
    said = imported(tmp_path, {"keras": WITH_BACKEND.format(backend), "numpy": ""}, "horovod.keras")
    assert said.startswith("ImportError: horovod.keras needs Keras with the backend "), said
    assert f", not {backend}: set KERAS_BACKEND=tensorflow" in said, said
