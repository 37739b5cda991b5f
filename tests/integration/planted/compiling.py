"""Compiles a copy of a source that has a bug in it, and links it in front of the library that has the original."""
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()


def run(command, timeout=300, **options):
    """The completed command, in the folder of the build."""
    return subprocess.run(command, shell=isinstance(command, str), cwd=BUILD, text=True, capture_output=True, check=False,
                          timeout=timeout, **options)


def compile_copy(source, changed, folder, flags="", timeout=300):
    """The object file of the source with this text in its place."""
    copy, target = folder / source.name, folder / "planted.o"
    copy.write_text(changed, encoding="utf-8")
    database = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
    entry = next(item for item in database if item["file"] == str(source) and "verify_interface" not in item["command"])
    command = re.sub(r" -o \S+", f" -o {target}", entry["command"]).replace(f" -c {source}", f" -c {copy}{flags} -Wno-error")
    done = run(command, timeout)
    assert done.returncode == 0, done.stderr
    return target


def link(program, planted, target, timeout=300):
    """The program, with that object in front of everything else."""
    last = run(["ninja", "-t", "commands", program], timeout).stdout.strip().splitlines()[-1]
    command = re.search(r"^: && (.*) && :$", last)[1]
    done = run(re.sub(r" -o \S+", f" {planted} -o {target}", command, count=1), timeout)
    assert done.returncode == 0, done.stderr
