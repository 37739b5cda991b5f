"""The benchmark's harness: known inputs, known outputs. What it measures is measured by script/bench alone."""
import argparse
import contextlib
import json
import os
import random
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

import gpu
import jobs
import longrun
import measure
import network
import nodes
import peer
import picture
import python
import results
import simulated
import stages
import steps
import tensorflow_rows


def block(workload, arm, turn, p50_us, ping_ns=(100, 110), **more):
    return {"workload": workload, "arm": arm, "round": turn, "p50_us": p50_us, "ping_ns": list(ping_ns), **more}


# --- measure.py -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("ping_ns, where", [
    ((100, 120), "< 160 ns"), ((159, 160), "< 160 ns"), ((160, 160), "160-400 ns"), ((400, 400), "160-400 ns"),
    ((400, 402), "> 400 ns"), ((100, 125), "< 160 ns"), ((100, 126), None), ((300, 100), None)])
def test_a_block_has_the_class_of_its_round_trips_or_none_when_they_changed(ping_ns, where):
    assert measure.placement(ping_ns) == where


def test_the_interval_of_equal_values_is_that_value():
    assert measure.interval([0.5] * 10, random.Random(1)) == [0.5, 0.5]


def test_the_interval_holds_the_median_and_narrows_with_more_launches():
    rng = random.Random(7)
    few, many = ([1 + rng.random() for _ in range(n)] for n in (8, 400))
    of_few, of_many = (measure.interval(values, random.Random(1)) for values in (few, many))
    assert of_few[0] <= sorted(few)[4] <= of_few[1] and min(few) <= of_few[0] and of_few[1] <= max(few)
    assert of_many[1] - of_many[0] < (of_few[1] - of_few[0]) / 2


def test_the_interval_covers_the_true_median_about_as_often_as_it_says():
    rng, kept = random.Random(3), 0
    for _ in range(100):
        low, high = measure.interval([rng.gauss(1, 0.2) for _ in range(15)], rng)
        kept += low <= 1 <= high
    assert kept >= 88


def test_the_same_seed_gives_the_same_interval():
    values = [0.1 * i for i in range(12)]
    assert measure.interval(values, random.Random(5)) == measure.interval(values, random.Random(5))


@pytest.mark.parametrize("value, kept", [(0.123456, 0.1235), (1234567, 1235000), (0, 0), (1e-9, 1e-9)])
def test_four_digits_are_significant(value, kept):
    assert measure.significant(value) == kept


def test_a_row_is_a_json_object_of_the_agreed_keys_and_one_line_a_class(capsys):
    table = measure.Table(1)
    table.add(4, "1x4B", "Horovod", "us", {"< 160 ns": [(2, 1000, 0.002), (3, 1000, 0.003), (4, 1000, 0.004)],
                                           "> 400 ns": [(9, 1000, 0.009)]})
    assert [row["class"] for row in table.rows] == ["< 160 ns", "> 400 ns"]
    row = json.loads(json.dumps(table.rows[0]))
    assert {key: row[key] for key in ("row", "name", "baseline", "ratio_p50", "class", "n")} == {
        "row": 4, "name": "1x4B", "baseline": "Horovod", "ratio_p50": 0.003, "class": "< 160 ns", "n": 3}
    assert row["ci95"] == [0.002, 0.004] and (row["ours_p50"], row["baseline_p50"], row["unit"]) == (3, 1000, "us")
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3 and printed[0].split()[:2] == ["row", "name"]
    assert printed[1].split()[:6] == ["4", "1x4B", "3", "1000", "us", "0.003"]


def test_a_row_that_could_not_be_measured_is_printed_and_not_written(capsys):
    table = measure.Table(1)
    table.miss(5, "1x4B-cycle0", "no peer")
    assert table.rows == [] and "no peer" in capsys.readouterr().out


def test_a_launch_is_without_the_settings_of_this_environment(monkeypatch):
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", "7")
    assert measure.environment(HOROVOD_CACHE_CAPACITY="16")["HOROVOD_CACHE_CAPACITY"] == "16"
    assert "HOROVOD_CYCLE_TIME" not in measure.environment()


def test_a_launch_gives_the_json_lines_and_a_failed_one_ends_the_benchmark(monkeypatch):
    monkeypatch.setattr(measure, "MPIRUN", ["sh", "-c", 'eval "$6"', "sh"])
    assert measure.launch(["echo noise; echo '{\"a\": 1}'"], bind="core", mca=["x"]) == [{"a": 1}]
    with pytest.raises(SystemExit, match="exit 3"):
        measure.launch(["exit 3"], bind="core", mca=["x"])


# --- steps.py ---------------------------------------------------------------------------------------------------

def of_counts(arm, turn, us_a_tensor, fixed_us, **more):
    return [block(f"{n}x4B", arm, turn, fixed_us + n * us_a_tensor, **more) for n in (100, 1000, 10000)]


def test_the_slope_is_what_one_more_tensor_costs_whatever_a_step_costs():
    found = steps.Launch(of_counts("ours", 0, 0.05, 3) + of_counts("peer", 0, 1.6, 900))
    slope, where = found.slope("ours", 0)
    assert slope == pytest.approx(50) and where == "< 160 ns"
    assert found.slope("peer", 0)[0] == pytest.approx(1600)


def test_there_is_no_slope_over_blocks_of_different_or_changed_placement():
    lines = of_counts("ours", 0, 0.05, 3)
    lines[1]["ping_ns"] = [300, 300]
    assert steps.Launch(lines).slope("ours", 0) is None
    lines[1]["ping_ns"] = [100, 300]
    assert steps.Launch(lines).slope("ours", 0) is None


def test_pairs_are_of_one_round_and_one_class_and_a_launch_gives_their_medians():
    lines = []
    for turn, (ours, theirs, theirs_ping) in enumerate([(1, 10, 100), (2, 10, 100), (3, 10, 100), (5, 10, 300)]):
        lines += [block("1x4B", "ours", turn, ours), block("1x4B", "peer", turn, theirs, (theirs_ping, theirs_ping))]
    found = steps.Launch(lines)
    pairs = found.pairs(lambda turn: found.p50("1x4B", "ours", turn), lambda turn: found.p50("1x4B", "peer", turn))
    assert pairs == {"< 160 ns": (2, 10, pytest.approx(0.2))}


