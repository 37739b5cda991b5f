"""docs/troubleshooting.md has an entry for each reason of the operator, each status of the library, and only for messages that exist."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")

# Words in the sources of the decisions that are no reasons of this operator: kinds and fields of Kubernetes, and others' reasons.
NO_REASONS = set("""
Always Background BackoffLimitExceeded BadRequest ClusterFirstWithHostNet Complete Completed ContainerCannotRun ContainerStatusUnknown
CrashLoopBackOff CreateContainerConfigError CreateContainerError DeleteOptions DisruptionTarget Ei ErrImageNeverPull ErrImagePull Error
Event Evicted Fail FailedAttachVolume FailedCreate FailedCreatePodContainer FailedCreatePodSandBox FailedMapVolume FailedMount
FailedPodSandBoxStatus FailedPostStartHook FailedPrepareDynamicResources FallbackToLogsOnError Gi HorovodJob Ignore ImageInspectError
ImagePullBackOff In Invalid InvalidImageName Job Ki Master Memory Mi NetworkNotReady Never NodeLost NodeShutdown None NonIndexed Normal
NotIn OnDelete Opaque Parallel Pending Pi PodFailurePolicy PodScheduled PreCreateHookError PreStartHookError Preempting ProbeWarning
Ready RegistryUnavailable Restart RunContainerError Running RuntimeDefault SchedulerError SchedulingGated Shutdown
SignatureValidationFailed StartError StatefulSet SuccessfulCreate Terminated Ti True Unhealthy Warning Worker
""".split())


def code(*folders):
    """The sources without comments."""
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in sorted((ROOT / folder).rglob("*.[ch]"))]
    return re.sub(r"/\*.*?\*/", " ", "\n".join(texts), flags=re.S)


def words():
    """The words of operator/core, and of the reasons that operator/api names, which may be reasons."""
    named = re.findall(r'#define HVD_REASON_\w+ "(\w+)"', code("operator"))
    return set(re.findall(r'"([A-Z][a-z]+(?:[A-Z][a-z]+)*)"', code("operator/core"))) | set(named)


def section(title, page=PAGE):
    """The text below a heading, up to the next one of its level."""
    return re.search(rf"^## {title}$(.*?)(?=^## |\Z)", page, re.M | re.S).group(1)


def first_cells(text):
    """The words in code of the first cells of all tables."""
    return [code for cell in re.findall(r"^\| (`[^|]*`) \|", text, re.M) for code in re.findall(r"`([^`]+)`", cell)]


def messages(*folders):
    """What programs print, one a line: literals that stand together are joined, and values are gaps."""
    texts, is_joined = [""], False
    for token in re.findall(r'"(?:[^"\\\n]|\\.)*"|\w+|[^\s\w\\]', code(*folders)):
        if token[0] == '"' and is_joined:
            texts[-1] += token[1:-1]
        elif token[0] == '"':
            texts.append(token[1:-1])
        elif is_joined and token.startswith("PRI"):
            texts[-1] += "d"  # the end of "%"
        is_joined = token[0] == '"' or (is_joined and re.fullmatch(r"PRI\w+|HVD_\w+", token) is not None)
    return "\n".join(re.sub(r"%[-+ #0]*[\d.*]*(?:hh?|ll?|z|j)?[a-zA-Z]", "\0", text.replace('\\"', '"')) for text in texts)


def test_every_reason_of_the_operator_has_an_entry():
    missing = words() - NO_REASONS - set(first_cells(section("Reasons")))
    assert not missing, f"docs/troubleshooting.md has no row for {sorted(missing)}"


def test_every_entry_is_a_reason_of_the_operator():
    assert set(first_cells(section("Reasons"))) <= words()
    assert NO_REASONS <= words(), f"no source has {sorted(NO_REASONS - words())} any more"


def test_every_status_of_the_library_has_an_entry():
    header = (ROOT / "worker/include/horovod/horovod.h").read_text(encoding="utf-8")
    statuses = re.findall(r"^    (HOROVOD_\w+) = \d+,", re.search(r"enum horovod_status \{.*?\}", header, re.S).group(0), re.M)
    assert len(statuses) == 7 and set(statuses) <= set(first_cells(section("Errors of the library")))


@pytest.mark.parametrize("title,folders", [
    ("`horovodrun` does not start the ranks", ("worker/launch",)),
    ("A rank has failed", ("worker/launch",)),
    ("Errors of the library", ("worker",)),
    ("GPUs", ("worker",)),
    ("Hangs", ("worker",)),
])
def test_every_message_of_the_page_is_one_of_the_programs(title, folders):
    known = messages(*folders)
    for message in first_cells(section(title)):
        for part in filter(lambda part: len(part.strip()) > 3, message.split("…")):
            assert part.strip() in known, f"no source has '{part.strip()}' of '{message}'"
