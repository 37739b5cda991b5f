"""Runs all checks of a folder in one job: each rank runs run.py of the folder, which calls this.

Files are imported in the order of their names, but those whose jobs end and begin anew, beginnings*.py, come last.
"""
import importlib
import pathlib

from checks import run_checks

TABLES = ["horovod_tensorflow_api.json", "horovod_keras_api.json"]


def import_checks(folder):
    """Imports the files of a folder that have checks."""
    files = sorted(pathlib.Path(folder).glob("*.py"), key=lambda file: (file.stem.startswith("beginnings"), file.stem))
    for file in files:
        if "\n@check\n" in file.read_text(encoding="utf-8"):
            importlib.import_module(file.stem)


def run(folder, hvd, seed):
    """All checks of a folder; seed(1) before each makes random numbers those of every rank."""
    import_checks(folder)
    run_checks(hvd, lambda: seed(1), TABLES)