def test_launches_are_gathered_by_class_for_workloads_and_for_slopes():
    launches = [steps.Launch(of_counts("ours", 0, 0.1, 1, ping_ns=ping) + of_counts("peer", 0, 1, 1, ping_ns=ping))
                for ping in ((100, 100), (100, 100), (500, 500))]
    samples = steps.gather(launches, steps.getter(None, "ours"), steps.getter(None, "peer"))
    assert {where: len(found) for where, found in samples.items()} == {"< 160 ns": 2, "> 400 ns": 1}
    assert samples["> 400 ns"][0][2] == pytest.approx(0.1)
    samples = steps.gather(launches, steps.getter("100x4B", "ours"), steps.getter("100x4B", "peer"))
    assert samples["< 160 ns"][0] == (pytest.approx(11), pytest.approx(101), pytest.approx(11 / 101))


def test_without_a_peer_its_rows_say_so(capsys):
    table = measure.Table(1)
    steps.against_peer(table, [], False, steps.ROWS)
    printed = capsys.readouterr().out
    assert table.rows == [] and printed.count("no peer (script/bench peers builds it)") == len(steps.ROWS)


def test_counts_are_medians_over_the_rounds_that_have_them():
    found = steps.Launch([block("1x4B", "ours", turn, 1, **more) for turn, more in
                          enumerate(({"allocations": 4}, {"allocations": 0}, {}, {"allocations": 0}))])
    assert found.counted("1x4B", "ours", "allocations") == 0
    table = measure.Table(1)
    steps.idle(table, [steps.Launch([block("1x4B", "ours", 0, 1, idle_cores=0.001)])])
    assert table.rows[0]["ratio_p50"] == 0.5 and table.rows[0]["row"] == 10


# --- simulated.py -----------------------------------------------------------------------------------------------

def simulated_run(step, design, ranks, us):
    return {"step": step, "design": design, "ranks": ranks, "modelled_us": us, "floor_us": 20.0, "doubling_us": 45.0,
            "depth": 5, "messages": 10, "up_max": 1, "down_max": 1, "root_bytes_in": 100}


def test_simulated_rows_are_against_doubling_the_floor_and_a_flat_coordinator(capsys):
    runs = [simulated_run(step, design, ranks, us) for ranks, scale in ((16, 1), (27360, 2))
            for step, design, us in (("cached", "tree", 11 * scale), ("cached", "star", 5000.0), ("first", "tree", 450 * scale),
                                     ("first", "star", 90000.0 * scale))]
    table = measure.Table(1)
    simulated.add_rows(table, runs)
    found = {(row["row"], row["name"]): row for row in table.rows}
    assert found[13, "cached-27360-ranks"]["ratio_p50"] == pytest.approx(22 / 45, rel=1e-3)
    assert found[13, "cached-27360-floor"]["ratio_p50"] == 1.1
    assert found[14, "first-27360-ranks"]["ratio_p50"] == 0.005
    assert all(row["class"] == "modelled" and row["n"] == 1 for row in table.rows) and len(found) == 5
    simulated.counts(runs)
    assert "27360" in capsys.readouterr().out


# --- network.py -------------------------------------------------------------------------------------------------

def two_lines(small_us, large_us, ns_a_byte):
    """What a network of such messages would measure."""
    sizes = [4, 1024, 32768, 61440, 65536, 262144, 1048576, 8388608]
    return {size: (small_us if size < 65536 else large_us) + ns_a_byte * size / 1000 for size in sizes}


def a_model(small_us=10, large_us=10, ns_a_byte=0.4, add_ns=0.1):
    found = {way: two_lines(small_us, large_us, ns_a_byte) for way in ("exchange", "exchange4", "pingpong")}
    return network.Model(found | {"add": two_lines(0, 0, add_ns)})


def test_the_cost_of_a_message_is_found_on_both_sides_of_where_it_jumps():
    cost = network.Cost(two_lines(12, 45, 0.3))
    assert cost.small == pytest.approx((12, 0.3)) and cost.large == pytest.approx((45, 0.3))
    assert cost(1000) == pytest.approx(12.3) and cost(1 << 24) == pytest.approx(45 + 0.3 * (1 << 24) / 1000)


@pytest.mark.parametrize("algorithm, ranks, us", [
    ("doubling", 2, 10 + 50), ("doubling", 4, 2 * (10 + 50)), ("doubling", 5, 2 * (10 + 50) + 2 * (10 + 40) + 10),
    ("rabenseifner", 2, 2 * 10 + 2 * 20 + 5), ("rabenseifner", 4, 4 * 10 + 2 * 30 + 7.5),
    ("ring", 4, 6 * 10 + 2 * 30 + 7.5), ("ring", 5, 8 * 10 + 2 * 32 + 8)])
def test_an_algorithm_takes_what_its_steps_take(algorithm, ranks, us):
    assert a_model()(algorithm, ranks, 100000) == pytest.approx(us)


def test_the_table_takes_what_the_model_finds_fastest_and_no_ring_for_powers_of_two():
    model = a_model()
    table = network.make_table(model)
    assert [row[0] for row in table] == sorted(row[0] for row in table) and table[-1][0] == network.MANY
    for ranks in (2, 3, 4, 5, 7, 8, 16, 24, 64):
        regrets = [model.regret(network.choose(table, ranks, size), ranks, size) for size in network.SIZES]
        assert max(regrets) < 1.6 and sum(regrets) / len(regrets) < 1.1, ranks
    assert network.choose(table, 4, 1 << 28) == "rabenseifner" and network.choose(table, 1000, 4) == "doubling"
    assert all(ring == network.NEVER for ranks, _, ring in table if ranks & (ranks - 1) == 0)


