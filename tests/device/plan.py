"""The steps of script/device-test: which commands run, how long, and which rows each of them has to give.

A command prints a row as a line of JSON, {"row": NAME, "value": V} or {"row": NAME, "outcome": "failed", "text": WHY}. Programs
that existed before have parsers of their own.
"""
import dataclasses
import json
import re

from findings import FAILED, PASSED, SKIPPED, Row

LISTS = {"small": "1,024 x 4 KiB", "skewed": "2,001, one of 256 MiB", "bert": "BERT large", "resnet50": "ResNet-50"}
OPERATIONS = ("allreduce", "minimum", "maximum", "product", "factors", "allgather", "broadcast", "alltoall", "reducescatter")


@dataclasses.dataclass
class Result:
    """What a command has found for one row; without an outcome the bound of the row decides."""
    name: str
    value: object = None
    outcome: str = None
    text: str = ""


def json_rows(out):
    """The results that a program of this folder prints."""
    for line in out.splitlines():
        if line.startswith('{"row"'):
            found = json.loads(line)
            yield Result(found["row"], found.get("value"), found.get("outcome"), found.get("text", ""))


def probe_rows(out):
    """"NAME passed", "NAME failed: why"."""
    for name, outcome, text in re.findall(r"^([\w-]+) (passed|failed)(?:: (.*))?$", out, re.M):
        yield Result(name, outcome=outcome, text=text)


def no_rows(out):
    """A command with one row, which its exit status decides."""
    del out
    return ()


def killed_rows(out):
    """The sentence by which the rank that is left learns of a killed one; the job's exit status is that of the kill."""
    found = re.search(r"rank 0 knows: (.*)", out)
    if found:
        yield Result("killed", outcome=PASSED, text=found[1])


def cmocka_rows(out):
    """One row for a program of cmocka: each of its tests must be good."""
    good = re.findall(r"^ok \d+ - ", out, re.M)
    bad = re.findall(r"^not ok \d+ - (\S+)", out, re.M)
    if good or bad:
        yield Result("tests", len(good), FAILED if bad else PASSED, "\n".join([*bad, out[-2000:]]) if bad else "")


def sanitizer_rows(out):
    """The sum that compute-sanitizer prints at the end."""
    found = re.search(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)", out)
    if found:
        count = int(found[1] or found[2])
        yield Result("findings", count, FAILED if count else PASSED, out[-3000:] if count else "")


def pack_rows(out):
    """The rates of pack_rate in the layout that the adapter uses, without a scaling."""
    keys = {text: key for key, text in LISTS.items()}
    for line in out.splitlines():
        found = json.loads(line) if line.startswith('{"list"') else {}
        if found and found["layout"] == "padded" and not found["does"].startswith("scaled"):
            yield Result(f"{found['does']} {keys[found['list']]}", found["of_copy"], text=line)


class Fact(str):
    """A word of a command that is known once the machine has been asked."""


@dataclasses.dataclass
class Run:
    """A command and its rows. needs: what the machine must have. doubled: the command over the doubles of the driver, where
    measured rows are skipped; None: it does not run there."""
    rows: list
    command: list
    limit_s: float
    needs: tuple = ("gpu",)
    parse: object = json_rows
    doubled: list = None
    environment: dict = dataclasses.field(default_factory=dict)
    is_ended_by_kill: bool = False  # a rank kills itself, so the exit status says nothing


@dataclasses.dataclass
class Step:
    """Commands that answer one question, and how long all of them may take."""
    name: str
    limit_s: float
    runs: list

    def rows(self):
        for run in self.runs:
            for row in run.rows:
                row.step = self.name
                yield row


def same(rows, command, limit_s, **more):
    """A run that is the same over the doubles."""
    return Run(rows, command, limit_s, doubled=command, **more)


def measured(name, unit, bound=""):
    return Row(name, "measured", unit, bound)


# --- The steps --------------------------------------------------------------------------------------------------

def facts(places):
    rows = [Row("the machine"), Row("torch")]
    return Step("facts", 90, [same(rows[:1], places.python("facts.py", "machine"), 30, needs=(), parse=json_rows),
                              same(rows[1:], places.python("facts.py", "torch"), 60, needs=(), parse=json_rows)])


