"""Formatting, static analysis and house rules; called by script/lint.

Each check is a function that returns a list of findings, "file:line: what is wrong". The exit status
is 1 when any check found something. clang-tidy, the slow one, remembers what was clean: the key is the
content of the source, of all headers it includes and of the configuration.
"""
import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lint"))
import prose as prose_of_page  # noqa: E402  (the path above)

BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "horovod" / "lint"
CHECKS = {}
BATCH_BYTES = 40_000  # of sources that one process of clang-tidy looks at


def check(function):
    """Registers a check under its name, underscores as dashes."""
    CHECKS[function.__name__.replace("_", "-")] = function
    return function


def run(*command, **options):
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False, **options)


def files(*suffixes, under=""):
    """Files that git knows, or would with the next `git add`, with one of the suffixes."""
    out = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", under or ".").stdout
    names = sorted({line for line in out.splitlines() if (ROOT / line).is_file()})
    return [name for name in names if name.endswith(suffixes)]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


def is_ours(name):
    return name.endswith((".c", ".h"))


@check
def clang_format():
    """C files look as .clang-format says."""
    sources = files(".c", ".h")
    out = run("clang-format-14", "--dry-run", "-Werror", *sources)
    return [line for line in out.stderr.splitlines() if "error:" in line]


@functools.cache
def content(path):
    """A hash of the file's content; of nothing when it is gone."""
    return hashlib.sha256(path.read_bytes() if path.is_file() else b"").digest()


def anywhere(text):
    """The text without the place of this tree, so that a clone elsewhere has the same key."""
    return text.replace(str(ROOT), "").encode()


def tidy_key(entry, deps):
    """What the verdict on a source depends on, as one hash."""
    digest = hashlib.sha256()
    digest.update(content(pathlib.Path(shutil.which("clang-tidy-14") or "clang-tidy-14")))
    for folder in pathlib.Path(entry["file"]).parents:
        if folder.is_relative_to(ROOT) and (folder / ".clang-tidy").is_file():
            digest.update(content(folder / ".clang-tidy"))
    digest.update(anywhere(entry["command"]))
    for name in sorted(deps):
        path = pathlib.Path(name) if name.startswith("/") else BUILD / name
        digest.update(anywhere(name))
        digest.update(content(path))
    return digest.hexdigest()


def ninja_deps():
    """Object file -> what it was compiled from, as the last build recorded it."""
    deps, current = {}, None
    for line in run("ninja", "-C", str(BUILD), "-t", "deps").stdout.splitlines():
        if line and not line.startswith(" "):
            current = line.split(":")[0]
            deps[current] = []
        elif line.strip() and current:
            deps[current].append(line.strip())
    return deps


def object_of(entry):
    """The object file of an entry of the compilation database."""
    match = re.search(r" -o (\S+)", entry["command"])
    return match.group(1) if match else ""


def tidy(names):
    """What clang-tidy finds in sources; a failure of its own is a finding of the first."""
    out = run("clang-tidy-14", "--quiet", "-p", str(BUILD), *names)
    found = [line for line in out.stdout.splitlines() if re.search(r": (error|warning):", line)]
    if out.returncode == 0 or found:
        return found
    return [f"{names[0]}:1: clang-tidy failed: {out.stderr.strip()[-300:]}"]


def tidy_batch(batch):
    """The findings in some sources, {name: stamp of a clean one}. One process for all of them spares starting many, and
    what it has read of headers; where it finds anything, each gets a process of its own."""
    names = list(batch)
    found = tidy(names)
    if found and len(names) > 1:
        return [line for name in names for line in tidy_batch({name: batch[name]})]
    if not found:
        CACHE.mkdir(parents=True, exist_ok=True)
        for stamp in batch.values():
            stamp.touch()
    return found


def tidy_batches(stamps):
    """Sources in batches, the longest first, so that no long one is begun when all others are done."""
    batches, size = [], BATCH_BYTES
    for name in sorted(stamps, key=lambda name: -pathlib.Path(name).stat().st_size):
        if size >= BATCH_BYTES:
            batches.append({})
            size = 0
        batches[-1][name] = stamps[name]
        size += pathlib.Path(name).stat().st_size
    return batches