def test_the_table_is_written_as_the_library_reads_it():
    assert network.as_text([(2, network.NEVER, network.NEVER), (7, 99, 100), (network.MANY, 5, network.NEVER)]) == (
        "2:-:-,7:99:100,*:5:-")


def test_a_launch_is_read_as_the_table_and_medians_over_its_blocks():
    lines = [{"table": [[2, 5, 9]]}] + [{"way": "ring", "bytes": 4, "us": us} for us in (3, 1, 50)]
    assert network.read(lines) == ([[2, 5, 9]], {"ring": {4: 3}})


# --- results.py -------------------------------------------------------------------------------------------------

def line(row, name, ratio, ci=None, where="any", n=10, **more):
    return {"row": row, "name": name, "baseline": "Open MPI", "ratio_p50": ratio, "ci95": ci or [ratio, ratio],
            "class": where, "n": n, **more}


def test_a_later_file_replaces_the_rows_that_it_has(tmp_path):
    old, new = tmp_path / "runtime.jsonl", tmp_path / "steps.jsonl"
    old.write_text("".join(json.dumps(item) + "\n" for item in (
        line(4, "1x4B", 0.5, where="< 160 ns"), line(4, "1x4B", 0.6, where="> 400 ns"), line(1, "engine-4B", 0.7))))
    new.write_text(json.dumps(line(4, "1x4B", 0.1, where="< 160 ns")) + "\n")
    for number, path in enumerate((old, new)):
        os.utime(path, (1000 + number, 1000 + number))
    assert [(item["row"], item["ratio_p50"]) for item in results.load(tmp_path)] == [(1, 0.7), (4, 0.1)]


@pytest.mark.parametrize("item, cell", [
    (line(1, "engine-4B", 0.5), "0.7"), (line(1, "engine-4B", 0.71), "0.7, **missed**"),
    (line(3, "3-default", 0.3), "0.35"), (line(3, "3-best", 0.71), "0.7, **missed**"),
    (line("call", "call-4B", 3), ""), (line(15, "allocations-1x4B", 0), "0"),
    (line(15, "allocations-1x4B", 1), "0, **missed**"), (line(15, "system-calls-1x4B", 0.2), "1"),
    (line(13, "cached-16-ranks", 0.7), ""), (line(13, "cached-27360-floor", 1.22), "1.1, **missed**"),
    (line(14, "first-27360-ranks", 0.001), "0.01"), (line(14, "first-16-ranks", 0.5), ""),
    (line(6, "per-tensor", 0.06), "0.0625"), (line(6, "per-tensor-cycle0", 0.2), "")])
def test_a_row_is_judged_by_its_target(item, cell):
    assert results.verdict(item) == cell


def test_the_table_is_markdown_with_short_numbers():
    table = results.markdown([line(3, "3-best", 0.49, [0.48, 0.4912], "< 160 ns", ours_p50=9912.3, baseline_p50=20200,
                                   unit="us"), line(10, "idle-cores", 0.001, ours_p50=0.000002, baseline_p50=0.002,
                                                    unit="core")])
    assert table.splitlines()[2:] == [
        "| 3 | 3-best | 9.91 ms | 20.2 ms | Open MPI | 0.49 (0.48 to 0.491) | 0.7 | < 160 ns | 10 |",
        "| 10 | idle-cores | 2e-06 core | 0.002 core | Open MPI | 0.001 | 1 | any | 10 |"]


def test_the_table_replaces_what_is_between_its_marks_and_nothing_else():
    page = f"before\n{results.BEGIN}\nold\n{results.END}\nafter\n"
    once = results.into_page(page, "| new |")
    assert once == f"before\n{results.BEGIN}\n| new |\n{results.END}\nafter\n"
    assert results.into_page(once, "| new |") == once
    with pytest.raises(SystemExit):
        results.into_page("no marks", "| new |")


@pytest.mark.parametrize("page, picture", [
    (results.PAGE, results.PLOT), (results.OPERATOR_PAGE, results.OPERATOR_PLOT), (results.TENSORFLOW_PAGE, results.TENSORFLOW_PLOT)])
def test_the_page_has_the_marks_and_shows_the_plot(page, picture):
    text = page.read_text(encoding="utf-8")
    assert results.into_page(text, "x") and f"]({picture.name})" in text and picture.exists()


def test_rows_of_the_operator_and_of_tensorflow_stand_on_their_own_pages(tmp_path, monkeypatch, capsys):
    for name in ("PAGE", "PLOT", "OPERATOR_PAGE", "OPERATOR_PLOT", "TENSORFLOW_PAGE", "TENSORFLOW_PLOT"):
        path = tmp_path / name
        path.write_text(f"{results.BEGIN}\n{results.END}\n")
        monkeypatch.setattr(results, name, path)
    monkeypatch.setattr(measure, "ROOT", tmp_path)
    rows = [line(1, "engine-4B", 0.1), line(20, "idle-total", 0.6), line(20, "1000-jobs", 1.2),
            line(21, "writes-after-restart", 0), line(21, "writes-after-resync", 3), line("tensorflow", "eager-1", 0.02)]
    monkeypatch.setattr(results, "load", lambda: rows)
    results.report()
    runtime, operator, tensorflow = (getattr(results, name).read_text() for name in ("PAGE", "OPERATOR_PAGE", "TENSORFLOW_PAGE"))
    assert "engine-4B" in runtime and "idle-total" not in runtime and "engine-4B" not in operator
    assert "eager-1" in tensorflow and "eager-1" not in runtime + operator and "engine-4B" not in tensorflow
    verdicts = {row[1]: row[6] for row in map(results.row_of, rows)}
    assert verdicts == {"engine-4B": "0.7", "idle-total": "1", "1000-jobs": "1, **missed**", "writes-after-restart": "0",
                        "writes-after-resync": "0, **missed**", "eager-1": "0.0167, **missed**"}
    assert "2 rows" not in capsys.readouterr().out.splitlines()[0]


# --- jobs.py ----------------------------------------------------------------------------------------------------

def played(name, what, ms):
    return {"verb": "play", "resource": "pods", "name": name, "subresource": what, "ms": ms}