def probe_names(page):
    """The probes that docs/gpu-doubles.md lists."""
    return re.findall(r"^\|.*\| `([\w-]+)` \| [^|]*\|$", page, re.M)


def probes(places):
    """One process for each, because one that hangs says nothing of the others."""
    names = probe_names(places.page.read_text(encoding="utf-8"))
    of = {"driver": [name for name in names if not name.startswith("nccl-")],
          "nccl": [name for name in names if name.startswith("nccl-")]}
    for kind, program, needs, limit_s in (("driver", "fake-gpu-probe", ("gpu",), 75), ("nccl", "fake-nccl-probe", ("gpu", "nccl"), 110)):
        yield Step(f"probes of {kind}", limit_s, [
            same([Row(name)], [places.bin / program, name], 25, needs=needs, parse=probe_rows,
                 environment={"HVD_FAKE_GPU_FATAL": "0"}) for name in of[kind]])


def kernels(places):
    tap = {"CMOCKA_MESSAGE_OUTPUT": "TAP"}
    program = [places.bin / "kernels_on_gpu"]
    return [Step("kernels from PTX", 60, [Run([Row("tests", unit="tests")], program, 60, parse=cmocka_rows, environment=tap)]),
            Step("kernels from machine code", 60, [Run([Row("tests", unit="tests")], program, 60, parse=cmocka_rows,
                                                       environment={**tap, "HVD_KERNELS_IMAGE": places.fatbin})])]


def conformance(places):
    """The adapter beside the host's, one rank."""
    rows = [Row(f"{way}, {what}", unit="types") for way in ("alone", "nccl") for what in OPERATIONS]
    program = [places.bin / "device_conformance"]
    return Step("one rank beside the host", 60, [
        Run([*rows, Row("staged, allreduce", unit="types")], program, 60, doubled=[*program, "few"])])


def pack(places):
    rows = [measured(f"{does} {key}", "of the driver's copy", ">= 0.85") for key in LISTS for does in ("pack", "unpack")]
    program = places.bin / "pack_rate"
    return Step("pack and unpack", 60, [Run(rows, [program], 60, parse=pack_rows, doubled=[program, 1, 1])])


def costs(places):
    """What the adapter calls, and how long its thread takes."""
    rows = [Row(f"launches {key}", unit="launches", bound="<= 2") for key in LISTS]
    rows += [Row(f"copied {key}", unit="bytes", bound="<= 0") for key in LISTS]
    rows += [measured("thread", "us an operation"), measured("NCCL alone", "us an operation"),
             measured("thread over NCCL alone", "of NCCL's, which copies")]
    return Step("calls of the adapter", 30, [same(rows, [places.bin / "device_costs"], 30)])


PAIR_MODES = ("collectives", "steps", "sets", "join", "mixed", "refusals", "jobs")


def two_processes(places, mode):
    """A mode of gpu_ranks by two processes on the first GPU, which NCCL takes for two hosts."""
    program = [places.bin / "gpu_ranks", mode]
    return places.mpirun(1, "env", "NCCL_HOSTID=device-test-0", *program, ":", "-np", 1, "env", "NCCL_HOSTID=device-test-1", *program)


