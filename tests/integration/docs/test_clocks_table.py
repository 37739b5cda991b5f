"""Every use of this machine's time of day in the operator stands in docs/operator.md, with its reason."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
WALL = re.compile(r"CLOCK_REALTIME|CLOCK_TAI|\bgettimeofday\s*\(|(?<!\w)time\s*\(|\btimespec_get\s*\(|\bclock_nanosleep\s*\(|"
                  r"\blocaltime|\bhvd_clock_local_\w+|\bcurl_getdate\s*\(")
STRINGS_AND_COMMENTS = re.compile(r'"(?:\\.|[^"\\])*"|/\*.*?\*/', re.S)


def users():
    """The files that use it, by path."""
    sources = [*ROOT.glob("operator/**/*.c"), *ROOT.glob("base/*.c")]
    assert len(sources) > 50
    return {str(path.relative_to(ROOT)) for path in sources
            if WALL.search(STRINGS_AND_COMMENTS.sub(" ", path.read_text(encoding="utf-8")))}


def table():
    text = (ROOT / "docs/operator.md").read_text(encoding="utf-8").split("\n## Clocks\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 8 and all(len(row) == 4 for row in rows)
    return rows[2:]


def test_each_file_that_uses_this_machines_time_of_day_is_in_the_table_and_no_other():
    named = {path for _, where, clock, _ in table() if clock == "this machine's" for path in re.findall(r"`([^`]+)`", where)}
    assert users() == named


def test_each_row_names_its_reason_and_what_exists():
    for what, where, clock, why in table():
        assert what and clock and why
        for path in re.findall(r"`([^`]+)`", where):
            assert (ROOT / path).exists(), path


def test_the_search_finds_what_reads_a_clock():
    for text in ("clock_gettime(CLOCK_REALTIME, &ts)", "time(NULL)", "x = time (&t);", "hvd_clock_local_ms()", "localtime_r(a, b)"):
        assert WALL.search(text), text
    for text in ("hvd_clock_ms()", "CLOCK_BOOTTIME", "last_time(x)", "runtime(x)"):
        assert not WALL.search(text), text
