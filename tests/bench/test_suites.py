"""What script/test adds to the runners of tests: limits of time that follow the machine, and a suite that ends at its budget."""
import http.client
import importlib.util
import itertools
import os
import pathlib
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

sys.path.insert(0, str(ROOT / "tests"))

import changed  # noqa: E402  (the path above)
import limits  # noqa: E402

budget = sys.modules["tests.support.budget"]  # the plugin


def test_a_limit_grows_with_the_programs_that_want_to_run_and_with_a_sanitizer(monkeypatch):
    monkeypatch.setattr(limits, "_run", lambda: limits.REFERENCE_S / 2)
    for waiting, wanted in ((0.0, 60), (3.0 * os.cpu_count(), 180), (1000.0 * os.cpu_count(), 600)):
        monkeypatch.setattr(os, "getloadavg", lambda waiting=waiting: (waiting, 0, 0))
        limits._measured["at"] = None
        monkeypatch.setenv("HVD_BUILD_DIR", "/somewhere/build")
        assert limits.seconds(60) == pytest.approx(wanted)
        monkeypatch.setenv("HVD_BUILD_DIR", "/somewhere/build-tsan")
        assert limits.seconds(60) == pytest.approx(wanted * limits.SANITIZED)
    limits._measured["at"] = None


def test_past_its_budget_a_suite_begins_no_test_and_reports_the_others(tmp_path):
    (tmp_path / "test_slow.py").write_text("import time\nimport limits\n\nlimits.slowness = lambda: 1.0\n\n\n"
                                           "def test_first():\n    time.sleep(1.5)\n\n\ndef test_second():\n    pass\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.support.budget", "-q", str(tmp_path)],
                          cwd=ROOT, env={**os.environ, "HVD_SUITE_BUDGET_S": "1"}, capture_output=True, text=True, check=False)
    assert "1 passed, 1 error" in done.stdout and "not begun: the suite took longer than 1 s" in done.stdout, done.stdout


def test_what_has_grown_does_not_grow_again(monkeypatch):
    monkeypatch.setattr(limits, "slowness", lambda: 3.0)
    monkeypatch.setenv("HVD_BUILD_DIR", "/somewhere/build")
    assert limits.seconds(limits.seconds(20)) == 60


def test_limits_of_processes_grow_in_every_suite(monkeypatch):
    assert subprocess.Popen.wait.is_grown, "the plugin tests.support.budget is not there"
    monkeypatch.setattr(limits, "slowness", lambda: 1000.0)
    command = [sys.executable, "-c", "import sys, time; sys.stdin.read(); time.sleep(0.2); print('end')"]
    assert subprocess.run(command, input=b"x", capture_output=True, timeout=0.01, check=True).stdout == b"end\n"
    assert subprocess.run(command, stdin=subprocess.DEVNULL, timeout=0.01, check=True).returncode == 0
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        assert process.wait(timeout=0.01) == 0
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=limits.Seconds(0.01))
        process.kill()


def test_limits_of_connections_grow_in_every_suite(monkeypatch):
    monkeypatch.setattr(limits, "slowness", lambda: 3.0)
    monkeypatch.setenv("HVD_BUILD_DIR", "/somewhere/build")
    for kind in (http.client.HTTPConnection, http.client.HTTPSConnection):
        assert kind("127.0.0.1", 1, timeout=5).timeout == 15
        assert kind("127.0.0.1", 1, timeout=limits.Seconds(5)).timeout == 5
        assert kind("127.0.0.1", 1, timeout=None).timeout is None
        assert not isinstance(kind("127.0.0.1", 1).timeout, float)


