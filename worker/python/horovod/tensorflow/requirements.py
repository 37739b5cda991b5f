"""Which TensorFlow the module needs: checked at the import, because TensorFlow's own errors name no remedy."""
import importlib

OLDEST = (2, 15)
_NEEDS = "horovod.tensorflow needs TensorFlow 2.15 or newer"
_REMEDY = "Install it with: pip install tensorflow"


def numbers_of(version):
    """Returns the first two numbers of a version: (2, 15) of "2.15.0-rc1"."""
    found = [int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:2]]
    return tuple(found + [0] * (2 - len(found)))


def check():
    """Returns the module tensorflow. Raises an ImportError with the cause and the remedy if it cannot be used."""
    try:
        tensorflow = importlib.import_module("tensorflow")
    except Exception as error:  # pylint: disable=broad-except  # its import may raise any exception
        raise ImportError(f"{_NEEDS}, whose import failed here ({type(error).__name__}: {error}). {_REMEDY}.",
                          name="horovod.tensorflow") from error
    version = getattr(tensorflow, "__version__", "unknown")
    if numbers_of(version) < OLDEST:
        raise ImportError(f"{_NEEDS}; version {version} is installed. {_REMEDY}.", name="horovod.tensorflow")
    return tensorflow
