"""Every C function of Horovod 0.28 is in the library, and answers as Horovod's does, called as Horovod's Python calls it."""
import ctypes
import json
import re
import subprocess
import sys

import pytest

from test_mpi import LIBRARY, ROOT, assert_ok, mpirun

# Name, arguments when it is called without a job, and what it returns then.
FUNCTIONS = {
    "horovod_is_initialized": 0, "horovod_rank": -1, "horovod_size": -1, "horovod_local_rank": -1,
    "horovod_local_size": -1, "horovod_cross_rank": -1, "horovod_cross_size": -1, "horovod_mpi_threads_supported": -1,
    "horovod_nccl_built": 0, "horovod_reduce_op_average": 0, "horovod_reduce_op_sum": 1,
    "horovod_reduce_op_adasum": 2, "horovod_reduce_op_min": 3, "horovod_reduce_op_max": 4,
    "horovod_reduce_op_product": 5, "horovod_stop_timeline": -1, "horovod_number_of_process_sets": -1,
}
PREDICATES = {
    "horovod_is_homogeneous": False, "horovod_mpi_enabled": True, "horovod_mpi_built": True,
    "horovod_gloo_enabled": False, "horovod_gloo_built": False, "horovod_ddl_built": False, "horovod_ccl_built": False,
    "horovod_cuda_built": False, "horovod_rocm_built": False,
}
WITH_ARGUMENTS = {
    "horovod_process_set_rank": -1, "horovod_process_set_size": -1, "horovod_process_set_included": -1,
    "horovod_remove_process_set": -1,
}
OTHERS = {"horovod_init", "horovod_init_multi_comm", "horovod_shutdown", "horovod_start_timeline",
          "horovod_add_process_set", "horovod_process_set_ids", "horovod_process_set_ranks", "horovod_comm_process_set"}
ERRORS = {"INIT": -1, "DYNAMIC": -2, "UNKNOWN_SET": -3, "FOREIGN_SET": -4, "SHUTDOWN": -5, "EXISTING_SET": -6}

needs_plain_library = pytest.mark.skipif(
    "libasan" in subprocess.run(["ldd", LIBRARY], capture_output=True, text=True, check=False).stdout
    or "libtsan" in subprocess.run(["ldd", LIBRARY], capture_output=True, text=True, check=False).stdout,
    reason="a sanitizer cannot be loaded into python3")

# What every rank does under mpirun; prints its answers.
PROGRAM = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
lib.horovod_init.restype = ctypes.c_bool
ints = lambda values: (ctypes.c_int * len(values))(*values)
assert lib.horovod_init(None, 0, ints([0, 1, 1]), ints([2, 1]), 2)
rank, n = lib.horovod_rank(), lib.horovod_number_of_process_sets()
ids = ints([0] * n)
lib.horovod_process_set_ids(ids)
ranks = {}
for i in ids:
    members = ints([-1] * lib.horovod_process_set_size(i))
    assert lib.horovod_process_set_ranks(i, members) == 0
    ranks[i] = list(members)
answers = dict(rank=rank, size=lib.horovod_size(), ids=list(ids), ranks=ranks,
               places=[lib.horovod_process_set_rank(i) for i in ids],
               included=[lib.horovod_process_set_included(i) for i in ids],
               unknown=[lib.horovod_process_set_rank(9), lib.horovod_process_set_size(9),
                        lib.horovod_process_set_included(9), lib.horovod_process_set_ranks(9, ints([0]))],
               added=lib.horovod_add_process_set(ints([0]), 1), again=lib.horovod_add_process_set(ints([1, 0]), 2),
               removed=lib.horovod_remove_process_set(1), twice=lib.horovod_remove_process_set(1))
print("answers", json.dumps(answers), flush=True)
lib.horovod_shutdown()
"""


@pytest.fixture(scope="module")
def library():
    return ctypes.CDLL(str(LIBRARY))


@needs_plain_library
def test_functions_answer_without_a_job_as_horovod_does(library):
    for name, want in FUNCTIONS.items():
        assert getattr(library, name)() == want, name
    for name, want in PREDICATES.items():
        getattr(library, name).restype = ctypes.c_bool
        assert getattr(library, name)() is want, name
    for name, want in WITH_ARGUMENTS.items():
        assert getattr(library, name)(1) == want, name
    assert library.horovod_add_process_set((ctypes.c_int * 1)(0), 1) == -1
    assert library.horovod_start_timeline(b"/nowhere", False) == -1
    library.horovod_shutdown()


@needs_plain_library
def test_errors_of_process_sets_are_symbols_too(library):
    for name, value in ERRORS.items():
        assert ctypes.c_int.in_dll(library, f"HOROVOD_PROCESS_SET_ERROR_{name}").value == value


def test_the_page_about_the_api_names_every_function():
    page = (ROOT / "docs" / "c-api.md").read_text(encoding="utf-8")
    same = re.search(r"^## The same$(.*?)^## ", page, re.M | re.S).group(1)
    shortened = {name.replace("horovod_reduce_op", "") for name in FUNCTIONS if "reduce_op" in name}
    for name in {*FUNCTIONS, *PREDICATES, *WITH_ARGUMENTS, *OTHERS}:
        assert f"`{name}`" in same or name.replace("horovod_reduce_op", "") in shortened, name
    symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    for name in {*FUNCTIONS, *PREDICATES, *WITH_ARGUMENTS, *OTHERS}:
        assert re.search(rf" T {name}\b", symbols), name
    for path in re.findall(r"`(tests/[\w/.]+\.\w+)`", page):
        assert (ROOT / path).exists(), path


@needs_plain_library
def test_process_sets_answer_as_horovods_do():
    n = 3
    result = mpirun(n, sys.executable, "-c", PROGRAM, LIBRARY, HOROVOD_DYNAMIC_PROCESS_SETS="1")
    assert_ok(result)
    answers = [json.loads(line) for line in re.findall(r"answers (\{.*\})", result.stdout)]
    assert len(answers) == n
    for a in answers:
        rank = a["rank"]
        assert a["size"] == n
        assert a["ids"] == [0, 1, 2]
        assert a["ranks"] == {"0": [0, 1, 2], "1": [0, 1], "2": [1]}
        assert a["places"] == [rank, rank if rank < 2 else -4, 0 if rank == 1 else -4]
        assert a["included"] == [1, int(rank < 2), int(rank == 1)]
        assert a["unknown"] == [-3, -3, -3, -3]
        assert (a["added"], a["again"], a["removed"], a["twice"]) == (3, -6, 1, -3)
