"""facts.py machine|torch: what a machine has, as lines of JSON: {"fact": NAME, "value": V}, and the row that it belongs to."""
import ctypes
import importlib.util
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

NAME_BYTES = 256
ATTRIBUTES = {"multiprocessors": 16, "major": 75, "minor": 76}


def say(fact, value):
    if value is not None:
        print(json.dumps({"fact": fact, "value": value}), flush=True)


def row(name, outcome="passed", text=""):
    print(json.dumps({"row": name, "outcome": outcome, "text": text}), flush=True)


def first_line(path, index=0):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").splitlines()[index].strip()
    except (OSError, IndexError):
        return None


def call(library, name, *arguments):
    """Calls a function of the driver; its result must be 0."""
    result = getattr(library, name)(*arguments)
    if result:
        raise RuntimeError(f"{name} returns {result}")


def number_of(library, name, *more):
    value = ctypes.c_int()
    call(library, name, ctypes.byref(value), *more)
    return value.value


def ask_driver():
    """The driver and the first GPU."""
    cuda = ctypes.CDLL("libcuda.so.1")
    say("double", 1 if hasattr(cuda, "fake_gpu_set") else 0)
    call(cuda, "cuInit", 0)
    say("driver of CUDA", number_of(cuda, "cuDriverGetVersion"))
    say("driver", first_line("/proc/driver/nvidia/version"))
    if number_of(cuda, "cuDeviceGetCount") == 0:
        raise RuntimeError("the driver sees no GPU")
    name = ctypes.create_string_buffer(NAME_BYTES)
    call(cuda, "cuDeviceGetName", name, NAME_BYTES, 0)
    found = {key: number_of(cuda, "cuDeviceGetAttribute", code, 0) for key, code in ATTRIBUTES.items()}
    say("capability", f"{found['major']}.{found['minor']}")
    say("multiprocessors", found["multiprocessors"])
    say("gpu", name.value.decode())


def nccl_folders():
    """Where NCCL may be: beside torch, and where the loader looks."""
    for package in ("nvidia.nccl", "nvidia.nccl_cu13"):
        try:
            found = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for folder in found.submodule_search_locations if found else ():
            yield os.path.join(folder, "lib")
    yield ""


def ask_nccl():
    """NCCL's version, and its folder where the loader would not find it. What the loader finds by itself comes first."""
    failures = []
    for folder in ["", *nccl_folders()]:
        try:
            nccl = ctypes.CDLL(os.path.join(folder, "libnccl.so.2"))
        except OSError as error:
            failures.append(str(error))
            continue
        say("nccl", number_of(nccl, "ncclGetVersion"))
        say("nccl folder", folder or None)
        return
    say("no nccl", failures[-1])


def find_tool(name):
    """A program of NVIDIA's toolkit."""
    places = [os.environ.get("PATH"), "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer", "/usr/local/cuda-13.0/bin"]
    return shutil.which(name, path=os.pathsep.join(filter(None, places)))


def version_of(*command):
    """The first line that a program prints about itself, or None."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]} does not start: {error}"
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0] if lines else None


def ask_machine():
    say("python", platform.python_version())
    say("glibc", platform.libc_ver()[1])
    say("processors", len(os.sched_getaffinity(0)))
    say("kernel", platform.release())
    made = pathlib.Path(os.environ["HVD_DEVICE_TEST_FOLDER"], "made.json")
    say("commit", json.loads(made.read_text(encoding="utf-8"))["commit"])
    say("mpi", version_of("mpirun", "--version"))
    for tool in ("compute-sanitizer", "nvcc"):
        say(tool, find_tool(tool))
    ask_nccl()
    try:
        ask_driver()
    except (OSError, RuntimeError) as error:
        say("no gpu", str(error))
        row("the machine", "skipped", f"no GPU: {error}")
        return
    row("the machine")


def ask_torch():
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        say("no torch", str(error))
        row("torch", "skipped", str(error))
        return
    say("torch", torch.__version__)
    say("torch's CUDA", torch.version.cuda)
    if not torch.cuda.is_available():
        say("no torch gpu", "torch.cuda.is_available() is False")
        row("torch", "skipped", "torch.cuda.is_available() is False")
        return
    value = torch.ones(3, device="cuda").sum().item()
    say("torch gpu", torch.cuda.get_device_name(0))
    say("torch's NCCL", ".".join(map(str, torch.cuda.nccl.version())))
    row("torch", "passed" if value == 3 else "failed", f"the sum of three ones on the GPU is {value}")


if __name__ == "__main__":
    {"machine": ask_machine, "torch": ask_torch}[sys.argv[1]]()
