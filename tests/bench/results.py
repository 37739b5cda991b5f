"""The results as a page shows them: a table in Markdown and a plot, both from build/bench/*.jsonl alone."""
import html
import json
import math
import sys

import measure

PAGE = measure.ROOT / "docs/performance.md"
PLOT = measure.ROOT / "docs/performance.svg"
OPERATOR_PAGE = measure.ROOT / "docs/performance-operator.md"
OPERATOR_PLOT = measure.ROOT / "docs/performance-operator.svg"
TENSORFLOW_PAGE = measure.ROOT / "docs/performance-tensorflow.md"
TENSORFLOW_PLOT = measure.ROOT / "docs/performance-tensorflow.svg"
OPERATOR_ROWS = range(17, 24)
OPERATOR_TARGETS = {"long-run-anonymous": 1.1, "long-run-handles": 1.1, "long-run-cpu-per-job": None,
                    "real-cpu-of-100-jobs": None, "real-limited-cpu-of-100-jobs": None}
WITH_A_CLIENT = ("-children-but-masters", "-workers-ready", "-children-of-100-jobs", "-masters-ended")
BEGIN, END = "<!-- table: script/bench report -->", "<!-- end of the table -->"

# (row, name) or row -> target of the ratio. Rows without one are for orientation.
TARGETS = {1: 0.70, 2: 0.80, (3, "3-default"): 0.35, (3, "3-best"): 0.70, 4: 0.04, 5: 0.20, 6: 0.0625, 7: 0.05, 8: 0.20,
           **{("python", name): 1 for name in ("torch-over-c", "torch-async-over-c", "resnet50", "resnet50-lean",
                                               "many-small", "many-small-lean", "idle-cores", "peak-memory")},
           **{("tensorflow", name): target for name, target in (
               ("eager-1", 1 / 60), ("graph-64x1", 0.27), ("group-1024x4KiB", 0.30), ("group-graph-1024x4KiB", 0.50),
               ("graph-64x1MiB", 0.20), ("eager-64MiB", 0.20), ("indexed-slices", 1 / 40), ("fit-small-cnn", 0.75),
               ("fit-many-small", 0.60), ("fit-many-small-keras-3", 0.49))},
           9: 0.35, 10: 1, 11: 1.10, 15: 1, (13, "cached-27360-floor"): 1.1, (14, "first-27360-ranks"): 0.01}
# Rows whose ratio is a count with target 0.
COUNTS = ("allocations-", "writes-after-")


def load(folder=None):
    """The newest line of every (row, name, class), in the order of the rows."""
    found = {}
    for path in sorted((folder or measure.RESULTS).glob("*.jsonl"), key=lambda path: path.stat().st_mtime):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for key in [key for key in found if key[:2] in {(str(line["row"]), line["name"]) for line in lines}]:
            del found[key]  # a class that did not come again
        found |= {(str(line["row"]), line["name"], line["class"]): line for line in lines}
    return sorted(found.values(), key=order)


def order(line):
    row = line["row"]
    return (row if isinstance(row, int) else 100, str(row))


def target(line):
    if line["name"].startswith(COUNTS):
        return 0
    if line["name"].startswith("real-") and line["name"].endswith(WITH_A_CLIENT):
        return 1.2
    if is_of_operator(line):  # the ratio is measured / target, but for those with a baseline
        return OPERATOR_TARGETS.get(line["name"], 1)
    if line["row"] == 6 and line["name"].endswith("cycle0"):
        return None
    return TARGETS.get((line["row"], line["name"]), None if line["row"] in (13, 14) else TARGETS.get(line["row"]))


def amount(value, unit):
    """A number as short as it can be read: 0.22 us, 62.9 ms."""
    if unit == "us" and value >= 1000:
        value, unit = value / 1000, "ms"
    digits = 3 if value < 1000 else 4
    return f"{value:.{digits}g} {unit}"


def verdict(line):
    goal = target(line)
    if goal is None:
        return ""
    return f"{goal:.3g}" if line["ratio_p50"] <= goal else f"{goal:.3g}, **missed**"


def row_of(line):
    low, high = line["ci95"]
    ratio = f"{line['ratio_p50']:.3g}" + (f" ({low:.3g} to {high:.3g})" if low != high else "")
    ours = amount(line["ours_p50"], line["unit"]) if "ours_p50" in line else ""
    theirs = amount(line["baseline_p50"], line["unit"]) if "baseline_p50" in line else ""
    return [str(line["row"]), line["name"], ours, theirs, line["baseline"], ratio, verdict(line), line["class"],
            str(line["n"])]


