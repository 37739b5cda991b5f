"""Tensors of a GPU in horovod.torch, over the doubles of CUDA and NCCL; see torch_gpu/gpu.py."""
import json
import os
import re
import subprocess

import pytest

from ranks import BUILD, HERE, ROOT, TORCH_PYTHON, assert_checked, assert_ended_well, call, checks_of, environment, mpirun

BLIND = {"CHECK_BLIND": 1}

# Bugs in the extension: file, what it says, what it says with the bug. What the doubles find depends on how far the threads are.
FOUND = r"fake gpu: (race|free in flight|use after free): "
PLANTED = {
    "synchronize orders another stream than the current one": (
        "waiting.c", "horovod_wait_stream(handle, f->stream,", "horovod_wait_stream(handle, (void *)2,"),
    "a submission names another stream than the current one": (
        "submission.c", "hvd_py_gpu_describe(&in->place, t);", "hvd_py_gpu_describe(&in->place, t), t->stream = (void *)2;"),
    "memory is not kept for the stream that synchronizes": (
        "waiting.c", "f->stream != f->place.stream)", "f->stream == f->handles)"),
    "an operation does not keep its input": (
        "submission.c", "f->kept[f->n_keepers++] = in->keeper;", "Py_DECREF(in->keeper);"),
}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", checks_of("torch_gpu"))
def test_on_every_rank(name, n):
    assert_checked("torch_gpu", n, name, TORCH_PYTHON, **BLIND)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_job_of_all_checks_ends_well(n):
    assert_ended_well("torch_gpu", n, TORCH_PYTHON, **BLIND)


def test_a_variable_lets_synchronize_wait_for_the_gpu():
    done = mpirun(2, TORCH_PYTHON, HERE / "torch_gpu" / "host_wait.py", HOROVOD_ENABLE_ASYNC_COMPLETION=0)
    assert done.returncode == 0 and done.stdout.splitlines()[:2] == ["waited"] * 2, done.stdout + done.stderr


def test_a_commit_keeps_nothing_of_a_step_that_failed_on_the_gpu():
    done = mpirun(2, TORCH_PYTHON, HERE / "torch_gpu" / "failed.py", options=["--enable-recovery"],
                  HOROVOD_STALL_CHECK_TIME_SECONDS=1, HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=2)
    kept = re.findall(r"rank (\d) has batch (\d) with (\S+): (.*)", done.stdout)
    assert sorted(rank for rank, *_ in kept) == ["0", "1"], done.stdout + done.stderr
    assert {(batch, float(weight)) for _, batch, weight, _ in kept} == {("2", 0.75)}, done.stdout
    assert all("the GPU of rank 1" in why for *_, why in kept), done.stdout


def shell(command):
    """Runs a command of the build in its folder; what it prints."""
    done = subprocess.run(command, shell=True, cwd=BUILD, text=True, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def plant(name, folder):
    """The folder for PYTHONPATH with the package and its extension, which has the bug."""
    file, right, wrong = PLANTED[name]
    source = ROOT / "worker/python/core" / file
    text = source.read_text(encoding="utf-8")
    assert text.count(right) == 1, f"{file} is not as it was when '{name}' was planted: say in PLANTED where it belongs now"
    (folder / file).write_text(text.replace(right, wrong), encoding="utf-8")
    database = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
    compile_it = next(item["command"] for item in database if item["file"] == str(source))
    shell(re.sub(r" -o \S+", f" -o {folder}/planted.o", compile_it).replace(f" -c {source}", f" -c {folder / file} -Wno-error"))
    package = folder / "horovod"
    package.mkdir()
    for entry in (BUILD / "python" / "horovod").iterdir():
        (package / entry.name).symlink_to(entry.resolve())
    core = package / "_core.abi3.so"
    core.unlink()
    link_it = shell("ninja -t commands horovod_python_core").strip().splitlines()[-1]
    link_it = re.sub(rf"\S+/core/CMakeFiles/\S+/{re.escape(file)}\.o", f"{folder}/planted.o", link_it)
    shell(re.sub(r" -o \S+", f" -o {core}", link_it, count=1))
    return folder


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name, tmp_path):
    path = os.pathsep.join([str(plant(name, tmp_path)), environment()["PYTHONPATH"]])
    done = call("env", f"PYTHONPATH={path}", TORCH_PYTHON, HERE / "torch_gpu" / "planted.py")
    assert done.returncode != 0 and re.search(FOUND, done.stderr), done.stdout + done.stderr


def test_without_a_planted_bug_nothing_is_found():
    done = call(TORCH_PYTHON, HERE / "torch_gpu" / "planted.py")
    assert done.returncode == 0 and done.stdout == "nothing was found\n", done.stdout + done.stderr