def pairs(places):
    """Correctness alone: two processes take turns on a GPU, so their times say nothing."""
    common = {"GPU_RANKS_DEVICE": 0, "HOROVOD_DYNAMIC_PROCESS_SETS": 1, "NCCL_DEBUG": "WARN"}
    needs = ("gpu", "nccl")
    runs = [same([Row(mode)], two_processes(places, mode), 45, needs=needs, parse=no_rows, environment=common) for mode in PAIR_MODES]
    runs.append(same([Row("killed")], two_processes(places, "killed"), 30, needs=needs, parse=killed_rows,
                     environment={**common, "HVD_FAKE_GPU_DELAY_US": 400000}, is_ended_by_kill=True))
    runs.append(same([Row("collectives, through the host")], two_processes(places, "collectives"), 45, parse=no_rows,
                     environment={**common, "HOROVOD_GPU_OPERATIONS": "MPI"}))
    program = [places.bin / "gpu_ranks", "collectives"]
    runs.append(same([Row("collectives, as one host")], places.mpirun(2, *program), 45, needs=(*needs, "nccl 2.30.3"), parse=no_rows,
                     environment={**common, "NCCL_MULTI_RANK_GPU_ENABLE": 1}))
    rows = [measured("thread", "us an operation"), measured("NCCL alone", "us an operation"),
            measured("thread over NCCL alone", "of NCCL's", "<= 1.3")]
    runs.append(same(rows, [places.bin / "device_costs", "two"], 60, needs=needs))
    return Step("two processes", 150, runs)


TORCH = ("gpu", "torch", "torch gpu", "hardware")


def times(places):
    """What a call from Python costs the thread that trains."""
    rows = [measured("submission", "us", "<= 3"), measured("submission of torch.distributed", "us"),
            measured("submission over torch.distributed's", "of its time", "<= 0.25"),
            measured("100 tensors behind a kernel", "ms", "<= 2"), Row("the kernel still runs"), Row("results behind a kernel")]
    rows += [measured(f"_foreach_copy_ {key}", "of the driver's copy") for key in LISTS]
    return Step("host time from PyTorch", 60, [Run(rows, places.python("torch_times.py"), 60, needs=TORCH)])


def beside_ddp(places):
    """One rank beside DistributedDataParallel: host time and copies. Says nothing about several GPUs."""
    keys, arms = ("small", "resnet50", "bert"), ("ours", "ddp", "ddp-lean", "alone")
    rows = [measured("extra memory over the fusion threshold", "of it", "<= 2")]
    for key in keys:
        for arm in arms:
            rows += [measured(f"{key}: host time, {arm}", "ms a step"), measured(f"{key}: step, {arm}", "ms a step"),
                     measured(f"{key}: kernels and copies, {arm}", "a step")]
        for arm in arms[1:3]:
            rows += [measured(f"{key}: host time over {arm}'s", "of its time", "<= 1"), measured(f"{key}: step over {arm}'s", "of its time")]
    return Step("beside DistributedDataParallel", 100, [Run(rows, places.python("torch_ddp.py", *keys), 100, needs=TORCH)])


def refusals(places):
    rows = [Row("no context after init"), Row("no context after a tensor of the host"), Row("a context with the first tensor")]
    more = [Row("a capture is refused"), Row("a tensor after the capture")]
    return Step("context and capture", 40, [Run(rows, places.python("torch_refusals.py", "context"), 30, needs=TORCH),
                                            Run(more, places.python("torch_refusals.py", "capture"), 30, needs=TORCH)])


def torch_pairs(places):
    """Two processes on one GPU, from PyTorch; for correctness alone."""
    rows = [Row(f"allreduce, {key}") for key in ("Sum", "Average", "Min", "Max", "Product")]
    rows += [Row(name) for name in ("allgather", "broadcast", "alltoall", "reducescatter", "group", "a large tensor", "a set of one", "join")]
    runs = [Run(found, places.mpirun(2, *places.python("torch_pair.py", mode)), 60, needs=(*TORCH, "nccl"), is_ended_by_kill=mode == "killed")
            for mode, found in (("collectives", rows), ("train", [Row("training")]), ("killed", [measured("killed", "s until it is known", "<= 5")]))]
    return Step("two processes of PyTorch", 100, runs)


def sanitizers(places):
    """Tools of NVIDIA's toolkit over the adapter and its kernels."""
    adapter = [places.bin / "device_conformance", "few", "alone"]
    for what, tool, program in (("adapter", "memcheck", adapter), ("adapter", "racecheck", adapter),
                                ("kernels", "memcheck", [places.bin / "kernels_on_gpu"])):
        command = [Fact("compute-sanitizer"), "--tool", tool, "--error-exitcode", 9, *program]
        yield Step(f"compute-sanitizer {tool}, {what}", 60, [
            Run([Row("findings", unit="findings")], command, 60, needs=("gpu", "hardware", "sanitizer"), parse=sanitizer_rows)])


