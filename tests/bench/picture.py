"""script/bench timeline: the pictures of docs/timeline.md, out of the timelines of two ranks that train a ResNet-18, with PyTorch
and with fit() of Keras."""
import dataclasses
import html
import pathlib
import re
import subprocess
import tempfile

import measure
import peer
import python


@dataclasses.dataclass(frozen=True)
class Training:
    """What a picture shows: a command, and variables of its environment."""
    picture: pathlib.Path
    command: list
    settings: dict


TRAININGS = [
    Training(measure.ROOT / "docs/timeline.svg",
             [python.PYTHON, measure.ROOT / "examples/pytorch/synthetic.py", "--model", "resnet18", "--batch-size", "4",
              "--image-size", "64", "--num-warmup-batches", "2", "--num-batches-per-iter", "2", "--num-iters", "2", "--no-cuda"], {}),
    Training(measure.ROOT / "docs/timeline-keras.svg",
             [peer.TENSORFLOW / "bin" / "python", measure.ROOT / "tests/bench/fit.py"],
             {"TF_NUM_INTRAOP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "KERAS_BACKEND": "tensorflow"})]
KEYS = {"mo": "data moves", "qu": "queued", "ne": "negotiating", "wa": "waiting for a rank", "id": "nothing outstanding",
        "bw": "backward"}
COLOURS = "".join(f".{key}{{fill:{colour}}}" for key, colour in {
    "mo": "#2a7fd4", "co": "#7b5ec6", "qu": "#e0b23c", "ne": "#d9702e", "wa": "#cf3f4f", "id": "#c9ced6",
    "bw": "#2f8f55"}.items())
WIDTH, LINE, MARGIN, LEFT, RIGHT = 991, 18, 6, 62, 24


def as_xml(text):
    """HTML with what XML has no name for, as it is."""
    return re.sub(r"&(?!(?:lt|gt|amp|quot|apos);)\w+;", lambda found: html.unescape(found[0]), text)


def picture(page):
    """The typical step of a report as an image of its own, with a key and what is said of overlap."""
    found = re.search(r'<svg class="step" width="100%" height="(\d+)"[^>]*>(.*)</svg>', page, re.DOTALL)
    overlap = re.search(r"<h2>Overlap</h2>\s*<p>(.*?)</p>", page, re.DOTALL)
    if not found or not overlap:
        raise SystemExit("bench: the report has no typical step")
    y = int(found[1]) + LINE
    height, key, x = y + 2 * LINE, [], 0
    for name, text in KEYS.items():
        key += [f'<rect class="{name}" x="{x}" y="{y - 10}" width="11" height="11" stroke="#7d8590"/>',
                f'<text x="{x + 16}" y="{y}">{text}</text>']
        x += 40 + 7 * len(text)
    # Places in it are parts of its width, as on the page.
    step = f'<svg x="{LEFT}" width="{WIDTH - 2 * MARGIN - LEFT - RIGHT}" height="{found[1]}" overflow="visible">'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-{MARGIN} 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="12">',
        f"<style>{COLOURS}</style>", f'<rect x="-{MARGIN}" width="{WIDTH}" height="{height}" fill="white"/>',
        step, as_xml(found[2]).strip(), "</svg>", *key, f'<text x="0" y="{y + LINE}">{as_xml(overlap[1])}</text>',
        "</svg>"]) + "\n"


def train(folder, training):
    """Trains with a timeline of every rank; the report on them."""
    environment = measure.environment(**python.environment(), **training.settings)
    horovodrun = str(measure.BUILD / "worker/horovodrun")
    page = pathlib.Path(folder) / "report.html"
    names = [f"{folder}/timeline.{rank}.json" for rank in range(2)]
    for arguments in (["-np", "2", "--timeline-filename", f"{folder}/timeline.%d.json", *map(str, training.command)],
                      ["--timeline-report", str(page), *names]):
        done = subprocess.run([horovodrun, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise SystemExit(f"bench: horovodrun {' '.join(arguments)}:\n{done.stdout}{done.stderr[-2000:]}")
    return page.read_text(encoding="utf-8")


def draw():
    """Writes the pictures."""
    subprocess.run([str(measure.ROOT / "script" / "bootstrap"), "python"], check=True)
    for training in TRAININGS:
        with tempfile.TemporaryDirectory() as folder:
            page = train(folder, training)
        training.picture.write_text(picture(page), encoding="utf-8")
        print(f"wrote {training.picture.relative_to(measure.ROOT)}")
