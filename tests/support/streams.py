"""Ranks under a bare mpirun that write into files of their own.

mpirun passes on what it finds in a rank's pipe, up to 4 KiB at once: on a busy machine a piece ends in the middle of a line, and a
line of another rank comes in between. A test that reads lines gives each rank its own files instead.
"""
import pathlib

# $0 is the folder. exec: the rank stays the process that mpirun has started.
REDIRECT = 'exec "$@" >"$0/$OMPI_COMM_WORLD_RANK.out" 2>"$0/$OMPI_COMM_WORLD_RANK.err"'


def apart(folder, command):
    """The command of a rank, to stand after mpirun's own words."""
    return ["sh", "-c", REDIRECT, str(folder), *map(str, command)]


def add_written(folder, done):
    """Puts what the ranks have written, rank by rank, before mpirun's own words in a completed job; `errors` has it by rank."""
    done.errors = _written(folder, "err")
    done.stdout = "".join(_written(folder, "out").values()) + done.stdout
    done.stderr = "".join(done.errors.values()) + done.stderr


def _written(folder, stream):
    """{rank: what it has written to "out" or "err"}, in the order of the ranks."""
    files = sorted(pathlib.Path(folder).glob(f"*.{stream}"), key=lambda file: int(file.stem))
    return {int(file.stem): file.read_text(encoding="utf-8", errors="replace") for file in files}
