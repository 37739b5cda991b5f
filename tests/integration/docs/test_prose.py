"""The check of the pages' sentences finds what it is for, and leaves code alone."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "lint"))
import prose  # noqa: E402  (the path above)

LONG = "The operator writes " + "very " * 32 + "much."  # 36 words


@pytest.mark.parametrize("page, found", [
    (LONG, ["36 words"]),
    (LONG.replace("very very", "very"), []),
    (LONG.replace("much.", "much: more."), ["37 words"]),
    ("The operator writes. " * 20, []),
    (f"| a cell | {LONG} |", ["36 words"]),
    (f"- an item\n- {LONG}", ["36 words"]),
    (LONG.replace("very very ", "very\nvery ", 1), ["36 words"]),
    (f"Two short lines\n\n    {LONG}\n\nof a page.", []),
    (f"```sh\n{LONG}\n```\nAn end.", []),
    (f"It prints `{LONG}`.", []),
    ("A pod tells the operator. Nobody reads it.", ["'tells'", "'Nobody'"]),
    ("It prints `the server says: no`.", []),
    ("See [what it says](page.md#it-says).", ["'says'"]),
    ("A [page](nobody.md) about e.g. pods. It has an end.", []),
])
def test_a_page(page, found):
    texts = [text for _, text in prose.findings(page)]
    assert len(texts) == len(found) and all(part in text for part, text in zip(found, texts)), texts


def test_findings_name_the_line_a_sentence_begins_in():
    assert prose.findings("# A page\n\nIt is short.\n\nIt says\nmore.") == [
        (5, "'says': name the actor and what it does (reports, returns, prints, rejects)")]
