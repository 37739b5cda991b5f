"""The extension and horovod.numpy, without a framework, at 1 to 4 ranks; see ranks.py."""
import subprocess

import pytest
from ranks import PYTHON, assert_checked, assert_ended_well, call, checks_of, environment, mpirun



@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_job_ends_well(n):
    assert_ended_well("core", n)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("name", checks_of("core"))
def test_on_every_rank(name, n):
    assert_checked("core", n, name)


def python(program, **extra):
    return subprocess.run([PYTHON, "-c", program], env=environment(**extra), capture_output=True, text=True,
                          timeout=120, check=False)


def test_importing_horovod_imports_no_framework_and_nothing_of_the_launcher():
    done = python("import sys, horovod, horovod.numpy\n"
                  "print([name for name in sys.modules if name.split('.')[0] in "
                  "('torch', 'tensorflow', 'cloudpickle', 'subprocess', 'multiprocessing') "
                  "or name.startswith('horovod.runner')])")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_before_init_an_error_says_what_to_call():
    done = python("import horovod.numpy as hvd\n"
                  "for call in (hvd.rank, hvd.size, hvd.join, hvd.barrier, lambda: hvd.allreduce_(bytearray(4))):\n"
                  "    try:\n        call()\n"
                  "    except ValueError as error:\n        print(error)\n")
    assert done.stdout.splitlines() == ["Horovod has not been initialized; use hvd.init()."] * 5, done.stdout + done.stderr


def test_without_open_mpi_an_error_says_what_to_install():
    done = python("from horovod.common import library\nlibrary.LIBRARY = 'libmpi.so.none'\nlibrary.load()")
    assert "ImportError: Horovod needs Open MPI 4 or 5" in done.stderr and "apt-get install openmpi-bin" in done.stderr


def test_without_pytorch_an_error_says_what_to_install():
    done = python("import sys\nsys.modules['torch'] = None\nimport horovod.torch")
    assert "ImportError: horovod.torch needs PyTorch" in done.stderr, done.stderr


INTERRUPTED = """
import os, signal, threading
import numpy as np
import horovod.numpy as hvd
hvd.init()
values = np.ones(3)
if hvd.rank() == 0:
    handle = hvd.allreduce_async_(values, name="late", op=hvd.Sum)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        hvd.synchronize(handle)
    except KeyboardInterrupt:
        print("interrupted")
    hvd.barrier()
    from horovod import _core
    _core.wait(handle)
    print(values.tolist())
else:
    hvd.barrier()
    hvd.allreduce(values, name="late", op=hvd.Sum)
"""


def test_an_interrupt_ends_the_wait_and_leaves_the_tensor_pending():
    done = mpirun(2, PYTHON, "-c", INTERRUPTED)
    assert done.returncode == 0 and done.stdout.splitlines() == ["interrupted", "[2.0, 2.0, 2.0]"], done.stdout + done.stderr


ABANDONED = """
import os, signal, sys, threading
import numpy as np
import horovod.numpy as hvd
values = np.ones(3)
calls = {"allreduce": lambda: hvd.allreduce_(values, name="late", op=hvd.Sum),
         "broadcast": lambda: hvd.broadcast_(values, root_rank=1, name="late"),
         "barrier": hvd.barrier}
for name, call in calls.items():
    hvd.init()
    values[:] = hvd.rank() + 1
    hvd.allreduce(values, name="begin")
    before = sys.getrefcount(values)
    if hvd.rank() == 0:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            call()
        except KeyboardInterrupt:
            print(name, "is kept", sys.getrefcount(values) > before)
        hvd.broadcast(values, root_rank=0, name="other")
    else:
        hvd.broadcast(values, root_rank=0, name="other")
        call()
    hvd.allreduce(values, name="end")
    if hvd.rank() == 0:
        print(values.tolist())
    hvd.shutdown()
    assert sys.getrefcount(values) == before
"""


