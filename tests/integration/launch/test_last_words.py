"""The last line of horovodrun names the cause, from the lines of the rank that failed first."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from conftest import BUILD, HOROVODRUN
from test_hosts import reach

HOST = os.uname().nodename
PYTHON = BUILD / "python"
RANK = 'import os, sys, time, signal\nrank = int(os.environ["OMPI_COMM_WORLD_RANK"])\n'
EXITED = f"horovodrun: rank 1 on host {HOST} exited with code 1"
BLAMES_1 = "Horovod has been shut down. Rank 1 on host w called horovod_shutdown. (tensor t)"


@pytest.fixture
def fail(run, script, tmp_path):
    """fail(text, n=2, arguments...) runs a Python program whose rank 1 does that while the others wait; the result,
    with the file for the container's last words as .words."""
    words = tmp_path / "termination-log"

    def call(text, *arguments, n=2, others="time.sleep(60)", **options):
        words.write_text("")
        body = "".join(f"    {line}\n" for line in text.splitlines())
        rest = "".join(f"    {line}\n" for line in others.splitlines())
        program = script(RANK + f"if rank == 1:\n{body}else:\n{rest}")
        result = run("-np", n, *arguments, program, env={"HOROVOD_TERMINATION_LOG": str(words)}, **options)
        result.words = words.read_text()
        return result

    return call


def test_an_exception_is_the_last_line_and_its_traceback_the_last_words(fail):
    result = fail("print('loading', file=sys.stderr)\n{}['learning_rate']",
                  others="print('epoch 1', file=sys.stderr)\ntime.sleep(60)", n=3)
    assert result.code == 1, result
    assert result.last == f"{EXITED}: KeyError: 'learning_rate'"
    lines = result.words.splitlines()
    assert lines[:2] == ["loading", "Traceback (most recent call last):"], result.words
    assert lines[-2:] == ["KeyError: 'learning_rate'", result.last]
    assert "epoch" not in result.words and "----" not in result.words and "mpirun" not in result.words


def test_why_a_program_does_not_start_is_in_the_last_line(run, tmp_path):
    program, words = tmp_path / "program", tmp_path / "termination-log"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    words.write_text("")
    result = run("-np", 1, program, env={"HOROVOD_TERMINATION_LOG": str(words)})
    why = f"cannot run {program}: its interpreter is missing: No such file or directory"
    assert result.code == 127, result
    assert result.last == f"horovodrun: rank 0 on host {HOST} exited with code 127: {why}", result
    assert words.read_text() == f"{why}\n{result.last}\n"


def test_why_a_rank_has_no_output_file_is_in_the_last_line(run, tmp_path):
    (tmp_path / "file").write_text("")
    result = run("-np", 1, "--output-filename", tmp_path / "file", "true")
    why = f"cannot make the folder {tmp_path}/file/rank.0 (--output-filename): Not a directory"
    assert result.code == 126, result
    assert result.last == f"horovodrun: rank 0 on host {HOST} exited with code 126: {why}", result


@pytest.mark.parametrize("text, ends", [
    ("sys.exit('no data in /data')", ": no data in /data"),
    ("sys.exit(1)", ", without output"),
    ("print('giving up'); sys.exit(1)", ", last output: giving up"),
    ("sys.stderr.write('no newline at the end'); sys.stderr.flush(); os._exit(1)", ": no newline at the end"),
    ("sys.stderr.write(chr(13).join(f'{n}%' for n in range(101)) + chr(10)); os._exit(1)", ": 100%"),
    ("sys.stderr.write('\\033[31mred\\033[0m'); sys.stderr.flush(); os._exit(1)", ": red"),
    ("raise ValueError('first\\nsecond')", ": ValueError: first"),
    ("sys.stderr.write(chr(13) + 'epoch 3:  50%|#####     | 500/1000'); raise ValueError('bad batch')", ": ValueError: bad batch"),
])
def test_what_a_rank_wrote_last_is_in_the_last_line(fail, text, ends):
    result = fail(text)
    assert result.code == 1 and result.last == EXITED + ends, result


def test_plain_output_has_last_words_too_and_stays_as_it_was(fail):
    result = fail("sys.stdout.write('out'); sys.exit('why')", "--no-prefix-output")
    assert result.last == f"{EXITED}: why" and result.out == "out", result
    assert "why\n" in result.err and "]<stderr>:" not in result.err


