"""What script/device-test finds: one row for each check, printed as a table and written as JSON after every step."""
import dataclasses
import json
import operator
import os
import re

VERSION = 1
KINDS = ("correct", "measured")
PASSED, FAILED, SKIPPED, NEVER_RUN = OUTCOMES = ("passed", "failed", "skipped", "never run")
TEXT_MOST = 4000  # characters of a failure that are kept
COMPARE = {"<=": operator.le, ">=": operator.ge}


@dataclasses.dataclass
class Row:
    """A check. Of a measured one, a bound such as "<= 1.3" decides; without a bound each value passes."""
    name: str
    kind: str = "correct"
    unit: str = ""
    bound: str = ""
    step: str = ""
    value: object = None
    outcome: str = NEVER_RUN
    text: str = ""

    def take(self, value=None, outcome=None, text=""):
        """Sets the result; without an outcome, the bound decides."""
        self.value = value
        self.outcome = outcome or (PASSED if self.keeps(value) else FAILED)
        self.text = shorten(text)

    def keeps(self, value):
        """Whether the value is within the bound."""
        if value is None:
            return self.kind == "correct"
        if not self.bound:
            return True
        sign, limit = self.bound.split()
        return COMPARE[sign](value, float(limit))

    def end_without(self, outcome, text):
        """The result of a row that has none: the check did not come so far."""
        if self.outcome == NEVER_RUN:
            self.take(outcome=outcome, text=text)

    def shown(self):
        """The cells of the printed table."""
        value = "" if self.value is None else f"{self.value:.4g}" if isinstance(self.value, float) else str(self.value)
        return [self.step, self.name, self.kind, f"{value} {self.unit}".strip() if value else "", self.bound, self.outcome]


def shorten(text):
    """A text that fits a file: its beginning and its end."""
    text = text.strip()
    return text if len(text) <= TEXT_MOST else f"{text[:TEXT_MOST // 4]}\n...\n{text[-3 * TEXT_MOST // 4:]}"


class Findings:
    """All rows, in the order of the steps, and what is known of the machine."""

    def __init__(self, rows, began):
        self.rows = list(rows)
        self.machine = {}
        self.began = began
        self.seconds = {}  # by step

    def of(self, step, name):
        """The row of a step, or None."""
        return next((row for row in self.rows if (row.step, row.name) == (step, name)), None)

    def add(self, row):
        """Adds a row behind those of its step."""
        last = max((index for index, other in enumerate(self.rows) if other.step == row.step), default=len(self.rows) - 1)
        self.rows.insert(last + 1, row)

    def as_json(self):
        return {"version": VERSION, "began": self.began, "machine": self.machine, "seconds": self.seconds,
                "rows": [dataclasses.asdict(row) for row in self.rows]}

    def write(self, path):
        """Replaces the file at once, so that a machine that is taken away leaves a whole one."""
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(self.as_json(), indent=1) + "\n", encoding="utf-8")
        os.replace(partial, path)

    def count(self, outcome):
        return sum(row.outcome == outcome for row in self.rows)

    def table(self):
        """The table, what is known of the machine, and the text of each row that has one."""
        heads = ["step", "check", "kind", "value", "bound", "result"]
        cells = [heads, *(row.shown() for row in self.rows)]
        widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
        lines = [f"{name}: {value}" for name, value in self.machine.items()] + [""]
        lines += ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells]
        lines += [""] + [f"{row.step}, {row.name}: {row.outcome}: {row.text}" for row in self.rows if row.text]
        counts = ", ".join(f"{self.count(outcome)} {outcome}" for outcome in OUTCOMES)
        return "\n".join([*lines, "", counts]) + "\n"


# --- The file ---------------------------------------------------------------------------------------------------

def wrong(value, rules, where):
    """What is wrong with an object of the file: keys that are missing or too many, and types."""
    if not isinstance(value, dict):
        return [f"{where} is no object"]
    found = [f"{where}.{key} is missing" for key in rules if key not in value]
    found += [f"{where}.{key} is unknown" for key in value if key not in rules]
    return found + [f"{where}.{key} is {value[key]!r}" for key, rule in rules.items() if key in value and not rule(value[key])]


def is_text(value):
    return isinstance(value, str)


def is_value(value):
    return value is None or isinstance(value, (int, float, str))


def is_bound(value):
    return value == "" or bool(re.fullmatch(r"(<=|>=) [0-9.]+", value))


ROW_RULES = {"step": is_text, "name": is_text, "kind": KINDS.__contains__, "value": is_value, "unit": is_text,
             "bound": is_bound, "outcome": OUTCOMES.__contains__, "text": is_text}
FILE_RULES = {"version": lambda value: value == VERSION, "began": is_text,
              "machine": lambda value: isinstance(value, dict) and all(map(is_value, value.values())),
              "seconds": lambda value: isinstance(value, dict), "rows": lambda value: isinstance(value, list)}


def check(content):
    """What is wrong with the content of a results file, as sentences; none: nothing."""
    found = wrong(content, FILE_RULES, "the file")
    if found:
        return found
    for number, row in enumerate(content["rows"]):
        found += wrong(row, ROW_RULES, f"row {number}")
    names = [(row.get("step"), row.get("name")) for row in content["rows"]]
    found += [f"row {name} is there twice" for name in sorted(set(names)) if names.count(name) > 1]
    return found + [f"row {row['name']} has failed without a text" for row in content["rows"]
                    if row.get("outcome") == FAILED and row.get("value") is None and not row.get("text")]