@check
def clang_tidy():
    """Bugs, analyzer paths, function sizes (80 lines, 6 parameters, nesting 4, complexity 25)."""
    database = BUILD / "compile_commands.json"
    if not database.exists():
        return [f"{database}: missing; run cmake --preset dev && cmake --build --preset dev"]
    entries = {}
    for entry in json.loads(database.read_text()):
        if entry["file"].startswith(str(ROOT)) and "verify_interface_header_sets" not in entry["command"]:
            entries[entry["file"]] = entry
    deps = ninja_deps()
    stamps = {name: CACHE / ("tidy-" + tidy_key(entry, deps.get(object_of(entry), []))) for name, entry in entries.items()}
    unknown = {name: stamp for name, stamp in stamps.items() if not deps.get(object_of(entries[name])) or not stamp.exists()}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(tidy_batch, tidy_batches(unknown)))
    return sorted({line.replace(str(ROOT) + "/", "") for result in results for line in result})


@check
def headers_alone():
    """Every header compiles by itself."""
    out = run("cmake", "--build", str(BUILD), "--target", "all_verify_interface_header_sets")
    return [line for line in out.stdout.splitlines() if "error:" in line] if out.returncode else []


# What every room of the engine may include.
ENGINE = ["base", "worker/core", "worker/reduce", "worker/transport", "worker/telemetry", "worker/autotune", "worker/device"]

LAYERS = {
    # folder -> folders whose headers it may include; a folder may always include its own. A folder named here is
    # no part of the one that it lies in, and stands before it.
    "base": [],
    "operator/api": ["base"],
    "operator/core": ["base", "operator/api"],
    "operator/kube": ["base", "operator/api"],
    "operator/app": ["base", "operator/api", "operator/core", "operator/kube"],
    "worker/include": [],
    "worker/core": ["base"],
    "worker/reduce": ["base", "worker/core"],
    "worker/transport/mpi": ["base", "worker/core", "worker/reduce", "worker/transport"],
    "worker/transport/shm": ["base", "worker/core", "worker/reduce", "worker/transport"],
    "worker/transport/hosts": ["base", "worker/core", "worker/reduce", "worker/transport", "worker/transport/shm"],
    "worker/transport/hybrid": ["base", "worker/core", "worker/transport", "worker/transport/hosts", "worker/transport/shm"],
    "worker/transport": ["base", "worker/core", "worker/reduce"],
    "worker/telemetry": ["base", "worker/core"],
    "worker/autotune/core": ["base"],
    "worker/autotune": ["base", "worker/autotune/core"],
    "worker/device": ["base", "worker/core", "worker/reduce"],
    "worker/engine/state": [*ENGINE, "worker/engine"],
    "worker/engine/submit": [*ENGINE, "worker/engine", "worker/engine/state"],
    "worker/engine/execute": [*ENGINE, "worker/engine", "worker/engine/state"],
    "worker/engine/negotiate": [*ENGINE, "worker/engine", "worker/engine/state", "worker/engine/submit", "worker/engine/execute"],
    "worker/engine/wait": [*ENGINE, "worker/engine", "worker/engine/state", "worker/engine/execute", "worker/engine/negotiate"],
    "worker/engine/job": [*ENGINE, "worker/engine", "worker/engine/state", "worker/engine/negotiate", "worker/engine/wait"],
    "worker/engine": ENGINE,
    "worker/api": ["base", "worker/core", "worker/reduce", "worker/transport", "worker/telemetry", "worker/autotune",
                   "worker/device", "worker/engine", "worker/transport/hybrid", "worker/transport/mpi"],
    "worker/timeline_report": ["base"],
    "worker/launch": ["base", "worker/timeline_report"],
    "tests/sim": ["base", "worker/core", "worker/reduce", "worker/transport"],
}


def layer_of(name):
    """The folder of LAYERS that a file belongs to, or None."""
    return next((item for item in LAYERS if name.startswith(item + "/")), None)


