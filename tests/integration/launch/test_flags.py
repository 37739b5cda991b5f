"""The flags of Horovod's horovodrun and the keys of its configuration file, as a table lists them: known and tried by tests."""
import json
import re
import subprocess

import pytest
from conftest import HOROVODRUN, ROOT

TABLE = json.loads((ROOT / "tests" / "data" / "horovodrun_flags.json").read_text(encoding="utf-8"))
UNIT = ROOT / "tests" / "unit" / "worker" / "launch"


def has_word(text, word):
    """Whether a flag or key stands in a text as a word."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def text_of(*paths):
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


@pytest.mark.parametrize("flag", TABLE["flags"])
def test_a_flag_of_horovod_is_known(flag):
    """Alone it lacks its value or a program, or shows something: but it is no unknown flag."""
    done = subprocess.run([HOROVODRUN, flag], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 2) and "unknown flag" not in done.stderr, done


@pytest.mark.parametrize("flag", TABLE["flags"])
def test_a_flag_of_horovod_is_tried_by_a_test(flag):
    sources = [*UNIT.rglob("*.c"), *(ROOT / "tests" / "integration" / "launch").glob("*.py")]
    assert has_word(text_of(*sources), flag)


@pytest.mark.parametrize("section, keys", TABLE["keys"].items())
def test_the_keys_of_a_section_are_tried_by_a_test(section, keys):
    text = text_of(UNIT / "test_config.c")
    assert not [word for word in [section, *keys] if not has_word(text, word)]