def markdown(lines):
    """The table of docs/performance.md."""
    heads = ["row", "name", "ours", "baseline", "is", "ratio (95 %)", "target", "placement", "launches"]
    rows = [heads, ["---"] * len(heads), *map(row_of, lines)]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows)


def into_page(text, table):
    """The page with the table between its marks."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"bench: {PAGE.name} must have '{BEGIN}' and '{END}' once each")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}"


# --- The plot ---------------------------------------------------------------------------------------------------

LEFT, WIDTH, STEP, TOP = 250, 620, 20, 56
STYLE = """text { font: 12px sans-serif; fill: #333 } .grid { stroke: #ddd } .one { stroke: #333 } .ci { stroke: #06c; \
stroke-width: 3 } .dot { fill: #06c } .miss { fill: #c30 } .missci { stroke: #c30; stroke-width: 3 } .goal { stroke: #080; \
stroke-width: 2 } @media (prefers-color-scheme: dark) { svg { background: #181818 } text { fill: #ccc } .grid { stroke: #444 } \
.one { stroke: #ccc } }"""


def position(ratio, low, high):
    """Where a ratio stands on the logarithmic axis from 10^low to 10^high."""
    return LEFT + WIDTH * (math.log10(max(ratio, 10 ** low)) - low) / (high - low)


def plot(lines):
    """An SVG of all rows that have a baseline: ratio with interval, and the target."""
    shown = [line for line in lines if line["ratio_p50"] > 0 and not line["name"].startswith(COUNTS)]
    if not shown:
        sys.exit("bench: nothing to plot; script/bench runtime measures")
    values = [value for line in shown for value in (*line["ci95"], target(line) or line["ratio_p50"]) if value > 0]
    low, high = math.floor(math.log10(min(values))), max(math.ceil(math.log10(max(values))), 0)
    height = TOP + STEP * len(shown) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 110} {height}" role="img" '
           'aria-label="Ratios of the benchmark on a logarithmic axis">', f"<style>{STYLE}</style>",
           f'<text x="{LEFT}" y="18">ours / baseline: further left is better. Bar: 95 % interval. Green: target</text>']
    for decade in range(low, high + 1):
        x = position(10 ** decade, low, high)
        kind = "one" if decade == 0 else "grid"
        out += [f'<line class="{kind}" x1="{x:.1f}" y1="{TOP - 14}" x2="{x:.1f}" y2="{height - 24}"/>',
                f'<text x="{x:.1f}" y="{TOP - 20}" text-anchor="middle">{10.0 ** decade:g}</text>']
    for index, line in enumerate(shown):
        out += mark(line, TOP + STEP * index + 8, low, high)
    return "\n".join([*out, "</svg>"]) + "\n"


def mark(line, y, low, high):
    goal = target(line)
    is_missed = goal is not None and line["ratio_p50"] > goal
    begin, end, at = (position(value, low, high) for value in (*line["ci95"], line["ratio_p50"]))
    where = "" if line["class"] in ("any", "modelled") else f", {line['class']}"
    label = html.escape(f"{line['row']}  {line['name']}{where}")
    out = [f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{label}</text>',
           f'<line class="{"missci" if is_missed else "ci"}" x1="{begin:.1f}" y1="{y}" x2="{end:.1f}" y2="{y}"/>',
           f'<circle class="{"miss" if is_missed else "dot"}" cx="{at:.1f}" cy="{y}" r="4"/>',
           f'<text x="{LEFT + WIDTH + 12}" y="{y + 4}">{line["ratio_p50"]:.3g}</text>']
    if goal:
        x = position(goal, low, high)
        out.append(f'<line class="goal" x1="{x:.1f}" y1="{y - 7}" x2="{x:.1f}" y2="{y + 7}"/>')
    return out


def is_of_operator(line):
    return line["row"] in OPERATOR_ROWS


def report():
    """Writes tables and plots into docs/: of the runtime, the operator and TensorFlow, those that were measured."""
    parts = {"runtime": (PAGE, PLOT, []), "operator": (OPERATOR_PAGE, OPERATOR_PLOT, []),
             "tensorflow": (TENSORFLOW_PAGE, TENSORFLOW_PLOT, [])}
    for line in load():
        if line["row"] == "gpu":  # no page has these rows yet
            continue
        part = "operator" if is_of_operator(line) else line["row"] if line["row"] in parts else "runtime"
        parts[part][2].append(line)
    for page, picture, rows in parts.values():
        if not rows:
            continue
        picture.write_text(plot(rows), encoding="utf-8")
        page.write_text(into_page(page.read_text(encoding="utf-8"), markdown(rows)), encoding="utf-8")
        print(f"wrote {page.relative_to(measure.ROOT)} and {picture.relative_to(measure.ROOT)}: {len(rows)} rows")