@check
def layering():
    """Includes point one way: base <- core <- ports and adapters <- engine or app <- api or main."""
    found = []
    for name in files(".c", ".h"):
        layer = layer_of(name)
        if layer is None:
            continue
        for number, line in enumerate(text_of(name).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+/[^/"]+)"', line)
            if match and layer_of(match.group(1)) not in [layer] + LAYERS[layer]:
                found.append(f"{name}:{number}: {layer} may not include {match.group(1)}")
    return found


# Includes that close a ring of rooms today, and why they stay. One that is gone is removed here; nothing is added.
TOLERATED_INCLUDES = {}


def room_includes():
    """Room -> room that it includes -> where first, "file:line". A room is a folder."""
    rooms = {}
    for name in files(".c", ".h"):
        room = name.rpartition("/")[0]
        for number, line in enumerate(text_of(name).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            header = match and next((path for path in (ROOT / match.group(1), ROOT / room / match.group(1)) if path.is_file()), None)
            other = header and header.resolve().parent.relative_to(ROOT.resolve()).as_posix()
            if other and other != room:
                rooms.setdefault(room, {}).setdefault(other, f"{name}:{number}")
    return rooms


def reached_from(room, rooms):
    """All rooms to which includes lead from one, itself only where they lead back."""
    seen, left = set(), [room]
    while left:
        for other in rooms.get(left.pop(), {}):
            if other not in seen:
                seen.add(other)
                left.append(other)
    return seen


@check
def room_cycles():
    """Rooms, which are folders, include each other one way: no two of them in turn, and no ring of more."""
    rooms = room_includes()
    found = [f"tests/lint/lint.py:1: {room} includes {other} no more: take it out of TOLERATED_INCLUDES"
             for room, other in TOLERATED_INCLUDES if other not in rooms.get(room, {})]
    kept = {room: {other: where for other, where in others.items() if (room, other) not in TOLERATED_INCLUDES}
            for room, others in rooms.items()}
    reached = {room: reached_from(room, kept) for room in kept}
    return sorted(found + [f"{where}: {room} may not include {other}, which includes it again"
                           for room, others in kept.items() for other, where in others.items()
                           if room in reached.get(other, ())])


BANNED = re.compile(r"(?<![\w>.])(strcpy|strcat|sprintf|vsprintf|strtok|gets|atoi|atol|atof|alloca|malloc|calloc|"
                    r"realloc|strdup|strndup)\s*\(")


@check
def banned_calls():
    """No unbounded text functions, no allocator but base/mem.h."""
    found = []
    for name in files(".c", ".h"):
        if name.startswith(("base/mem", "tests/", "examples/")):
            continue
        code = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text_of(name), flags=re.S)
        code = re.sub(r'"(\\.|[^"\\\n])*"', '""', code)
        for number, line in enumerate(code.splitlines(), 1):
            match = BANNED.search(line)
            if match:
                found.append(f"{name}:{number}: {match.group(1)} is banned; see base/mem.h and base/buf.h")
    return found


@check
def file_rules():
    """Files under 1,000 lines, no utils.c and its like, each .c opens with what it is for."""
    found = []
    for name in files(".c", ".h", ".py", ".sh"):
        lines = text_of(name).splitlines()
        if len(lines) > 1000:
            found.append(f"{name}:1: {len(lines)} lines; 1,000 at most")
        if re.fullmatch(r"(utils?|common|helpers?|misc)\.[ch]", name.rsplit("/", 1)[-1]):
            found.append(f"{name}:1: a file is named for what it holds, not '{name.rsplit('/', 1)[-1]}'")
        if name.endswith(".c") and not name.startswith("tests/") and not text_of(name).startswith("/*"):
            found.append(f"{name}:1: opens without a comment on what it is for")
    return found


# A folder of which one header declares what several files have: its functions may have the folder's prefix as well.
FOLDERS = {"operator/api": "job", "worker/api": "api", "worker/device/cuda": "cuda", "worker/engine": "engine", "worker/engine/job": "engine", "worker/engine/negotiate": "engine",
           "worker/engine/state": "engine", "worker/engine/submit": "engine", "worker/engine/wait": "engine",
           "worker/reduce": "reduce", "worker/transport/hosts": "hosts", "worker/transport/hybrid": "hybrid",
           "worker/transport/mpi": "mpi", "worker/transport/shm": "shm"}

# In front of the module's name, where modules of another folder are called alike.
ROOMS = {"operator/kube": "kube", "worker/api": "api", "worker/launch": "launch", "worker/launch/core": "launch",
         "worker/timeline_report": "tl", "worker/python/core": "py", "worker/python/tensorflow": "tf",
         "worker/python/tensorflow/completion": "tf", "worker/python/tensorflow/core": "tf"}

# Small types that everything uses are named for themselves. Nothing is added here.
TYPES = {"base/mem.c": r"\w+", "base/status.c": "err", "base/str.c": "strview",
         "operator/api/json.c": "jb", "worker/core/types.c": "(dtype|factor|op|reduce|request|rows|shape)"}

DEFINITION = re.compile(r"^(?!static\b|typedef\b|else\b|return\b|extern\b)[A-Za-z_][\w *]*?\b(hvd_\w+)\([^;{}#]*?\)\n\{", re.M)


def modules_of(name):
    """What the functions of a file may be called after: itself, in singular or plural, or the module it is a part of."""
    folder, module = name[:-2].rsplit("/", 1)
    names = [module, module + "s", re.sub(r"s$", "", module), re.sub(r"y$", "ies", module)]
    words = module.split("_")
    names += [part for part in ("_".join(words[:n]) for n in range(1, len(words)))
              if any((ROOT / folder / f"{part}{end}").exists() for end in (".c", ".h", "_internal.h"))]
    return names


@check
def function_names():
    """A function of several files begins with hvd_ and its module, which is its file."""
    found = []
    for name in files(".c"):
        if not name.startswith(("base/", "operator/", "worker/", "tests/sim/")):
            continue
        folder = name.rsplit("/", 1)[0]
        starts = [re.escape(module) for module in modules_of(name)]
        starts += [re.escape(f"{ROOMS[folder]}_{module}") for module in modules_of(name) if folder in ROOMS]
        starts += [table[key] for table, key in ((FOLDERS, folder), (TYPES, name)) if key in table]
        good = re.compile(f"hvd_({'|'.join(starts)})(_|$)")
        text = text_of(name)
        found += [f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(1)} does not begin with the name of "
                  "its module" for match in DEFINITION.finditer(text) if not good.match(match.group(1))]
    return found


@check
def header_guards_and_comments():
    """Headers have their path as guard, and every prototype a comment."""
    found = []
    for name in files(".h"):
        text = text_of(name)
        guard = "HVD_" + re.sub(r"\W", "_", name).upper()
        if name.startswith("worker/include/"):
            guard = re.sub(r"\W", "_", name.split("include/")[1]).upper()
        if f"#ifndef {guard}\n#define {guard}\n" not in text:
            found.append(f"{name}:1: include guard must be {guard}")
        found += [f"{name}:{line}: prototype without a comment: {what}" for line, what in bare_prototypes(text)]
    return found


def closes_comment(line):
    """Whether the line ends a comment that stands alone, not one behind code."""
    return line.rstrip().endswith("*/") and not re.match(r"\s*[^\s/*].*/\*", line)


def bare_prototypes(text):
    """(line, first line) of each prototype in a block of lines that no comment opens."""
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if not re.match(r"^(?!typedef|#|static inline|_Static_assert|return|extern \"C\")[A-Za-z_][\w\s\*]*?\**\w+\(", line):
            continue
        joined = " ".join(lines[index:index + 8])
        if not re.match(r"[^;{]*\)[^;{]*;", joined):
            continue
        first = index
        while first > 0 and lines[first - 1].strip() and not closes_comment(lines[first - 1]):
            first -= 1
        if first == 0 or not lines[first - 1].strip():
            yield index + 1, line.strip()


WORDS = re.compile(r"\.\./shared|/work/|\bsubagent|\bthe brief\b|\bhelper-\d|\bissue \d|deb\.debian\.org/|"
                   r"proxy\.golang\.org|files\.pythonhosted\.org|registry\.npmjs\.org", re.I)


@check
def own_words():
    """The project speaks only of itself: no machine paths, no registry hosts."""
    found = []
    for name in files(""):
        if name in ("tests/lint/lint.py", "LICENSE") or name.endswith((".sum", ".gz", ".png", ".csv")):
            continue
        for number, line in enumerate(text_of(name).splitlines(), 1):
            match = WORDS.search(line)
            if match:
                found.append(f"{name}:{number}: '{match.group()}' does not belong here")
    return found


STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
COMMENT = re.compile(r"/\*.*?\*/", re.S)


@check
def messages():
    """Texts of programs name the actor and what it does, by the word list of the pages."""
    found = []
    for name in files(".c", ".h"):
        if name.startswith("tests/"):
            continue
        text = COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text_of(name))
        for number, line in enumerate(text.splitlines(), 1):
            found += [f"{name}:{number}: '{word}' in {literal}" for literal in STRING.findall(line)
                      for word in prose_of_page.WORDS.findall(literal)]
    return found


