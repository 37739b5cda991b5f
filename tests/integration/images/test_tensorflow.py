"""The image with TensorFlow and Keras: what is in it, and that its examples train as in a restricted pod."""
import re

import pytest
from conftest import TOP

VERSION = (TOP / "VERSION").read_text().strip()
EXAMPLES = "/usr/local/share/horovod/examples"
MEGABYTE = 1000 * 1000
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}

# Saves and loads as well: what TensorFlow does not import at once, it would miss here.
PROGRAM = """
import numpy, keras, tensorflow, horovod, horovod.keras, horovod.tensorflow
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=True)
model.fit(numpy.ones((8, 4)), numpy.ones((8, 1)), verbose=0)
model.summary()
for name in ("/tmp/model.keras", "/tmp/model.h5"):
    model.save(name)
    keras.models.load_model(name, compile=False)
model.export("/tmp/exported", verbose=False)
tensorflow.saved_model.load("/tmp/exported")
print("has", tensorflow.__version__, keras.__version__, keras.backend.backend(), horovod.runtime_version)
"""


def pinned(name):
    """The version of a package in the image's list."""
    return re.search(rf"^{name}==(\S+)$", (TOP / "images/worker-tensorflow/requirements").read_text(), re.M)[1]


def test_the_image_is_tagged_and_has_a_numeric_user_other_than_root(tensorflow_image):
    assert tensorflow_image.tags == [f"localhost/horovod-worker-tensorflow:{VERSION}"]
    assert re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", tensorflow_image.config["User"])


def test_the_archive_has_at_most_1700_mb_which_are_500_compressed(tensorflow_image):
    assert tensorflow_image.archive.stat().st_size <= 1700 * MEGABYTE  # to compress it takes a minute


def test_the_image_has_no_headers_of_tensorflow_and_nothing_for_gpus(tensorflow_image):
    (packages,) = (tensorflow_image.root / "usr/local/lib").glob("python3*/dist-packages")
    names = {path.name for path in packages.iterdir()}
    assert {"tensorflow", "keras", "numpy"} <= names
    assert not names & {"nvidia", "tensorboard", "clang", "grpc"}
    assert not (packages / "tensorflow/include").exists()
    assert list((packages / "tensorflow/__pycache__").glob("*.pyc")), "no rank should compile TensorFlow's modules again"


def test_keras_trains_saves_and_loads_under_a_read_only_root(tensorflow):
    done = tensorflow.run(["python3", "-c", PROGRAM], timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"has {pinned('tensorflow-cpu')} {pinned('keras')} tensorflow {VERSION}" in done.stdout, done.stdout


@pytest.mark.parametrize("example", ["keras", "tensorflow"])
def test_two_ranks_train_on_digits(tensorflow, example):
    done = tensorflow.run(["horovodrun", "-np", "2", "python3", f"{EXAMPLES}/{example}/digits.py"], env=ENVIRONMENT, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert float(re.search(r"accuracy ([0-9.]+) on 360 held-back images", done.stdout)[1]) >= 0.94, done.stdout
