"""The bundle of script/device-test: made from the tree as it is built, unpacked elsewhere, and run over the doubles without a network.
The programs in PyTorch are tried on the processor: they print the rows that the steps wait for."""
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import zipfile

import pytest

import bundle
import findings
import places
import plan

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()
DOUBLES = BUILD / "tests" / "fake" / "gpu"
COMPILER = bundle.CACHE / "python" / "cuda" / "complete"
TORCH = bundle.CACHE / "python" / "torch-2.15.0" / "bin" / "python"
EXPECTED_BYTES = 20 << 20  # it has 8 MiB
# What runs here. Two processes over every collective are tests of the suite cuda, and the kernels are unit tests.
ONLY = ("probes of", "one rank", "calls of", "pack and", "two processes: refusals", "two processes: killed",
        "kernels from", "compute-sanitizer", "context", "from PyTorch", "beside D", "of PyTorch")
WITHOUT_A_NETWORK = ["unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]


def tree_wheel(folder):
    """A wheel of what is built: the suite python tests the one that pip makes, which takes longer."""
    for component in ("python", "worker"):
        subprocess.run(["cmake", "--install", BUILD, "--component", component, "--prefix", folder / "installed", "--strip"],
                       check=True, capture_output=True)
    package = folder / "installed" / "lib" / "python3" / "dist-packages"
    shutil.copy2(folder / "installed" / "lib" / "libhorovod.so.0", package / "horovod")
    path = folder / "horovod-0-cp39-abi3-linux.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in sorted(package.rglob("*")):
            wheel.write(file, file.relative_to(package))
        wheel.write(folder / "installed" / "bin" / "horovodrun", "horovod-0.data/scripts/horovodrun")
    return path


@pytest.fixture(scope="module", name="packed")
def fixture_packed(tmp_path_factory):
    """The bundle's file."""
    if not COMPILER.exists():
        pytest.skip("script/bootstrap python has not installed the CUDA compiler")
    folder = tmp_path_factory.mktemp("bundle")
    command = ["script/device-test", "--build", BUILD, "--wheel", tree_wheel(folder), "--bundle", folder / "bundle.tar.gz"]
    done = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bundle.tar.gz"


def unpack(packed, folder):
    with tarfile.open(packed) as archive:
        archive.extractall(folder, **({"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}))
    return folder / "device-test"


def device_test(folder, *words, prefix=(), **more):
    environment = {"PATH": os.environ["PATH"], **more}
    return subprocess.run([*prefix, folder / "script" / "device-test", "--from", folder, *words], cwd="/", env=environment,
                          capture_output=True, text=True, timeout=300, check=False)


def test_the_bundle_is_small_and_names_its_commit_and_files(packed, tmp_path):
    assert packed.stat().st_size < EXPECTED_BYTES < bundle.MOST_BYTES
    folder = unpack(packed, tmp_path)
    made = json.loads((folder / "made.json").read_text(encoding="utf-8"))
    assert made["commit"] and {"bin/gpu_ranks", "kernels.fatbin", "lib/libcmocka.so.0", "tests/device/main.py"} <= set(made["files"])
    assert not [name for name in made["files"] if "test_" in name] and not places.Places(folder).missing()


def test_it_runs_elsewhere_without_a_network_over_the_doubles(packed, tmp_path):
    folder = unpack(packed, tmp_path)
    has_spaces = subprocess.run([*WITHOUT_A_NETWORK, "true"], capture_output=True, check=False).returncode == 0
    words = [word for name in ONLY for word in ("--only", name)]
    done = device_test(folder, *words, prefix=WITHOUT_A_NETWORK if has_spaces else (), LD_LIBRARY_PATH=str(DOUBLES))
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    content = json.loads((folder / "results" / "device-test.json").read_text(encoding="utf-8"))
    assert not findings.check(content) and content["machine"]["gpu"] == "Fake H100"
    rows = content["rows"]
    bad = [row for row in rows if row["outcome"] in (findings.FAILED, findings.NEVER_RUN) or
           (row["outcome"] == findings.SKIPPED and not row["text"])]
    assert not bad, bad
    passed = {row["step"] for row in rows if row["outcome"] == findings.PASSED}
    assert {"probes of driver", "probes of nccl", "one rank beside the host", "calls of the adapter", "two processes"} <= passed
    assert all(row["outcome"] == findings.PASSED for row in rows if row["step"].startswith("probes"))
    assert [row["value"] for row in rows if row["name"] == "launches small"] == [2]
    assert "Rank 1" in next(row["text"] for row in rows if row["name"] == "killed" and row["step"] == "two processes")
    printed = subprocess.run([folder / "script" / "device-test", "--doubles", folder / "results" / "device-test.json"],
                             capture_output=True, text=True, check=True).stdout
    assert "| `stream-order` | passed: Fake H100, 13000, " in printed


def test_without_a_gpu_all_is_skipped_with_the_reason(packed, tmp_path):
    folder = unpack(packed, tmp_path)
    done = device_test(folder, "--out", tmp_path / "results")
    content = json.loads((tmp_path / "results" / "device-test.json").read_text(encoding="utf-8"))
    if content["machine"].get("gpu"):
        pytest.skip("this machine has a GPU")
    assert done.returncode == 0 and {row["outcome"] for row in content["rows"]} == {findings.SKIPPED}
    assert "no GPU: libcuda.so.1" in done.stdout


def test_a_folder_that_is_no_bundle_is_refused_with_what_it_lacks(tmp_path):
    done = subprocess.run([ROOT / "script" / "device-test", "--from", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "is no unpacked bundle: it lacks bin" in done.stderr and "--bundle FILE" in done.stderr


def rows_on_the_processor(*command):
    """What a program in PyTorch prints; a rank of it if mpirun starts it."""
    environment = {**os.environ, "HVD_DEVICE_TEST_ON": "processor", "PYTHONPATH": str(BUILD / "python"), "OMP_NUM_THREADS": "1",
                   "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return list(plan.json_rows(done.stdout))


@pytest.mark.skipif(not TORCH.exists(), reason="script/bootstrap python has not installed PyTorch")
@pytest.mark.parametrize("name", ["host time from PyTorch", "beside DistributedDataParallel"])
def test_programs_in_pytorch_print_the_rows_of_their_step(name):
    step = next(one for one in plan.steps_of(places.Places(ROOT)) if one.name == name)
    for run in step.runs:
        results = rows_on_the_processor(TORCH, *run.command[1:])
        assert [result.name for result in results if result.outcome == "failed"] == [], results
        assert {result.name for result in results} == {row.name for row in run.rows}


@pytest.mark.skipif(not TORCH.exists(), reason="script/bootstrap python has not installed PyTorch")
def test_two_ranks_in_pytorch_print_the_rows_of_their_step():
    step = next(one for one in plan.steps_of(places.Places(ROOT)) if one.name == "two processes of PyTorch")
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", TORCH, ROOT / "tests" / "device" / "torch_pair.py", "collectives"]
    results = rows_on_the_processor(*words)
    assert {result.name for result in results} == {row.name for row in step.runs[0].rows}
    assert all(result.outcome == "passed" for result in results), results
