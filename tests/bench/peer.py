"""The peer of the benchmarks: Horovod's C++ core on its MPI path, compiled from the source distribution.

Nothing of it is part of this project: pip downloads it, verifies its checksum, and it stays, with what was
compiled from it, in ${XDG_CACHE_HOME:-~/.cache}/horovod/peers.
"""
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
REQUIREMENTS = HERE / "peers" / "requirements.txt"
NAME, VERSION, SHA256 = re.search(r"^(\w+)==(\S+) --hash=sha256:(\w+)$", REQUIREMENTS.read_text(encoding="utf-8"),
                                  re.M).groups()
SOURCES = [HERE / "step.h", *sorted(path for path in (HERE / "peers").iterdir() if path.is_file())]


def run(*command, **options):
    """Runs a command; ends the program with what it printed when it fails."""
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)
    if done.returncode:
        sys.exit(f"bench: {' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def say(begin, text):
    print(f"peers: [{time.monotonic() - begin:3.0f} s] {text}", file=sys.stderr, flush=True)


def library():
    """Where the compiled peer is, or would be: a path that depends on all that it is made from."""
    digest = hashlib.sha256(SHA256.encode())
    for path in SOURCES:
        digest.update(path.read_bytes())
    for command in (["c++", "--version"], ["mpirun", "--version"]):
        if shutil.which(command[0]):
            digest.update(run(*command).encode())
    return CACHE / f"{NAME}-{VERSION}-{digest.hexdigest()[:16]}" / "libhorovod_peer.so"


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


def build():
    """Compiles the peer unless that was done before; returns the path of its shared object."""
    begin = time.monotonic()
    target = library()
    if target.exists():
        say(begin, f"{NAME} {VERSION} is there: {target}")
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    archive = download(begin)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        run("tar", "-xzf", str(archive), "-C", folder)
        made = pathlib.Path(folder) / "build"
        say(begin, f"compile {NAME} {VERSION} (about two minutes)")
        run("cmake", "-S", str(HERE / "peers"), "-B", str(made), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
            f"-DPEER_SOURCE={folder}/{NAME}-{VERSION}")
        run("nice", "cmake", "--build", str(made))
        target.parent.mkdir(exist_ok=True)
        shutil.move(made / target.name, target)
    say(begin, f"{NAME} {VERSION} is built: {target}")
    return target