def test_a_delay_is_from_a_masters_end_to_the_next_status_of_its_job():
    def status(name, ms):
        return {"verb": "patch", "resource": "horovodjobs", "name": name, "subresource": "status", "ms": ms}
    records = [status("a", 1), played("a-worker-0", "ready", 2), played("a-master-xyz", "ended", 10), status("b", 11),
               status("a", 14), status("a", 20), played("b-master-abc", "ended", 21), status("b", 23)]
    assert jobs.delays(records) == [4, 2]


def test_the_99th_of_a_hundred_is_the_last_but_one():
    assert jobs.quantile(list(range(100)), 0.99) == 99 and jobs.quantile([3, 1, 2], 0.5) == 2


def test_memory_and_time_of_a_process_are_read_from_the_kernel():
    anonymous, total = jobs.memory_mb(os.getpid())
    assert 1 < anonymous <= total < 10000
    run, wait = jobs.scheduled_s(os.getpid())
    assert run > 0 and wait >= 0


def test_writes_of_a_job_are_counted_on_the_fake_server():
    few, many = jobs.writes_per_job(2), jobs.writes_per_job(16)
    for counts in few, many:  # pods may be Ready before the first status is written: then one is saved
        assert 2 <= counts.pop("patch horovodjobs/status") <= 3
    assert few == many, "they must not depend on the number of workers"
    assert few["create statefulsets"] == 1 and few["create jobs"] == 1 and sum(few.values()) <= 8


# --- longrun.py -------------------------------------------------------------------------------------------------

def test_jobs_of_every_kind_come_and_go_and_leave_nothing():
    found = longrun.long_run(2 * longrun.LATER * longrun.EACH_S, warm_up=0.5, aged=0)
    assert found["jobs"] >= 2 * longrun.LATER and found["cpu_ms"] > 0 and found["where"] in ("busy", "quiet")
    for when in ("begin", "end"):
        assert 0.5 < found[when]["anonymous"] < 1000 and found[when]["handles"] >= 10


def test_a_user_changes_and_deletes_jobs_that_still_run():
    class Recorder:
        def __init__(self):
            self.calls = []

        def patch(self, plural, name, body):
            self.calls.append(("patch", name, body["spec"]))

        def delete(self, plural, name):
            self.calls.append(("delete", name))
    fake = Recorder()
    assert set(longrun.KINDS) == set(longrun.PLAY)
    for kind in sorted(longrun.PLAY):
        for _, action in longrun.later(fake, kind, kind):
            longrun.do(action)
    assert fake.calls == [("delete", "deleted"), ("patch", "resized", {"worker": {"replicas": 6}}),
                          ("patch", "resized", {"worker": {"replicas": 3}}), ("patch", "suspended", {"suspend": True}),
                          ("patch", "suspended", {"suspend": False})]
    assert longrun.job("retried", "x")["spec"]["backoffLimit"] == 1


def test_what_jobs_leave_behind_is_told():
    class Left:
        @staticmethod
        def state():
            return {"objects": {"events": 7, "nodes": 1, "pods": 0, "secrets": 2}}
    assert longrun.left_over(Left) == {"secrets": 2}


def test_a_long_run_is_judged_by_its_own_beginning(monkeypatch, capsys):
    monkeypatch.setattr(longrun, "long_run", lambda seconds: {
        "begin": {"anonymous": 2.0, "handles": 20}, "end": {"anonymous": 2.4, "handles": 20}, "peak": 3.0, "jobs": 10 * seconds,
        "cpu_ms": 2.0, "where": "quiet"})
    table = measure.Table(1)
    longrun.measure_rows(table, argparse.Namespace(minutes=2))
    assert {row["name"]: results.row_of(row)[2:7] for row in table.rows} == {
        "long-run-anonymous": ["2.4 MB", "2 MB", "its beginning", "1.2", "1.1, **missed**"],
        "long-run-handles": ["20 handles", "20 handles", "its beginning", "1", "1.1"],
        "long-run-cpu-per-job": ["2 ms", "4 ms", "row 23's job", "0.5", ""]}
    assert "1200 jobs in 2 minutes" in capsys.readouterr().out


def test_steps_of_a_launch_are_paired_by_round_and_arms_must_train_the_same_model(capsys):
    def step(arm, turn, ms):
        return {"workload": "w", "arm": arm, "round": turn, "p50_ms": ms}

    lines = [step("ours", 0, 10), step("ddp", 0, 20), step("ddp", 1, 40), step("ours", 1, 30), step("ddp-lean", 0, 5),
             step("ddp-lean", 1, 5), {"workload": "w", "difference": 0.0}, {"workload": "other", "difference": 1e-7}]
    assert python.paired(lines, "w", "ddp") == (20, 30, 0.625)
    assert python.paired(lines, "w", "ddp-lean") == (20, 5, 4)
    python.check_same(lines)
    with pytest.raises(SystemExit, match="models of w differ by 0.5"):
        python.check_same([*lines, {"workload": "w", "difference": 0.5}])


def test_an_operation_is_one_call_beside_one_in_c_and_submitted_beside_submitted(monkeypatch, capsys):
    assert python.KINDS == ["array", "array-async", "torch", "torch-async", "layer", "layer-async"]
    monkeypatch.setattr(python, "PYTHON", "/usr/bin/python3")
    monkeypatch.setattr(python, "KINDS", ["array", "array-async"])
    monkeypatch.setattr(python, "TURNS", 2)
    table = measure.Table(1)
    python.operations(table, 1)
    assert [row["name"] for row in table.rows] == ["array-over-c", "array-async-over-c"]
    assert all(row["baseline_p50"] == python.TARGET_NS for row in table.rows)
    said = capsys.readouterr().out
    assert "array-async-over-c" in said
    for name, target in (("torch-over-c", 1), ("torch-async-over-c", 1), ("layer-over-c", None), ("array-over-c", None)):
        assert results.target({"row": "python", "name": name}) == target


