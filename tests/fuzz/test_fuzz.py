"""Every decoder of bytes from outside, fed by libFuzzer for HVD_FUZZ_SECONDS each, 10 unless told."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("HVD_BUILD_DIR", HERE.parents[1] / "build-fuzz")).resolve()
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "horovod" / "fuzz"
SECONDS = int(os.environ.get("HVD_FUZZ_SECONDS", "10"))
TARGETS = sorted(path.stem for path in HERE.glob("*.c"))


def fuzz(name, folder, seconds=SECONDS):
    """A finished run: found inputs are kept outside the tree and tried first the next time."""
    corpus = CACHE / name
    corpus.mkdir(parents=True, exist_ok=True)
    command = [str(BUILD / "tests" / "fuzz" / f"fuzz_{name}"), f"-max_total_time={seconds}", "-print_final_stats=1",
               "-rss_limit_mb=2048", "-timeout=10", f"-artifact_prefix={folder}/", str(corpus), str(HERE / "seeds" / name)]
    return subprocess.run(command, cwd=folder, text=True, capture_output=True, errors="replace", check=False,
                          timeout=seconds + 300)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """All targets at once, as many as there are processors."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {name: pool.submit(fuzz, name, tmp_path_factory.mktemp(name)) for name in TARGETS}


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_the_decoder(runs, name):
    done = runs[name].result()
    assert done.returncode == 0, done.stderr[-6000:]
    units = int(re.search(r"number_of_executed_units: (\d+)", done.stderr).group(1))
    assert units > 1000, f"{units} inputs tried: the target does not run\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_reach_behind_the_first_check(name):
    assert list((HERE / "seeds" / name).iterdir())


def test_a_broken_promise_is_found(tmp_path):
    program = tmp_path / "planted"
    (tmp_path / "planted.c").write_text(
        '#include "tests/fuzz/fuzz.h"\n'
        "int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)\n"
        "{\n    MUST(size < 3 || memcmp(data, \"hvd\", 3) != 0);\n    return 0;\n}\n", encoding="utf-8")
    clang = shutil.which("clang")
    assert clang, "clang is not installed; script/bootstrap test installs it"
    subprocess.run([clang, "-g", "-fsanitize=fuzzer,address", "-I", str(HERE.parents[1]), str(tmp_path / "planted.c"),
                    "-o", str(program)], check=True)
    done = subprocess.run([str(program), "-max_total_time=60", "-use_value_profile=1"], cwd=tmp_path, text=True,
                          capture_output=True, errors="replace", check=False, timeout=200)
    assert done.returncode != 0 and "not so: size < 3" in done.stderr, done.stderr[-2000:]
