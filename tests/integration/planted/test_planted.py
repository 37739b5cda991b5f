"""Bugs planted into copies of the sources: the random programs must find each, and the seed that they print must
find it again. Nothing of this is in what ships: a copy of one file is changed, compiled, and linked in front of the
library that has the original."""
import os
import re

import pytest

from compiling import ROOT, compile_copy, link, run

PROGRAM = "test_worker_programs"
PROGRAMS = ("30", "100", "1000")  # of each kind to look for a bug in, until one has it

# name: file, what it says, what it says with the bug, what the finder must say
BUGS = {
    "a lost wake-up": (
        "worker/engine/wait/progress_owner.c",
        r"(if \(w != self && !is_waiter_done\(e, w\)\) \{\n)\s*pthread_cond_signal\(&w->cond\);\n", r"\1",
        r"a lost wake-up: all \d+ threads wait|not at its end"),
    "a wrong reduction order": (
        "tests/sim/sim.c",
        r"(char \*reduce_all\(.*?)for \(int i = 1; i < r->set->size; i\+\+\) \{",
        r"\1for (int i = r->set->size - 1; i > 0; i--) {",
        r"not added in rank order"),
    "a bit that is never cleared": (
        "worker/core/ready.c",
        r"(static void forget_word\(.*?)    for \(int rank = 0; rank < r->size; rank\+\+\)\n[^;]*&= ~bits;\n", r"\1",
        r"HOROVOD_TEST_SEED="),
}


def compile_changed(name, folder):
    """The object file of the source with the bug in it."""
    file, pattern, replacement, _ = BUGS[name]
    text = (ROOT / file).read_text(encoding="utf-8")
    changed, count = re.subn(pattern, replacement, text, count=1, flags=re.S)
    assert count == 1, f"{file} is not as it was when '{name}' was planted: say in BUGS where it belongs now"
    return compile_copy(ROOT / file, changed, folder)


def look(program, **environment):
    """What the program says is wrong, one message each; None when nothing is."""
    done = run([str(program)], env={**os.environ, **environment})
    return re.findall(r"ERROR: (HOROVOD_TEST_SEED.*)", done.stderr + done.stdout) if done.returncode else None


@pytest.mark.parametrize("name", BUGS)
def test_random_programs_find_a_planted_bug_and_the_seed_finds_it_again(name, tmp_path):
    program = tmp_path / "programs"
    link(PROGRAM, compile_changed(name, tmp_path), program)
    found = next(filter(None, (look(program, HOROVOD_TEST_PROGRAMS=count, HOROVOD_TEST_SEED="1") for count in PROGRAMS)), None)
    assert found, f"{PROGRAMS[-1]} random programs did not find {name}"
    assert re.search(BUGS[name][3], found[0]), found
    seed = re.match(r"HOROVOD_TEST_SEED=(\d+) HOROVOD_TEST_PROGRAMS=1: ", found[0])[1]
    again = look(program, HOROVOD_TEST_PROGRAMS="1", HOROVOD_TEST_SEED=seed)
    assert again and found[0] in again, f"seed {seed} found {found[0]!r}, and then {again!r}"


def test_without_a_planted_bug_the_same_way_of_building_finds_nothing(tmp_path):
    planted = tmp_path / "nothing.o"
    source = tmp_path / "nothing.c"
    source.write_text("extern int nothing;\n", encoding="utf-8")
    assert run(["cc", "-c", str(source), "-o", str(planted)]).returncode == 0
    link(PROGRAM, planted, tmp_path / "programs")
    assert look(tmp_path / "programs", HOROVOD_TEST_PROGRAMS="30", HOROVOD_TEST_SEED="1") is None
