"""The C API's documentation: a page for every exported symbol, links that lead somewhere, pages that man can show."""
import html.parser
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", ROOT / "build")).resolve()
HEADER = ROOT / "worker" / "include" / "horovod" / "horovod.h"
EXAMPLES = ROOT / "examples" / "collectives"
GENERATOR = ROOT / "docs" / "api" / "manpages.py"
MAN, HTML = BUILD / "docs" / "man", BUILD / "docs" / "html"


def run(*command, **options):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False, timeout=120,
                          **options)


@pytest.fixture(scope="module", autouse=True)
def built():
    done = run("cmake", "--build", BUILD, "--target", "docs")
    assert done.returncode == 0, done.stdout + done.stderr


def shown(page):
    """What a reader sees, without bold and underlining."""
    done = run("man", "-l", page, env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0 and not done.stderr, f"{page.name}: {done.stderr}"
    return re.sub(".\b", "", done.stdout)


def exported():
    names = run("nm", "-D", "--defined-only", BUILD / "worker" / "libhorovod.so").stdout
    return sorted(set(re.findall(r" [TDBR] (horovod_\w+)", names)))


def test_every_exported_symbol_has_a_page_with_its_prototype():
    assert len(exported()) > 60
    for name in exported():
        page = MAN / "man3" / f"{name}.3"
        assert page.exists(), f"{name} is exported and has no page"
        lead = re.match(r"\.so man3/(.*)", page.read_text(encoding="utf-8"))
        text = (page.parent / lead[1] if lead else page).read_text(encoding="utf-8")
        assert f".Fo {name}\n" in text, f"{page.name} does not say how {name} is called"
        described = re.search(r"\.Sh DESCRIPTION\n(.*?)^\.Sh", text, re.M | re.S)
        assert described and len(described[1].split()) >= 4, f"{page.name} does not describe {name}"


def test_a_page_of_nothing_that_is_gone_is_left():
    declared = HEADER.read_text(encoding="utf-8")
    for page in (MAN / "man3").glob("*.3"):
        assert page.stem == "horovod" or re.search(rf"\b{page.stem}\b", declared), f"{page.name} documents what the header does not have"


def test_every_page_can_be_shown_by_man():
    for page in (MAN / "man3").glob("*.3"):
        if not page.read_text(encoding="utf-8").startswith(".so"):
            assert "SYNOPSIS" in shown(page) and "SEE ALSO" in shown(page), page.name


def test_the_page_of_allreduce_has_what_a_caller_needs():
    text = shown(MAN / "man3" / "horovod_allreduce.3")
    for words in ("#include <horovod/horovod.h>", "horovod_allreduce_async(const void *input, void *output,",
                  "HOROVOD_PRECONDITION_ERROR", "horovod_wait(3)", "EXAMPLES", "horovod_init(NULL, 0, NULL, NULL, 0)"):
        assert words in text, words


def test_man_finds_the_page_of_an_alias():
    done = run("man", "-M", MAN, "-P", "cat", "horovod_allreduce_async")
    assert done.returncode == 0 and "horovod_allreduce" in done.stdout, done.stderr


class Links(html.parser.HTMLParser):
    """What a page refers to, and what can be referred to in it."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.targets += [attributes["href"]] if "href" in attributes else []
        self.anchors |= {attributes["id"]} if "id" in attributes else set()


def test_every_link_of_the_html_leads_somewhere():
    pages = {page.name: Links(page.read_text(encoding="utf-8")) for page in HTML.glob("*.html")}
    assert "index.html" in pages and len(pages) > 60
    n_links = 0
    for name, page in pages.items():
        for target in page.targets:
            file, _, anchor = target.partition("#")
            assert (HTML / (file or name)).exists(), f"{name} links to {target}"
            assert not anchor or anchor in pages[file or name].anchors, f"{name} links to {target}"
            n_links += 1
    assert n_links > 1000


def test_every_page_is_in_the_index():
    index = Links((HTML / "index.html").read_text(encoding="utf-8"))
    missing = {page.name for page in HTML.glob("*.3.html")} - set(index.targets) - {"horovod.3.html"}
    assert not missing


def test_installed_pages_are_found_by_man(tmp_path):
    done = run("cmake", "--install", BUILD, "--component", "documentation", "--prefix", tmp_path)
    assert done.returncode == 0, done.stderr
    done = run("man", "-M", tmp_path / "share" / "man", "-P", "cat", "3", "horovod")
    assert done.returncode == 0 and "reductions over the ranks" in done.stdout, done.stderr


@pytest.mark.parametrize("change, what", [
    (lambda text: re.sub(r"/\* The library's version.*?\*/\n", "", text), "horovod_version has no comment"),
    (lambda text: re.sub(r"/\* Element types.*?\*/\n", "", text), "horovod_dtype_t has no comment"),
    (lambda text: text.replace("HOROVOD_API const char *horovod_version", "const char *horovod_version"),
     "neither a type nor a function"),
])
def test_a_header_that_does_not_document_a_name_is_refused(tmp_path, change, what):
    text = change(HEADER.read_text(encoding="utf-8"))
    assert text != HEADER.read_text(encoding="utf-8")
    header = tmp_path / "horovod.h"
    header.write_text(text, encoding="utf-8")
    done = run("/usr/bin/python3", GENERATOR, header, "0", EXAMPLES, tmp_path / "man")
    assert done.returncode != 0 and what in done.stderr, done.stderr


def test_a_page_that_mandoc_warns_about_is_refused(tmp_path):
    pages = tmp_path / "man3"
    shutil.copytree(MAN / "man3", pages)
    page = pages / "horovod_wait.3"
    page.write_text(page.read_text(encoding="utf-8").replace(".Sh SEE ALSO", ".Bogus\n.Sh SEE ALSO"), encoding="utf-8")
    done = run(ROOT / "docs" / "api" / "html", pages, tmp_path / "html", ROOT / "docs" / "api" / "style.css")
    assert done.returncode != 0 and "Bogus" in done.stdout + done.stderr
