"""Builds the package with scikit-build-core, which needs the place of the C sources.

In the repository they are two folders up. A source distribution carries a copy of the files that the
build needs in source/.
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from scikit_build_core import build as _scikit
from scikit_build_core.build import (get_requires_for_build_editable, get_requires_for_build_sdist,  # noqa: F401
                                     get_requires_for_build_wheel)

HERE = pathlib.Path(__file__).resolve().parent
COPIED = HERE / "source"
ROOT = COPIED if COPIED.exists() else HERE.parents[1]
FOLDERS = ("base", "cmake", "worker")
FILES = ("CMakeLists.txt", "VERSION", "LICENSE")
SOURCES = (".c", ".h", ".ptx", ".txt", ".map", ".in", ".cmake")


def dynamic_metadata(field, settings=None):
    """Returns the version: that of Horovod's interface, which other packages require, and this release's, from VERSION."""
    del settings
    if field != "version":
        raise RuntimeError(f"only the version is dynamic, not {field}")
    package = (HERE / "horovod" / "__init__.py").read_text(encoding="utf-8")
    interface = re.search(r'^__version__ = "([0-9.]+)"$', package, re.M)[1]
    release = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    return f"{interface}+c.{release}"


def _settings(config_settings):
    return {**(config_settings or {}), "cmake.source-dir": str(ROOT)}


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """See PEP 517."""
    return _scikit.prepare_metadata_for_build_wheel(metadata_directory, _settings(config_settings))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """See PEP 517."""
    return _scikit.build_wheel(wheel_directory, _settings(config_settings), metadata_directory)


def _is_source(path):
    return path.is_file() and path.name.endswith(SOURCES)


def _copy_sources(to):
    for name in FILES:
        shutil.copy2(ROOT / name, to / name)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if _is_source(path):
                target = to / path.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)


def _add_machine_code(to):
    """Adds the machine code of the kernels for GPUs, where script/bootstrap has installed the compiler. Else drivers compile them."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "horovod"
    if (cache / "python" / "cuda" / "complete").exists():
        subprocess.run([ROOT / "script" / "kernels", "fatbin", to / "worker" / "device" / "cuda" / "kernels.fatbin"], check=True)
        print("Kernels for GPUs: machine code and PTX")
    else:
        print(f"Kernels for GPUs: PTX alone, as there is no compiler in {cache / 'python' / 'cuda'}: run script/bootstrap python")


def build_sdist(sdist_directory, config_settings=None):
    """See PEP 517."""
    if COPIED.exists():
        return _scikit.build_sdist(sdist_directory, config_settings)
    sdist_directory = os.path.abspath(sdist_directory)
    with tempfile.TemporaryDirectory() as folder:
        stage = pathlib.Path(folder) / "python"
        stage.mkdir()
        for name in ("pyproject.toml", "backend.py", "README.md"):
            shutil.copy2(HERE / name, stage / name)
        shutil.copytree(HERE / "horovod", stage / "horovod", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        (stage / "source").mkdir()
        _copy_sources(stage / "source")
        _add_machine_code(stage / "source")
        before = os.getcwd()
        os.chdir(stage)
        try:
            return _scikit.build_sdist(sdist_directory, config_settings)
        finally:
            os.chdir(before)
