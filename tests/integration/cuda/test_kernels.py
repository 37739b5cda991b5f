"""The kernels for GPUs. With the compiler of PyPI's wheels: the committed PTX is what script/kernels makes, and each GPU's assembler
takes it. On a GPU, where there is one: results, and speed, which is printed."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()
NO_GPU = 77
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "horovod"
FOLDER = pathlib.Path("worker/device/cuda")
PTX = ROOT / FOLDER / "kernels.ptx"
GPUS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
KERNELS = {"hvd_cuda_copy", "hvd_cuda_float16", "hvd_cuda_bfloat16", "hvd_cuda_float32", "hvd_cuda_float64", "hvd_cuda_integers"}
MOST_REGISTERS = 64  # four blocks of 256 threads on a multiprocessor with 65,536
MOST_FATBIN_BYTES = 250_000

needs_compiler = pytest.mark.skipif(not (CACHE / "python" / "cuda" / "complete").exists(),
                                    reason="script/bootstrap python has not installed the CUDA compiler")


def script(*words, root=ROOT):
    done = subprocess.run([root / "script" / "kernels", *words], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_compiler
def test_the_committed_ptx_is_made_from_the_source(tmp_path):
    script("ptx", tmp_path / "kernels.ptx")
    assert (tmp_path / "kernels.ptx").read_bytes() == PTX.read_bytes(), "run script/kernels and commit kernels.ptx"


@needs_compiler
def test_a_tree_elsewhere_makes_the_same_bytes(tmp_path):
    names = ["script/kernels", "tests/support/steps.sh", FOLDER / "kernels.cu", FOLDER / "kernels.h"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    script(root=tmp_path)
    assert (tmp_path / FOLDER / "kernels.ptx").read_bytes() == PTX.read_bytes()


@needs_compiler
def test_no_gpu_spills_registers():
    needs = {}
    pattern = (r"Compiling entry function '(\w+)' for '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes "
               r"spill loads.*?Used (\d+) registers")
    for kernel, gpu, *numbers in re.findall(pattern, script("ptxas", PTX), re.S):
        needs[gpu, kernel] = [int(number) for number in numbers]
    print("\n".join(f"{gpu} {kernel}: {registers} registers" for (gpu, kernel), (*_, registers) in sorted(needs.items())))
    assert set(needs) == {(gpu, kernel) for gpu in GPUS for kernel in KERNELS}
    for name, (stack, stores, loads, registers) in needs.items():
        assert (stack, stores, loads) == (0, 0, 0) and registers <= MOST_REGISTERS, (name, stack, stores, loads, registers)


@needs_compiler
def test_machine_code_of_all_gpus_fits_a_wheel(tmp_path):
    script("fatbin", tmp_path / "kernels.fatbin")
    image = (tmp_path / "kernels.fatbin").read_bytes()
    print(f"{len(image)} bytes for {', '.join(GPUS)}; {PTX.stat().st_size} bytes of PTX")
    assert image[:4] == bytes.fromhex("50ed55ba")  # what the driver knows it by
    assert len(image) <= MOST_FATBIN_BYTES


def test_the_ptx_accesses_global_memory_alone_and_rounds_each_product():
    text = PTX.read_text(encoding="ascii")
    assert text.split("\n")[1:4] == [".version 6.0", ".target sm_60", ".address_size 64"]
    assert set(re.findall(r"\.entry (\w+)\(", text)) == KERNELS
    spaces = set(re.findall(r"^\s*(?:@!?%p\d+\s+)?(?:ld|st|atom|red|ldu)\.(\w+)", text, re.M))
    assert spaces == {"param", "global"}
    assert not re.search(r"\b(bar|barrier|shfl|vote|call|fma|mad)\.(?!lo|hi|wide)|\.ftz|\.local|\.shared|\bld\.global\.nc", text)


def on_gpu(program, *words, **environment):
    """What a program for a GPU prints; without a GPU the test is skipped."""
    done = subprocess.run([BUILD / "tests" / "integration" / "cuda" / program, *words], env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=600, check=False)
    if done.returncode == NO_GPU:
        pytest.skip("no GPU")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_gpu_computes_the_bits_of_the_host_from_ptx():
    on_gpu("kernels_on_gpu")


@needs_compiler
def test_a_gpu_computes_the_bits_of_the_host_from_machine_code(tmp_path):
    script("fatbin", tmp_path / "kernels.fatbin")
    on_gpu("kernels_on_gpu", HVD_KERNELS_IMAGE=str(tmp_path / "kernels.fatbin"))


def test_a_gpu_packs_about_as_fast_as_it_copies():
    print(on_gpu("pack_rate"))
