"""The images as images/build makes them, unpacked once for all tests."""
import subprocess
from pathlib import Path

import pytest
from box import Box, Image

TOP = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def built():
    """Builds both images where inputs changed; returns the folder of the archives."""
    subprocess.run([TOP / "images" / "build", "all"], check=True)
    return TOP / "build" / "images"


@pytest.fixture(scope="session")
def operator_image(built, tmp_path_factory):
    image = Image(built / "horovod-operator.tar", tmp_path_factory.mktemp("operator"))
    yield image
    image.remove()


@pytest.fixture(scope="session")
def worker_image(built, tmp_path_factory):
    image = Image(built / "horovod-worker.tar", tmp_path_factory.mktemp("worker"))
    yield image
    image.remove()


@pytest.fixture(scope="session")
def tensorflow_image(built, tmp_path_factory):
    """The image with TensorFlow; the first time its base takes minutes."""
    subprocess.run([TOP / "images" / "build", "worker-tensorflow"], check=True)
    image = Image(built / "horovod-worker-tensorflow.tar", tmp_path_factory.mktemp("tensorflow"))
    yield image
    image.remove()


@pytest.fixture
def operator(operator_image, tmp_path):
    return Box(operator_image, tmp_path / "box")


@pytest.fixture
def worker(worker_image, tmp_path):
    return Box(worker_image, tmp_path / "box")


@pytest.fixture
def tensorflow(tensorflow_image, tmp_path):
    return Box(tensorflow_image, tmp_path / "box")
