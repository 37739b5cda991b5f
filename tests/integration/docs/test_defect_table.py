"""docs/defects.md names a test for every known defect: all are there, and every test named exists and is run."""
import pathlib
import re
import string

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/defects.md").read_text(encoding="utf-8")
OWN = r"own-[A-Za-z0-9-]+"  # those of this operator are named by a word
ROWS = re.findall(rf"^\| ([a-z]|\d+|{OWN}) \| (.+?) \| (.+?) \| (.+?) \|$", PAGE, re.M)
NAMED = sorted({test for row in ROWS for test in re.findall(r"`([^`]+::[^`]+)`", row[3])})


def test_every_known_defect_and_trap_has_a_line():
    own = [row[0] for row in ROWS if re.fullmatch(OWN, row[0])]
    assert [row[0] for row in ROWS if row[0] not in own] == [*string.ascii_lowercase[:21], *map(str, range(1, 24))]
    assert len(set(own)) == len(own)


def test_every_line_names_a_test():
    for row in ROWS:
        assert re.search(r"`[^`]+::[^`]+`", row[3]), f"{row[0]}: {row[1]}"


@pytest.mark.parametrize("test", NAMED)
def test_a_test_that_the_table_names_exists_and_is_run(test):
    file, name = test.split("::")
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    if file.endswith(".c"):
        assert re.search(rf"^static void {name}\(void \*\*", text, re.M), f"no {name} in {file}"
        assert re.search(rf"(cmocka_unit_test\w*|TEST)\(\s*{name}\b", text), f"{file} does not run {name}"
    else:
        assert re.search(rf"^def {name}\(", text, re.M), f"no {name} in {file}"


def test_no_line_of_the_tables_escapes_the_search():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and "::" in line]
    assert len(lines) == len(ROWS)
