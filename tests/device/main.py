"""script/device-test: asserts on a machine with one GPU what is known only from doubles, and measures; prints a table and writes
JSON. Each check is a process with a time limit. The results are written after each."""
import argparse
import json
import pathlib
import sys
import time

import findings
import plan
import process
from places import Places

LIMIT_S = 520
LEAST_S = 2  # a run with less time is not begun


class Session:
    """One pass over the steps."""

    def __init__(self, places, steps, out, limit_s):
        self.places = places
        self.out = out
        self.deadline = time.monotonic() + limit_s
        self.steps = steps
        self.found = findings.Findings([row for step in steps for row in step.rows()],
                                       time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()))
        self.log = out / "device-test.log"

    def write(self):
        self.found.write(self.out / "device-test.json")
        (self.out / "device-test.txt").write_text(self.found.table(), encoding="utf-8")

    def note(self, run, ended):
        """Appends to the log what a command printed."""
        with open(self.log, "a", encoding="utf-8", errors="replace") as log:
            words = " ".join(map(str, run.command))
            log.write(f"=== {words}\n{ended.out}{ended.err}--- {ended.why() or 'good'}, {ended.seconds:.1f} s\n")

    def learn(self, out):
        """Takes the facts that a command prints."""
        for line in out.splitlines():
            if line.startswith('{"fact"'):
                fact = json.loads(line)
                self.found.machine[fact["fact"]] = fact["value"]

    def run_one(self, step, run, limit_s):
        machine = self.found.machine
        command = run.doubled if machine.get("double") else run.command
        words = [machine[word] if isinstance(word, plan.Fact) else word for word in command]
        environment = self.places.environment(machine, **run.environment)
        ended = process.run(words, limit_s, environment, self.out)
        self.note(run, ended)
        self.learn(ended.out)
        end = plan.settle(run, ended, bool(machine.get("double")))
        if end:
            end.step = step.name
            self.found.add(end)

    def run_step(self, step):
        begin = time.monotonic()
        until = min(self.deadline, begin + step.limit_s)
        for run in step.runs:
            reason = plan.reason_to_skip(run, self.found.machine)
            limit_s = min(run.limit_s, until - time.monotonic())
            if not reason and limit_s >= LEAST_S:
                self.run_one(step, run, limit_s)
            for row in run.rows:
                row.end_without(findings.SKIPPED if reason else findings.NEVER_RUN, reason or "the time for this step is over")
            self.write()
        self.found.seconds[step.name] = round(time.monotonic() - begin, 1)
        rows = list(step.rows())
        counts = [f"{sum(row.outcome == outcome for row in rows)} {outcome}" for outcome in findings.OUTCOMES
                  if any(row.outcome == outcome for row in rows)]
        print(f"{step.name}: {', '.join(counts)} in {self.found.seconds[step.name]} s", flush=True)

    def run(self):
        self.write()
        for step in self.steps:
            self.run_step(step)
        self.write()


def chosen(steps, only):
    """The steps with those of their commands that have one of the words in "STEP: ROW"; facts always. No words: all."""
    for step in steps:
        if only and step.name != "facts":
            step.runs = [run for run in step.runs if any(word in f"{step.name}: {row.name}" for row in run.rows for word in only)]
    return [step for step in steps if step.runs]


def test(options):
    """Runs the steps from an unpacked bundle; the exit status."""
    places = Places(options.source)
    missing = places.missing()
    if missing:
        sys.exit(f"device-test: {places.folder} is no unpacked bundle: it lacks {', '.join(missing)}; "
                 "make one with script/device-test --bundle FILE, and unpack it with tar xf FILE")
    places.install()
    out = pathlib.Path(options.out or places.folder / "results").resolve()
    out.mkdir(parents=True, exist_ok=True)
    process.adopt_orphans()
    session = Session(places, chosen(plan.steps_of(places), options.only), out, options.limit)
    session.log.write_text("", encoding="utf-8")
    session.run()
    print(f"\n{session.found.table()}\nwrote {out / 'device-test.json'}")
    return 1 if any(row.outcome == findings.FAILED and row.kind == "correct" for row in session.found.rows) else 0


def print_rows(path, page):
    """The rows of docs/gpu-doubles.md with the results of a file in their last column."""
    content = json.loads(path.read_text(encoding="utf-8"))
    wrong = findings.check(content)
    if wrong:
        sys.exit(f"device-test: {path}: {'; '.join(wrong)}")
    print("\n".join(plan.rows_of_doubles(page.read_text(encoding="utf-8"), content)))
    return 0


def main():
    parser = argparse.ArgumentParser(prog="script/device-test", description=__doc__)
    parser.add_argument("--bundle", metavar="FILE", type=pathlib.Path, help="write what a machine with a GPU needs into FILE, and run nothing")
    parser.add_argument("--wheel", metavar="FILE", type=pathlib.Path, help="with --bundle: our wheel, instead of building one")
    parser.add_argument("--build", metavar="DIR", type=pathlib.Path, help="with --bundle: the build of the programs")
    parser.add_argument("--from", metavar="DIR", dest="source", help="run from an unpacked bundle")
    parser.add_argument("--out", metavar="DIR", help="where results go (default: results in the bundle)")
    parser.add_argument("--limit", metavar="SECONDS", type=float, default=LIMIT_S, help=f"begin nothing after this time (default: {LIMIT_S})")
    parser.add_argument("--only", metavar="WORDS", action="append", help="only commands with WORDS in the step or a check; may be repeated")
    parser.add_argument("--doubles", metavar="JSON", type=pathlib.Path, help="print the rows of docs/gpu-doubles.md with these results")
    options = parser.parse_args()
    if options.doubles:
        return print_rows(options.doubles, pathlib.Path(__file__).resolve().parents[2] / "docs" / "gpu-doubles.md")
    if options.bundle:
        import bundle  # pylint: disable=import-outside-toplevel  (no part of a bundle that runs)
        size = bundle.make(options.bundle.resolve(), options.build.resolve(), options.wheel and options.wheel.resolve())
        print(f"wrote {options.bundle}: {size / (1 << 20):.1f} MiB")
        return 0
    return test(options)


if __name__ == "__main__":
    sys.exit(main())