def of_jobs(ours, keras_3, theirs, weights=1.0, loop=1000.0):
    """The jobs of a launch of tensorflow_rows, in which a step of each workload took so long."""
    times = {"ours": iter(ours), "ours-keras-3": iter(keras_3), "peer": iter(theirs)}
    return [(arm, dict.fromkeys([*tensorflow_rows.OPERATIONS, *tensorflow_rows.MODELS],
                                {"blocks": [[next(times[arm]), loop]], "weights": weights if arm == "peer" else 1.0}))
            for arm in tensorflow_rows.TURNS]


def test_jobs_of_a_launch_with_tensorflow_are_paired_in_both_orders():
    jobs_found = of_jobs((10, 30), (4, 6), (90, 110))
    assert tensorflow_rows.samples([jobs_found], "eager-1", 1000) == [(20, 100, 0.2)]
    assert tensorflow_rows.samples([jobs_found], "fit-small-cnn", 1000, "ours-keras-3") == [(5, 100, 0.05)]
    tensorflow_rows.check_same(jobs_found)
    with pytest.raises(SystemExit, match="weights of fit-small-cnn differ"):
        tensorflow_rows.check_same(of_jobs((1, 1), (1, 1), (1, 1), weights=1.001))


def test_blocks_with_tensorflow_on_a_slow_processor_do_not_count(capsys):
    quick, slow = of_jobs((10, 10), (1, 1), (40, 40), loop=1000.0), of_jobs((50, 50), (1, 1), (60, 60), loop=2500.0)
    assert tensorflow_rows.limit_of([slow, quick, quick]) == 1000
    assert tensorflow_rows.samples([slow, quick], "eager-1", 1300) == [(10, 40, 0.25)]
    assert tensorflow_rows.median({"blocks": [[7, 2500], [3, 1000], [5, 1100]]}, 1300) == [4]
    assert tensorflow_rows.samples([slow], "eager-1", 1300) == []
    table = measure.Table(1)
    tensorflow_rows.add_row(table, "eager-1", "Horovod", [])
    assert not table.rows and "the machine was never quick enough" in capsys.readouterr().out


