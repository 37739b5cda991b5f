"""What images/build prints for a command line that it cannot carry out. No image is built."""
import os
import subprocess

import pytest
from conftest import TOP

NAMES = sorted(path.parent.name for path in (TOP / "images").glob("*/packages"))


def build(*words, **env):
    return subprocess.run([TOP / "images" / "build", *words], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **env})


@pytest.mark.parametrize("words,message", [
    ((), "name an image, or all"),
    (("nosuch",), 'there is no image "nosuch", only operator, worker, worker-pytorch, worker-pytorch-cuda and worker-tensorflow'),
    (("worker", "nosuch"), 'there is no image "nosuch"'),
    (("base", "nosuch"), 'there is no image "nosuch"'),
    (("../images",), 'there is no image "../images"'),
    (("stage",), "stage needs the name of one image"),
    (("stage", "worker", "operator"), "stage needs the name of one image"),
    (("push", "worker"), "push needs the name of an image, and where it goes: HOST/IMAGE:TAG"),
    (("--frm", "x", "all"), "there is no option --frm"),
    (("--out",), "--out needs a value"),
    (("all", "worker"), 'there is no image "all"'),
])
def test_a_wrong_command_line_is_named_in_two_lines(words, message):
    done = build(*words)
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and done.stdout == ""
    assert lines[0].startswith(f"images/build: {message}"), done.stderr
    assert lines[1:] == ["images/build --help lists what there is"]


def test_a_folder_that_is_no_build_is_named(tmp_path):
    done = build("--from", str(tmp_path), "--out", str(tmp_path / "out"), "stage", "worker", XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == f"images/build: --from {tmp_path}: that is no CMake build directory\n"


def test_the_help_names_every_image_and_option():
    done = build("--help")
    assert done.returncode == 0 and done.stderr == ""
    source = (TOP / "images" / "build").read_text(encoding="utf-8")
    options = [line.split(")")[0].strip() for line in source.splitlines() if line.strip().startswith("--") and ") value" in line]
    assert options == ["--out", "--from", "--mirror"]
    for word in (*NAMES, *options):
        assert f"  {word} " in done.stdout, word
    assert max(map(len, done.stdout.splitlines())) <= 110
