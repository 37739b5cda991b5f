"""script/device-test: its rows, its file, and steps that hang, crash or lose the machine."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import zipfile

import pytest

import facts
import findings
import main
import plan
import places
import process
from findings import FAILED, NEVER_RUN, PASSED, SKIPPED, Findings, Row

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(name="session")
def fixture_session(tmp_path):
    """Makes a session of steps whose commands are Python."""
    folder = places.Places(tmp_path)
    (tmp_path / "made.json").write_text('{"commit": "test"}', encoding="utf-8")
    process.adopt_orphans()

    def make(*steps, limit_s=60):
        session = main.Session(folder, list(steps), tmp_path, limit_s)
        session.found.machine.update({"gpu": "a GPU", "double": 0})
        session.run()
        return session
    return make


def step(name, *runs, limit_s=30):
    return plan.Step(name, limit_s, list(runs))


def python(rows, text, limit_s=20, **more):
    return plan.Run([row if isinstance(row, Row) else Row(row) for row in rows], [sys.executable, "-c", text], limit_s, **more)


def written(folder):
    content = json.loads((folder / "device-test.json").read_text(encoding="utf-8"))
    assert not findings.check(content)
    return content


# --- Rows and the file --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("bound, value, outcome", [("<= 1.3", 1.3, PASSED), ("<= 1.3", 1.4, FAILED), (">= 0.85", 0.85, PASSED),
                                                   (">= 0.85", 0.84, FAILED), ("", 1e9, PASSED), ("<= 2", None, FAILED)])
def test_the_bound_of_a_measured_row_decides(bound, value, outcome):
    row = Row("x", "measured", "us", bound)
    row.take(value)
    assert row.outcome == outcome


def test_the_file_has_its_schema_and_each_deviation_is_named():
    content = Findings([Row("a", step="s"), Row("b", "measured", "us", "<= 2", "s")], "now").as_json()
    assert not findings.check(content)
    for change, wanted in (({"outcome": "maybe"}, "outcome"), ({"bound": "< 2"}, "bound"), ({"kind": "seen"}, "kind"),
                           ({"value": []}, "value"), ({"more": 1}, "more is unknown"), ({"outcome": "failed"}, "without a text")):
        broken = {**content, "rows": [{**content["rows"][0], **change}]}
        assert wanted in " ".join(findings.check(broken)), change
    assert "twice" in findings.check({**content, "rows": 2 * content["rows"]})[0]
    assert "version" in findings.check({**content, "version": 7})[0] and findings.check([])


def test_the_table_shows_each_row_each_text_and_the_counts():
    found = Findings([Row("a", step="s"), Row("b", "measured", "us", "<= 2", "s")], "now")
    found.machine["gpu"] = "Some GPU"
    found.rows[0].take(outcome=FAILED, text="it was wrong")
    found.rows[1].take(1.23456)
    table = found.table()
    assert "gpu: Some GPU" in table and "1.235 us" in table and "<= 2" in table and "s, a: failed: it was wrong" in table
    assert table.splitlines()[-1] == "1 passed, 1 failed, 0 skipped, 0 never run"


def test_each_step_has_rows_of_its_own_and_the_limits_fit():
    folder = places.Places(HERE.parents[1])
    steps = plan.steps_of(folder)
    names = [(row.step, row.name) for one in steps for row in one.rows()]
    assert len(set(names)) == len(names) and len({one.name for one in steps}) == len(steps)
    assert all(run.limit_s <= one.limit_s for one in steps for run in one.runs) and main.LIMIT_S < 540
    assert not findings.check(Findings([row for one in steps for row in one.rows()], "now").as_json())


def test_each_probe_of_the_page_has_a_row_and_the_page_takes_the_result_back():
    page = (HERE.parents[1] / "docs" / "gpu-doubles.md").read_text(encoding="utf-8")
    names = plan.probe_names(page)
    assert {"stream-order", "nccl-abort-init"} <= set(names) and len(names) == len(set(names)) > 30
    content = {"machine": {"gpu": "H100", "driver of CUDA": 13000, "nccl": 22809}, "began": "2026-11-27 10:00:00 UTC",
               "rows": [{"step": "probes of driver", "name": "stream-order", "outcome": "failed"},
                        {"step": "other", "name": "event-record", "outcome": "passed"}]}
    line, = plan.rows_of_doubles(page, content)
    assert line.endswith("| `stream-order` | failed: H100, 13000, 22809, 2026-11-27 |") and line.startswith("| streams overtake")


@pytest.mark.parametrize("parse, out, wanted", [
    (plan.probe_rows, "a-b passed\nnccl-x failed: line 3: it is 1, not 0\nnoise\n",
     [("a-b", None, PASSED, ""), ("nccl-x", None, FAILED, "line 3: it is 1, not 0")]),
    (plan.cmocka_rows, "1..2\nok 1 - one\nok 2 - two\n", [("tests", 2, PASSED, "")]),
    (plan.sanitizer_rows, "========= ERROR SUMMARY: 0 errors\n", [("findings", 0, PASSED, "")]),
    (plan.sanitizer_rows, "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", [("findings", 0, PASSED, "")]),
    (plan.killed_rows, "rank 0 knows: Rank 1 is lost\n", [("killed", None, PASSED, "Rank 1 is lost")]),
    (plan.cmocka_rows, "", []), (plan.sanitizer_rows, "no device\n", []), (plan.killed_rows, "rank 2 knows\n", [])])
def test_what_programs_print_becomes_rows(parse, out, wanted):
    assert [(one.name, one.value, one.outcome, one.text) for one in parse(out)] == wanted


@pytest.mark.parametrize("parse, out, words", [
    (plan.cmocka_rows, "ok 1 - one\nnot ok 2 - two\n# it is 3\n", "it is 3"),
    (plan.sanitizer_rows, "Invalid __global__ read\n========= ERROR SUMMARY: 4 errors\n", "Invalid __global__ read")])
def test_a_failure_keeps_what_the_program_printed(parse, out, words):
    result, = parse(out)
    assert result.outcome == FAILED and words in result.text


def test_facts_of_a_machine_without_a_driver_name_what_is_missing(tmp_path):
    (tmp_path / "made.json").write_text('{"commit": "test"}', encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run([sys.executable, facts.__file__, "machine"], capture_output=True, text=True, check=True,
                          env={**environment, "HVD_DEVICE_TEST_FOLDER": str(tmp_path)})
    found = {line["fact"]: line["value"] for line in map(json.loads, done.stdout.splitlines()) if "fact" in line}
    if "gpu" in found:
        pytest.skip("this machine has a GPU")
    assert "libcuda.so.1" in found["no gpu"] and found["commit"] == "test"
    assert "libcuda.so.1" in plan.reason_to_skip(plan.Run([Row("x")], [], 1), found)


# --- Steps that do not end well -----------------------------------------------------------------------------------

def test_a_step_that_hangs_is_ended_with_all_that_it_started_and_the_rest_goes_on(session, tmp_path):
    hangs = (f"import os, signal, time\nif os.fork() == 0:\n os.setsid()\n signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
             f" open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n time.sleep(600)\n"
             "print('{\"row\": \"early\", \"value\": 1}', flush=True)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)")
    found = session(step("bad", python(["early", "late"], hangs, limit_s=2.5)), step("good", python(["x"], "print('{\"row\": \"x\"}')"))).found
    assert [(row.name, row.outcome) for row in found.rows] == [("early", PASSED), ("late", FAILED), ("x", PASSED)]
    assert "it was ended after" in found.of("bad", "late").text
    child = int((tmp_path / "pid").read_text(encoding="utf-8"))
    assert not os.path.exists(f"/proc/{child}") or "Z" in pathlib.Path(f"/proc/{child}/stat").read_text(encoding="utf-8").split()[2]
    assert [row["outcome"] for row in written(tmp_path)["rows"]] == [PASSED, FAILED, PASSED]


@pytest.mark.parametrize("text, wanted", [
    ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"), ("raise SystemExit('no memory')", "no memory"),
    ("print('nonsense')", "did not print"), ("import sys; sys.exit(9)", "exit status 9")])
def test_a_step_that_crashes_leaves_its_row_with_the_reason(session, text, wanted):
    found = session(step("bad", python(["x"], text)), step("good", python(["y"], "print('{\"row\": \"y\"}')"))).found
    assert found.of("bad", "x").outcome == FAILED and wanted in found.of("bad", "x").text
    assert found.of("good", "y").outcome == PASSED


def test_a_crash_behind_the_last_row_is_a_row_of_its_own(session):
    found = session(step("bad", python(["x"], "import os\nprint('{\"row\": \"x\"}', flush=True)\nos.abort()"))).found
    assert [(row.name, row.outcome) for row in found.rows] == [("x", PASSED), ("the end of x", FAILED)]
    assert "SIGABRT" in found.rows[1].text


def test_a_program_that_is_not_there_is_a_failure_of_its_rows(session):
    found = session(step("bad", plan.Run([Row("x")], ["/no/such/program"], 5))).found
    assert found.rows[0].outcome == FAILED and "No such file" in found.rows[0].text


def test_what_a_machine_lacks_is_the_reason_of_a_skip(session):
    exits = "import sys; print('nothing to run on'); sys.exit(77)"
    found = session(step("a", python(["x"], "", needs=("gpu", "sanitizer"))), step("b", python(["y"], exits))).found
    assert found.rows[0].outcome == SKIPPED and "compute-sanitizer" in found.rows[0].text
    assert found.rows[1].outcome == SKIPPED and "nothing to run on" in found.rows[1].text


def test_over_a_double_measured_rows_are_skipped_and_keep_their_value(session):
    run = python([Row("x", "measured", "us", "<= 1"), Row("y")], "print('{\"row\": \"x\", \"value\": 5}\\n{\"row\": \"y\"}')")
    run.doubled = run.command
    quick = step("a", run)
    process.adopt_orphans()
    made = main.Session(places.Places(HERE.parents[1]), [quick], pathlib.Path(session().out), 60)
    made.found.machine.update({"gpu": "Fake", "double": 1})
    made.run()
    assert [(row.outcome, row.value) for row in made.found.rows] == [(SKIPPED, 5), (PASSED, None)]
    assert "double" in made.found.rows[0].text


def test_nothing_begins_when_the_time_is_over(session):
    sleeps = python(["x"], "import time; time.sleep(1.5); print('{\"row\": \"x\"}')")
    found = session(step("a", sleeps), step("b", python(["y"], "")), limit_s=3).found
    assert [(row.outcome) for row in found.rows] == [PASSED, NEVER_RUN] and "time" in found.rows[1].text


def test_a_machine_that_is_taken_away_leaves_a_whole_file(tmp_path):
    program = (f"import sys\nsys.path.insert(0, {str(HERE)!r})\nimport main, pathlib, places, plan\nfrom findings import Row\n"
               "def run(name, text):\n return plan.Step(name, 60, [plan.Run([Row('x')], [sys.executable, '-c', text], 60, needs=())])\n"
               f"steps = [run('first', 'print(\\'{{\"row\": \"x\"}}\\')'), run('second', 'import time; time.sleep(60)')]\n"
               f"for step in steps: step.runs[0].doubled = step.runs[0].command\n"
               f"main.Session(places.Places({str(tmp_path)!r}), steps, pathlib.Path({str(tmp_path)!r}), 60).run()\n")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True) as taken:
        assert "first: 1 passed" in taken.stdout.readline()
        time.sleep(0.2)
        below = process.descendants(taken.pid)
        os.kill(taken.pid, signal.SIGKILL)
    process.send(below, signal.SIGKILL)
    assert [row["outcome"] for row in written(tmp_path)["rows"]] == [PASSED, NEVER_RUN]


def test_a_wheel_is_unpacked_with_its_programs_and_data(tmp_path):
    with zipfile.ZipFile(tmp_path / "one-1-py3-none-any.whl", "w") as wheel:
        for name in ("one/__init__.py", "one-1.data/scripts/run", "one-1.data/data/lib/libone.so", "one-1.data/headers/one.h"):
            wheel.writestr(name, name)
    places.unpack_wheel(tmp_path / "one-1-py3-none-any.whl", tmp_path / "site")
    found = sorted(str(path.relative_to(tmp_path / "site")) for path in (tmp_path / "site").rglob("*") if path.is_file())
    assert found == ["bin/run", "lib/libone.so", "one/__init__.py"] and os.access(tmp_path / "site" / "bin" / "run", os.X_OK)
