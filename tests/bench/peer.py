"""The peers of the benchmarks, compiled from Horovod's source distribution: its C++ core on its MPI path, and its package for
TensorFlow.

Nothing of it is part of this project: pip downloads it, verifies its checksum, and it stays, with what was
compiled from it, in ${XDG_CACHE_HOME:-~/.cache}/horovod/peers.
"""
import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "horovod" / "peers"
TENSORFLOW = CACHE.parent / "python" / "tensorflow-2.21.0"  # made by script/bootstrap python
REQUIREMENTS = HERE / "peers" / "requirements.txt"
NAME, VERSION, SHA256 = re.search(r"^(\w+)==(\S+) --hash=sha256:(\w+)$", REQUIREMENTS.read_text(encoding="utf-8"),
                                  re.M).groups()
SOURCES = [HERE / "step.h", *sorted(path for path in (HERE / "peers").iterdir() if path.is_file())]
# How Horovod's own build is asked for TensorFlow over MPI alone.
SETTINGS = {"HOROVOD_WITH_TENSORFLOW": "1", "HOROVOD_WITHOUT_PYTORCH": "1", "HOROVOD_WITHOUT_MXNET": "1", "HOROVOD_WITH_MPI": "1",
            "HOROVOD_WITHOUT_GLOO": "1", "TF_CPP_MIN_LOG_LEVEL": "2", "MAKEFLAGS": f"-j{os.cpu_count()}"}
# Its operations for XLA do not compile with this TensorFlow; they are for GPUs.
LEFT_OUT = ("horovod/tensorflow/CMakeLists.txt", r".*/xla_mpi_ops\.cc.*\n")
NEEDED = ("psutil==7.2.2", "PyYAML==6.0.4")  # by the package, and not in the environment


def run(*command, **options):
    """Runs a command; ends the program with what it printed when it fails."""
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)
    if done.returncode:
        sys.exit(f"bench: {' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def say(begin, text):
    print(f"peers: [{time.monotonic() - begin:3.0f} s] {text}", file=sys.stderr, flush=True)


def place(what, *inputs):
    """A folder of the cache whose name depends on all that its contents are made from."""
    digest = hashlib.sha256(SHA256.encode())
    for text in inputs:
        digest.update(text)
    for command in (["c++", "--version"], ["mpirun", "--version"]):
        if shutil.which(command[0]):
            digest.update(run(*command).encode())
    return CACHE / f"{NAME}-{VERSION}-{what}{digest.hexdigest()[:16]}"


def library():
    """Where the compiled core is, or would be."""
    return place("", *(path.read_bytes() for path in SOURCES)) / "libhorovod_peer.so"


def tensorflow_package():
    """Where the package for TensorFlow is, or would be: a folder for PYTHONPATH."""
    return place("tensorflow-", repr((TENSORFLOW.name, sorted(SETTINGS.keys()), LEFT_OUT, NEEDED)).encode())


def is_intact(archive):
    return archive.is_file() and hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256


def download(begin):
    """The source distribution, from the cache or by pip, which verifies the checksum."""
    archive = CACHE / f"{NAME}-{VERSION}.tar.gz"
    if is_intact(archive):
        return archive
    say(begin, f"download {archive.name} with pip")
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--require-hashes",
            "--dest", folder, "--requirement", str(REQUIREMENTS))
        os.replace(pathlib.Path(folder) / archive.name, archive)
    if not is_intact(archive):
        sys.exit(f"bench: {archive} has another checksum than {SHA256}; remove it and try again")
    return archive


@contextlib.contextmanager
def unpacked(begin):
    """A folder with the source distribution in it, which goes with what was made beside it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    archive = download(begin)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        run("tar", "-xzf", str(archive), "-C", folder)
        yield pathlib.Path(folder)


def build_tensorflow():
    """Compiles the package for TensorFlow unless that was done before; returns the folder to import it from."""
    begin = time.monotonic()
    target = tensorflow_package()
    if target.exists():
        say(begin, f"{NAME} {VERSION} for TensorFlow is there: {target}")
        return target
    run(str(HERE.parents[1] / "script" / "bootstrap"), "python")
    pip = ["nice", str(TENSORFLOW / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
    with unpacked(begin) as folder:
        say(begin, f"compile {NAME} {VERSION} for {TENSORFLOW.name} (about five minutes)")
        source = folder / f"{NAME}-{VERSION}"
        listed = source / LEFT_OUT[0]
        text, n_left_out = re.subn(LEFT_OUT[1], "", listed.read_text(encoding="utf-8"))
        if n_left_out != 1:
            sys.exit(f"bench: {LEFT_OUT[0]} of {NAME} {VERSION} has {n_left_out} lines like {LEFT_OUT[1]}, not one")
        listed.write_text(text, encoding="utf-8")
        made = folder / "package"
        run(*pip, "--no-index", "--no-build-isolation", "--target", str(made), str(source), env={**os.environ, **SETTINGS})
        run(*pip, "--target", str(made), *NEEDED)
        shutil.move(made, target)
    say(begin, f"{NAME} {VERSION} for TensorFlow is built: {target}")
    return target


def build_all():
    """Compiles both peers unless that was done before."""
    build()
    build_tensorflow()


def build():
    """Compiles the core unless that was done before; returns the path of its shared object."""
    begin = time.monotonic()
    target = library()
    if target.exists():
        say(begin, f"{NAME} {VERSION} is there: {target}")
        return target
    with unpacked(begin) as folder:
        made = folder / "build"
        say(begin, f"compile {NAME} {VERSION} (about two minutes)")
        run("cmake", "-S", str(HERE / "peers"), "-B", str(made), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
            f"-DPEER_SOURCE={folder}/{NAME}-{VERSION}")
        run("nice", "cmake", "--build", str(made))
        target.parent.mkdir(exist_ok=True)
        shutil.move(made / target.name, target)
    say(begin, f"{NAME} {VERSION} is built: {target}")
    return target