def test_an_interrupted_call_keeps_its_array_until_the_job_has_ended():
    done = mpirun(2, PYTHON, "-c", ABANDONED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == ["allreduce is kept True", "[3.0, 3.0, 3.0]", "broadcast is kept True",
                                        "[2.0, 2.0, 2.0]", "barrier is kept False", "[1.0, 1.0, 1.0]"]


JOINED = """
import os, signal, sys, threading, time
import horovod.numpy as hvd

def interrupted_join(number):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        hvd.join()
    except KeyboardInterrupt:
        print("interrupted")
    open(sys.argv[1] + number, "w").close()

def wait_for_the_interrupt(number):
    while not os.path.exists(sys.argv[1] + number):
        time.sleep(0.01)
"""

TAKEN_UP = JOINED + """
hvd.init()
if hvd.rank() == 0:
    interrupted_join("1")
    interrupted_join("2")
else:
    wait_for_the_interrupt("2")
assert hvd.join() == 1
assert hvd.join() >= 0
"""

FORGOTTEN = JOINED + """
for job in "12":
    hvd.init()
    if hvd.rank() == 0:
        interrupted_join(job)
    else:
        wait_for_the_interrupt(job)
    hvd.shutdown()
hvd.init()
assert hvd.join() >= 0
hvd.barrier()
"""


@pytest.mark.parametrize("program", [TAKEN_UP, FORGOTTEN], ids=["in-the-job", "not-in-the-next-job"])
def test_a_join_that_was_interrupted_is_taken_up_again(program, tmp_path):
    done = mpirun(2, PYTHON, "-c", program, str(tmp_path) + "/")
    assert done.returncode == 0 and done.stdout.splitlines() == ["interrupted"] * 2, done.stdout + done.stderr


def test_an_exception_on_one_rank_ends_the_others():
    done = mpirun(2, PYTHON, "-c", "import horovod.numpy as hvd\nimport numpy as np\nhvd.init()\n"
                  "assert hvd.rank() == 1, 'rank 0 is unhappy'\nhvd.allreduce(np.ones(3))")
    assert done.returncode != 0 and "rank 0 is unhappy" in done.stderr
    assert "HorovodInternalError: Horovod has been shut down" in done.stderr or "mpirun detected" in done.stderr


# Its main module is not guarded: a process that is spawned imports it, and calls hvd.init().
UNGUARDED = """
import multiprocessing, os, subprocess, sys
import numpy as np
import horovod.numpy as hvd
hvd.init()

def work():
    print("a child works", flush=True)

if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        child = multiprocessing.get_context(method).Process(target=work)
        child.start()
        child.join()
        print(method, child.exitcode, flush=True)
    for env in (None, dict(os.environ)):
        print("exec", subprocess.run([sys.executable, "-c", "import horovod.numpy as hvd; hvd.init()"], env=env).returncode)
    assert hvd.allreduce(np.ones(3), op=hvd.Sum).tolist() == [hvd.size()] * 3
    print("done", flush=True)
"""


@pytest.mark.parametrize("launch", ["mpirun", "horovodrun"])
def test_a_process_that_a_rank_starts_is_told_that_the_rank_has_its_place(launch, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(UNGUARDED, encoding="utf-8")
    command = (PYTHON, program)
    done = mpirun(2, *command) if launch == "mpirun" else call(
        "horovodrun", "-np", 2, "--no-prefix-output", *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(["spawn 1", "forkserver 1", "exec 1", "exec 1", "done"] * 2), done.stdout
    for rank in range(2):
        assert done.stderr.count(f"ValueError: Horovod initialization failed. Please check log messages above for a more "
                                 f"descriptive error. This process was started by rank {rank} (process ") == 4, done.stderr
    assert 'guard the main module with if __name__ == "__main__":' in done.stderr


RUN = """
import os
import horovod

def work(start, factor=1):
    import horovod.numpy as hvd
    hvd.init()
    return start + factor * hvd.rank(), hvd.size()

def fail():
    raise KeyError("no such thing")

def unpicklable():
    return (number for number in range(3))

print(horovod.run(work, (100,), {"factor": 10}, num_proc=2))
for bad, word in ((fail, "no such thing"), (unpicklable, "cannot be pickled")):
    try:
        horovod.run(bad, num_proc=2)
    except RuntimeError as error:
        print(word in str(error))
print([name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("horovod-run-")])
"""


def test_run_calls_a_function_on_every_rank(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(RUN, encoding="utf-8")
    done = subprocess.run([PYTHON, str(program)], env=environment(TMPDIR=tmp_path), capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.stdout.splitlines() == ["[(100, 2), (110, 2)]", "True", "True", "[]"], done.stdout + done.stderr


RUN_BESIDE = """
import subprocess, sys
import horovod
import horovod.numpy as hvd
hvd.init()

def work():
    import horovod.numpy as hvd
    hvd.init()
    return hvd.rank(), hvd.size()

for _ in "12":
    print(horovod.run(work, num_proc=2))
    print(subprocess.run(["horovodrun", "-np", "2", sys.executable, "-c", "import horovod.numpy as hvd; hvd.init()"]).returncode)
    print(subprocess.run([sys.executable, "-c", "import horovod.numpy as hvd; hvd.init()"]).returncode)
    hvd.shutdown()
    hvd.init()
"""


def test_a_process_alone_that_has_begun_a_job_starts_others(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(RUN_BESIDE, encoding="utf-8")
    done = call(PYTHON, program)
    assert done.stdout.splitlines() == ["[(0, 2), (1, 2)]", "0", "0"] * 2, done.stdout + done.stderr


def test_run_takes_no_function_that_another_user_could_have_written(tmp_path):
    (tmp_path / "function").write_bytes(b"")
    (tmp_path / "function").chmod(0o666)
    done = subprocess.run([PYTHON, "-m", "horovod.runner.rank", str(tmp_path)], env=environment(), capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 1 and "could have been written by another user" in done.stderr