def test_each_launch_with_tensorflow_runs_every_arm_as_often_before_as_after_the_other(monkeypatch, tmp_path, capsys):
    started = []

    def launch(arguments, *, bind, **environment):
        started.append((environment["PYTHONPATH"], environment["TF_USE_LEGACY_KERAS"], arguments[2:]))
        return [{"workload": name, "blocks": [[1 + ("peer" in environment["PYTHONPATH"]), 1000.0]], "weights": 3.0}
                for name in [*tensorflow_rows.OPERATIONS, *tensorflow_rows.MODELS]]
    monkeypatch.setattr(measure, "launch", launch)
    monkeypatch.setattr(tensorflow_rows.subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(peer, "tensorflow_package", lambda: tmp_path / "peer")
    (tmp_path / "peer").mkdir()
    table = measure.Table(1)
    tensorflow_rows.measure_rows(table, argparse.Namespace(launches=2, bind="core"))
    assert started == started[::-1] and len(started) == 6 and "eager-1" in capsys.readouterr().out
    assert [path.endswith("peer") for path, *_ in started] == [False, False, True, True, False, False]
    assert [(legacy, parts) for _, legacy, parts in started[:3]] == [
        ("1", ["operations", "training"]), ("0", ["training"]), ("1", ["operations", "training"])]
    assert len(table.rows) == 11 and {row["ratio_p50"] for row in table.rows} == {0.5}
    assert results.target(table.rows[0]) == pytest.approx(1 / 60)


def test_without_a_peer_for_tensorflow_its_rows_say_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(tensorflow_rows.subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(peer, "tensorflow_package", lambda: tmp_path / "missing")
    table = measure.Table(1)
    tensorflow_rows.measure_rows(table, argparse.Namespace(launches=2, bind="core"))
    assert not table.rows and "no peer (script/bench peers builds it)" in capsys.readouterr().out


def test_a_peer_lies_where_what_it_is_made_from_says(monkeypatch):
    first = peer.tensorflow_package()
    assert first == peer.tensorflow_package() and first != peer.library().parent
    monkeypatch.setattr(peer, "NEEDED", ())
    assert peer.tensorflow_package() != first


def test_memory_is_beside_torch_alone_and_gloo_when_idle_and_beside_ddp_at_its_peak(capsys):
    table = measure.Table(1)
    one = {"torch_mib": 100, "joined_mib": 110, "peak_mib": 300, "idle_cores": 0.001}
    gloo = {"peak_mib": 400, "joined_mib": 100, "idle_cores": 0.004}
    python.resting(table, {"ours": [one], "ddp": [gloo], "ddp-lean": [{"peak_mib": 200}]})
    assert {row["name"]: row["ratio_p50"] for row in table.rows} == {
        "idle-cores": 0.5, "idle-cores-gloo": 0.25, "idle-memory": 1.1, "idle-memory-gloo": 1.1, "peak-memory": 0.75,
        "peak-memory-lean": 1.5}
    assert [results.target(row) for row in table.rows] == [1, None, None, None, 1, None]
    assert "idle-memory" in capsys.readouterr().out


def test_the_picture_of_a_step_is_taken_out_of_the_report():
    lanes = '<text x="0" y="13">3 &micro;s of &lt;a&gt;</text><rect class="bw" x="1%" width="9%"/>'
    page = (f'<html><svg class="step" width="100%" height="66" role="img">{lanes}</svg><h2>Overlap</h2>\n<p>72.5 % of the '
            'time &times; 2</p></html>')
    drawn = ElementTree.fromstring(picture.picture(page))
    space = "{http://www.w3.org/2000/svg}"
    step = drawn.find(f"{space}svg")
    assert [element.get("class") for element in step if element.get("class")] == ["bw"]
    assert step.find(f"{space}text").text == "3 µs of <a>"
    assert [element.get("class") for element in drawn if element.get("class")] == list(picture.KEYS)
    assert [element.text for element in drawn if element.text and element.text.strip()][-1] == "72.5 % of the time × 2"
    with pytest.raises(SystemExit, match="no typical step"):
        picture.picture("<html></html>")


def test_the_plot_has_a_mark_for_every_ratio_where_it_belongs():
    lines = [line(1, "engine-4B", 0.1, [0.05, 0.2]), line(3, "3-best", 0.9, [0.8, 1.0]), line("call", "call-<4B>", 10),
             line(15, "allocations-1x4B", 0)]
    root = ElementTree.fromstring(results.plot(lines))
    space = "{http://www.w3.org/2000/svg}"
    dots = root.findall(f"{space}circle")
    assert [dot.get("class") for dot in dots] == ["dot", "miss", "dot"]
    xs = [float(dot.get("cx")) for dot in dots]
    assert xs[0] < xs[1] < xs[2] and xs[2] == pytest.approx(results.LEFT + results.WIDTH, abs=0.1)
    assert xs[0] == pytest.approx(results.position(0.1, -2, 1), abs=0.1)
    assert "call  call-<4B>" in [text.text for text in root.findall(f"{space}text")]
    with pytest.raises(SystemExit):
        results.plot([])


# --- nodes.py ---------------------------------------------------------------------------------------------------

def audited(agent, verb, what, at, done, code=201, ns="jobs-0", stage="ResponseComplete"):
    """A line of an audit log, as kube-apiserver writes it; what: resource[/subresource] name."""
    kind, name = what.split()
    resource, _, sub = kind.partition("/")
    about = {"resource": resource, "namespace": ns, "name": name} | ({"subresource": sub} if sub else {})
    return json.dumps({"stage": stage, "verb": verb, "userAgent": agent, "objectRef": about, "responseStatus": {"code": code},
                       "requestReceivedTimestamp": f"2026-01-02T03:04:{at:09.6f}Z",
                       "stageTimestamp": f"2026-01-02T03:04:{done:09.6f}Z"}, separators=(",", ":"))


def life(job="j0", ns="jobs-0"):
    """The requests about a job that starts at second 1: all children but the master at 2, Ready at 3, made at 3.25, ended at 4."""
    ours, kwok = "horovod-operator/0.1.0", "kwok/v0"
    yield audited("", "create", f"horovodjobs {job}", 1, 1.01, ns=ns)
    for i, (kind, name) in enumerate((("secrets", "-ssh"), ("services", ""), ("configmaps", "-hosts"), ("statefulsets", "-worker"))):
        yield audited(ours, "create", f"{kind} {job}{name}", 1.5, 1.7 + i / 10, ns=ns)
    yield audited(ours, "patch", f"horovodjobs/status {job}", 2.1, 2.2, 200, ns=ns)
    for i in range(jobs.N_WORKERS):
        yield audited(kwok, "patch", f"pods/status {job}-worker-{i}", 2.3, 3 - i / 10, 200, ns=ns)
    yield audited(ours, "create", f"jobs {job}-master", 3.125, 3.25, ns=ns)
    yield audited(kwok, "patch", f"pods/status {job}-master-x", 3.5, 3.6, 200, ns=ns)
    yield audited(kwok, "patch", f"pods/status {job}-master-x", 3.9, 4, 200, ns=ns)
    yield audited(ours, "patch", f"horovodjobs/status {job}", 4.1, 4.25, 200, ns=ns)
    yield audited(ours, "patch", f"horovodjobs/status {job}", 4.3, 4.5, 200, ns=ns)


def read_audit(path, *lines):
    """What a log that is read from its end says of jobs-0 once these lines have come, the last one in two parts."""
    path.write_text(audited("", "create", "jobs before", 0, 0) + "\n", encoding="utf-8")
    audit = nodes.Audit(path, "jobs-0")
    with path.open("a", encoding="utf-8") as log:
        for line in lines:
            log.write(line[:50])
            log.flush()
            audit.read()
            log.write(line[50:] + "\n")
            log.flush()
    records = audit.read()
    audit.close()
    return records


def test_the_steps_of_jobs_are_those_of_the_audit_log(tmp_path):
    other = [audited("kwok/v0", "patch", "pods/status j0-worker-0", 9, 9, ns="jobs-1"),
             audited("horovod-operator/0.1.0", "watch", "pods -", 1, 1, 200, stage="ResponseStarted"),
             audited("horovod-operator/0.1.0", "create", "jobs j0-master", 8, 9, 409)]
    records = read_audit(tmp_path / "audit.log", *life(), *other)
    assert nodes.steps(records) == pytest.approx({"early_s": 1.0, "ready_s": 2, "made_s": 2.25, "ended_s": 3})
    assert nodes.reactions(records) == {"asked": [pytest.approx(125)], "made": [pytest.approx(250)], "told": [pytest.approx(250)]}
    assert nodes.count(records) == {"create configmaps": 1, "create jobs": 2, "create secrets": 1, "create services": 1,
                                    "create statefulsets": 1, "patch horovodjobs/status": 3}


@pytest.mark.parametrize("left_out, words", [
    (lambda line: "horovodjobs" in line, "j1: no status was written after pod j1-master-x had ended"),
    (lambda line: "j1-worker-3" in line, "j1: its master was made, and not all of its workers were Ready")])
def test_a_job_without_a_reaction_is_named(tmp_path, left_out, words):
    lines = [*life("j0"), *(line for line in life("j1") if not left_out(line))]
    with pytest.raises(ValueError, match=f"^the audit log has no reaction of: {words}$"):
        nodes.reactions(read_audit(tmp_path / "audit.log", *lines))


def test_a_log_that_was_left_within_a_line_is_read_from_the_next_one(tmp_path):
    path, lines = tmp_path / "audit.log", list(life())
    path.write_text(lines[0][:60], encoding="utf-8")
    with contextlib.closing(nodes.Audit(path, "jobs-0")) as audit:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        assert [r["resource"] for r in audit.read()] == [r["resource"] for r in map(nodes.parse, lines[1:])]


def test_a_job_is_ready_with_its_last_worker_alone(tmp_path):
    lines = [line for job in ("j0", "j1") for line in life(job) if "j1-worker-3" not in line]
    assert list(nodes.ready_workers(read_audit(tmp_path / "audit.log", *lines))) == ["j0"]


@pytest.mark.parametrize("plural, child, rest", [
    ("services", {"spec": {"clusterIP": "None", "clusterIPs": ["None"], "selector": {"a": "b"}}},
     {"spec": {"clusterIP": "None", "selector": {"a": "b"}}}),
    ("secrets", {"data": {"id": "eA=="}, "kind": "Secret", "status": {}}, {"data": {"id": "eA=="}}),
    ("jobs", {"spec": {"selector": {}, "template": {"metadata": {"labels": {
        "batch.kubernetes.io/controller-uid": "u", "job-name": "pattern-master", "horovod.io/job-name": "pattern"}}}}},
     {"spec": {"template": {"metadata": {"labels": {"horovod.io/job-name": "j7"}}}}})])
def test_a_copy_of_a_child_is_one_that_anybody_could_post(plural, child, rest):
    child["metadata"] = {"name": "pattern-x", "uid": "u", "resourceVersion": "7", "ownerReferences": [{}], "labels": {"l": "pattern"}}
    path, made = nodes.copy(plural, child, "copies-0", "j7")
    assert path.endswith(f"/namespaces/copies-0/{plural}")
    assert made == {"metadata": {"name": "j7-x", "labels": {"l": "j7"}}, **rest}


def test_each_case_of_real_nodes_has_its_rows(monkeypatch, capsys):
    step = {"early_s": 1.0, "ready_s": 2.0, "made_s": 3.0, "ended_s": 4.0}
    ours = step | {"asked": [5.0], "made": [6.0], "told": [7.0], "cpu_s": 0.5, "count": {"create jobs": 100}}
    monkeypatch.setattr(nodes, "hundred_jobs", lambda *_: (ours, step | {"posting_s": 2.0}))
    monkeypatch.setattr(nodes, "pattern", lambda *_: {})
    monkeypatch.setattr(nodes, "cluster", lambda flags: contextlib.nullcontext(("kubeconfig", "folder")))
    table = measure.Table(1)
    for part in nodes.measure_rows, nodes.measure_limited:
        part(table, argparse.Namespace(first=False, launches=6, stages=False))
    found = {row["name"]: (row["ratio_p50"], row["n"], results.target(row)) for row in table.rows}
    assert found["real-children-but-masters"] == (0.5, 2, 1.2) and found["real-limited-children-but-masters"] == (0.5, 1, 1.2)
    assert found["real-workers-ready"] == (1, 2, 1.2) and found["real-limited-masters-ended"] == (1, 1, 1.2)
    assert found["real-cpu-of-100-jobs"] == (1.25, 2, None) and found["real-ready-to-request-p99"] == (0.5, 2, 1)
    assert capsys.readouterr().out.count("100 create jobs") == 2


# --- stages.py ----------------------------------------------------------------------------------------------------

OFFSET_US = 1_000_000  # of the monotonic clock to that of the audit log


def logged(msg, at_ms, **fields):
    """A line of the operator's log at a time of the audit log."""
    words = {name: value if name in ("resource", "name", "version", "job", "subresource", "waited_us") else 1000 * value - OFFSET_US
             for name, value in fields.items()}
    return " ".join(['time=x level=debug subsystem=stages', f'msg="{msg}"', *(f"{k}={v}" for k, v in words.items()),
                     f"at_us={1000 * at_ms - OFFSET_US}"])


def came(name, version, at_ms, *, before_us, looked_us, waited_us=0):
    return logged("object came", at_ms, resource="pods", name=name, version=version, before_us=before_us, woken_us=looked_us,
                  looked_us=looked_us, waited_us=waited_us)


def trace_of(*lines):
    return stages.Trace("\n".join(["level=info subsystem=operator msg=created at_us=1", *lines]), OFFSET_US)


def test_stages_of_a_ready_worker_add_up_to_its_total():
    trace = trace_of(came("j0-worker-1", 7, 3012, before_us=3008, looked_us=3010, waited_us=500),
                     logged("request made", 3015, job="ns/j0", resource="jobs"),
                     logged("requests left", 3016, waited_us=2500))
    follower = stages.read_follower("3004000 j0-worker-1 6 -\n3009000 j0-worker-1 7 ready\n3010000 j0-worker-1 8 ready\n")
    found = stages.ready_stages(trace, follower, ("j0-worker-1", 3.0), {"name": "j0-master", "at": 3.02, "done": 3.05})
    assert found == {stages.SERVER: pytest.approx(8), stages.LOOK: pytest.approx(2), stages.TAKE: pytest.approx(2),
                     stages.DECIDE: pytest.approx(3), stages.LEAVE: pytest.approx(1), stages.RECEIVE: pytest.approx(4),
                     stages.ANSWER: pytest.approx(30), stages.FLOOR: pytest.approx(9), stages.WAITED: pytest.approx(2)}
    assert stages.total(found) == pytest.approx(50)
    assert stages.total(stages.without(found, stages.ANSWER)) == pytest.approx(20)


def test_stages_of_an_end_have_those_of_the_event_before_the_status():
    trace = trace_of(came("j0-master-x", 9, 4003, before_us=3999, looked_us=4002),
                     logged("request made", 4004, job="ns/j0", resource="events"), logged("requests left", 4005),
                     logged("answer came", 4030, job="ns/j0", resource="events"),
                     logged("request made", 4031, job="ns/j0", resource="horovodjobs", subresource="status"),
                     logged("requests left", 4032))
    follower = stages.read_follower("4001000 j0-master-x 9 succeeded\n")
    status, event = {"name": "j0", "at": 4.040, "done": 4.060}, {"at": 4.010, "done": 4.025}
    found = stages.ended_stages(trace, follower, ("j0-master-x", 4.0), status, [event, {"at": 3.0, "done": 3.5}])
    assert [round(found[name]) for name in stages.ORDER] == [0, 2, 1, 1, 1, 5, 15, 7, 8, 20]
    assert stages.total(found) == pytest.approx(60)
    alone = stages.ended_stages(trace_of(came("j0-master-x", 9, 4003, before_us=3999, looked_us=4002)), follower,
                                ("j0-master-x", 4.0), status, [])
    assert stages.EVENT_SENT not in alone and stages.total(alone) == pytest.approx(60)


def test_an_object_that_no_watch_brought_has_no_stages():
    assert stages.ready_stages(trace_of(), {}, ("j0-worker-1", 3.0), {"name": "j0-master", "at": 3.02, "done": 3.05}) is None


def test_the_slowest_events_have_columns_of_their_own():
    events = [{stages.SERVER: 1.0, stages.ANSWER: 3.0, stages.FLOOR: 1.0, stages.WAITED: 0.0}] * 95
    events += [{stages.SERVER: 90.0, stages.ANSWER: 10.0, stages.FLOOR: 80.0, stages.WAITED: 5.0}] * 5
    lines = {name: rest for name, *rest in stages.table(events)}
    assert list(lines) == [stages.SERVER, stages.ANSWER, "total", stages.FLOOR, stages.WAITED]
    assert lines[stages.SERVER] == [1, 90, pytest.approx((95 + 450) / 880), 90, 0.9]
    assert lines["total"] == [4, 100, 1, 100, 1] and lines[stages.WAITED][3:] == [5, 0.05]


def test_goroutines_waited_as_the_difference_of_two_pages_says():
    def page(total, *counts):
        rows = zip(("0", "0.001", "0.128", "+Inf"), counts)
        return "".join(f'go_sched_latencies_seconds_bucket{{le="{edge}"}} {n}\n' for edge, n in rows) + \
            f"go_sched_latencies_seconds_sum {total}\n"
    assert stages.goroutine_waits(page(1, 5, 5, 5, 5), page(3, 5, 1000, 1004, 1005)) == (pytest.approx(2), 1, 1000)
    assert stages.goroutine_waits(page(1, 0, 0, 0, 0), page(2, 0, 50, 100, 100))[1] == 128
    assert stages.goroutine_waits("", "") is None


def test_a_follower_notes_what_a_pod_is():
    import follower

    def line(**status):
        return json.dumps({"type": "MODIFIED", "object": {"metadata": {"name": "p", "resourceVersion": "7"}, "status": status}})
    assert follower.row(5, line(phase="Running", conditions=[{"type": "Ready", "status": "True"}])) == "5 p 7 ready\n"
    assert follower.row(5, line(phase="Running", conditions=[{"type": "Ready", "status": "False"}])) == "5 p 7 -\n"
    assert follower.row(5, line(phase="Succeeded")) == "5 p 7 succeeded\n"
    assert stages.openings(follower.row(5, None) + follower.row(6, line(phase="Succeeded")) + follower.row(7, None)) == 2


def test_stages_are_printed_in_place_of_the_rows(monkeypatch, capsys):
    events = [{stages.SERVER: 1.0, stages.RECEIVE: 3.0, stages.FLOOR: 1.0, stages.WAITED: 0.0}]
    processors = argparse.Namespace(wall_s=2.0, spent={"operator": (0.5, 1.25)})
    asked = []
    monkeypatch.setattr(nodes, "traced", lambda *args: asked.append(args[2:]) or ({"ready-to-request": events}, processors, (0.5, 1, 9), (2, 1)))
    monkeypatch.setattr(nodes, "pattern", lambda *_: {})
    monkeypatch.setattr(nodes, "cluster", lambda flags: contextlib.nullcontext(("kubeconfig", "folder")))
    table = measure.Table(1)
    nodes.measure_rows(table, argparse.Namespace(first=False, launches=6, stages=True))
    out = capsys.readouterr().out
    assert table.rows == [] and asked == [("traced-burst-0", 0), ("traced-burst-1", 0), ("traced-paced-0", 0.25), ("traced-paced-1", 0.25)]
    assert "ready-to-request, 100 jobs at once: 2 events" in out and "ready-to-request, 100 jobs one every 0.25 s: 2 events" in out
    assert re.search(r"operator +0.50 +1.25", out) and "0.50 ms as the mean" in out
    assert "2 of the operator, 1 of the follower" in out


def test_what_programs_ran_and_waited_is_read_from_the_kernel():
    with stages.Processors({"this": os.getpid()}) as processors:
        sum(range(3000000))
    ran, waited = processors.spent["this"]
    assert ran > 0 and waited >= 0 and processors.wall_s > 0


def test_a_program_that_does_not_end_when_told_to_is_ended(monkeypatch):
    with subprocess.Popen(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"], stdout=subprocess.PIPE) as deaf:
        deaf.stdout.readline()
        monkeypatch.setattr(nodes, "PATIENCE_S", 0.2)
        nodes.end(deaf)
        assert deaf.returncode == -9


# --- gpu.py -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("n_gpus, why, wanted", [
    (0, "libcuda.so.1: cannot open", "there is no driver for GPUs (libcuda.so.1: cannot open)"), (1, "", "the driver sees 1"), (2, "", None)])
def test_a_machine_without_two_gpus_is_refused_with_the_reason(n_gpus, why, wanted):
    text = gpu.refusal(n_gpus, why)
    assert text == "" if wanted is None else wanted in text and "needs a machine with two GPUs" in text


def test_a_row_of_gpus_pairs_ours_with_each_arm_of_the_same_launch():
    def lines(arm, factor):
        return [{"workload": workload, "arm": arm, "round": turn, "host_ms": factor * (turn + 1), "step_ms": 3 * factor * (turn + 1)}
                for workload in gpu.WORKLOADS for turn in range(3)]
    launch = lines("ours", 1) + lines("ddp", 2) + lines("ddp-lean", 4) + gpu.relabelled(lines("ours", 10), "horovod")
    table = measure.Table(1)
    gpu.add_rows(table, [launch, launch], 8, True)
    found = {row["name"]: (row["ratio_p50"], row["class"], row["baseline"]) for row in table.rows}
    assert len(found) == 18 and found["bert-host"][:2] == (0.5, "8 GPUs") and found["small-step-lean"][0] == 0.25
    assert found["resnet50-step-horovod"] == (0.1, "8 GPUs", "Horovod 0.28.1 over NCCL")
