"""Scripts in the style of Horovod's documentation run unchanged."""
import re

import pytest
import ranks

SCRIPTS = sorted((ranks.HERE / "torch_scripts" / "scripts").glob("*.py"))


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("script", [path.stem for path in SCRIPTS])
def test_a_script_runs_unchanged(script, n):
    ranks.assert_checked("torch_scripts", n, script, ranks.TORCH_PYTHON)


def test_the_lines_that_the_readme_shows_are_those_of_the_recipe():
    block, = re.findall(r"^```python\n(.*?)^```", (ranks.ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    shown = [line for line in block.splitlines() if line]
    recipe = (ranks.HERE / "torch_scripts" / "scripts" / "four_lines.py").read_text(encoding="utf-8").splitlines()
    assert len(shown) == 4 and [line for line in recipe if line in shown] == shown


def test_the_program_that_the_page_shows_is_the_recipe():
    block, *_ = re.findall(r"^```python\n(.*?)^```", (ranks.ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.M | re.S)
    recipe = (ranks.HERE / "torch_scripts" / "scripts" / "four_lines.py").read_text(encoding="utf-8")
    shown, checks = block.splitlines(), recipe.splitlines()[-1:]
    assert checks[0].startswith("assert ") and [*shown, *checks] == recipe.splitlines()


@pytest.mark.parametrize("n", [2, 3])
def test_the_job_of_all_scripts_ends_well(n):
    ranks.assert_ended_well("torch_scripts", n, ranks.TORCH_PYTHON)


def test_a_program_that_starts_its_own_ranks_runs_unchanged():
    """In the way of pytorch-ignite, which asks for Gloo."""
    done = ranks.call(ranks.TORCH_PYTHON, ranks.HERE / "torch_scripts" / "alone" / "ignite_spawn.py")
    assert done.returncode == 0 and done.stdout.startswith("accuracy "), done.stdout[-2000:] + done.stderr[-4000:]
    assert "there is no Gloo here; MPI does its work" in done.stderr, done.stderr


def test_the_four_lines_run_as_a_program_of_their_own():
    done = ranks.call("horovodrun", "-np", 2, ranks.TORCH_PYTHON, ranks.HERE / "torch_scripts" / "scripts" / "four_lines.py")
    assert done.returncode == 0, done.stderr[-4000:]
    assert float(re.fullmatch(r"\[0\]<stdout>:loss (\S+)\n", done.stdout)[1]) < 0.01, done.stdout
