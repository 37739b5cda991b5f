"""Timelines of a job that trains with PyTorch: backward passes are in them, and the report tells the overlap."""
import json
import re
import subprocess
from collections import Counter

import pytest
import ranks

SCRIPT = ranks.HERE / "torch_timeline" / "train.py"
STEPS = 5
PHASES = set("BEXiM")


def horovodrun(*arguments, cwd):
    """The completed run."""
    done = subprocess.run([str(ranks.BUILD / "worker" / "horovodrun"), *map(str, arguments)], env=ranks.environment(), cwd=cwd,
                          capture_output=True, text=True, timeout=ranks.limits.seconds(ranks.TIMEOUT), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module", name="job")
def the_job(tmp_path_factory):
    """The folder with the timelines of two ranks that trained, and their report."""
    folder = tmp_path_factory.mktemp("timelines")
    horovodrun("-np", 2, "--timeline-filename", "timeline.%d.json", ranks.TORCH_PYTHON, "-u", SCRIPT, "--secret", cwd=folder)
    horovodrun("--timeline-report", "report.html", "timeline.0.json", "timeline.1.json", cwd=folder)
    return folder


def records(job, rank):
    return json.loads((job / f"timeline.{rank}.json").read_text(encoding="utf-8"))


def slices(events):
    """[(pid, names from the outermost on, begin, end)] of all that is between a B and its E."""
    open_, found = {}, []
    for event in events:
        stack = open_.setdefault(event["pid"], [])
        if event["ph"] == "B":
            stack.append((event["name"], event["ts"]))
        elif event["ph"] == "E":
            found.append((event["pid"], tuple(name for name, _ in stack), stack[-1][1], event["ts"]))
            stack.pop()
    assert not any(open_.values()), open_
    return found


def backwards(events):
    return [(begin, end) for pid, names, begin, end in slices(events) if pid == 0 and names == ("BACKWARD",)]


def union(intervals):
    """The same time in intervals that do not touch."""
    joined = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([begin, end])
    return joined


def moving(events):
    """When data moved."""
    return union((begin, end) for pid, names, begin, end in slices(events)
                 if pid > 0 and len(names) == 2 and names[1] != "QUEUE")


def overlap(one, other):
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in one for b in other)


@pytest.mark.parametrize("rank", [0, 1])
def test_every_backward_pass_is_marked_from_its_first_gradient_to_its_end(rank, job):
    events = records(job, rank)
    passes = backwards(events)
    assert len(passes) == STEPS and all(end <= begin for (_, end), (begin, _) in zip(passes, passes[1:])), passes
    lanes = {event["pid"]: event["args"]["name"] for event in events if event.get("name") == "process_name"}
    meetings = [(begin, end) for pid, names, begin, end in slices(events)
                if lanes[pid] == "allreduce.meeting" and names == ("ALLREDUCE",)]
    assert len(meetings) == STEPS
    for (begin, end), (pass_begin, pass_end) in zip(meetings, passes):
        assert pass_begin < begin < end < pass_end


def test_the_report_tells_how_much_data_moved_within_backward(job):
    page = (job / "report.html").read_text(encoding="utf-8")
    told = re.search(r"<p>([\d.]+) % of the time in which data moved, .* over all ranks, lay within backward, as marked\.</p>",
                     page)
    assert told, page
    both = [records(job, rank) for rank in range(2)]
    within = sum(overlap(moving(events), backwards(events)) for events in both)
    whole = sum(end - begin for events in both for begin, end in moving(events))
    assert 0 < within <= whole
    assert abs(float(told[1]) - 100 * within / whole) < 0.06, (told[1], within, whole)
    assert "backward, as marked" in page and 'class="bw"' in page


@pytest.mark.parametrize("rank", [0, 1])
def test_every_record_is_of_the_trace_event_format(rank, job):
    seen = Counter()
    named = set()
    for event in records(job, rank):
        phase = event["ph"]
        seen[phase] += 1
        assert phase in PHASES and isinstance(event["pid"], int) and event["tid"] == 0, event
        assert set(event) <= {"ph", "pid", "tid", "ts", "name", "dur", "s", "args"}, event
        assert phase == "E" or (isinstance(event["name"], str) and event["name"]), event
        assert ("dur" in event) == (phase == "X") and event.get("dur", 0) >= 0, event
        assert ("s" in event) == (phase == "i") and event.get("s", "g") == "g", event
        assert isinstance(event.get("args", {}), dict), event
        if phase == "M":
            assert "ts" not in event and event["name"] in ("process_name", "process_sort_index"), event
            named.add(event["pid"])
        else:
            assert isinstance(event["ts"], (int, float)) and event["ts"] >= 0 and event["pid"] in named, event
    # Rank 0 lists the hosts, here one, in further records that repeat its name.
    assert seen["B"] == seen["E"] > 0 and seen["M"] == 2 * len(named) + (rank == 0), seen
    assert {event["args"]["name"] for event in records(job, rank)
            if event.get("name") == "process_name" and event["pid"] == 0} == {f"rank {rank}"}


def test_the_report_names_the_script_and_none_of_its_arguments(job):
    assert {records(job, rank)[0]["args"]["program"] for rank in range(2)} == {SCRIPT.name}
    page = (job / "report.html").read_text(encoding="utf-8")
    assert f"<dt>program</dt><dd>{SCRIPT.name}</dd>" in page and "secret" not in page
