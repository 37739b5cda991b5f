"""docs/environment.md has every variable that the runtime knows, and says of each what is true."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "environment.md"
SETTINGS = ROOT / "worker" / "api" / "settings.c"

# All that the core of Horovod 0.28 reads.
HOROVOD = set("""
RANK SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE HOSTNAME CONTROLLER CPU_OPERATIONS GLOO_RENDEZVOUS_ADDR
GLOO_RENDEZVOUS_PORT GLOO_IFACE GLOO_TIMEOUT_SECONDS MPI_THREADS_DISABLE FUSION_THRESHOLD CYCLE_TIME CACHE_CAPACITY
HIERARCHICAL_ALLREDUCE HIERARCHICAL_ALLGATHER TORUS_ALLREDUCE BATCH_D2D_MEMCOPIES NUM_NCCL_STREAMS
DISABLE_GROUP_FUSION ENABLE_ASYNC_COMPLETION ENABLE_XLA_OPS DYNAMIC_PROCESS_SETS ELASTIC STALL_CHECK_DISABLE
STALL_CHECK_TIME_SECONDS STALL_SHUTDOWN_TIME_SECONDS TIMELINE TIMELINE_MARK_CYCLES DISABLE_NVTX_RANGES AUTOTUNE
AUTOTUNE_LOG AUTOTUNE_WARMUP_SAMPLES AUTOTUNE_STEPS_PER_SAMPLE AUTOTUNE_BAYES_OPT_MAX_SAMPLES
AUTOTUNE_GAUSSIAN_PROCESS_NOISE ADASUM_MPI_CHUNK_SIZE THREAD_AFFINITY CCL_CACHE LOG_LEVEL LOG_HIDE_TIME
""".split())


def section(title):
    """The variables of a section's table, with the rest of their rows."""
    text = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S).group(1)
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", text, re.M)
    assert len(rows) == len(dict(rows)), "a variable is listed twice"
    return dict(rows)


def table(name):
    """The entries of a table in settings.c: {variable: field, or what stands in its place}."""
    text = re.search(rf"{name}\[\] = \{{(.*?)^\}};", SETTINGS.read_text(), re.M | re.S).group(1)
    found = {}
    for entry in re.findall(r"\{(\"\w+\",.*?)\}", text, re.S):
        variable = re.match(r'"(\w+)"', entry).group(1)
        field = re.search(r"FIELD\((\w+)\)", entry)
        found[variable] = field.group(1) if field else None
    return found


def is_used(field):
    """Whether anything but the parser reads the setting."""
    return any(re.search(rf"\bsettings(?:->|\.){field}\b", path.read_text())
               for path in (ROOT / "worker" / "api").glob("*.c") if path != SETTINGS)


def test_every_variable_of_horovod_and_of_the_code_is_on_the_page():
    code = set(table("honoured")) | set(table("without_effect"))
    page = {**section("Honoured"), **section("Without effect here")}
    assert {f"HOROVOD_{name}" for name in HOROVOD} | {"DDL_OPTIONS"} <= set(page)
    assert set(page) == code


def test_what_is_not_honoured_is_where_the_page_says_so():
    assert set(section("Without effect here")) == set(table("without_effect"))


def test_a_setting_that_nothing_reads_is_not_called_honoured():
    for variable, field in table("honoured").items():
        if field:
            assert is_used(field), f"{variable}: nothing in worker/api uses settings.{field}"


def test_every_default_is_that_of_the_code():
    text = SETTINGS.read_text()
    page = section("Honoured")
    for variable, kind, fallback in re.findall(
            r'\{"(\w+)", (INTEGER|DURATION|SWITCH), [^,]+, ([^,]+),', text):
        value = eval(fallback, {"__builtins__": {}})  # 1 << 30
        assert page[variable].split(" | ")[0] == str(value), variable