def test_a_rank_that_crashes_is_named_by_the_signal_first(fail):
    result = fail("print('step 7', file=sys.stderr); os.kill(os.getpid(), signal.SIGSEGV); time.sleep(9)")
    assert result.code == 128 + signal.SIGSEGV, result
    assert result.last.endswith("was killed by signal 11 (Segmentation fault), last output: step 7"), result


STACK = """[vm:01178] *** Process received signal ***
[vm:01178] Signal: Segmentation fault (11)
[vm:01178] Signal code:  (-6)
[vm:01178] Failing at address: 0x49a
[vm:01178] [ 0] /lib/libc.so.6(+0x3c050)[0x7f6795431050]
[vm:01178] *** End of error message ***
"""


def test_a_crash_handler_has_no_words_of_the_program(fail):
    result = fail(f"print('under way', flush=True); sys.stderr.write({STACK!r}); sys.stderr.flush()\n"
                  "os.kill(os.getpid(), signal.SIGSEGV); time.sleep(9)")
    assert result.code == 128 + signal.SIGSEGV, result
    assert result.last.endswith("was killed by signal 11 (Segmentation fault), last output: under way"), result


def test_a_rank_that_aborts_is_named_by_its_own_message(fail):
    result = fail("print('corrupted size vs. prev_size', file=sys.stderr); sys.stderr.flush(); os.abort()")
    assert result.code == 128 + signal.SIGABRT, result
    assert result.last.endswith("was killed by signal 6 (Aborted): corrupted size vs. prev_size"), result


# What Python does with an exception is known under horovodrun where the rank has imported the package.
IMPORTED = "import horovod.numpy\n"


@pytest.mark.parametrize("text, words", [
    ("raise ValueError('bad batch')", "raised ValueError: bad batch"),
    # Texts that do not end with their first line, or do not begin with it:
    ("frames = '\\n'.join(f'frame #{n}: at::f() + 0x1 (0x7f in libtorch_cpu.so)' for n in range(200))\n"
     "raise RuntimeError('shape mismatch\\nException raised from f at x.cpp:1 (most recent call first):\\n' + frames)",
     "raised RuntimeError: shape mismatch"),
    ("raise RuntimeError('first line\\n' + 'and another line of it\\n' * 10000)", "raised RuntimeError: first line"),
    ("try:\n    {}[1]\nexcept KeyError as error:\n    raise ValueError('in turn') from error", "raised ValueError: in turn"),
    ("class Mute(Exception):\n    def __str__(self):\n        raise ValueError('no text')\nraise Mute", "raised Mute: <exception str() failed>"),
    ("eval('f(')", "raised SyntaxError: '(' was never closed" if sys.version_info >= (3, 10) else "raised SyntaxError: unexpected EOF"),
    ("raise horovod.numpy.HorovodInternalError('x')", "raised horovod.common.exceptions.HorovodInternalError: x"),
    ("class Late:\n    def __del__(self):\n        raise TypeError('late')\nlate = Late()\nraise ValueError('bad batch')",
     "raised ValueError: bad batch"),
    ("import atexit\natexit.register(lambda: {}[1])\nraise ValueError('bad batch')", "raised ValueError: bad batch"),
    ("sys.stderr = open('/dev/null', 'w')\nraise ValueError('unseen')", "raised ValueError: unseen"),
    ("raise ValueError", "raised ValueError"),
    ("raise ValueError('Caught ValueError in DataLoader worker process 0.\\nOriginal Traceback (most recent call last):\\n'\n"
     "                 '  File \"w.py\", line 1, in f\\n    g()\\nOSError: bad sample\\nand more\\n')", "raised OSError: bad sample"),
    ("raise ValueError('Graph execution error:\\n\\nDetected at node x\\n  File \"t.py\", line 1, in f\\n\\n'\n"
     "                 'shapes differ\\n\\t [[{{node x}}]] [Op:__inference_f_1]')", "raised ValueError: Graph execution error: shapes differ"),
    ("raise ValueError('Graph execution error:\\n\\nno node')", "raised ValueError: Graph execution error: no node"),
    ("raise ValueError('Graph execution error:\\n\\n\\t [[{{node x}}]]')", "raised ValueError: Graph execution error:"),
    ("sys.stderr.write('\\repoch 3:  50%|#####     | 500/1000')\nraise ValueError('bad batch')", "raised ValueError: bad batch"),
    *([("error = ValueError('bad')\nerror.add_note('a note\\n' * 1000)\nraise error", "raised ValueError: bad"),
       ("raise ExceptionGroup('both', [ValueError('x'), KeyError('y')])", "raised ExceptionGroup: both (2 sub-exceptions)")]
      if sys.version_info >= (3, 11) else []),
    ("raise SystemExit('bad batch')", "exited with code 1: bad batch"),
    # An exception that was only shown, that ended another process, or of which somebody else took care:
    ("try:\n    raise ValueError('shown')\nexcept ValueError:\n    sys.excepthook(*sys.exc_info())\nsys.exit(1)",
     "exited with code 1: ValueError: shown"),
    ("import subprocess\nsubprocess.run([sys.executable, '-c', 'import horovod.numpy; {}[1]'], check=False)\nsys.exit(1)",
     "exited with code 1: KeyError: 1"),
    ("sys.excepthook = sys.__excepthook__\nraise ValueError('theirs')", "exited with code 1: ValueError: theirs"),
    ("import threading\nthread = threading.Thread(target=lambda: {}[1])\nthread.start()\nthread.join()\nsys.exit(1)",
     "exited with code 1: KeyError: 1"),
])
def test_an_exception_is_said_to_be_raised_where_it_ended_the_rank(run, script, text, words):
    if not (PYTHON / "horovod" / "_core.abi3.so").exists():
        pytest.skip("the Python package is not built")
    program = script(IMPORTED + "import sys\n" + text + "\n")
    result = run("-np", 1, program, env={"PYTHONPATH": str(PYTHON)})
    assert result.last == f"horovodrun: rank 0 on host {HOST} {words}", result
    assert result.code == 1


