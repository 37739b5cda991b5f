"""The programs of examples/collectives: short, right on any number of ranks, and built as a user builds them."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()
FOLDER = ROOT / "examples" / "collectives"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.c"))
COLLECTIVES = {"allreduce", "grouped_allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "barrier", "join",
               "process_sets", "adasum"}


def run(*command, **more):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=120, check=False,
                          env={**os.environ, **more})


def check(done, n):
    """Every rank has said that it is right, and who it is."""
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.findall(r"rank (\d+) of (\d+): ", done.stdout)
    assert sorted(said) == [(str(rank), str(n)) for rank in range(n)], done.stdout + done.stderr


def test_there_is_a_program_for_each_collective_and_the_readme_names_it():
    assert COLLECTIVES <= set(PROGRAMS)
    assert set(re.findall(r"^\| \[(\w+)\.c\]", (FOLDER / "README.md").read_text(encoding="utf-8"), re.M)) == set(PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_shorter_than_100_lines(program):
    assert len((FOLDER / f"{program}.c").read_text(encoding="utf-8").splitlines()) < 100


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_right_on_every_rank(program, n, tmp_path):
    done = run(BUILD / "worker" / "horovodrun", "-np", n, BUILD / "examples" / "collectives" / program,
               BARRIER_EXAMPLE_FILE=tmp_path / "shared")
    check(done, n)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installation somewhere else than it was configured for."""
    path = tmp_path_factory.mktemp("installed")
    for component in ("worker", "documentation"):
        done = run("cmake", "--install", BUILD, "--prefix", path, "--component", component)
        assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_builds_and_runs_against_an_installation(program, prefix, tmp_path):
    pkgconfig = next(prefix.rglob("horovod.pc")).parent
    flags = run("pkg-config", "--cflags", "--libs", "horovod", PKG_CONFIG_PATH=pkgconfig)
    assert flags.returncode == 0, flags.stderr
    source = prefix / "share" / "horovod" / "examples" / "collectives" / f"{program}.c"
    done = run("cc", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / program, source, *flags.stdout.split())
    assert done.returncode == 0, done.stderr
    done = run(prefix / "bin" / "horovodrun", "-np", 2, tmp_path / program,
               BARRIER_EXAMPLE_FILE=tmp_path / "shared")
    check(done, 2)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_notices_a_result_that_is_wrong_by_one_bit(program, tmp_path):
    lying = BUILD / "tests" / "integration" / "collectives" / "collectives_lying.so"
    done = run(BUILD / "worker" / "horovodrun", "-np", 2, "env", f"LD_PRELOAD={lying}",
               BUILD / "examples" / "collectives" / program, BARRIER_EXAMPLE_FILE=tmp_path / "shared")
    assert done.returncode != 0 and "rank 1: wrong" in done.stderr + done.stdout, done.stdout + done.stderr
