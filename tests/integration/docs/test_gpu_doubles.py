"""The table of what the doubles of CUDA and NCCL do: each row names a test that there is."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "gpu-doubles.md").read_text(encoding="utf-8")
TESTS = ROOT / "tests" / "unit" / "fake" / "gpu"


def rows():
    """The cells of each behaviour."""
    part = PAGE.split("## Behaviours")[1].split("### Parts that are real")[0]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return [cells for cells in found if cells[0] not in ("behaviour", "---")]


def test_every_behaviour_has_a_test_that_exists():
    assert len(rows()) > 40
    for cells in rows():
        assert len(cells) == 5, cells
        named = re.findall(r"`(test_\w+\.c)?::(\w+)`", cells[2])
        assert named, f"{cells[0]}: no test"
        current = ""
        for file, name in named:
            current = file or current
            assert f"static void {name}(" in (TESTS / current).read_text(encoding="utf-8"), f"{current} has no {name}"


def test_every_probe_has_a_result():
    probes = [cells for cells in rows() if cells[3].startswith("`")]
    names = [cells[3] for cells in probes]
    assert len(set(names)) == len(names)
    for cells in probes:
        assert re.fullmatch(r"never run|(passed|failed) \d{4}-\d\d-\d\d.*", cells[4]), f"{cells[3]}: {cells[4]}"


def test_every_probe_exists():
    sources = [(ROOT / "tests" / "fake" / "gpu" / name).read_text(encoding="utf-8") for name in ("probe.c", "probe_nccl.c")]
    written = {name for text in sources for name in re.findall(r'\{"([a-z-]+)",', text)}
    assert {cells[3].strip("`") for cells in rows() if cells[3].startswith("`")} == written
    assert all(cells[3].startswith(("`", "none")) for cells in rows())


def test_every_finding_is_described():
    header = (ROOT / "tests" / "fake" / "gpu" / "control.h").read_text(encoding="utf-8")
    table = header.split("#define FAKE_GPU_FINDING_MAP")[1].split("enum fake_gpu_finding")[0]
    described = re.findall(r"^\| `(\w+)` \|", PAGE.split("## Findings")[1].split("## Behaviours")[0], re.M)
    assert re.findall(r"X\((\w+), \"", table) == described
