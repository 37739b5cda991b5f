"""What pip makes of the package: a wheel from the source, one from the source distribution, and a wheel that was
repaired as the documentation says, each in a fresh environment without a framework."""
import os
import pathlib
import re
import zipfile

import pytest
from packages import TOOLS, call
from ranks import CACHE, PYTHON


VERSION = "0.28.1+c.0.1.0"  # the interface's and the release's


@pytest.fixture(scope="module", name="installed")
def fixture_installed(made):
    """A fresh environment with the repaired wheel."""
    wheel, = (made / "repaired").glob("*.whl")
    call(PYTHON, "-m", "venv", "--system-site-packages", "--without-pip", made / "venv")
    python = made / "venv" / "bin" / "python"
    call(TOOLS / "bin" / "python", "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel)
    return made / "venv" / "bin"


def test_one_wheel_serves_every_python_from_3_9_on(made):
    assert [wheel.name for wheel in made.glob("*.whl")] == [f"horovod-{VERSION}-cp39-abi3-linux_{os.uname().machine}.whl"]


@pytest.mark.parametrize("wanted", ["horovod", "horovod>=0.22", "horovod<1,>=0.22.1", "horovod==0.28.1", "horovod~=0.28.0"])
def test_whoever_asks_pip_for_a_version_of_horovod_is_satisfied(installed, wanted):
    out = call(TOOLS / "bin" / "python", "-m", "pip", "--python", installed / "python", "install", "--no-index",
               "--no-deps", wanted)
    assert f"Requirement already satisfied: {wanted}" in out.replace('"', ""), out


def test_the_source_distribution_has_what_a_build_needs_and_nothing_else(made):
    names = call("tar", "tzf", made / f"horovod-{VERSION}.tar.gz").splitlines()
    folders = {pathlib.PurePath(name).parts[2] for name in names if "/source/" in name}
    assert folders == {"CMakeLists.txt", "LICENSE", "VERSION", "base", "cmake", "worker"}
    assert not [name for name in names if name.endswith((".so", ".o", ".pyc"))]
    assert [name for name in names if name.endswith("/worker/device/cuda/kernels.ptx")]


def test_a_repaired_wheel_has_everything_but_open_mpi(made):
    wheel, = (made / "repaired").glob("*.whl")
    assert "manylinux" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert any("libhwloc" in name for name in names) and not any("libmpi" in name for name in names)
    assert f"horovod-{VERSION}.data/scripts/horovodrun" in names and "horovod/_core.abi3.so" in names


def test_a_wheel_has_the_kernels_for_gpus(made):
    wheel, = made.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        libraries = [files.read(name) for name in files.namelist() if ".so" in name]
    assert any(b".visible .entry hvd_cuda_copy" in library for library in libraries)
    has_compiler = (CACHE / "python" / "cuda" / "complete").exists()
    assert any(bytes.fromhex("50ed55ba") in library for library in libraries) == has_compiler


def test_the_extension_needs_no_symbol_of_one_python_alone(made):
    wheel, = made.glob("*.whl")
    zipfile.ZipFile(wheel).extract("horovod/_core.abi3.so", made / "one")
    needed = call("readelf", "-d", made / "one" / "horovod" / "_core.abi3.so")
    assert "libpython" not in needed
    symbols = call("nm", "-D", "--undefined-only", made / "one" / "horovod" / "_core.abi3.so")
    private = [line.split()[-1] for line in symbols.splitlines() if line.split()[-1].startswith("_Py")]
    stable = {"_Py_Dealloc", "_Py_NoneStruct", "_Py_TrueStruct", "_Py_FalseStruct"}  # of the stable interface, by its list
    assert {name for name in private if not name.endswith("_SizeT")} <= stable, private


def test_the_operations_of_tensorflow_need_the_runtime_alone(made):
    wheel, = made.glob("*.whl")
    repaired, = (made / "repaired").glob("*.whl")
    for number, one in enumerate((wheel, repaired)):
        zipfile.ZipFile(one).extract("horovod/tensorflow/_ops.so", made / f"ops{number}")
        shown = call("readelf", "-d", made / f"ops{number}" / "horovod" / "tensorflow" / "_ops.so")
        needed = re.findall(r"NEEDED.*\[(.*?)\]", shown)
        assert [name for name in needed if "horovod" in name] == ["libhorovod.so.0"], needed
        assert {name.split(".")[0] for name in needed} <= {"libhorovod", "libc", "libpthread", "libdl", "ld-linux-x86-64"}, needed


def test_an_installed_wheel_runs_a_job_with_its_own_launcher(installed):
    program = "import horovod.numpy as hvd, numpy, horovod; hvd.init(); " \
              "print(horovod.__file__, hvd.allreduce(numpy.ones(1), op=hvd.Sum)[0])"
    out = call(installed / "horovodrun", "-np", "2", installed / "python", "-c", program, cwd="/",
               PATH=f"{installed}{os.pathsep}{os.environ['PATH']}")
    lines = [line for line in out.splitlines() if line.endswith(" 2.0")]
    assert len(lines) == 2 and all(f"{installed.parent}/lib" in line for line in lines), out


def test_an_installed_wheel_runs_functions(installed, tmp_path):
    (tmp_path / "program.py").write_text(
        "import horovod\n\ndef rank():\n    import horovod.numpy as hvd\n    hvd.init()\n    return hvd.rank()\n\n"
        "print(horovod.run(rank, num_proc=2))\n", encoding="utf-8")
    assert "[0, 1]" in call(installed / "python", tmp_path / "program.py", cwd="/")


KERAS_PROGRAM = """
import horovod
import horovod.tensorflow as hvd, horovod.tensorflow.keras as hvd_keras
import tensorflow as tf

hvd.init()
tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])
model.compile(hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), "mse")
model.fit(tf.fill([4, 2], 1.0 + hvd.rank()), tf.ones([4, 1]), epochs=3, verbose=0)
weights = hvd.allgather(tf.reshape(tf.concat([tf.reshape(one, [-1]) for one in model.get_weights()], 0), [1, -1]))
assert (weights[0] == weights[1]).numpy().all(), weights
print(horovod.__file__, hvd.allreduce(tf.ones(1), op=hvd.Sum).numpy()[0])
"""


@pytest.mark.parametrize("version", ["2.21.0", "2.15.1"])
def test_the_same_wheel_trains_with_every_version_of_tensorflow(made, version, tmp_path):
    python = CACHE / "python" / f"tensorflow-{version}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"TensorFlow {version} is not installed: script/bootstrap python names the reason")
    wheel, = (made / "repaired").glob("*.whl")
    call(TOOLS / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "site", wheel)
    (tmp_path / "train.py").write_text(KERAS_PROGRAM, encoding="utf-8")
    out = call("env", f"PYTHONPATH={tmp_path / 'site'}", tmp_path / "site" / "bin" / "horovodrun", "-np", "2", python,
               tmp_path / "train.py", cwd="/", TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")
    lines = [line for line in out.splitlines() if line.endswith(" 2.0")]
    assert len(lines) == 2 and all(f"{tmp_path}/site/horovod/" in line for line in lines), out