def test_the_budget_grows_with_the_machine(monkeypatch):
    monkeypatch.setattr(budget, "slowest", 1.0)
    monkeypatch.setattr(budget, "BUDGET_S", 100.0)
    monkeypatch.setattr(budget, "BEGIN", time.monotonic() - 250)
    monkeypatch.setattr(limits, "slowness", lambda: 3.0)
    budget.pytest_runtest_setup(None)
    monkeypatch.setattr(limits, "slowness", lambda: 1.0)
    budget.pytest_runtest_setup(None)  # it was slow before
    monkeypatch.setattr(budget, "BEGIN", time.monotonic() - 350)
    with pytest.raises(pytest.fail.Exception, match="longer than 300 s"):
        budget.pytest_runtest_setup(None)


def test_the_limit_of_a_suite_grows_while_it_runs(monkeypatch):
    speeds = itertools.chain([1.0], itertools.repeat(1000.0))
    monkeypatch.setattr(limits, "slowness", lambda: next(speeds))
    command = [sys.executable, "-c", "import time; time.sleep(0.3); print('end')"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert limits.output_of(process, 0.05) == "end\n"
    monkeypatch.setattr(limits, "slowness", lambda: 1.0)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.PIPE, text=True) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            limits.output_of(process, 0.05)
        process.kill()


def test_what_a_selection_takes_out_is_written_down(tmp_path):
    (tmp_path / "test_two.py").write_text("import pytest\n\n\n@pytest.mark.parametrize('n', [1, 2])\ndef test_bits(n):\n    pass\n\n\n"
                                          "def test_second():\n    pass\n")
    subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.support.budget", "-q", "-k", "not bits",
                    str(tmp_path)], cwd=ROOT, env={**os.environ, "HVD_LEFT_OUT": str(tmp_path / "left")}, capture_output=True, check=True)
    assert (tmp_path / "left").read_text().splitlines() == ["test_two: test_bits[1]", "test_two: test_bits[2]"]


def load(monkeypatch, name, path):
    """A program of the tests as a module of that name."""
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "argv", [path])
    spec.loader.exec_module(module)
    return module


@pytest.fixture(name="suites")
def fixture_suites(monkeypatch):
    """tests/run.py."""
    return load(monkeypatch, "suites", "tests/run.py")


def test_the_summary_names_all_that_was_skipped_or_left_out_once(capsys, suites):
    results = [suites.Result(f"test_two: test_bits[{n}]", "left out", "no thread") for n in (1, 2)]
    results += [suites.Result("test_a", "left out", "no thread"), suites.Result("test_two: test_second", "skipped", "no device"),
                suites.Result("test_two: test_third", "passed")]
    suites.report("tsan", results, 1)
    suites.summarize()
    written = capsys.readouterr().out
    assert "left out tsan, 3: no thread: test_two: test_bits[1 2]; test_a\n" in written, written
    assert "skipped tsan, 1: no device: test_two: test_second\n" in written, written


def test_a_suite_counts_the_processor_time_of_all_it_starts_also_in_parts(suites):
    busy = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"]
    suites.LANE.suite = "chart"
    suites.beside(lambda: suites.call(["sh", "-c", '"$@"; exit 3', "sh", *busy], 60)[:1],
                  lambda: suites.call(busy, 60)[:1])
    assert 0.5 < suites.PROCESSOR_S["chart"] < 5 and not suites.PROCESSOR_S[""], suites.PROCESSOR_S


def test_a_command_keeps_its_exit_code_and_output_and_ends_at_its_limit(suites, monkeypatch):
    monkeypatch.setattr(limits, "slowness", lambda: 1.0)
    assert suites.call(["sh", "-c", "echo out; echo err >&2; exit 3"], 60) == (3, "out\nerr\n")
    status, output = suites.call(["sh", "-c", "echo begun; sleep 60"], 1)
    assert status == 124 and output.startswith("begun\n") and "ended after" in output, output


def test_what_was_compiled_is_found_from_another_clone(suites, monkeypatch):
    monkeypatch.setattr(suites.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "environ", {"HOME": os.environ["HOME"]})
    suites.cache_compilations()
    assert os.environ["CMAKE_C_COMPILER_LAUNCHER"] == "ccache" and os.environ["CCACHE_BASEDIR"] == str(ROOT)