def steps_of(places):
    """All steps, in the order in which they run: what is most wanted first."""
    return [facts(places), *probes(places), *kernels(places), conformance(places), pack(places), costs(places), pairs(places),
            refusals(places), times(places), beside_ddp(places), torch_pairs(places), *sanitizers(places)]


# --- What a machine lacks ---------------------------------------------------------------------------------------

def lacks_gpu(machine):
    return "" if machine.get("gpu") else f"no GPU: {machine.get('no gpu', 'nothing is known of the machine')}"


def lacks_hardware(machine):
    return "the driver is a double, whose times mean nothing" if machine.get("double") else ""


NEEDS = {"gpu": lacks_gpu, "hardware": lacks_hardware,
         "nccl": lambda machine: "" if machine.get("nccl") else f"no NCCL: {machine.get('no nccl', 'it was not looked for')}",
         "torch": lambda machine: "" if machine.get("torch") else f"no PyTorch: {machine.get('no torch', 'it was not looked for')}",
         "torch gpu": lambda machine: "" if machine.get("torch gpu") else f"PyTorch sees no GPU: {machine.get('no torch gpu', 'it was not asked')}",
         "nccl 2.30.3": lambda machine: "" if machine.get("nccl", 0) >= 23003 else f"NCCL {machine.get('nccl')} is older than 2.30.3",
         "sanitizer": lambda machine: "" if machine.get("compute-sanitizer") else "no compute-sanitizer in PATH or /usr/local/cuda"}


def reason_to_skip(run, machine):
    """Why a run cannot be on this machine; "": it can."""
    for need in run.needs:
        reason = NEEDS[need](machine)
        if reason:
            return reason
    return lacks_hardware(machine) if run.doubled is None else ""


def settle(run, ended, is_double):
    """Gives the rows of a run their results from how its command ended. Returns a row for an end that no row shows."""
    left = {row.name: row for row in run.rows}
    for result in run.parse(ended.out + ended.err if run.parse is killed_rows else ended.out):
        row = left.pop(result.name, None)
        if row and is_double and row.kind == "measured":
            row.take(result.value, SKIPPED, lacks_hardware({"double": 1}))
        elif row:
            row.take(result.value, result.outcome, result.text)
    why = "" if run.is_ended_by_kill and not ended.is_late else ended.why()
    if run.parse is no_rows and ended.status != 77:
        run.rows[0].take(outcome=FAILED if why else PASSED, text=f"{why}\n{ended.tail(40)}" if why else "")
        return None
    if ended.status == 77:
        for row in left.values():
            row.end_without(SKIPPED, ended.tail(3))
        return None
    for row in left.values():
        if is_double and row.kind == "measured" and not why:
            row.end_without(SKIPPED, lacks_hardware({"double": 1}))
        row.end_without(FAILED, f"no result: {why or 'the program did not print one'}\n{ended.tail()}")
    if not why or any(row.outcome == FAILED for row in run.rows):
        return None
    end = Row(f"the end of {run.rows[0].name}")
    end.take(outcome=FAILED, text=f"{why}\n{ended.tail()}")
    return end


# --- The page of the doubles ------------------------------------------------------------------------------------

def last_results(content):
    """Probe -> the text of its last column, from the content of a results file."""
    machine = content["machine"]
    where = ", ".join(str(machine[key]) for key in ("gpu", "driver of CUDA", "nccl") if key in machine)
    return {row["name"]: f"{row['outcome']}: {where}, {content['began'].split()[0]}" for row in content["rows"]
            if row["step"].startswith("probes of") and row["outcome"] in (PASSED, FAILED)}


def rows_of_doubles(page, content):
    """The rows of the page's tables that have a probe with a result, with that result in the last column."""
    results = last_results(content)
    for line in page.splitlines():
        found = re.fullmatch(r"(\|.*\| `([\w-]+)` \| )[^|]*\|", line)
        if found and found[2] in results:
            yield f"{found[1]}{results[found[2]]} |"