PLACE = 'Detected at node g defined at (most recent call last):\n  File "train.py", line 8, in <module>\n\n'
UNPLACED = "Detected at node PyFunc defined at (most recent call last):\n<stack traces unavailable>\n"
NODE = "\n\t [[{{node g}}]]\n\t [[IteratorGetNext]] [Op:__inference_train_function_394]"
USER = 'in user code:\n\n    File "/lib/keras/training.py", line 1401, in train_function  *\n        return step_function(self, iterator)\n\n'
# Messages of TensorFlow 2.21 and 2.15 and of Keras, shortened, and the line of each that names the cause.
MESSAGES = [
    (f"Graph execution error:\n\n{UNPLACED}KeyError: 'bad record'\nTraceback (most recent call last):\n\n"
     f"  File \"train.py\", line 19, in gen\n    raise KeyError\n\nKeyError: 'bad record'\n\n{NODE}", "KeyError: 'bad record'"),
    (f"Graph execution error:\n\n{PLACE}Received a label value of 99{NODE}", "Received a label value of 99"),
    (f"Graph execution error:\n\n{PLACE}{PLACE}2 root error(s) found.\n  (0) INVALID_ARGUMENT:  ValueError: bad image\n"
     f"Traceback (most recent call last):\n\n{NODE}", "ValueError: bad image"),
    (f"Graph execution error:\n\n{PLACE}2 root error(s) found.\n  (0) CANCELLED:  Function was cancelled before it was started\n"
     f"  (1) INVALID_ARGUMENT:  indices[0] = 77 is not in [0, 3){NODE}", "indices[0] = 77 is not in [0, 3)"),
    ("Graph execution error:\n\nDetected at node 'Reshape' defined at (most recent call last):\n    File \"v1.py\", line 5, in <module>\n"
     f"Node: 'Reshape'\nInput to reshape is a tensor with 1 values{NODE}", "Input to reshape is a tensor with 1 values"),
    (f"Graph execution error:\n\n{PLACE}it is\nbad : Tensor had Inf values{NODE}", "it is"),
    (f"{USER}    ValueError: Shape must be rank 2\n", "ValueError: Shape must be rank 2"),
    (f"{USER}    RuntimeError: Exception encountered when calling layer 'l' (type L).\n    \n    KeyError: 'in layer'\n    \n"
     "    Call arguments received by layer 'l' (type L):\n      • x=1\n", "KeyError: 'in layer'"),
    ("Exception encountered when calling Sequential.call().\n\nInput 0 is incompatible\n\nArguments received by Sequential.call():\n",
     "Input 0 is incompatible"),
]


