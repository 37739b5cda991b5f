"""Bugs planted into the operator, in copies of single sources that are linked in front of the libraries that have the
originals: random schedules of faults must find each, and the seed that they print must find it again."""
import os
import re
import subprocess
import sys

import pytest

import compiling
import test_planted as planted

CHAOS = compiling.ROOT / "tests/integration/chaos/chaos.py"
SCHEDULES = "200"  # to look for a bug in, at most

# name: file, what it says, what it says with the bug, what the finder must say
BUGS = {
    "a duplicate create": (
        "operator/core/pass/plan.c",
        r"    hash = hvd_hash_text\(hash, event->reason\);\n",
        r"    static unsigned n;\n    hash = hvd_hash_number(hvd_hash_text(hash, event->reason), n++);\n",
        r"\d+ events \w+ of \w"),
    "a status lost on conflict": (
        "operator/app/perform.c",
        r"(static void on_reread\(.*?)    run->is_broken = true;\n",
        r"\1    run->is_broken = true;\n    run->status = HVD_ERR_CANCELED;\n",
        r"not within \d+ s|is missing|is \""),
    "a wake-up forgotten": (
        "operator/app/queue.c",
        r"    put_into_heap\(queue, item\);\n    return wait_ms;",
        r"    if (!at_least_ms)\n        put_into_heap(queue, item);\n    return wait_ms;",
        r"not within \d+ s|is missing|is \""),
}

# Tried first. When the schedules are drawn differently, these are seeds as any other, and the search goes on from there.
FOUND_BY = {"a duplicate create": 61, "a status lost on conflict": 30, "a wake-up forgotten": 34}


def look(program, seed, count):
    """What chaos.py says of the first seed that fails with this operator; None if none does."""
    done = subprocess.run([sys.executable, str(CHAOS), "--seed", str(seed), "--count", count, "--first", "--operator",
                           str(program)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=900, env={**os.environ, "HVD_BUILD_DIR": str(compiling.BUILD), "HVD_CHAOS_LIMIT_S": "8"})
    found = re.search(r"^seed (\d+) fails: (.*?)^repeat it:", done.stdout, re.M | re.S)
    assert found or done.returncode == 0, done.stdout[-3000:]
    return (int(found[1]), found[2]) if found else None


@pytest.fixture(name="link")
def fixture_link(tmp_path):
    """Links the operator with an object in front."""
    def link(object_file):
        compiling.link("horovod-operator", object_file, tmp_path / "horovod-operator")
        return tmp_path / "horovod-operator"
    return link


@pytest.mark.parametrize("name", BUGS)
def test_schedules_of_faults_find_a_planted_bug_and_the_seed_finds_it_again(name, link, tmp_path, monkeypatch):
    monkeypatch.setattr(planted, "BUGS", BUGS)
    program = link(planted.compile_changed(name, tmp_path))
    start, once = FOUND_BY[name], []
    for _ in range(5):
        found = look(program, start, "1") or look(program, start + 1, SCHEDULES)
        assert found, f"{SCHEDULES} schedules from {start} on did not find {name}; once only: {once}"
        seed, words = found
        assert re.search(BUGS[name][3], words), words
        # What follows a fault depends on when it strikes, too: nearly always the same, but it is tried again.
        if any((look(program, seed, "1") or [None])[0] == seed for _ in range(3)):
            return
        once.append((seed, words))
        start = seed + 1
    raise AssertionError(f"no seed found {name} again: {once}")


def test_an_operator_without_a_planted_bug_linked_the_same_way_passes(link, tmp_path):
    source, object_file = tmp_path / "nothing.c", tmp_path / "nothing.o"
    source.write_text("extern int nothing;\n", encoding="utf-8")
    assert compiling.run(["cc", "-c", str(source), "-o", str(object_file)]).returncode == 0
    assert look(link(object_file), 0, "10") is None
