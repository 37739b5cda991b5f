"""What a change can break, as far as minutes allow: script/test --changed.

Unit programs are chosen by the build's own graph: those that a changed source or header goes into. Of the other suites a table
says which tests are quick and look at what lies in a folder, and which suites are left to a whole run.
"""
import os
import re
import subprocess

# What lies there -> (quick tests of it: files, and words for -k), the suites that a whole run adds.
QUICK = (
    (r"worker/(?!launch|python|timeline_report)|base/", [("tests/integration/counts", ""),
                                                         ("tests/integration/mpi/test_mpi.py", "holds_on_every_rank and 2")],
     ("mpi", "launch", "python", "asan", "tsan", "openmpi5")),
    (r"worker/device/cuda/|script/kernels", [("tests/integration/cuda", "")], ()),
    (r"tests/device/|script/device-test|docs/gpu-doubles.md", [("tests/device/test_device_test.py", "")], ("device",)),
    (r"worker/(launch|timeline_report)/", [("tests/integration/launch/test_local.py", "")], ("launch", "openmpi5", "e2e")),
    (r"worker/python/", [("tests/integration/python/test_core.py", "")], ("python", "e2e")),
    (r"worker/python/horovod/(mxnet|common)/", [("tests/integration/mxnet/test_mxnet_import.py", "")], ("mxnet",)),
    (r"worker/python/(tensorflow|horovod/(tensorflow|keras|_keras|common))/",
     [("tests/integration/tensorflow/test_tensorflow_import.py", ""),
      ("tests/integration/tensorflow/test_tensorflow_interface.py", "interface_is")], ("tensorflow",)),
    (r"operator/|crds/", [("tests/integration/fake/test_explain.py", "")],
     ("operator", "hostile", "fake", "chaos", "e2e")),
    (r"charts/|crds/", [("tests/integration/chart/test_chart.py", "")], ("chart", "e2e")),
    (r"images/", [], ("images", "e2e", "demo")),
    (r"script/|tests/cluster/", [], ("images", "cluster", "demo")),
    (r"tests/bench/|tests/run.py|tests/changed.py|tests/support/", [("tests/bench/test_suites.py", "")], ()),
    (r"examples/", [("tests/integration/digits", "")], ("collectives", "digits")),
    (r".*\.md$|docs/|worker/include/|tests/", [("tests/integration/docs", "")], ()),
)


def paths_since(root, rev):
    """The files that differ between a commit's fork point and the work tree, with those that are new."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout
    fork = git("merge-base", rev, "HEAD").strip()
    return sorted({*git("diff", "--name-only", fork).splitlines(), *git("ls-files", "--others", "--exclude-standard").splitlines()})


def default_revision(root):
    """Where a branch began; else the commit before the last one."""
    for rev in ("@{upstream}", "origin/main", "HEAD~1"):
        if subprocess.run(["git", "rev-parse", "--verify", "--quiet", f"{rev}^{{commit}}"], cwd=root, capture_output=True,
                          check=False).returncode == 0:
            return rev
    return "HEAD"


def quick_tests(paths):
    """(quick tests, suites that a whole run adds) for changed paths; a test file that was changed is run whole."""
    tests, suites = {}, {}
    for path in paths:
        if re.fullmatch(r"tests/integration/\w+/test_\w+\.py", path) and not path.startswith("tests/integration/docs/"):
            tests[(path, "")] = True
        for pattern, quick, left in QUICK:
            if re.match(pattern, path):
                tests.update(dict.fromkeys(quick, True))
                suites.update(dict.fromkeys(left, True))
    whole = {path for path, words in tests if not words}
    return [(path, words) for path, words in tests if not words or path not in whole], list(suites)


def objects_with(paths, deps, root, build):
    """The objects that `ninja -t deps`, in the folder build, says were made of one of the paths, headers included."""
    wanted, found, target = {f"{root}/{path}" for path in paths}, set(), ""
    for line in deps.splitlines():
        if line.startswith("    "):
            if os.path.normpath(os.path.join(build, line.strip())) in wanted:
                found.add(target)
        elif ": #deps" in line:
            target = line.split(": #deps")[0]
    return found


def programs_with(objects, inputs_of):
    """Of {program: what goes into it}, those into which one of the objects goes."""
    return sorted(program for program, inputs in inputs_of.items() if objects & set(inputs))