def test_a_verdict_of_clang_tidy_holds_in_another_clone(monkeypatch, tmp_path):
    lint = load(monkeypatch, "lint", "tests/lint/lint.py")

    def key_in(root, text="int a;\n", option="-O2"):
        root.mkdir(exist_ok=True)
        (root / ".clang-tidy").write_text("Checks: '*'\n")
        (root / "a.c").write_text(text)
        monkeypatch.setattr(lint, "ROOT", root)
        lint.content.cache_clear()
        entry = {"file": str(root / "a.c"), "command": f"cc {option} -I{root} -c {root}/a.c"}
        return lint.tidy_key(entry, [str(root / "a.c")])

    first = key_in(tmp_path / "one")
    assert first == key_in(tmp_path / "two")
    assert first != key_in(tmp_path / "two", text="int b;\n") and first != key_in(tmp_path / "two", option="-O3")


def test_a_function_that_does_not_begin_with_its_module_is_found(monkeypatch, tmp_path):
    lint = load(monkeypatch, "lint", "tests/lint/lint.py")
    folder = tmp_path / "worker" / "core"
    folder.mkdir(parents=True)
    (folder / "tree.c").write_text("/* A tree. */\n")
    (folder / "tree_bits.c").write_text(
        "/* Bits. */\nstatic int hvd_other(void)\n{\n}\n\nint hvd_tree_read(const char *text,\n                  int n)\n{\n}\n\n"
        "struct hvd_tree *hvd_tree_bits_make(void)\n{\n}\n\nint hvd_treetop(void)\n{\n}\n\nvoid hvd_bits_read(void)\n{\n}\n")
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    monkeypatch.setattr(lint, "files", lambda *_: ["worker/core/tree.c", "worker/core/tree_bits.c"])
    found = lint.function_names()
    assert [line.split(" does ", 1)[0] for line in found] == [
        "worker/core/tree_bits.c:15: hvd_treetop", "worker/core/tree_bits.c:19: hvd_bits_read"]


def test_a_change_is_checked_by_what_it_goes_into_and_by_quick_tests():
    deps = """base/room.o: #deps 2, deps mtime 1 (VALID)
    /root/base/room.c
    /root/base/room.h

worker/mpi.o: #deps 2, deps mtime 1 (VALID)
    ../worker/mpi.c
    ../base/room.h

base/str.o: #deps 1, deps mtime 1 (VALID)
    /root/base/str.c
"""
    assert changed.objects_with(["base/room.h"], deps, "/root", "/root/build") == {"base/room.o", "worker/mpi.o"}
    assert changed.objects_with(["base/str.c"], deps, "/root", "/root/build") == {"base/str.o"}
    inputs = {"test_room": ["base/room.o"], "test_mpi": ["worker/mpi.o", "base/str.o"], "test_other": ["x.o"]}
    assert changed.programs_with({"base/room.o", "worker/mpi.o"}, inputs) == ["test_mpi", "test_room"]
    tests, left = changed.quick_tests(["operator/core/hosts/hosts.c", "tests/integration/mpi/test_mpi.py", "worker/engine/engine.h"])
    assert ("tests/integration/mpi/test_mpi.py", "") in tests and not any(
        words for path, words in tests if path.endswith("test_mpi.py")), "a test file that was changed is run whole, once"
    assert ("tests/integration/fake/test_explain.py", "") in tests and {"operator", "tsan"} <= set(left)
    assert changed.quick_tests(["LICENSE"]) == ([], [])


def test_every_quick_test_and_suite_of_a_change_is_there():
    for _, quick, left in changed.QUICK:
        assert all((ROOT / path).exists() for path, _ in quick)
        listed = subprocess.run(["script/test", "--list", *left], cwd=ROOT, capture_output=True, text=True, check=False)
        assert listed.returncode == 0, listed.stderr