def test_the_reason_of_a_message_follows_its_heading():
    if not (PYTHON / "horovod" / "_core.abi3.so").exists():
        pytest.skip("the Python package is not built")
    program = ("import json, sys\nfrom horovod.common import exception\n"
               "print(json.dumps([exception.words_of(ValueError, ValueError(text), None) for text in json.load(sys.stdin)]))")
    done = subprocess.run([sys.executable, "-c", program], input=json.dumps([text for text, _ in MESSAGES]), capture_output=True,
                          text=True, timeout=60, check=True, env={**os.environ, "PYTHONPATH": str(PYTHON)})
    heads = [text.splitlines()[0] for text, _ in MESSAGES]
    assert json.loads(done.stdout) == [f"ValueError: {head} {reason}" for head, (_, reason) in zip(heads, MESSAGES)]


NOTICE = "I0000 00:00:1795740136.158072    7191 port.cc:153] oneDNN custom operations are on."


@pytest.mark.parametrize("end, words", [
    ("os._exit(3)", "exited with code 3, last output: step 3"),
    ("os.kill(os.getpid(), signal.SIGKILL); time.sleep(9)", "was killed by signal 9 (Killed), last output: step 3")])
def test_a_notice_of_a_library_is_not_shown_as_the_cause(fail, end, words):
    result = fail(f"print({NOTICE!r}, file=sys.stderr, flush=True); time.sleep(0.2); print('step 3', flush=True); time.sleep(0.2)\n{end}")
    assert result.last == f"horovodrun: rank 1 on host {HOST} {words}", result


def test_ten_megabytes_of_output_leave_the_last_lines(fail):
    result = fail("for n in range(200000): print(f'line {n} ' + 'x' * 45, file=sys.stderr)\nraise OSError('disk full')")
    assert result.last == f"{EXITED}: OSError: disk full", result.last
    assert "line 199999 " in result.words and len(result.words) < 2048


def test_a_line_without_an_end_leaves_its_beginning(fail):
    result = fail("raise ValueError('y' * 1000000)")
    assert f"{EXITED}: ValueError: yyyy" in result.last and len(result.last) < 700
    assert len(result.words) < 2048


def test_bytes_that_are_no_text_do_no_harm(fail):
    result = fail("os.write(2, bytes(range(256)) * 40 + b'\\036horovod-rank x\\036\\n' + b'bad magic\\n'); os._exit(1)",
                  errors="replace")
    assert result.last == f"{EXITED}: bad magic", ascii(result.last)
    assert all(c.isprintable() or c in "\n\t" for c in result.words), ascii(result.words)


def test_when_all_ranks_fail_one_of_them_is_named_with_its_own_lines(fail):
    result = fail("sys.exit('words of 1')", n=3, others="sys.exit(f'words of {rank}')")
    assert result.code == 1, result
    for rank in range(3):
        if result.last == f"horovodrun: rank {rank} on host {HOST} exited with code 1: words of {rank}":
            assert result.words == f"words of {rank}\n{result.last}\n"
            return
    pytest.fail(str(result))


def test_a_rank_that_ends_because_of_another_does_not_hide_it(fail, tmp_path):
    """Rank 0 is aborted by the library, and ends, while rank 1 is still on its way out."""
    mark = tmp_path / "raised"
    result = fail(f"import traceback, pathlib\ntry: {{}}['learning_rate']\nexcept KeyError: traceback.print_exc()\n"
                  f"pathlib.Path({str(mark)!r}).touch()\ntime.sleep(60)",
                  others=f"while not os.path.exists({str(mark)!r}): time.sleep(0.01)\n"
                         f"raise RuntimeError({BLAMES_1!r})")
    assert result.code == 1, result
    assert result.last in [f"horovodrun: rank 1 on host {host} failed: KeyError: 'learning_rate'"
                           for host in (HOST, "localhost")], result
    assert "KeyError: 'learning_rate'" in result.words and "shut down" not in result.words


PYTHON = BUILD / "python"
TRAIN = """import sys, time
import numpy as np
import horovod.numpy as hvd
hvd.init()
hvd.allreduce(np.ones(4), name="first")
if hvd.rank() == 1:
    FAIL
hvd.allreduce(np.ones(4), name="last")
"""


