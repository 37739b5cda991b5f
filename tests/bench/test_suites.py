"""What script/test adds to the runners of tests: limits of time that follow the machine, and a suite that ends at its budget."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import limits  # noqa: E402  (the path above)


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
    (tmp_path / "test_slow.py").write_text("import time\n\n\ndef test_first():\n    time.sleep(1.5)\n\n\ndef test_second():\n    pass\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.support.budget", "-q", str(tmp_path)],
                          cwd=ROOT, env={**os.environ, "HVD_SUITE_BUDGET_S": "1"}, capture_output=True, text=True, check=False)
    assert "1 passed, 1 error" in done.stdout and "not begun: the suite took longer than 1 s" in done.stdout, done.stdout