@check
def prose():
    """Pages have sentences of at most 35 words, whose actor is named."""
    return [f"{name}:{line}: {text}" for name in files(".md")
            for line, text in prose_of_page.findings(text_of(name))]


@check
def shellcheck():
    """Shell scripts."""
    scripts = [name for name in files("")
               if re.match(r"#!.*\b(ba)?sh\b", text_of(name).split("\n", 1)[0]) or name.endswith(".sh")]
    out = run("shellcheck", "-x", "-f", "gcc", *scripts)
    return [line for line in out.stdout.splitlines() if ": note:" not in line]


# Commits that others have built upon, and that lack a body: what is published is not written anew. Nothing is added here.
WITHOUT_BODY = {
    "70204678f4fd41dd24cf05dbfced0cff1f4c86a4",  # operator: bound the looks at the network by a rate
    "80a21a7f3ccc385b0a96e744a1f4fff39dd5f857",  # tests: run deleted jobs without the text of their specs
}


# The first word of a title is one of these, from the commit after this one on.
VERBS_SINCE = "d2853cf6b93997eaac865044d9f64e0c0f4d78c9"
VERBS = frozenset("""accept adapt add adopt allow announce answer apply ask assert attach avoid begin bind bound build cache call change check
    clean clear close collect compare compile complete compress compute confirm convert copy correct count create cut decide decode define delete
    deny describe detect divide document drain draw drop edit encode end expect explain export extend fail find fit fix fold follow forget
    free fuse gather generate give group handle hash hide hold ignore import include index install join keep label lay leave let limit link list
    load lock log look lower make map mark match measure mend merge move name note number open order own pack park parse pass pause pin plan
    play poll port post prefer print probe prove provide publish put queue quote raise read rebuild reconcile record reduce refuse register
    reject release remember remove rename render reopen repair replace replay report require reserve reset resolve restart restore restrict
    resume retry return reuse rewrite round run sample scale scatter schedule search select send separate serve set share shorten show sign
    simplify skip sort spare spend split start state stop store stream strip submit support suspend swap sync take test throttle time trace
    track train trim try turn unify unpack update upgrade use validate verify wait wake walk warn watch withdraw wrap write""".split())


