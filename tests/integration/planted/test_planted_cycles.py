"""Rings of rooms planted into a small tree: script/lint room-cycles must find each, and the tree as it is has none."""
import importlib.util
import pathlib
import subprocess

import pytest

LINT = pathlib.Path(__file__).resolve().parents[3] / "tests/lint/lint.py"
TREE = {
    "base/mem.h": "", "core/plan.h": '#include "base/mem.h"\n', "core/plan.c": '#include "core/plan.h"\n#include "core/deep/pod.h"\n',
    "core/deep/pod.h": '#include "base/mem.h"\n', "app/main.c": '#  include "core/plan.h"\n#include "help.h"\n#include <app/gone.h>\n',
    "app/help.h": '#include "base/mem.h"\n',
}
RINGS = {
    "two rooms": ({"core/deep/pod.c": '#include "core/plan.h"\n'}, [("core", "core/deep"), ("core/deep", "core")]),
    "three rooms": ({"base/mem.c": '#include "app/help.h"\n'},
                    [("app", "base"), ("app", "core"), ("base", "app"), ("core", "base"), ("core", "core/deep"), ("core/deep", "base")]),
    "a header beside its own file": ({"app/deep/a.h": '#include "app/help.h"\n', "app/help.c": '#include "deep/a.h"\n'},
                                     [("app", "app/deep"), ("app/deep", "app")]),
}


@pytest.fixture(name="lint")
def fixture_lint(tmp_path, monkeypatch):
    """The checks, of a tree in a folder of its own; the files that are given come on top."""
    spec = importlib.util.spec_from_file_location("lint", LINT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "TOLERATED_INCLUDES", {})
    subprocess.run(["git", "init", "-q", tmp_path], check=True)

    def plant(files):
        for name, text in {**TREE, **files}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return module
    return plant


def edges(findings):
    return sorted((words[1], words[5].rstrip(",")) for words in map(str.split, findings))


@pytest.mark.parametrize("name", RINGS)
def test_a_planted_ring_of_rooms_is_found(name, lint):
    files, ring = RINGS[name]
    assert edges(lint(files).room_cycles()) == ring


def test_a_tree_without_rings_has_no_findings(lint):
    assert lint({}).room_cycles() == []


def test_an_include_that_is_tolerated_closes_no_ring(lint, monkeypatch):
    module = lint(RINGS["two rooms"][0])
    monkeypatch.setattr(module, "TOLERATED_INCLUDES", {("core/deep", "core"): "until they are parted"})
    assert module.room_cycles() == []


def test_what_is_tolerated_and_gone_is_a_finding(lint, monkeypatch):
    module = lint({})
    monkeypatch.setattr(module, "TOLERATED_INCLUDES", {("core/deep", "core"): "until they are parted"})
    assert len(module.room_cycles()) == 1 and "core/deep includes core no more" in module.room_cycles()[0]
