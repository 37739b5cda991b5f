"""horovodrun --help and docs/horovodrun.md list the exit codes of the sources, and no others."""
import pathlib
import re
import signal

ROOT = pathlib.Path(__file__).resolve().parents[3]
LAUNCH = ROOT / "worker/launch"
# Those that are no numbers of the sources.
OF_OTHERS = {"the rank's", "mpirun's"}


def source(path):
    """Without comments."""
    return re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.S)


def constants():
    """The exit codes by name, as the lists write them."""
    found = dict(re.findall(r"#define (HVD_EXIT_\w+) (.*\S)", source(LAUNCH / "core/exit_codes.h")))
    sums = {name: re.fullmatch(r"\(HVD_EXIT_SIGNAL \+ (SIG\w+)\)", value) for name, value in found.items()}
    codes = {name: str(int(found["HVD_EXIT_SIGNAL"]) + signal.Signals[sums[name][1]]) if sums[name] else value
             for name, value in found.items()}
    codes["HVD_EXIT_SIGNAL"] += " + N"
    return codes


def listed_by_help():
    lines = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', source(LAUNCH / "core/help.c"))).split("\\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("Exit codes"))
    return [match[1] for line in lines[start + 1:] if (match := re.match(r"  (\S(?: ?\S)*)  +\S", line))]


def listed_by_page():
    page = (ROOT / "docs/horovodrun.md").read_text(encoding="utf-8")
    section = re.search(r"^## Exit codes$(.*?)^## ", page, re.M | re.S).group(1)
    return re.findall(r"^\| ([^|]*\S) +\|", section, re.M)[1:]


def test_help_and_page_list_the_exit_codes_of_the_sources():
    codes = [*sorted({"0", *constants().values(), *OF_OTHERS})]
    assert sorted(listed_by_help()) == codes
    assert sorted(listed_by_page()) == codes


def test_each_exit_code_has_its_name_in_the_sources():
    texts = {path: re.sub(r'"(?:[^"\\]|\\.)*"', "", source(path)) for path in LAUNCH.rglob("*.c")}
    numbers = [(path.name, found) for path, text in texts.items() for found in re.findall(
        r"_?exit\([1-9]\d*\)|\bcode\w* = [1-9]\d*|128 \+|return (?:2|1[24]\d);|\bEXIT_\w+|\(1[24]\d\)|refuse\([^;]*, \d+\)", text)]
    assert not numbers
    for name in constants():
        assert any(name in text for text in texts.values()), name