@check
def commit_verbs():
    """The summary of a commit begins with a verb from a list."""
    out = run("git", "log", "--no-merges", "--format=%h %s", f"{VERBS_SINCE}..HEAD")
    found = []
    for line in out.stdout.splitlines() if out.returncode == 0 else []:
        commit, _, title = line.partition(" ")
        verb = title.partition(": ")[2].split(" ")[0]
        if verb not in VERBS:
            found.append(f"{commit}:1: '{verb}' is no verb that a summary begins with (VERBS in tests/lint/lint.py): {title}")
    return found


@check
def commit_titles():
    """`area: imperative summary`, at most 60 characters, no full stop, with a body."""
    found = []
    out = run("git", "log", "-z", "--no-merges", "-n", "300", "--format=%H%n%s%n%b")
    if out.returncode:
        return []
    for record in filter(None, out.stdout.split("\0")):
        commit, title, body = (record.split("\n", 2) + ["", ""])[:3]
        has_body = bool(body.strip()) or commit in WITHOUT_BODY
        commit = commit[:8]
        if len(title) > 60 or not re.match(r"^[a-z0-9][\w/.,+ -]*: \S", title) or title.endswith("."):
            found.append(f"{commit}:1: title must be 'area: imperative summary' in 60 characters: {title}")
        if not has_body:
            found.append(f"{commit}:1: a body that says why and how it was tested is missing: {title}")
    return found


def main():
    parser = argparse.ArgumentParser(prog="script/lint", description="Checks, all without arguments: " + "; ".join(
        f"{name}: {function.__doc__.strip()}" for name, function in CHECKS.items()))
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=", ".join(CHECKS))
    chosen = parser.parse_args().checks or list(CHECKS)
    unknown = [name for name in chosen if name not in CHECKS]
    if unknown:
        parser.error(f"no check '{unknown[0]}'; there are {', '.join(CHECKS)}")
    failed = 0
    for name in chosen:
        begin = time.monotonic()
        findings = CHECKS[name]()
        for finding in findings:
            print("  " + finding)
        failed += bool(findings)
        verdict = f"{len(findings)} findings" if findings else "ok"
        print(f"lint {'not ok' if findings else 'ok'} - {name}: {verdict} ({time.monotonic() - begin:.1f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
