"""Autotuning under mpirun: what is settled on is what both ranks run with."""

import csv
import re

import pytest

from test_mpi import PROGRAMS, assert_ok, mpirun

ADOPTED = re.compile(r"from plan (\d+) on the fusion threshold is (\d+) bytes and the cycle time ([0-9.]+) ms")
HEADER = ["phase", "point", "fusion_threshold_bytes", "cycle_time_ms", "bytes", "seconds", "score_mb_per_s"]
SETTINGS = {
    "HOROVOD_AUTOTUNE": "1",
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "2",
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "4",
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "8",
    "HOROVOD_LOG_LEVEL": "info",
}
STEPS = 4 * (2 + 5 * 8) + 40


def tune(tmp_path, **extra):
    log = tmp_path / "autotune.csv"
    result = mpirun(2, PROGRAMS / "mpi_autotune", STEPS, HOROVOD_AUTOTUNE_LOG=str(log), **{**SETTINGS, **extra})
    assert_ok(result)
    with open(log, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return result, rows


def adopted(result, rank):
    lines = result.errors[rank].splitlines()
    return [found.groups() for found in map(ADOPTED.search, lines) if found]


def test_both_ranks_take_the_same_settings_at_the_same_plans_and_end_with_the_best(tmp_path):
    result, rows = tune(tmp_path)
    assert list(rows[0]) == HEADER
    assert [row["phase"] for row in rows].count("warmup") == 2
    assert [row["phase"] for row in rows].count("sample") == 40
    points = [row for row in rows if row["phase"] == "point"]
    assert len(points) == 8
    best = rows[-1]
    assert best["phase"] == "best"
    assert (best["fusion_threshold_bytes"], best["cycle_time_ms"]) in {
        (row["fusion_threshold_bytes"], row["cycle_time_ms"]) for row in points}
    assert adopted(result, 0) == adopted(result, 1)
    assert len(adopted(result, 0)) >= 4
    assert adopted(result, 1)[-1][1:] == (best["fusion_threshold_bytes"], best["cycle_time_ms"])
    for row in rows:
        if row["phase"] == "sample":
            measured = int(row["bytes"]) / float(row["seconds"]) / 1e6
            assert float(row["score_mb_per_s"]) == pytest.approx(measured, rel=0.05)


def test_what_the_environment_says_is_not_tuned(tmp_path):
    _, rows = tune(tmp_path, HOROVOD_CYCLE_TIME="0.7")
    assert {row["cycle_time_ms"] for row in rows} == {"0.700"}
    assert len({row["fusion_threshold_bytes"] for row in rows}) > 1
    result, rows = tune(tmp_path, HOROVOD_CYCLE_TIME="0.7", HOROVOD_FUSION_THRESHOLD="1000000")
    assert rows == []
    assert "HOROVOD_AUTOTUNE has nothing to tune" in result.stderr