@pytest.mark.skipif(not (PYTHON / "horovod" / "_core.abi3.so").exists(), reason="the Python package is not built")
@pytest.mark.parametrize("repeat", range(3))
def test_the_rank_that_raised_is_named_whoever_of_the_job_ends_first(run, script, repeat):
    """At its exit the package shuts down, so that the others fail while it still is on its way out."""
    result = run("-np", 3, script(TRAIN.replace("FAIL", "{}['learning_rate']")), env={"PYTHONPATH": str(PYTHON)})
    assert result.code == 1, result
    ends = [f"horovodrun: rank 1 on host {HOST} {word} KeyError: 'learning_rate'" for word in ("raised", "failed:")]
    assert result.last in ends, result


@pytest.mark.skipif(not (PYTHON / "horovod" / "_core.abi3.so").exists(), reason="the Python package is not built")
def test_a_stall_that_ends_the_job_is_the_last_line(run, script):
    result = run("-np", 3, script(TRAIN.replace("FAIL", "time.sleep(60)")),
                 env={"PYTHONPATH": str(PYTHON), "HOROVOD_STALL_CHECK_TIME_SECONDS": "1",
                      "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "2"})
    assert "last is stalled for longer than 2 seconds" in result.last and "it waits for rank 1" in result.last, result
    assert "did not call horovod_shutdown in the 10 seconds" not in result.err, result  # nobody was waited for


HANDLED = """import os, sys, time
import numpy as np
import horovod.numpy as hvd
from horovod.common.exceptions import HorovodInternalError
hvd.init()
hvd.allreduce(np.ones(4), name="last")
while hvd.rank() == 1 and not os.path.exists("MARK"):
    time.sleep(0.02)
try:
    hvd.allreduce(np.ones(4), name="last")
    sys.exit(5)
except HorovodInternalError as error:
    print("handled", hvd.rank(), error, flush=True)
    open("MARK", "w").close()
hvd.shutdown()
"""
AGAIN = """hvd.init()
print("again", hvd.allreduce(np.ones(1), op=hvd.Sum, name="again")[0], flush=True)
"""


@pytest.mark.skipif(not (PYTHON / "horovod" / "_core.abi3.so").exists(), reason="the Python package is not built")
@pytest.mark.parametrize("more", ["", AGAIN], ids=["end", "again"])
def test_a_stall_that_every_rank_handles_is_in_the_log_of_a_job_that_succeeds(run, script, tmp_path, more):
    result = run("-np", 3, "--no-prefix-output", script(HANDLED.replace("MARK", str(tmp_path / "mark")) + more),
                 env={"PYTHONPATH": str(PYTHON), "HOROVOD_STALL_CHECK_TIME_SECONDS": "1",
                      "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "2"})
    assert result.code == 0, result
    stall = r"Tensor allreduce.last is stalled for longer than 2 seconds .*: it waits for rank 1 on host"
    assert re.search(f"level=error .*{stall}", result.err), result
    assert len(re.findall(rf"handled \d Horovod has been shut down\. {stall}", result.out)) == 3, result
    assert result.out.count("again 3.0") == (3 if more else 0), result


FOLLOW = """import os, sys, time
import numpy as np
import horovod.numpy as hvd
hvd.init()
hvd.allreduce(np.ones(4), name="first")
try:
    if hvd.rank() == 1:
        FAIL
    hvd.allreduce(np.ones(4), name="last")
except hvd.HorovodInternalError as error:
    print("error:", error, file=sys.stderr)
    MORE
"""
MORE = ["print('saving emergency checkpoint', file=sys.stderr); sys.exit(1)", "raise RuntimeError('training failed') from error"]


@pytest.mark.skipif(not (PYTHON / "horovod" / "_core.abi3.so").exists(), reason="the Python package is not built")
@pytest.mark.parametrize("more", MORE, ids=["writes", "raises"])
@pytest.mark.parametrize("what, words", [
    ("hvd.shutdown(); sys.exit(0)", "called horovod_shutdown while other ranks waited for tensor allreduce.last"),
    ("try: {}[1]\n        except KeyError: import traceback; traceback.print_exc()\n        sys.exit(0)",
     "called horovod_shutdown while other ranks waited for tensor allreduce.last"),
    ("os.execlp('sleep', 'sleep', '60')", "is lost: "),
    ("time.sleep(60)", "kept other ranks waiting: Tensor allreduce.last is stalled for longer than 2 seconds "),
    ("raise ValueError('bad batch')", ("raised ValueError: bad batch", "failed: ValueError: bad batch")),
], ids=["left", "handled", "lost", "stalled", "failed"])
def test_a_rank_that_followed_another_is_not_named_whatever_it_writes(run, script, what, words, more):
    result = run("-np", 3, script(FOLLOW.replace("FAIL", what).replace("MORE", more)),
                 env={"PYTHONPATH": str(PYTHON), "HOROVOD_STALL_CHECK_TIME_SECONDS": "1",
                      "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "2"})
    assert result.code == 1, result
    words = (words,) if isinstance(words, str) else words
    assert result.last.startswith(tuple(f"horovodrun: rank 1 on host {HOST} {word}" for word in words)), result


def test_a_rank_that_left_while_others_waited_is_named_although_it_succeeded(fail):
    result = fail("sys.exit(0)", others=f"raise RuntimeError({BLAMES_1!r})")
    assert result.code == 1, result
    assert result.last == "horovodrun: rank 1 on host w called horovod_shutdown while other ranks waited for tensor t", result
    assert result.words.splitlines()[-2] == f"RuntimeError: {BLAMES_1}", result.words


def test_a_rank_on_another_host_sends_its_last_words(run, hosts, tmp_path):
    words = tmp_path / "termination-log"
    words.write_text("")
    result = run("-np", 2, *reach(hosts), "sh", "-c",
                 'echo up >&2; [ "$(hostname)" = hvd-west ] && { echo no data >&2; exit 3; }; exec sleep 60',
                 before=hosts.enter(0), env={"HOROVOD_TERMINATION_LOG": str(words)})
    assert result.code == 3, result
    assert result.last == "horovodrun: rank 1 on host hvd-west exited with code 3: no data"
    assert words.read_text() == f"up\nno data\n{result.last}\n"


def test_a_message_that_is_there_already_stays(run, tmp_path):
    words = tmp_path / "termination-log"
    words.write_text("my own")
    assert run("-np", 1, "false", env={"HOROVOD_TERMINATION_LOG": str(words)}).code == 1
    assert words.read_text() == "my own"


@pytest.mark.parametrize("path", ["/nonexistent/log", "/proc/self/mem", "", "/dev/full"])
def test_a_termination_log_that_cannot_be_written_changes_nothing(run, path):
    result = run("-np", 1, "sh", "-c", "exit 4", env={"HOROVOD_TERMINATION_LOG": path})
    assert result.code == 4 and result.last.endswith("exited with code 4, without output"), result


def test_the_termination_log_is_the_launchers_alone(run, tmp_path):
    result = run("-np", 1, "--no-prefix-output", "sh", "-c", "env", env={"HOROVOD_TERMINATION_LOG": str(tmp_path / "x")})
    assert result.code == 0 and "HOROVOD_TERMINATION_LOG" not in result.out
    assert not (tmp_path / "x").exists()


def test_mpiruns_own_refusal_is_in_the_last_line(run):
    result = run("-np", 1, "--mpi-args", "--no-such-argument", "true")
    assert "before any rank failed: " in result.last and "no-such-argument" in result.last, result


def test_a_run_that_is_stopped_writes_no_last_words(tmp_path):
    words = pathlib.Path(tmp_path / "termination-log")
    words.write_text("")
    with subprocess.Popen([str(HOROVODRUN), "-np", "1", "sh", "-c", "echo up; exec sleep 60"],
                          env={**os.environ, "HOROVOD_TERMINATION_LOG": str(words)},
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdout.readline()
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
    assert words.read_text() == ""


def test_a_last_line_without_an_end_hides_no_line_and_shows_no_banner(run):
    done = run("-np", "2", "sh", "-c", "printf 'loss 0.5' >&2; [ $OMPI_COMM_WORLD_RANK = 1 ] && sleep 60; exit 3")
    host = os.uname().nodename
    assert done.err.splitlines()[-1] == f"horovodrun: rank 0 on host {host} exited with code 3: loss 0.5", done
    assert "[0]<stderr>:loss 0.5" in done.err and "-----" not in done.out + done.err, done
    assert done.code == 3
